//! Parser for the output of test programs under `cargo test`.
//!
//! With two threads or more, libtest prints `test NAME ... ok` at the end of a test, and once `test
//! NAME has been running for over 60 seconds`. Cargo names each program before it starts it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Time after which libtest reports a slow test, once.
const TOLD_AFTER: Duration = Duration::from_secs(60);

/// Event in a line of output.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Event<'a> {
    /// Cargo starts the program with this path.
    Program(&'a str),
    /// A test has been running for a minute.
    Slow(&'a str),
    /// A test ended; true if it passed.
    Ended(&'a str, bool),
    /// A program failed. Cargo names the flags that run it again.
    ProgramFailed(&'a str),
}

/// Removes the terminal colours of cargo from a line.
pub(crate) fn plain(line: &str) -> Cow<'_, str> {
    if !line.contains('\x1b') {
        return line.into();
    }
    let mut parts = line.split('\x1b');
    let first = parts.next().unwrap_or_default();
    let rest = parts.map(|part| part.split_once('m').map_or(part, |(_, text)| text));
    Cow::Owned([first].into_iter().chain(rest).collect())
}

/// Event in a plain line, if any.
pub(crate) fn event(line: &str) -> Option<Event<'_>> {
    if let Some(rest) = line.trim_start().strip_prefix("Running ") {
        let (_, path) = rest.strip_suffix(')')?.rsplit_once('(')?;
        return Some(Event::Program(path));
    }
    if line.trim_start().starts_with("Doc-tests ") {
        return Some(Event::Program("rustdoc"));
    }
    if let Some(rest) = line.strip_prefix("error: ")
        && let Some((_, rest)) = rest.split_once("test failed, to rerun pass `")
    {
        return Some(Event::ProgramFailed(rest.trim_end_matches('`')));
    }
    let rest = line.strip_prefix("test ")?;
    if let Some(name) = rest.strip_suffix(" has been running for over 60 seconds") {
        return Some(Event::Slow(name));
    }
    let (name, end) = rest.rsplit_once(" ... ")?;
    match end {
        "FAILED" => Some(Event::Ended(name, false)),
        _ if end == "ok" || end.starts_with("ignored") => Some(Event::Ended(name, true)),
        _ => None,
    }
}

/// Detects tests that take too long.
pub(crate) struct SlowTests {
    limit: Option<Duration>,
    /// File name of the running program.
    program: String,
    /// Start time, by test.
    begun: BTreeMap<String, Instant>,
}

impl SlowTests {
    pub(crate) const fn new(limit: Option<Duration>) -> Self {
        Self { limit, program: String::new(), begun: BTreeMap::new() }
    }

    pub(crate) fn hear(&mut self, line: &str, now: Instant) {
        match event(&plain(line)) {
            Some(Event::Program(path)) => {
                self.program = path.rsplit('/').next().unwrap_or(path).to_owned();
                self.begun.clear();
            }
            Some(Event::Slow(name)) => {
                self.begun.insert(name.to_owned(), now.checked_sub(TOLD_AFTER).unwrap_or(now));
            }
            Some(Event::Ended(name, _)) => {
                self.begun.remove(name);
            }
            Some(Event::ProgramFailed(_)) | None => (),
        }
    }

    /// Tests over the limit. The caller kills their program.
    pub(crate) fn overdue(&mut self, now: Instant) -> Option<Overdue> {
        let limit = self.limit?;
        self.take(|begun| limit <= now.duration_since(begun))
    }

    /// Tests that have been running for a minute, for a run without progress.
    pub(crate) fn stuck(&mut self) -> Option<Overdue> {
        self.take(|_| true)
    }

    fn take(&mut self, is_taken: impl Fn(Instant) -> bool) -> Option<Overdue> {
        let program = self.program.clone();
        let taken = self.begun.extract_if(.., |_, begun| is_taken(*begun));
        let names: Vec<String> =
            taken.map(|(name, _)| format!("test {name} of {program}")).collect();
        if names.is_empty() {
            return None;
        }
        // The program is killed with all its tests.
        self.begun.clear();
        Some(Overdue { program, names })
    }
}

/// Tests to kill, with their program.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Overdue {
    pub(crate) program: String,
    pub(crate) names: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::{Event, Overdue, SlowTests, event, plain};
    use std::time::{Duration, Instant};

    #[test]
    fn lines_of_cargo_and_its_test_programs_are_understood() {
        let program = "     Running unittests src/lib.rs (target/gate/deps/zonal_base-1f)";
        assert_eq!(event(program), Some(Event::Program("target/gate/deps/zonal_base-1f")));
        assert_eq!(event("   Doc-tests zonal_base"), Some(Event::Program("rustdoc")));
        assert_eq!(event("test a::b ... ok"), Some(Event::Ended("a::b", true)));
        assert_eq!(event("test a::b ... FAILED"), Some(Event::Ended("a::b", false)));
        let slow = "test a::b has been running for over 60 seconds";
        assert_eq!(event(slow), Some(Event::Slow("a::b")));
        let failed = "error: test failed, to rerun pass `-p zonal-gateway --test idle`";
        assert_eq!(event(failed), Some(Event::ProgramFailed("-p zonal-gateway --test idle")));
        let coloured = "\x1b[1m\x1b[92m     Running\x1b[0m tests/a.rs (target/gate/deps/a-1f)";
        assert_eq!(event(&plain(coloured)), Some(Event::Program("target/gate/deps/a-1f")));
        let coloured = "\x1b[1m\x1b[91merror\x1b[0m: test failed, to rerun pass `--test a`";
        assert_eq!(event(&plain(coloured)), Some(Event::ProgramFailed("--test a")));
        for other in ["test result: ok. 3 passed; 0 failed", "running 3 tests", "testing ... ok"] {
            assert_eq!(event(other), None, "{other}");
        }
    }

    #[test]
    fn a_test_that_takes_ten_minutes_is_named_with_its_program() {
        let begun = Instant::now() + Duration::from_secs(60);
        let mut tests = SlowTests::new(Some(Duration::from_secs(600)));
        tests.hear("     Running tests/a.rs (target/gate/deps/a-1f)", begun);
        for name in ["quick", "slow"] {
            tests.hear(&format!("test {name} has been running for over 60 seconds"), begun);
        }
        tests.hear("test quick ... ok", begun);
        assert_eq!(tests.overdue(begun + Duration::from_secs(539)), None);
        let late = begun + Duration::from_secs(540);
        let slow = Overdue { program: "a-1f".into(), names: vec!["test slow of a-1f".into()] };
        assert_eq!(tests.overdue(late), Some(slow));
        assert_eq!(tests.overdue(late), None, "it is killed once");
    }
}
