//! Software bills of materials, in CycloneDX: what each program contains, with versions, licences
//! and checksums.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::release::PROGRAMS;
use crate::setup;

/// Version of CycloneDX that scanners of today read.
const FORMAT: &str = "1.5";

/// Writes a bill for each program of a clone into a folder.
pub(super) fn of_materials(
    clone: &Path,
    folder: &Path,
    version: &str,
    time: &str,
) -> Result<(), String> {
    let tool = setup::packager(clone, "cargo-cyclonedx")?;
    for (program, package) in PROGRAMS {
        let of_crate = clone.join("crates").join(package.trim_start_matches("zonal-"));
        let mut command = Command::new(&tool);
        command.args(["cyclonedx", "--quiet", "--format", "json", "--spec-version", FORMAT]);
        // What only builds the programs is not in them.
        command.args(["--no-build-deps", "--manifest-path"]).arg(of_crate.join("Cargo.toml"));
        setup::run_quietly(command.env("SOURCE_DATE_EPOCH", time).current_dir(clone))?;
        let made = of_crate.join(format!("{package}.cdx.json"));
        let text = fs::read_to_string(&made)
            .map_err(|error| format!("{}: {error}", made.display()))?
            // The tool names our crates by their paths.
            .replace(&format!("file://{}/", clone.display()), "file:///");
        let bill = folder.join(format!("{program}-{version}.cdx.json"));
        fs::write(&bill, text).map_err(|error| format!("{}: {error}", bill.display()))?;
    }
    Ok(())
}
