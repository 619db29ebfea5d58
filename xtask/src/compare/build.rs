//! Builds the programs of a tree, and copies them beside its record.
//!
//! Both trees use the same settings, through the environment: older commits lack today's profiles.

use std::fs;
use std::path::Path;
use std::process::Stdio;

/// Programs that a tree may have. Older commits have the first only.
pub(super) const PROGRAMS: [&str; 2] = ["zonal", "zonal-lab"];

/// Profile `dev`, because all commits have it, with debug assertions and overflow checks.
/// Optimized, because histories and reports would take ten times as long. Without debug information
/// and incremental files, which only cost disk space here. Without the link-time optimization of
/// units, which is then the default and only costs time here.
const SETTINGS: [(&str, &str); 4] = [
    ("CARGO_PROFILE_DEV_OPT_LEVEL", "2"),
    ("CARGO_PROFILE_DEV_DEBUG", "false"),
    ("CARGO_PROFILE_DEV_INCREMENTAL", "false"),
    ("CARGO_PROFILE_DEV_LTO", "off"),
];

/// Builds `tree` in the target folder `target`, and copies its programs to `destination`.
pub(super) fn build(tree: &Path, target: &Path, destination: &Path) -> Result<(), String> {
    let built = target.join("debug");
    for program in PROGRAMS {
        // The target folder is shared by commits: a removed program must not pass for a new one.
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
