//! Checks that systemd accepts the packaged unit.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::Outcome;
use crate::setup;

const UNIT: &str = "packaging/zonal.service";

/// Program in the unit, which a build machine does not have at this path.
const INSTALLED: &str = "/usr/bin/zonal";

/// Checks a copy of the unit with an existing program. Installs and starts nothing.
pub(super) fn unit(root: &Path) -> Outcome {
    let verifier = match setup::ready(root, "systemd-analyze") {
        Ok(verifier) => verifier,
        Err(why) => return Outcome::Skipped(why),
    };
    match verify(root, &verifier) {
        Ok(()) => Outcome::Passed,
        Err(why) => {
            eprintln!("{UNIT}: {why}");
            Outcome::failed()
        }
    }
}

fn verify(root: &Path, verifier: &str) -> Result<(), String> {
    let unit = fs::read_to_string(root.join(UNIT)).map_err(|error| error.to_string())?;
    if !unit.contains(INSTALLED) {
        return Err(format!("it does not start {INSTALLED}"));
    }
    let copy = root.join("target").join("zonal.service");
    let text = unit.replace(INSTALLED, "/bin/true");
    fs::create_dir_all(root.join("target")).map_err(|error| error.to_string())?;
    fs::write(&copy, text).map_err(|error| error.to_string())?;
    let output = Command::new(verifier).arg("verify").arg(&copy).output();
    let output = output.map_err(|error| format!("{verifier} did not start: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    // systemd only warns about an unknown key; here it is an error. Warnings about other units do
    // not count.
    let about_ours: Vec<&str> =
        said.lines().filter(|line| line.contains("zonal.service")).collect();
    match output.status.success() && about_ours.is_empty() {
        true => Ok(()),
        false => Err(said.into_owned()),
    }
}
