//! The stages that decide whether the main branch is green.
//!
//! 1. Run each stage, with its output, whatever became of those before it: one run shows all there
//!    is to repair.
//! 2. Print a table of what became of them and how long they took.
//! 3. Close with one plain line: `6 passed, 0 failed, 1 skipped`.

mod cargo;
mod clients;
mod container;
mod packaging;

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::{setup, tidy, zoned};

/// What became of a stage.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed,
    /// Something that the stage needs is not on this machine. The text says what.
    Skipped(String),
}

/// One thing that must hold. To add one, add a line to [`STAGES`].
struct Stage {
    name: &'static str,
    /// What it holds, in a few words.
    holds: &'static str,
    run: fn(&Path) -> Outcome,
}

/// Cheap stages come first, so that a slip is seen in seconds.
const STAGES: &[Stage] = &[
    Stage { name: "fmt", holds: "the code is formatted", run: cargo::fmt },
    Stage { name: "tidy", holds: "the text keeps the project's rules", run: tidy_stage },
    Stage { name: "clippy", holds: "no warning in any target", run: cargo::clippy },
    Stage { name: "tests", holds: "unit, integration and documentation tests", run: cargo::test },
    Stage { name: "servers", holds: "a real S3 server takes what we send", run: servers },
    Stage { name: "nbd", holds: "real NBD clients are served", run: nbd },
    Stage { name: "peers", holds: "the comparison with other caches builds", run: cargo::peers },
    Stage { name: "planted", holds: "the simulator finds planted bugs", run: cargo::planted },
    Stage { name: "rustdoc", holds: "the documentation builds, links included", run: cargo::doc },
    Stage { name: "unit", holds: "systemd understands its unit", run: packaging::unit },
    Stage {
        name: "container",
        holds: "the image can be built and started",
        run: container::container,
    },
    Stage { name: "zoned", holds: "a zoned drive under a real kernel, a little", run: zoned_stage },
    Stage { name: "clients", holds: "real S3 clients read and write", run: clients::reads },
    Stage { name: "https", holds: "the same clients over HTTPS, a little", run: clients::https },
    Stage { name: "writers", holds: "one response is one version", run: clients::writers },
    Stage {
        name: "conformance",
        holds: "a server's own tests end alike through Zonal",
        run: clients::conformance,
    },
    Stage {
        name: "nodes",
        holds: "of three nodes behind HAProxy one may go at any time",
        run: clients::nodes,
    },
    Stage {
        name: "memory",
        holds: "many, slow and silent clients take no more than is stated",
        run: clients::memory,
    },
];

struct Report {
    name: &'static str,
    outcome: Outcome,
    took: Duration,
}

/// Runs the named stages, all of them when none is named.
pub(crate) fn run(root: &Path, names: &[&str]) -> ExitCode {
    if let Some(unknown) = names.iter().find(|name| STAGES.iter().all(|s| s.name != **name)) {
        let known: Vec<&str> = STAGES.iter().map(|stage| stage.name).collect();
        eprintln!("there is no stage `{unknown}`; the stages are {}", known.join(", "));
        return ExitCode::from(2);
    }
    let wanted = |stage: &&Stage| names.is_empty() || names.contains(&stage.name);
    let reports: Vec<Report> =
        STAGES.iter().filter(wanted).map(|stage| run_stage(root, stage)).collect();
    println!("\n{}", table(&reports));
    println!("{}", closing_line(&reports));
    crate::exit_code(reports.iter().all(|report| report.outcome != Outcome::Failed))
}

fn run_stage(root: &Path, stage: &Stage) -> Report {
    println!("== {}: {}", stage.name, stage.holds);
    let start = Instant::now();
    let outcome = (stage.run)(root);
    let took = start.elapsed();
    match &outcome {
        Outcome::Passed => println!("== {} passed in {}", stage.name, seconds(took)),
        Outcome::Failed => println!("== {} FAILED in {}", stage.name, seconds(took)),
        Outcome::Skipped(why) => println!("== {} skipped: {why}", stage.name),
    }
    Report { name: stage.name, outcome, took }
}

fn tidy_stage(root: &Path) -> Outcome {
    if tidy::run(root) { Outcome::Passed } else { Outcome::Failed }
}

/// The contract and some kills; `make test-zoned` does it all.
fn zoned_stage(root: &Path) -> Outcome {
    match zoned::short(root) {
        Ok(true) => Outcome::Passed,
        Ok(false) => Outcome::Failed,
        Err(why) => Outcome::Skipped(why),
    }
}

/// Tests that pass without their server when it is missing: said here.
fn servers(root: &Path) -> Outcome {
    match setup::ready(root, "versitygw") {
        Ok(binary) => cargo::test_origin(root, &root.join(binary)),
        Err(why) => Outcome::Skipped(why),
    }
}

/// Tests that pass without their clients when those are missing: said here.
fn nbd(root: &Path) -> Outcome {
    let missing = |tool| setup::ready(root, tool).err();
    match ["nbdinfo", "fio", "qemu-img"].into_iter().find_map(missing) {
        None => cargo::test_nbd(root),
        Some(why) => Outcome::Skipped(why),
    }
}

fn seconds(took: Duration) -> String {
    format!("{:.1} s", took.as_secs_f64())
}

fn table(reports: &[Report]) -> String {
    let row = |report: &Report| {
        let result = match &report.outcome {
            Outcome::Passed => "passed".to_owned(),
            Outcome::Failed => "FAILED".to_owned(),
            Outcome::Skipped(why) => format!("skipped: {why}"),
        };
        format!("{:<12} {:>9}  {result}\n", report.name, seconds(report.took))
    };
    reports.iter().map(row).collect()
}

fn closing_line(reports: &[Report]) -> String {
    let count = |is: fn(&Outcome) -> bool| reports.iter().filter(|r| is(&r.outcome)).count();
    let passed = count(|outcome| *outcome == Outcome::Passed);
    let failed = count(|outcome| *outcome == Outcome::Failed);
    let skipped = count(|outcome| matches!(outcome, Outcome::Skipped(_)));
    let tail = if skipped == 0 { String::new() } else { format!(", {skipped} skipped") };
    format!("{passed} passed, {failed} failed{tail}")
}

#[cfg(test)]
mod tests {
    use super::{Duration, Outcome, Report, closing_line};

    #[track_caller]
    fn check(outcomes: Vec<Outcome>, expected: &str) {
        let report = |outcome| Report { name: "a", outcome, took: Duration::ZERO };
        let reports: Vec<Report> = outcomes.into_iter().map(report).collect();
        assert_eq!(closing_line(&reports), expected);
    }

    #[test]
    fn the_closing_line_counts_and_names_skips_only_when_there_are_some() {
        check(vec![Outcome::Passed, Outcome::Failed, Outcome::Passed], "2 passed, 1 failed");
        check(
            vec![Outcome::Passed, Outcome::Skipped("no tool".to_owned())],
            "1 passed, 0 failed, 1 skipped",
        );
    }
}
