//! Stages that are a single call of `cargo`.
//!
//! All of them build with the profile [`PROFILE`], and tests without `--package`: a single package
//! gets its dependencies with fewer features, so that they would be compiled twice.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::OnceLock;

use super::Outcome;
use crate::setup;

/// Profile of all stages; defined in Cargo.toml.
pub(super) const PROFILE: &str = "gate";

/// Target folder, as reported by cargo: several files and variables determine it.
pub(crate) fn target(root: &Path) -> PathBuf {
    static TARGET: OnceLock<PathBuf> = OnceLock::new();
    let ask = || {
        let mut command = cargo(root);
        command.args(["metadata", "--format-version", "1", "--no-deps", "--offline"]);
        let told = setup::run_quietly(&mut command).unwrap_or_default();
        let (_, rest) = told.split_once("\"target_directory\":\"")?;
        rest.split_once('"').map(|(path, _)| PathBuf::from(path))
    };
    TARGET.get_or_init(|| ask().unwrap_or_else(|| root.join("target"))).clone()
}

/// Binary under test, built with the tests.
pub(super) fn binary(root: &Path) -> PathBuf {
    target(root).join(PROFILE).join("zonal")
}

/// Checks the format of all crates, including the benchmarks, which need no build for that.
pub(super) fn fmt(root: &Path) -> Outcome {
    match missing_component(root, "fmt", "rustfmt") {
        Some(skipped) => skipped,
        None => outcome(cargo(root).args(["fmt", "--all", "--check"])),
    }
}

/// Dependency rules: `deny.toml`. Advisories are left out: their database has no registry.
pub(super) fn deny(root: &Path) -> Outcome {
    let deny = match setup::ready(root, "cargo-deny") {
        Ok(path) => root.join(path),
        Err(why) => return Outcome::Skipped(why),
    };
    let mut command = Command::new(deny);
    command.args(["--locked", "check", "bans", "licenses", "sources"]).current_dir(root);
    outcome(&mut command)
}

/// Lints the default members, with tests and examples.
pub(super) fn clippy(root: &Path) -> Outcome {
    match missing_component(root, "clippy", "clippy") {
        Some(skipped) => skipped,
        None => built(root, "clippy", &["--all-targets", "--", "--deny", "warnings"]),
    }
}

/// Runs all tests, with the binary under test.
pub(super) fn build(root: &Path) -> Outcome {
    outcome(&mut super::build_tests(root))
}

pub(super) fn test(root: &Path) -> Outcome {
    built(root, "test", &["--no-fail-fast"])
}

/// Runs the tests against a real S3 server.
pub(super) fn test_origin(root: &Path, versitygw: &Path) -> Outcome {
    let mut command = command(root, "test", &["--test", "versitygw"]);
    chosen(command.env("ZONAL_VERSITYGW", versitygw))
}

/// Runs the tests with real NBD clients: against the block device, and against a server over
/// memory.
pub(super) fn test_nbd(root: &Path) -> Outcome {
    let mut command = command(root, "test", &["--test", "binary", "--test", "served", "real::"]);
    chosen(command.env("ZONAL_NBD_CLIENTS", "1"))
}

/// Simulates more histories than the stage `tests`: some bugs take hundreds of seeds.
pub(super) fn seeds(root: &Path) -> Outcome {
    let mut command = command(root, "test", &["--test", "seeds", "--test", "block", "no_history"]);
    command.env("ZONAL_SIM_SEEDS", "2000").env("ZONAL_SIM_DRIVE_SEEDS", "300");
    command.env("ZONAL_SIM_POLICY_SEEDS", "100").env("ZONAL_SIM_BLOCK_SEEDS", "1000");
    chosen(&mut command)
}

/// Lints the comparison with other caches, which is no default member because it builds them.
pub(super) fn peers(root: &Path) -> Outcome {
    match missing_component(root, "clippy", "clippy") {
        Some(skipped) => skipped,
        None => built(root, "clippy", &["--package", "zonal-bench", "--", "--deny", "warnings"]),
    }
}

/// Mutation tests, in a separate build: no shipped program contains planted bugs.
pub(super) fn planted(root: &Path) -> Outcome {
    let simulator = ["--package", "zonal-sim", "--features", "planted-bugs"];
    chosen(&mut command(root, "test", &[&simulator[..], &["--test", "planted"]].concat()))
}

/// Builds the documentation, with private items: their links must work too.
pub(super) fn doc(root: &Path) -> Outcome {
    let mut command = command(root, "doc", &["--no-deps", "--document-private-items"]);
    command.env("RUSTDOCFLAGS", "--deny warnings");
    outcome(&mut command)
}

