//! Checks that golden bytes of a format version never change: a new version gets its own.
//!
//! `xtask/golden.txt` lists every constant `GOLDEN_V<n>`: `path name hash`. New lines are appended.
//! A line changes only when its file moves. The hash is of the text without white space, so
//! formatting does not count.

use std::collections::BTreeMap;
use std::path::Path;

use super::Problem;
use super::repository::Repository;
use crate::rust_text::{RustText, is_identifier};

pub(crate) const LIST: &str = "xtask/golden.txt";
const WORD: &str = "GOLDEN_V";

/// Path and name of a constant.
type Key = (String, String);

pub(super) fn check(repository: &Repository) -> Vec<Problem> {
    let found = found(repository);
    let (listed, mut problems) = listed(repository.text(LIST));
    for ((path, name), (hash, line)) in &found {
        match listed.get(&(path.clone(), name.clone())) {
            None => problems.push(Problem::at(
                path,
                *line,
                format!("new golden bytes: append `{path} {name} {hash}` to {LIST}"),
            )),
            Some((listed, _)) if listed != hash => problems.push(Problem::at(
                path,
                *line,
                format!(
                    "`{name}` was edited (its hash is {hash}): what a version wrote must stay \
                     readable; add a case for the new version instead"
                ),
            )),
            Some(_) => {}
        }
    }
    for (key, (_, line)) in &listed {
        if !found.contains_key(key) {
            let what = format!("`{}` is gone from {}: its version must stay tested", key.1, key.0);
            problems.push(Problem::at(LIST, *line, what));
        }
    }
    problems
}

/// Constants in the crates, with their hashes and lines.
fn found(repository: &Repository) -> BTreeMap<Key, (String, usize)> {
    let mut found = BTreeMap::new();
    for (file, rust) in repository.rust().filter(|(file, _)| file.path.starts_with("crates/")) {
        let source = file.text.as_deref().unwrap_or_default();
        for (name, start, end) in constants(rust) {
            let hash = hash(&source[start..end]);
            found.insert((file.path.clone(), name), (hash, rust.line_of(start)));
        }
    }
    found
}

/// Name and value of all constants in the tree at `root`, without comments and white space.
pub(crate) fn values(root: &Path) -> Result<Vec<(String, String)>, String> {
    let repository = Repository::read(root)?;
    let mut values = Vec::new();
    for (file, rust) in repository.rust().filter(|(file, _)| file.path.starts_with("crates/")) {
        let source = file.text.as_deref().unwrap_or_default();
        for (name, start, end) in constants(rust) {
            values.push((name, value(&source[start..end], &rust.code[start..end])));
        }
    }
    Ok(values)
}

/// Value of a constant, without its type, because a name in the type may change.
fn value(source: &str, code: &str) -> String {
    let start = code.find('=').map_or(0, |at| at + 1);
    let lines = source[start..].lines().zip(code[start..].lines());
    // In `code`, a comment is blanked to the end of its line.
    let lines = lines.map(|(source, code)| match source.find("//") {
        Some(at) if code[at..].trim().is_empty() => &source[..at],
        _ => source,
    });
    let value: String = lines.flat_map(str::split_whitespace).collect();
    // A comma at the end depends on the line breaks of the formatter.
    value.trim_end_matches(';').replace(",]", "]")
}

/// Names of the constants, and the byte range of each from its name to its semicolon.
fn constants(rust: &RustText) -> impl Iterator<Item = (String, usize, usize)> {
    rust.code.match_indices(WORD).filter_map(|(at, _)| {
        let before = rust.code[..at].rsplit(|c: char| c.is_ascii() && !is_identifier(c as u8));
        let start = at - before.into_iter().next().unwrap_or_default().len();
        let keyword = rust.code[..start].trim_end();
        if !keyword.ends_with("const") && !keyword.ends_with("static") {
            return None;
        }
        let name: String =
            rust.code[start..].bytes().take_while(|&b| is_identifier(b)).map(char::from).collect();
        Some((name, start, statement_end(&rust.code, start)))
    })
}

