//! `cargo xtask ci flaky`: finds tests that fail sometimes.
//!
//! 1. Build once.
//! 2. Run the stage `tests` several times, under the limits of `ci`.
//! 3. List each test that failed or was killed in some run, and each program that failed without
//!    such a test.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::ExitCode;

use super::{Outcome, Run, STAGES, limit, stage_command, times};
use crate::libtest::{Event, event, plain};

/// Default number of runs: three find a test that fails every third time in 7 of 10 cases.
const TIMES: u32 = 3;

const USAGE: &str = "usage: cargo xtask ci flaky [--times N]";

pub(crate) fn flaky(root: &Path, words: &[&str]) -> ExitCode {
    let times = match words {
        [] => Some(TIMES),
        ["--times", times] => times.parse().ok().filter(|times| 0 < *times),
        _ => None,
    };
    let Some(times) = times else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match find(root, times) {
        Ok(failures) => {
            println!("\n{}", failures.text(times));
            crate::exit_code(failures.0.is_empty())
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn find(root: &Path, times: u32) -> Result<Failures, String> {
    let run = Run::new(root)?;
    let [build, tests] = ["build", "tests"]
        .map(|name| STAGES.iter().find(|stage| stage.name == name).expect("there are these"));
    let built = run.stage(build, false).outcome;
    if built != Outcome::Passed {
        return Err(format!("the tests are not built: {built}"));
    }
    let mut failures = Failures::default();
    for time in 1..=times {
        println!("== tests, run {time} of {times}");
        let mut heard = Heard::default();
        let stopwatch = times::Stopwatch::start();
        let limits = run.limits(tests, true);
        let ended = limit::run(&mut stage_command(root, tests.name), &limits, |line| {
            limit::print_line(line);
            heard.hear(line);
        })?;
        let outcome = super::outcome_of(&ended);
        println!("== tests, run {time} of {times}: {outcome} in {}", stopwatch.read());
        heard.failed.extend(ended.slow_tests.iter().map(|test| format!("{test} (killed)")));
        let is_cut = ended.how.is_err();
        if is_cut || (outcome != Outcome::Passed && heard.failed.is_empty()) {
            heard.failed.insert(format!("the stage: {outcome}"));
        }
        failures.note(heard.failed);
        if ended.how == Err(limit::Exceeded::Until) {
            break;
        }
    }
    Ok(failures)
}

/// Output of one run.
#[derive(Default)]
struct Heard {
    program: String,
    /// True if a test of the program failed.
    has_failed: bool,
    failed: BTreeSet<String>,
}

impl Heard {
    fn hear(&mut self, line: &str) {
        match event(&plain(line)) {
            Some(Event::Program(path)) => {
                // File name without the hash at its end.
                let file = path.rsplit('/').next().unwrap_or(path);
                self.program = file.rsplit_once('-').map_or(file, |(name, _)| name).to_owned();
                self.has_failed = false;
            }
            Some(Event::Ended(name, false)) => {
                self.failed.insert(format!("{}: {name}", self.program));
                self.has_failed = true;
            }
            Some(Event::ProgramFailed(flags)) if !self.has_failed => {
                self.failed.insert(format!("{}: the program ({flags})", self.program));
            }
            Some(Event::ProgramFailed(_) | Event::Slow(_) | Event::Ended(_, true)) | None => (),
        }
    }
}

/// Number of failed runs, by test.
#[derive(Default)]
struct Failures(BTreeMap<String, u32>);

impl Failures {
    fn note(&mut self, failed: BTreeSet<String>) {
        for test in failed {
            *self.0.entry(test).or_default() += 1;
        }
    }

    fn text(&self, times: u32) -> String {
        if self.0.is_empty() {
            return format!("every test passed in {times} of {times} runs");
        }
        let line = |(test, count): (&String, &u32)| format!("failed in {count} of {times}: {test}");
        self.0.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::{Failures, Heard};

    #[test]
    fn a_test_that_failed_in_some_run_is_listed_with_its_program() {
        let mut failures = Failures::default();
        assert_eq!(failures.text(2), "every test passed in 2 of 2 runs");
        for end in ["FAILED", "ok"] {
            let mut heard = Heard::default();
            heard.hear("     Running tests/a.rs (target/gate/deps/a-1f)");
            heard.hear(&format!("test one ... {end}"));
            heard.hear("test two ... ok");
            if end == "FAILED" {
                heard.hear("error: test failed, to rerun pass `-p a --test a`");
            }
            heard.hear("     Running tests/b.rs (target/gate/deps/b-1f)");
            heard.hear("error: test failed, to rerun pass `-p a --test b`");
            failures.note(heard.failed);
        }
        let expected = "failed in 1 of 2: a: one\nfailed in 2 of 2: b: the program (-p a --test b)";
        assert_eq!(failures.text(2), expected);
    }
}
