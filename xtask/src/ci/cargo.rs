//! The stages that are one call of `cargo`.

use std::path::Path;
use std::process::{Command, Stdio};

use super::Outcome;

/// All crates of the workspace, the benchmarks too: formatting needs no build.
pub(super) fn fmt(root: &Path) -> Outcome {
    match missing_component(root, "fmt", "rustfmt") {
        Some(skipped) => skipped,
        None => cargo(root, &["fmt", "--all", "--check"]),
    }
}

/// The default members, tests and examples included.
pub(super) fn clippy(root: &Path) -> Outcome {
    match missing_component(root, "clippy", "clippy") {
        Some(skipped) => skipped,
        None => cargo(root, &["clippy", "--all-targets", "--", "--deny", "warnings"]),
    }
}

pub(super) fn test(root: &Path) -> Outcome {
    cargo(root, &["test"])
}

/// Against a real S3 server.
pub(super) fn test_origin(root: &Path, versitygw: &Path) -> Outcome {
    let mut command = command(root, &["test", "--package", "zonal-origin", "--test", "versitygw"]);
    outcome(command.env("ZONAL_VERSITYGW", versitygw))
}

/// With real NBD clients: the block device, and the server over memory. Without packages, so that nothing is built twice.
pub(super) fn test_nbd(root: &Path) -> Outcome {
    let mut command = command(root, &["test", "--test", "binary", "--test", "served", "real::"]);
    outcome(command.env("ZONAL_NBD_CLIENTS", "1"))
}

/// No default member: it builds other caches.
pub(super) fn peers(root: &Path) -> Outcome {
    match missing_component(root, "clippy", "clippy") {
        Some(skipped) => skipped,
        None => cargo(root, &["clippy", "--package", "zonal-bench", "--", "--deny", "warnings"]),
    }
}

/// In a build of their own: nothing that is served is ever built with them.
pub(super) fn planted(root: &Path) -> Outcome {
    let simulator = ["test", "--package", "zonal-sim", "--features", "planted-bugs"];
    cargo(root, &[&simulator[..], &["--test", "planted"]].concat())
}

pub(super) fn build(root: &Path, package: &str) -> Outcome {
    cargo(root, &["build", "--package", package])
}

/// Private items too: a link in a comment that leads nowhere misleads those who repair the code.
pub(super) fn doc(root: &Path) -> Outcome {
    let mut command = command(root, &["doc", "--no-deps", "--document-private-items"]);
    command.env("RUSTDOCFLAGS", "--deny warnings");
    outcome(&mut command)
}

fn cargo(root: &Path, arguments: &[&str]) -> Outcome {
    outcome(&mut command(root, arguments))
}

fn command(root: &Path, arguments: &[&str]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root);
    command
}

pub(super) fn outcome(command: &mut Command) -> Outcome {
    match command.status() {
        Ok(status) if status.success() => Outcome::Passed,
        Ok(_) => Outcome::Failed,
        Err(error) => {
            eprintln!("{command:?} did not start: {error}");
            Outcome::Failed
        }
    }
}

/// Distributions ship `rustfmt` and `clippy` apart from the compiler: without them the stage is
/// skipped, for whoever builds from such a machine can do nothing about it.
fn missing_component(root: &Path, subcommand: &str, component: &str) -> Option<Outcome> {
    let mut probe = command(root, &[subcommand, "--version"]);
    let status = probe.stdout(Stdio::null()).stderr(Stdio::null()).status();
    if status.is_ok_and(|status| status.success()) {
        return None;
    }
    Some(Outcome::Skipped(format!(
        "the Rust component {component} is missing: install it from your distribution or with \
         `rustup component add {component}`"
    )))
}
