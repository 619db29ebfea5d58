//! Says from which commit this is built: a seed finds a violation again only in the engine that it was found in.

use std::process::Command;

fn main() {
    // Whoever builds without git, or without the repository, does without.
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_else(|| "unknown".into());
    // `cargo run` hands it to the program as well, which refuses names of its own that it does not know: so not ZONAL_*.
    println!("cargo::rustc-env=BUILT_FROM_COMMIT={commit}");
    // Grows with every commit, and with every change of branches.
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
