//! Refuses module names that say nothing.

use super::Problem;
use super::repository::Repository;

const REFUSED: &[&str] = &["utils", "util", "common", "helpers", "helper", "misc"];

pub(super) fn check(repository: &Repository) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (file, rust) in repository.rust() {
        let parts = file.path.trim_end_matches(".rs").split('/');
        problems.extend(parts.filter(|part| REFUSED.contains(part)).map(|part| {
            Problem::of_file(&file.path, format!("`{part}` says nothing: name what it does"))
        }));
        // Modules with their own file are found by the file.
        for at in rust.words("mod") {
            let rest = rust.code[at + "mod".len()..].trim_start();
            let name: String =
                rest.chars().take_while(|&c| c.is_alphanumeric() || c == '_').collect();
            let is_inline = rest[name.len()..].trim_start().starts_with('{');
            if is_inline && REFUSED.contains(&name.as_str()) {
                let what = format!("`{name}` says nothing: name what it does");
                problems.push(Problem::at(&file.path, rust.line_of(at), what));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::{Repository, check};

    #[test]
    fn empty_names_are_refused_as_files_folders_and_inline_modules() {
        let files = [
            ("crates/a/src/utils.rs", ""),
            ("crates/a/src/common/b.rs", ""),
            ("crates/a/src/c.rs", "mod helpers { }\nmod d { }\nmod misc;"),
            ("crates/a/src/utilisation.rs", ""),
        ];
        let lines: Vec<usize> =
            check(&Repository::of(&files)).iter().map(|problem| problem.line).collect();
        assert_eq!(lines, [0, 0, 1]);
    }
}
