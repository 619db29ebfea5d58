//! Checks that only crates with flags print flags: libraries state facts, and programs know their
//! command line.

use super::Problem;
use super::repository::Repository;

/// Commands that a library must not name.
const COMMANDS: [&str; 7] = [
    "zonal serve",
    "zonal block",
    "zonal cache",
    "zonal device",
    "zonal inspect",
    "zonal-lab ",
    "zonal format",
];

pub(super) fn check(repository: &Repository) -> Vec<Problem> {
    let libraries: Vec<String> = repository
        .crates()
        .filter(|name| !repository.text(&format!("crates/{name}/Cargo.toml")).contains("\nclap"))
        .map(|name| format!("crates/{name}/src/"))
        .collect();
    let is_library = |path: &str| libraries.iter().any(|library| path.starts_with(&**library));
    let mut problems = Vec::new();
    for (file, rust) in repository.rust().filter(|(file, _)| is_library(&file.path)) {
        if file.is_test() {
            continue;
        }
        let strings = rust.strings.iter().filter(|(line, _)| !rust.line_in_test(*line));
        problems.extend(strings.filter(|(_, text)| names_a_flag(text)).map(|(line, _)| {
            let what = "a library names no flag and no command: state the fact, and let the program advise";
            Problem::at(&file.path, *line, what)
        }));
    }
    problems
}

fn names_a_flag(text: &str) -> bool {
    let begins_a_word = |at: usize| {
        let before = text[..at].chars().next_back();
        before.is_none_or(|c| c.is_whitespace() || "('`\"".contains(c))
    };
    let is_flag = |at: usize| {
        let after = text[at + 2..].chars().next();
        begins_a_word(at) && after.is_some_and(|c| c.is_ascii_lowercase())
    };
    text.match_indices("--").any(|(at, _)| is_flag(at))
        || COMMANDS.iter().any(|command| text.contains(command))
}

#[cfg(test)]
mod tests {
    use super::{Repository, check};

    #[track_caller]
    fn check_count(manifest: &str, source: &str, expected: usize) {
        let files = [("crates/a/Cargo.toml", manifest), ("crates/a/src/b.rs", source)];
        assert_eq!(check(&Repository::of(&files)).len(), expected, "{source}");
    }

    #[test]
    fn flags_and_commands_are_found_in_strings_of_libraries() {
        let library = "[dependencies]\nbytes = \"1\"\n";
        check_count(library, "fn f() { \"write --shards 3\" }", 1);
        check_count(library, "fn f() { \"take fewer (--shards)\" }", 1);
        check_count(library, "fn f() { \"lose it: zonal device format\" }", 1);
        check_count(library, "// --shards\nfn f() { \"a--b\" }", 0);
        check_count(library, "#[cfg(test)]\nmod tests { fn f() { \"--shards\" } }", 0);
        check_count("[dependencies]\nclap = \"4\"\n", "fn f() { \"write --shards 3\" }", 0);
    }
}
