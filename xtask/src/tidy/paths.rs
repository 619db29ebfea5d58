//! Checks that the paths which pages name in backticks exist. Links have a stage of their own.
//!
//! Fenced blocks are skipped. A path begins with a folder of the repository (`crates/base`) or ends
//! like a source file (`get.rs`). The end of a path is enough, if some file has it.

use super::Problem;
use super::repository::{File, Repository};

const PAGES: &[&str] = &["ARCHITECTURE.md", "README.md", "CONTRIBUTING.md"];

/// Folders at the top of the repository.
const FOLDERS: &[&str] = &[".cargo/", ".ci/", "config/", "crates/", "docs/", "tests/", "xtask/"];

/// Endings of the project's file names.
const ENDINGS: &[&str] = &[".md", ".py", ".rs", ".sh", ".toml"];

pub(super) fn check(repository: &Repository) -> Vec<Problem> {
    let pages = repository.files.iter().filter(|file| {
        PAGES.contains(&file.path.as_str())
            || (file.path.starts_with("docs/") && file.path.ends_with(".md"))
    });
    pages.flat_map(|page| check_page(repository, page)).collect()
}

fn check_page(repository: &Repository, page: &File) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut is_fenced = false;
    for (line, number) in page.text.as_deref().unwrap_or_default().lines().zip(1..) {
        if line.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
        }
        if is_fenced {
            continue;
        }
        let gone = quoted(line).filter(|path| is_path(path) && !exists(repository, path));
        problems.extend(gone.map(|path| {
            Problem::at(&page.path, number, format!("`{path}` does not exist in the repository"))
        }));
    }
    problems
}

/// Text in single backticks.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

fn is_path(text: &str) -> bool {
    let is_plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "._-/".contains(c));
    let in_folder = FOLDERS.iter().any(|folder| text.starts_with(folder));
    let is_file = ENDINGS.iter().any(|end| text.len() > end.len() && text.ends_with(end));
    // Absolute paths are those of an installed system.
    is_plain && !text.starts_with('/') && (in_folder || is_file)
}

fn exists(repository: &Repository, path: &str) -> bool {
    let path = path.trim_end_matches('/');
    let (folder, tail) = (format!("{path}/"), format!("/{path}"));
    repository.files.iter().any(|file| {
        file.path == path || file.path.starts_with(&folder) || file.path.ends_with(&tail)
    })
}

#[cfg(test)]
mod tests {
    use super::{Repository, check};

    #[track_caller]
    fn check_count(page: &str, expected: usize) {
        let files = [
            ("docs/life/page.md", page),
            ("docs/glossary.md", ""),
            ("crates/cache/src/get.rs", ""),
        ];
        assert_eq!(check(&Repository::of(&files)).len(), expected, "for {page:?}");
    }

    #[test]
    fn quoted_paths_exist_in_full_or_as_an_ending() {
        check_count("`crates/cache`, `crates/cache/src/get.rs`, `get.rs`, `src/get.rs`", 0);
        check_count("`crates/shaper` and `put.rs`", 2);
    }

    #[test]
    fn what_is_no_path_of_ours_is_left_alone() {
        check_count("`GET /bucket/key`, `file:PATH`, `crates/<name>`, `.rs`, `a/b`", 0);
        check_count("```\n`crates/none`\n```", 0);
    }
}