fn built(root: &Path, subcommand: &str, arguments: &[&str]) -> Outcome {
    outcome(&mut command(root, subcommand, arguments))
}

/// A cargo command that builds.
pub(super) fn command(root: &Path, subcommand: &str, arguments: &[&str]) -> Command {
    let mut command = cargo(root);
    command.args([subcommand, "--profile", PROFILE]).args(arguments);
    // Test variables of the user could reduce the tests.
    let is_ours = |name: &str| {
        ["ZONAL_", "PROPTEST_"].iter().any(|start| name.starts_with(start)) || name == "SLOW_TESTS"
    };
    std::env::vars().filter(|(name, _)| is_ours(name)).for_each(|(name, _)| {
        command.env_remove(name);
    });
    command
}

/// Cargo, started at the top of the checkout.
pub(crate) fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    // `cargo run` sets variables of this package. Build scripts that read them would run again, and
    // their dependents would be rebuilt, whenever cargo is called from here and from a shell in
    // turn.
    let is_of_xtask = |name: &str| {
        let starts = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_NAME", "CARGO_CRATE_NAME"];
        starts.iter().any(|start| name.starts_with(start)) || name == "CARGO_PRIMARY_PACKAGE"
    };
    std::env::vars().filter(|(name, _)| is_of_xtask(name)).for_each(|(name, _)| {
        command.env_remove(name);
    });
    command
}

pub(super) fn outcome(command: &mut Command) -> Outcome {
    match command.status() {
        Ok(status) if status.success() => Outcome::Passed,
        Ok(_) => Outcome::failed(),
        Err(error) => {
            eprintln!("{command:?} did not start: {error}");
            Outcome::failed()
        }
    }
}

/// Runs tests that are selected by name. Every test program must run at least one, because a name
/// that matches nothing passes too.
fn chosen(command: &mut Command) -> Outcome {
    let mut passed = Vec::new();
    let status = follow(command, |line| passed.extend(tests_passed(line)));
    let has_run = !passed.is_empty() && passed.iter().all(|count| 0 < *count);
    if !has_run {
        eprintln!("{command:?}: a program ran no test");
    }
    match status {
        Some(status) if status.success() && has_run => Outcome::Passed,
        _ => Outcome::failed(),
    }
}

/// Runs a command and forwards each line of its output. `None` if it did not start.
pub(super) fn follow(command: &mut Command, mut hears: impl FnMut(&str)) -> Option<ExitStatus> {
    let started = command.stdout(Stdio::piped()).spawn();
    let mut child =
        started.inspect_err(|error| eprintln!("{command:?} did not start: {error}")).ok()?;
    let output = child.stdout.take().map(BufReader::new);
    // Test output may contain any bytes.
    for line in output.into_iter().flat_map(|output| output.split(b'\n')).map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        hears(&line);
    }
    child.wait().ok()
}

/// Number of passed tests in a summary line of libtest.
fn tests_passed(line: &str) -> Option<u32> {
    let (_, rest) = line.strip_prefix("test result: ")?.split_once(". ")?;
    rest.split_once(" passed")?.0.parse().ok()
}

/// Skips the stage if a component is missing. Distributions package `rustfmt` and `clippy`
/// separately from the compiler.
fn missing_component(root: &Path, subcommand: &str, component: &str) -> Option<Outcome> {
    let mut probe = cargo(root);
    let status =
        probe.args([subcommand, "--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if status.is_ok_and(|status| status.success()) {
        return None;
    }
    Some(Outcome::Skipped(format!(
        "the Rust component {component} is missing: install it from your distribution or with \
         `rustup component add {component}`"
    )))
}

#[cfg(test)]
mod tests {
    use super::{Command, Outcome, chosen, tests_passed};

    #[track_caller]
    fn check(printed: &str, expected: &Outcome) {
        let mut command = Command::new("printf");
        assert_eq!(&chosen(command.arg(printed)), expected, "{printed}");
    }

    #[test]
    fn names_that_choose_no_test_fail() {
        let some = "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 9 filtered out; finished in 0.71s";
        let none = some.replace("3 passed", "0 passed");
        assert_eq!(tests_passed(some), Some(3));
        check(&format!("running 3 tests\n{some}\n"), &Outcome::Passed);
        check(&format!("{some}\n{none}\n"), &Outcome::failed());
        check("nothing at all\n", &Outcome::failed());
        assert_eq!(chosen(&mut Command::new("no-such-program")), Outcome::failed());
    }
}
