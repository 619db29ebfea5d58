//! Checks that crates which the table calls `no_std` are: the compiler then enforces it.

use super::repository::Repository;
use super::{Problem, crate_table};

pub(super) fn check(repository: &Repository) -> Vec<Problem> {
    let mut problems = Vec::new();
    for row in crate_table::rows(repository) {
        let Some(root) = repository.crate_root(&row.name) else { continue };
        let Some(rust) = &root.rust else { continue };
        let is_no_std = rust.code.contains("#![no_std]");
        if is_no_std != row.is_no_std {
            let (has, wants) = if is_no_std { ("is", "std") } else { ("lacks", "no_std") };
            let what = format!("{has} `#![no_std]`, but ARCHITECTURE.md says {wants}");
            problems.push(Problem::at(&root.path, 1, what));
        }
    }
    problems.extend(smuggled_std(repository));
    problems
}

/// Refuses `extern crate std` outside tests, which would undo `no_std`.
fn smuggled_std(repository: &Repository) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (file, rust) in repository.rust().filter(|(file, _)| !file.is_test()) {
        let found =
            rust.code.match_indices("extern crate std").filter(|(at, _)| !rust.in_test(*at));
        problems.extend(found.map(|(at, _)| {
            Problem::at(&file.path, rust.line_of(at), "`extern crate std` undoes `no_std`")
        }));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::{Repository, check};

    #[track_caller]
    fn check_count(kind: &str, root: &str, expected: usize) {
        let table = format!("## Crates\n\n| `a` | {kind} | — | x |\n");
        let files = [
            ("ARCHITECTURE.md", table.as_str()),
            ("crates/a/Cargo.toml", ""),
            ("crates/a/src/lib.rs", root),
        ];
        assert_eq!(check(&Repository::of(&files)).len(), expected, "for {kind} and {root:?}");
    }

    #[test]
    fn the_attribute_and_the_table_agree() {
        check_count("no_std", "#![no_std]", 0);
        check_count("no_std", "// #![no_std]", 1);
        check_count("std", "", 0);
        check_count("std", "#![no_std]", 1);
    }

    #[test]
    fn std_comes_back_in_tests_only() {
        check_count("no_std", "#![no_std]\nextern crate std;", 1);
        check_count("no_std", "#![no_std]\n#[cfg(test)]\nextern crate std;", 0);
    }
}
