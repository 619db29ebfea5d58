//! Ratchet: limits the length of files and parameter lists; existing exceptions may only shrink.
//! Clippy limits the lines of functions.
//!
//! `xtask/ratchet.txt` has a line per exception: `kind path[::function] number`. A larger number
//! than listed is refused. So is a smaller one: the line must then be lowered or removed, or the
//! gain could be lost again unnoticed. Tests are not counted.

use std::collections::BTreeMap;
use std::fmt;

use super::Problem;
use super::repository::Repository;

const LIST: &str = "xtask/ratchet.txt";

/// Lines of a file without its tests: what one reads in one sitting.
const FILE_LINES_MAX: usize = 500;
/// Parameters besides `self`. With more, a call is hard to read.
const PARAMETERS_MAX: usize = 5;

/// Kind of measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    FileLines,
    Parameters,
}

const KINDS: [Kind; 2] = [Kind::FileLines, Kind::Parameters];

impl Kind {
    const fn limit(self) -> usize {
        match self {
            Self::FileLines => FILE_LINES_MAX,
            Self::Parameters => PARAMETERS_MAX,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::FileLines => "file-lines",
            Self::Parameters => "parameters",
        })
    }
}

/// Kind and place of a measurement.
type Key = (Kind, String);

pub(super) fn check(repository: &Repository) -> Vec<Problem> {
    let measured = measured(repository);
    let (listed, mut problems) = listed(repository.text(LIST));
    for ((kind, place), number) in &measured {
        let allowed = listed.get(&(*kind, place.clone())).map_or(kind.limit(), |entry| entry.0);
        if allowed < *number {
            let what = format!("{kind} {number}, at most {allowed}: split it");
            problems.push(Problem::of_file(place, what));
        }
    }
    for ((kind, place), (number, line)) in &listed {
        let now = measured.get(&(*kind, place.clone())).copied().unwrap_or(0);
        if now < *number {
            let advice = if now <= kind.limit() { "remove the line" } else { "lower the number" };
            let what = format!("{kind} of {place} is {now} by now: {advice}");
            problems.push(Problem::at(LIST, *line, what));
        }
    }
    problems
}

/// Measures everything, not only violations: an entry of the list may have become unnecessary.
fn measured(repository: &Repository) -> BTreeMap<Key, usize> {
    let mut measured = BTreeMap::new();
    let mut keep = |kind: Kind, place: String, number: usize| {
        // Functions of the same name in one file share an entry: the largest counts.
        let entry = measured.entry((kind, place)).or_insert(number);
        *entry = number.max(*entry);
    };
    for (file, rust) in repository.rust().filter(|(file, _)| !file.is_test()) {
        keep(Kind::FileLines, file.path.clone(), rust.lines_without_tests());
        for function in rust.functions.iter().filter(|function| !function.is_test) {
            let place = format!("{}::{}", file.path, function.name);
            keep(Kind::Parameters, place, function.parameters);
        }
    }
    measured
}

/// Entries of the list with their lines, and malformed lines.
fn listed(list: &str) -> (BTreeMap<Key, (usize, usize)>, Vec<Problem>) {
    let mut entries = BTreeMap::new();
    let mut problems = Vec::new();
    for (text, line) in list.lines().zip(1..) {
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        match entry(text) {
            Some((key, number)) => drop(entries.insert(key, (number, line))),
            None => {
                problems.push(Problem::at(LIST, line, "write `kind path[::function] number`"));
            }
        }
    }
    (entries, problems)
}

fn entry(text: &str) -> Option<(Key, usize)> {
    let mut words = text.split_whitespace();
    let (kind, place, number) = (words.next()?, words.next()?, words.next()?);
    let kind = KINDS.into_iter().find(|known| known.to_string() == kind)?;
    Some(((kind, place.to_owned()), number.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::{Repository, check};

    const FILE: &str = "crates/a/src/b.rs";

    #[track_caller]
    fn check_problems(code: &str, list: &str, expected: &[&str]) {
        let problems = check(&Repository::of(&[(FILE, code), ("xtask/ratchet.txt", list)]));
        let found: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn long_files_are_refused_and_tests_do_not_count() {
        check_problems(
            &"a\n".repeat(501),
            "",
            &[&format!("{FILE}: file-lines 501, at most 500: split it")],
        );
        let tests = format!("#[cfg(test)]\nmod tests {{ {} }}\n", "\n".repeat(600));
        check_problems(&format!("{}{tests}", "a\n".repeat(500)), "", &[]);
    }

    #[test]
    fn long_parameter_lists_are_refused() {
        check_problems("fn f(&self, a: A, b: A, c: A, d: A, e: A) {}", "", &[]);
        let expected = "crates/a/src/b.rs::f: parameters 6, at most 5: split it";
        check_problems("fn f(a: A, b: A, c: A, d: A, e: A, g: A) {}", "", &[expected]);
    }

    #[test]
    fn a_listed_number_may_only_fall() {
        let list = format!("# why\nfile-lines {FILE} 580\n");
        let file = |lines: usize| "a\n".repeat(lines);
        check_problems(&file(580), &list, &[]);
        let grown = format!("{FILE}: file-lines 581, at most 580: split it");
        check_problems(&file(581), &list, &[&grown]);
        let fallen =
            format!("xtask/ratchet.txt:2: file-lines of {FILE} is 575 by now: lower the number");
        check_problems(&file(575), &list, &[&fallen]);
        let gone =
            format!("xtask/ratchet.txt:2: file-lines of {FILE} is 60 by now: remove the line");
        check_problems(&file(60), &list, &[&gone]);
    }

    #[test]
    fn a_line_that_is_no_entry_is_refused() {
        let expected = "xtask/ratchet.txt:1: write `kind path[::function] number`";
        check_problems("", "lines crates/a/src/b.rs 7", &[expected]);
    }
}
