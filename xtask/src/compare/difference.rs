//! Compares two records, and prints the differences.
//!
//! Histories are compared seed by seed; the first different seed of each kind is run again on both
//! sides. All other parts are compared file by file.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::histories;
use super::part;
use super::program::Programs;
use super::record::{PART_NAMES, PROGRAMS_FOLDER};

/// Printed lines of one file's diff: about a screen.
const FILE_LINES_MAX: usize = 40;
/// Printed lines of a history's diff: its beginning matters.
const HISTORY_LINES_MAX: usize = 16;
/// Longer lines are cut: a line of a table has 300 characters.
const LINE_CHARS_MAX: usize = 400;

/// A record, and the commit of its tree.
pub(super) struct Record {
    pub(super) folder: PathBuf,
    pub(super) commit: String,
    /// Name that the user gave.
    pub(super) name: String,
}

/// Counts of equal and different entries of a part.
#[derive(Debug, Default, PartialEq, Eq)]
struct Count {
    equal: usize,
    different: usize,
}

/// Prints the differences and a line for each part. True if there is no difference.
pub(super) fn print(before: &Record, after: &Record, scratch: &Path) -> Result<bool, String> {
    let mut summary = String::new();
    let mut is_equal = true;
    for name in PART_NAMES {
        let count = compare_part(before, after, name, scratch)?;
        if count == Count::default() {
            return Err(format!("neither record has {name}"));
        }
        is_equal &= count.different == 0;
        summary += &count.line(name);
    }
    println!("{summary}");
    Ok(is_equal)
}

impl Count {
    fn line(&self, name: &str) -> String {
        match self.different {
            0 => format!("{name}: {} equal\n", grouped(self.equal)),
            different => {
                format!("{name}: {} equal, {} DIFFERENT\n", grouped(self.equal), grouped(different))
            }
        }
    }
}

/// Formats `12345` as `12,345`.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn compare_part(
    before: &Record,
    after: &Record,
    part: &str,
    scratch: &Path,
) -> Result<Count, String> {
    let mut total = Count::default();
    let mut files: BTreeSet<String> = part::names(&before.folder.join(part)).into_iter().collect();
    files.extend(part::names(&after.folder.join(part)));
    for file in &files {
        let path = format!("{part}/{file}");
        let texts =
            [before, after].map(|record| fs::read_to_string(record.folder.join(&path)).ok());
        let [Some(old), Some(new)] = &texts else {
            let only = if texts[0].is_some() { before } else { after };
            println!("{path}: only in {}\n", only.name);
            let text = texts.iter().flatten().next().map(String::as_str).unwrap_or_default();
            total.different += count(part, text, "").different;
            continue;
        };
        let count = count(part, old, new);
        total.equal += count.equal;
        total.different += count.different;
        match count.different {
            0 => {}
            _ if part == "histories" => print_history(before, after, file, scratch)?,
            _ => print_diff(&before.folder.join(&path), &after.folder.join(&path), FILE_LINES_MAX)?,
        }
    }
    Ok(total)
}

/// Histories, golden bytes and metrics are counted by lines, other parts by files.
fn count(part: &str, old: &str, new: &str) -> Count {
    if !matches!(part, "histories" | "golden" | "metrics") {
        let different = usize::from(old != new);
        return Count { equal: 1 - different, different };
    }
    let [old, new] = [old, new].map(|text| text.lines().collect::<BTreeSet<&str>>());
    let equal = old.intersection(&new).count();
    Count { equal, different: old.len().max(new.len()) - equal }
}

