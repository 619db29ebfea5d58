//! Refuses leftovers of development.

use super::Problem;
use super::repository::{FILE_BYTES_MAX, File, Repository};

/// Searched in Rust code, without comments and strings.
const REFUSED_CODE: &[(&str, &str)] = &[
    ("dbg!", "remove it"),
    ("todo!", "write it, or return an error that says it is not supported"),
    ("unimplemented!", "write it, or return an error that says it is not supported"),
    ("#[ignore", "let a slow test look at SLOW_TESTS=1 instead"),
    ("#[should_panic", "assert the error instead"),
];

/// Searched in the whole text of source files, comments included.
const MARKER: &str = concat!("FIX", "ME");
const MARKED_FILES: &[&str] = &[".rs", ".py", ".sh", ".toml", "Makefile"];

pub(super) fn check(repository: &Repository) -> Vec<Problem> {
    repository.files.iter().flat_map(check_file).collect()
}

fn check_file(file: &File) -> Vec<Problem> {
    let mut problems = Vec::new();
    if FILE_BYTES_MAX < file.bytes {
        let what = format!("{} bytes; at most {FILE_BYTES_MAX} belong in git", file.bytes);
        problems.push(Problem::of_file(&file.path, what));
    }
    if let Some(rust) = &file.rust {
        for (refused, advice) in REFUSED_CODE {
            problems.extend(rust.code.match_indices(refused).map(|(at, _)| {
                Problem::at(&file.path, rust.line_of(at), format!("`{refused}`: {advice}"))
            }));
        }
    }
    if MARKED_FILES.iter().any(|end| file.path.ends_with(end)) {
        let text = file.text.as_deref().unwrap_or_default();
        let marked = text.lines().enumerate().filter(|(_, line)| line.contains(MARKER));
        problems.extend(marked.map(|(at, _)| {
            Problem::at(&file.path, at + 1, format!("`{MARKER}`: repair it, or open an issue"))
        }));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::{MARKER, Repository, check};

    #[track_caller]
    fn check_lines(text: &str, expected: &[usize]) {
        let problems = check(&Repository::of(&[("crates/a/src/b.rs", text)]));
        let lines: Vec<usize> = problems.iter().map(|problem| problem.line).collect();
        assert_eq!(lines, expected, "for {text:?}");
    }

    #[test]
    fn leftovers_are_found_in_code_only() {
        check_lines("a\ndbg!(b)", &[2]);
        check_lines("#[ignore = \"slow\"]\nfn a() { todo!() }", &[2, 1]);
        check_lines("// dbg! is refused\n\"todo!\"", &[]);
    }

    #[test]
    fn the_marker_is_found_in_comments_too() {
        check_lines(&format!("// {MARKER} later"), &[1]);
    }

    #[test]
    fn a_large_file_is_refused() {
        let text = " ".repeat(256 * 1024 + 1);
        check_lines(&text, &[0]);
        check_lines(&text[1..], &[]);
    }
}
