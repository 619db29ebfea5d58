//! Checks that every Rust file begins with a sentence, and that every crate's first page names what
//! it uses and what it must not know.

use super::Problem;
use super::repository::Repository;

pub(super) fn check(repository: &Repository) -> Vec<Problem> {
    let mut problems: Vec<Problem> = repository
        .rust()
        .filter(|(file, _)| !opens_with_a_sentence(file.text.as_deref().unwrap_or_default()))
        .map(|(file, _)| {
            Problem::at(
                &file.path,
                1,
                "open the file with a `//!` sentence that says what it is for",
            )
        })
        .collect();
    for name in repository.crates() {
        let Some(root) = repository.crate_root(name) else {
            problems.push(Problem::of_file(
                &format!("crates/{name}/Cargo.toml"),
                "the crate has neither src/lib.rs nor src/main.rs",
            ));
            continue;
        };
        let page = first_page(root.text.as_deref().unwrap_or_default());
        for wanted in ["Uses:", "Knows nothing of:"] {
            if !page.contains(wanted) {
                let what = format!("the crate's first page lacks `{wanted}`");
                problems.push(Problem::at(&root.path, 1, what));
            }
        }
    }
    problems
}

fn opens_with_a_sentence(text: &str) -> bool {
    text.lines().next().is_some_and(|line| line.len() > "//! ".len() && line.starts_with("//! "))
}

/// Inner documentation at the top of a file.
fn first_page(text: &str) -> String {
    text.lines().take_while(|line| line.starts_with("//!")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::{Repository, check};

    #[track_caller]
    fn check_count(page: &str, expected: usize) {
        let files = [("crates/a/Cargo.toml", ""), ("crates/a/src/lib.rs", page)];
        assert_eq!(check(&Repository::of(&files)).len(), expected, "for {page:?}");
    }

    #[test]
    fn the_first_page_names_what_is_used_and_what_is_unknown() {
        check_count("//! A.\n//!\n//! Uses: b. Knows nothing of: c.\n", 0);
        check_count("//! A.\n//!\n//! Uses: b.\n", 1);
        check_count("//! A.\n\n//! Uses: b. Knows nothing of: c.\n", 2);
        check_count("use b;\n", 3);
    }
}
