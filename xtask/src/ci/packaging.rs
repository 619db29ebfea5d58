//! Checks that systemd accepts the packaged units.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::Outcome;
use crate::setup;

const UNITS: [&str; 2] = ["zonal.service", "zonal-block.service"];

/// Program in the units, which a build machine does not have at this path.
const INSTALLED: &str = "/usr/bin/zonal";

/// Checks copies of the units with an existing program. Installs and starts nothing.
pub(super) fn unit(root: &Path) -> Outcome {
    let verifier = match setup::ready(root, "systemd-analyze") {
        Ok(verifier) => verifier,
        Err(why) => return Outcome::Skipped(why),
    };
    let verified = UNITS
        .iter()
        .try_for_each(|unit| verify(root, &verifier, unit).map_err(|why| format!("{unit}: {why}")));
    match verified {
        Ok(()) => Outcome::Passed,
        Err(why) => Outcome::Failed(why),
    }
}

fn verify(root: &Path, verifier: &str, name: &str) -> Result<(), String> {
    let path = root.join("packaging/systemd").join(name);
    let unit = fs::read_to_string(path).map_err(|error| error.to_string())?;
    if !unit.contains(INSTALLED) {
        return Err(format!("it does not start {INSTALLED}"));
    }
    let copy = root.join("target").join(name);
    let text = unit.replace(INSTALLED, "/bin/true");
    fs::create_dir_all(root.join("target")).map_err(|error| error.to_string())?;
    fs::write(&copy, text).map_err(|error| error.to_string())?;
    let output = Command::new(verifier).args(["verify", "--man=no"]).arg(&copy).output();
    let output = output.map_err(|error| format!("{verifier} did not start: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    // systemd only warns about an unknown key; here it is an error. Warnings about other units do
    // not count.
    let about_ours: Vec<&str> = said.lines().filter(|line| line.contains(name)).collect();
    match output.status.success() && about_ours.is_empty() {
        true => Ok(()),
        false => Err(said.into_owned()),
    }
}