/// Offset after the semicolon that ends a statement.
fn statement_end(code: &str, start: usize) -> usize {
    let mut nested = 0_usize;
    for (at, byte) in code.bytes().enumerate().skip(start) {
        match byte {
            b'(' | b'[' | b'{' => nested += 1,
            b')' | b']' | b'}' => nested = nested.saturating_sub(1),
            b';' if nested == 0 => return at + 1,
            _ => {}
        }
    }
    code.len()
}

/// FNV-1a of the text without white space: protects against slips, not against malice.
fn hash(text: &str) -> String {
    const OFFSET: u64 = 0xCBF2_9CE4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01B3;
    let bytes = text.bytes().filter(|byte| !byte.is_ascii_whitespace());
    format!("{:016x}", bytes.fold(OFFSET, |hash, b| (hash ^ u64::from(b)).wrapping_mul(PRIME)))
}

/// Entries of the list with their lines, and malformed lines.
fn listed(list: &str) -> (BTreeMap<Key, (String, usize)>, Vec<Problem>) {
    let mut entries = BTreeMap::new();
    let mut problems = Vec::new();
    for (text, line) in list.lines().zip(1..) {
        let words: Vec<&str> = text.split_whitespace().collect();
        match words.as_slice() {
            [] => {}
            [first, ..] if first.starts_with('#') => {}
            [path, name, hash] => {
                let key = ((*path).to_owned(), (*name).to_owned());
                entries.insert(key, ((*hash).to_owned(), line));
            }
            _ => problems.push(Problem::at(LIST, line, "write `path name hash`")),
        }
    }
    (entries, problems)
}

#[cfg(test)]
mod tests {
    use super::{Repository, RustText, check, hash, value};

    const FILE: &str = "crates/a/src/tests.rs";
    const CODE: &str = "const GOLDEN_V1: [u8; 2] = [1, 2];\nuse GOLDEN_V1;";

    #[track_caller]
    fn check_problems(code: &str, list: &str, expected: &[&str]) {
        let problems = check(&Repository::of(&[(FILE, code), ("xtask/golden.txt", list)]));
        let found: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.contains(expected), "{found:?} lacks {expected:?}");
        }
    }

    fn list(name: &str, text: &str) -> String {
        format!("# list\n{FILE} {name} {}\n", hash(text))
    }

    #[test]
    fn new_golden_bytes_are_listed() {
        let line = format!("{FILE}:1: new golden bytes: append `{FILE} GOLDEN_V1 ");
        check_problems(CODE, "", &[&line]);
        check_problems(CODE, &list("GOLDEN_V1", "GOLDEN_V1: [u8; 2] = [1, 2];"), &[]);
    }

    #[test]
    fn formatting_does_not_count_and_any_other_edit_does() {
        let listed = list("GOLDEN_V1", "GOLDEN_V1: [u8; 2] = [1, 2];");
        check_problems(&CODE.replace(", 2]", ",\n        2]"), &listed, &[]);
        check_problems(&CODE.replace(", 2]", ", 3]"), &listed, &["`GOLDEN_V1` was edited"]);
    }

    #[test]
    fn listed_bytes_do_not_vanish() {
        let listed = list("FOOTER_GOLDEN_V1", "");
        check_problems("", &listed, &["golden.txt:2: `FOOTER_GOLDEN_V1` is gone"]);
    }

    #[test]
    fn names_around_the_word_are_whole() {
        let code = "static FOOTER_GOLDEN_V2_EMPTY: &[u8] = &[];";
        check_problems(code, "", &["FOOTER_GOLDEN_V2_EMPTY "]);
    }

    #[test]
    fn a_value_has_neither_type_nor_comments_nor_formatting() {
        let source = "A: [u8; N] = [\n    1, b'/', // one\n    // two\n    2,\n];";
        let code = RustText::scan(source).code;
        assert_eq!(value(source, &code), "[1,b'/',2]");
    }
}