/// Prints the first different seed of a kind, and where the two histories part.
fn print_history(
    before: &Record,
    after: &Record,
    file: &str,
    scratch: &Path,
) -> Result<(), String> {
    let path = format!("histories/{file}");
    let old = part::read(&before.folder.join(&path))?;
    let new = part::read(&after.folder.join(&path))?;
    let Some(seed) = first_different_seed(&old, &new) else {
        return Ok(());
    };
    println!("{path}: the first seed that differs is {seed}");
    let mut traces = Vec::new();
    let kind = file.trim_end_matches(".txt");
    for (record, side) in [(before, "before"), (after, "after")] {
        let programs = Programs::find(&record.folder.join(PROGRAMS_FOLDER), &record.commit)?;
        let mut command = histories::show(&programs, file, seed)?;
        println!("  {}: {}", record.name, shell(&command));
        let trace = scratch.join(format!("{kind}-{seed}-{side}.trace"));
        let printed = programs.run(&mut command)?;
        part::write(&trace, &(printed.output + &printed.errors))?;
        traces.push(trace);
    }
    print_diff(&traces[0], &traces[1], HISTORY_LINES_MAX)
}

/// Seed of the first different line.
fn first_different_seed<'a>(old: &'a str, new: &'a str) -> Option<&'a str> {
    let pairs = old.lines().zip(new.lines());
    let line = pairs.into_iter().find(|(old, new)| old != new).map(|(old, _)| old);
    line.and_then(|line| line.split(' ').next())
}

/// Command line of a command.
fn shell(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    words.join(" ")
}

/// Prints the beginning of a unified diff.
fn print_diff(old: &Path, new: &Path, lines_max: usize) -> Result<(), String> {
    let output = Command::new("git")
        .args(["diff", "--no-index", "--no-color", "--no-ext-diff", "--text", "--unified=2", "--"])
        .args([old, new])
        .output()
        .map_err(|error| format!("git did not start: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // The lines before the first hunk are git's header.
    let text = text.find("\n@@").map_or(text.as_str(), |at| &text[at + 1..]);
    println!("--- {}\n+++ {}", old.display(), new.display());
    println!("{}", beginning(text, lines_max));
    Ok(())
}

/// First lines of a text, and the number of omitted lines.
fn beginning(text: &str, lines_max: usize) -> String {
    let cut = |line: &str| match line.char_indices().nth(LINE_CHARS_MAX) {
        Some((end, _)) => format!("{} ...\n", &line[..end]),
        None => format!("{line}\n"),
    };
    let shown: String = text.lines().take(lines_max).map(cut).collect();
    match text.lines().count().saturating_sub(lines_max) {
        0 => shown,
        left_out => format!("{shown}... {} more lines of this diff\n", grouped(left_out)),
    }
}

#[cfg(test)]
mod tests {
    use super::{Count, beginning, count, first_different_seed, grouped};

    #[test]
    fn summaries_count_what_is_equal_and_what_is_not() {
        assert_eq!(
            Count { equal: 19_000, different: 0 }.line("histories"),
            "histories: 19,000 equal\n"
        );
        assert_eq!(Count { equal: 3, different: 1 }.line("help"), "help: 3 equal, 1 DIFFERENT\n");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_234_567), "1,234,567");
    }

    #[test]
    fn lines_or_files_are_counted_as_the_part_has_it() {
        assert_eq!(
            count("histories", "1 a\n2 b\n", "1 a\n2 c\n"),
            Count { equal: 1, different: 1 }
        );
        assert_eq!(count("metrics", "a\nb\n", "a\n"), Count { equal: 1, different: 1 });
        assert_eq!(count("help", "a\nb\n", "a\nb\n"), Count { equal: 1, different: 0 });
        assert_eq!(count("help", "a\nb\n", "a\nc\n"), Count { equal: 0, different: 1 });
    }

    #[test]
    fn the_first_seed_that_differs_is_found() {
        assert_eq!(
            first_different_seed("1 a 3\n2 b 3\n3 c 3\n", "1 a 3\n2 x 3\n3 y 3\n"),
            Some("2")
        );
        assert_eq!(first_different_seed("1 a 3\n", "1 a 3\n"), None);
    }

    #[test]
    fn a_long_diff_is_cut_and_says_so() {
        assert_eq!(beginning("a\nb\nc\n", 3), "a\nb\nc\n");
        assert_eq!(beginning("a\nb\nc\n", 1), "a\n... 2 more lines of this diff\n");
    }
}
