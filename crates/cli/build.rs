//! Build script: records the commit. A simulation seed reproduces a violation only in the engine of
//! the same commit.

use std::process::Command;

fn main() {
    // A build without git, or outside the repository, reports `unknown`.
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_else(|| "unknown".into());
    // The name must not start with ZONAL_: `cargo run` also sets the variable for the program, and
    // `zonal` refuses unknown ZONAL_* variables.
    println!("cargo::rustc-env=BUILT_FROM_COMMIT={commit}");
    // The reflog of HEAD grows with every commit and every branch switch, so it triggers a rebuild.
    if let Some(log) = git(&["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
    println!("cargo::rerun-if-changed=build.rs");
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
