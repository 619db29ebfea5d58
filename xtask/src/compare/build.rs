//! Builds the programs of a tree, and copies them beside its record.
//!
//! Both trees are built with the same settings, through the environment: a profile of our own would
//! be missing in older commits.

use std::fs;
use std::path::Path;
use std::process::Stdio;

/// The programs that a tree may have. Older commits have the first only.
pub(super) const PROGRAMS: [&str; 2] = ["zonal", "zonal-lab"];

/// The profile `dev`, because every commit has it and it keeps debug assertions and overflow checks.
/// Optimised, because histories and reports would take ten times as long. Without debug information
/// and incremental files, because they only cost disk space here, and without optimisation over the units of a crate at its
/// end, which is the default without them and only costs time here.
const SETTINGS: [(&str, &str); 4] = [
    ("CARGO_PROFILE_DEV_OPT_LEVEL", "2"),
    ("CARGO_PROFILE_DEV_DEBUG", "false"),
    ("CARGO_PROFILE_DEV_INCREMENTAL", "false"),
    ("CARGO_PROFILE_DEV_LTO", "off"),
];

/// Builds `tree` with the target folder `target`, and copies its programs to `destination`.
pub(super) fn build(tree: &Path, target: &Path, destination: &Path) -> Result<(), String> {
    let built = target.join("debug");
    for program in PROGRAMS {
        // The target folder outlives a commit: a program that is gone must not be taken for new.
        let _ = fs::remove_file(built.join(program));
    }
    let status = crate::ci::cargo(tree)
        .args(["build", "--quiet", "--bins"])
        .env("CARGO_TARGET_DIR", target)
        .envs(SETTINGS)
        .stdin(Stdio::null())
        .status()
        .map_err(|error| format!("cargo did not start: {error}"))?;
    if !status.success() {
        return Err(format!("{} does not build", tree.display()));
    }
    fs::create_dir_all(destination)
        .map_err(|error| format!("{}: {error}", destination.display()))?;
    let mut copied = 0;
    for program in PROGRAMS.iter().filter(|program| built.join(program).exists()) {
        fs::copy(built.join(program), destination.join(program))
            .map_err(|error| format!("{program}: {error}"))?;
        copied += 1;
    }
    if copied == 0 {
        return Err(format!("{} builds no program {}", tree.display(), PROGRAMS[0]));
    }
    Ok(())
}
