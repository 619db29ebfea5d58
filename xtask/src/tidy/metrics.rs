//! Checks that all exported metrics are documented, and all documented metrics are exported.

use std::collections::BTreeMap;

use super::Problem;
use super::repository::Repository;

const PAGE: &str = "docs/metrics.md";
const PREFIX: &str = "zonal_";

pub(super) fn check(repository: &Repository) -> Vec<Problem> {
    let exported = exported(repository);
    let documented = documented(repository.text(PAGE));
    let mut problems = Vec::new();
    for (name, (path, line)) in &exported {
        if !documented.contains_key(name) {
            problems.push(Problem::at(path, *line, format!("`{name}` is not in {PAGE}")));
        }
    }
    for (name, line) in &documented {
        if !exported.contains_key(name) {
            problems.push(Problem::at(PAGE, *line, format!("nothing exports `{name}`")));
        }
    }
    problems
}

/// Names in string literals of the crates without tests, with the first place of each.
fn exported(repository: &Repository) -> BTreeMap<String, (String, usize)> {
    let mut names = BTreeMap::new();
    for (file, rust) in repository.rust() {
        if file.is_test() || !file.path.starts_with("crates/") {
            continue;
        }
        let literals = rust.strings.iter().filter(|(line, _)| !rust.line_in_test(*line));
        for (line, name) in literals.filter_map(|(line, text)| Some((line, metric(text)?))) {
            if repository.crates().all(|krate| name.strip_prefix(PREFIX) != Some(krate)) {
                names.entry(name.to_owned()).or_insert_with(|| (file.path.clone(), *line));
            }
        }
    }
    names
}

/// Metric name at the start of a literal. A prefix is no name, nor is a crate's name in a log
/// filter.
fn metric(literal: &str) -> Option<&str> {
    let end = literal
        .find(|c: char| !c.is_ascii_lowercase() && !c.is_ascii_digit() && c != '_')
        .unwrap_or(literal.len());
    let (name, rest) = literal.split_at(end);
    let is_whole = rest.is_empty() || rest.starts_with([' ', '{']);
    (name.starts_with(PREFIX) && !name.ends_with('_') && is_whole).then_some(name)
}

/// Names in backticks on the page of metrics.
fn documented(page: &str) -> BTreeMap<String, usize> {
    let mut names = BTreeMap::new();
    for (line, number) in page.lines().zip(1..) {
        for name in line.split('`').skip(1).step_by(2).filter_map(metric) {
            names.entry(name.to_owned()).or_insert(number);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::{Repository, check};

    #[track_caller]
    fn check_problems(code: &str, page: &str, expected: &[&str]) {
        let files = [
            ("crates/cache/Cargo.toml", ""),
            ("crates/cache/src/stats.rs", code),
            ("docs/metrics.md", page),
        ];
        let problems = check(&Repository::of(&files));
        let found: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn metrics_and_their_page_agree() {
        check_problems("f(\"zonal_gets_total\")", "| `zonal_gets_total` | x |", &[]);
        check_problems(
            "\nf(\"zonal_gets_total\")",
            "| `zonal_puts_total{bucket}` | x |",
            &[
                "crates/cache/src/stats.rs:2: `zonal_gets_total` is not in docs/metrics.md",
                "docs/metrics.md:1: nothing exports `zonal_puts_total`",
            ],
        );
    }

    #[test]
    fn log_filters_prefixes_and_tests_are_no_metrics() {
        check_problems("f(\"zonal_cache=info\", \"zonal_cache\", \"zonal_\")", "", &[]);
        check_problems("#[cfg(test)]\nmod tests { f(\"zonal_x\") }", "", &[]);
    }
}
