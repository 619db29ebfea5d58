//! Checks that the repository names no folder of a particular machine, and no host of a package
//! registry.

use super::Problem;
use super::repository::Repository;

/// Split in two, so that this file does not contain them.
const REFUSED: &[(&str, &str)] = &[
    (concat!("/ho", "me/"), "a home folder"),
    (concat!("/ro", "ot/."), "a home folder"),
    (concat!("/wo", "rk/"), "a folder of one machine"),
    (concat!("/t", "mp/"), "a folder of one machine; ask for a temporary folder"),
    (concat!("index.crates", ".io"), "a host of a package registry"),
    (concat!("static.crates", ".io"), "a host of a package registry"),
    (concat!("files.python", "hosted.org"), "a host of a package registry"),
    (concat!("proxy.golang", ".org"), "a host of a package registry"),
];

pub(super) fn check(repository: &Repository) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in &repository.files {
        let text = file.text.as_deref().unwrap_or_default();
        for (at, line) in text.lines().enumerate() {
            let found = REFUSED.iter().filter(|(path, _)| names(line, path));
            problems.extend(
                found.map(|(path, why)| {
                    Problem::at(&file.path, at + 1, format!("`{path}` is {why}"))
                }),
            );
        }
    }
    problems
}

/// True if `line` contains `path` at the start of a path: `frame/x` does not contain `/x`.
fn names(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !path.starts_with('/') || before.is_none_or(|c| !c.is_alphanumeric() && !"._-}".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::{REFUSED, Repository, check};

    #[track_caller]
    fn check_count(text: &str, expected: usize) {
        assert_eq!(check(&Repository::of(&[("a.md", text)])).len(), expected, "for {text:?}");
    }

    #[test]
    fn paths_from_the_top_and_hosts_are_found() {
        for (refused, _) in REFUSED {
            check_count(&format!("see {refused}x"), 1);
        }
        check_count(&format!("frame{}x", REFUSED[2].0), 0);
    }
}
