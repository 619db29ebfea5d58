//! Report of a violation: the commands that reproduce it, and the shrunk history.

use std::fmt::Display;

use serde::Serialize;
use zonal_cli::COMMIT;
use zonal_sim::{SHRINK_RUNS_MAX, Shrink, Shrunk, Violation};

#[derive(Debug, Serialize)]
pub(super) struct FailedSeed {
    seed: u64,
    /// Commit of the program.
    commit: &'static str,
    kind: String,
    what: String,
    /// Virtual time of the violation, in microseconds.
    at_us: u64,
    shrunk: Small,
}

/// Shrunk history that fails in the same way.
#[derive(Debug, Serialize)]
struct Small {
    /// Number of steps and ends of lives.
    step_count: usize,
    /// Histories tried by the shrinking.
    runs: u32,
    /// False if the effort ended before the minimum was found.
    is_minimal: bool,
    what: String,
    at_us: u64,
    /// One line per entry.
    history: Vec<String>,
}

impl FailedSeed {
    pub(super) fn new<H: Shrink + Display>(violation: &Violation, shrunk: &Shrunk<H>) -> Self {
        Self {
            seed: violation.seed,
            commit: COMMIT,
            kind: violation.kind.to_string(),
            what: violation.what.clone(),
            at_us: violation.at / 1000,
            shrunk: Small {
                step_count: shrunk.history.step_count(),
                runs: shrunk.runs,
                is_minimal: shrunk.runs < SHRINK_RUNS_MAX,
                what: shrunk.violation.what.clone(),
                at_us: shrunk.violation.at / 1000,
                history: shrunk.history.to_string().lines().map(str::to_owned).collect(),
            },
        }
    }

    /// `switch` is the command-line switch of this kind of history.
    pub(super) fn to_text(&self, switch: &str) -> String {
        let Self { seed, commit, kind, what, at_us, shrunk } = self;
        let Small { step_count, runs, history, .. } = shrunk;
        format!(
            "seed {seed} of commit {commit} at {at_us} us: {kind}: {what}\n\
             reproduce with `zonal-lab sim {switch}--seed {seed} --trace`\n\
             \n\
             reduced history: {step_count} steps ({runs} histories tried); at {} us: {}\n\
             {}",
            shrunk.at_us,
            shrunk.what,
            history.join("\n"),
        )
    }
}

#[cfg(test)]
mod tests {
    use zonal_sim::{History, Options, ViolationKind};

    use super::*;

    #[test]
    fn a_violation_is_told_with_seed_commit_and_history() {
        let violation = Violation {
            seed: 7,
            at: 2_000_000,
            kind: ViolationKind::Stuck,
            what: "it waits".into(),
        };
        let history = History::of_seed(7, &Options::default());
        let steps = history.step_count();
        let shrunk = Shrunk { history, violation: violation.clone(), runs: 12 };
        let found = FailedSeed::new(&violation, &shrunk);
        let text = found.to_text("--block ");
        let first = format!("seed 7 of commit {COMMIT} at 2000 us: stuck: it waits\n");
        assert!(text.starts_with(&first), "{text}");
        assert!(text.contains("reproduce with `zonal-lab sim --block --seed 7 --trace`"), "{text}");
        assert!(text.contains(&format!("reduced history: {steps} steps (12 histories tried)")));
        assert!(found.shrunk.history.len() > steps, "every step has its line");
    }
}
