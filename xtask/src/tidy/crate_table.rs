//! Checks that the table "Crates" of ARCHITECTURE.md agrees with the manifests.
//!
//! A row is `` | `name` | no_std | `base`, `device` | what it is | ``. The second cell is `no_std`
//! or `std`; the third lists the project's own crates, or `—` for none.

use std::collections::BTreeSet;

use super::Problem;
use super::repository::Repository;

const PAGE: &str = "ARCHITECTURE.md";

/// A row of the table.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) is_no_std: bool,
    dependencies: BTreeSet<String>,
    line: usize,
}

pub(super) fn check(repository: &Repository) -> Vec<Problem> {
    let rows = rows(repository);
    let mut problems = Vec::new();
    for name in repository.crates() {
        let manifest = format!("crates/{name}/Cargo.toml");
        let Some(row) = rows.iter().find(|row| row.name == name) else {
            let what = format!("`{name}` has no row in the table of crates in {PAGE}");
            problems.push(Problem::of_file(&manifest, what));
            continue;
        };
        let actual = own_dependencies(repository.text(&manifest));
        if actual != row.dependencies {
            let what = format!(
                "depends on [{}], but line {} of {PAGE} says [{}]",
                listed(&actual),
                row.line,
                listed(&row.dependencies)
            );
            problems.push(Problem::of_file(&manifest, what));
        }
    }
    let gone = rows.iter().filter(|row| repository.crates().all(|name| name != row.name));
    problems.extend(
        gone.map(|row| Problem::at(PAGE, row.line, format!("there is no crate `{}`", row.name))),
    );
    problems
}

/// Rows below the heading "Crates", up to the next heading.
pub(super) fn rows(repository: &Repository) -> Vec<Row> {
    let numbered = repository.text(PAGE).lines().zip(1..);
    let below = numbered.skip_while(|(line, _)| !is_heading(line) || !line.ends_with("Crates"));
    let section = below.skip(1).take_while(|(line, _)| !is_heading(line));
    section.filter_map(|(line, number)| row(line, number)).collect()
}

fn is_heading(line: &str) -> bool {
    line.starts_with('#')
}

fn row(line: &str, number: usize) -> Option<Row> {
    let cells: Vec<&str> = line.strip_prefix('|')?.split('|').map(str::trim).collect();
    let name = cells.first()?.strip_prefix('`')?.strip_suffix('`')?.to_owned();
    let dependencies = cells.get(2)?.split(',').map(|cell| cell.trim().trim_matches('`'));
    Some(Row {
        name,
        is_no_std: *cells.get(1)? == "no_std",
        dependencies: dependencies.filter(|name| *name != "—").map(str::to_owned).collect(),
        line: number,
    })
}

/// The project's own crates in the `[dependencies]` of a manifest, for any target.
fn own_dependencies(manifest: &str) -> BTreeSet<String> {
    let mut is_in_section = false;
    let mut names = BTreeSet::new();
    for line in manifest.lines().map(str::trim) {
        let key = if let Some(header) = line.strip_prefix('[') {
            let header = header.trim_end_matches(']');
            is_in_section = header == "dependencies" || header.ends_with(".dependencies");
            header.rsplit_once("dependencies.").map_or("", |(before, name)| {
                if before.is_empty() || before.ends_with('.') { name } else { "" }
            })
        } else if is_in_section {
            line.split(['=', '.', ' ']).next().unwrap_or_default()
        } else {
            ""
        };
        names.extend(key.strip_prefix("zonal-").map(str::to_owned));
    }
    names
}

fn listed(names: &BTreeSet<String>) -> String {
    names.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::{Repository, check};

    #[track_caller]
    fn check_problems(table: &str, manifest: &str, expected: &[&str]) {
        let page =
            format!("# Zonal\n\n## Crates\n\n| crate | |\n| --- | --- |\n{table}\n\n## More\n");
        let files = [("ARCHITECTURE.md", page.as_str()), ("crates/cache/Cargo.toml", manifest)];
        let problems = check(&Repository::of(&files));
        let found: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_manifest_that_agrees_with_its_row_is_fine() {
        let manifest = "[dependencies]\nzonal-base.workspace = true\n\
                        zonal-device = { path = \"x\" }\nbytes = \"1\"\n\
                        [dev-dependencies]\nzonal-sim.workspace = true\n";
        check_problems("| `cache` | no_std | `base`, `device` | x |", manifest, &[]);
        check_problems("| `cache` | no_std | — | x |", "[package]\nname = \"zonal-cache\"", &[]);
    }

    #[test]
    fn a_dependency_more_or_less_is_a_problem() {
        let manifest = "[target.'cfg(unix)'.dependencies]\nzonal-base = \"1\"\n\
                        [dependencies.zonal-host]\npath = \"x\"\n";
        let expected = "crates/cache/Cargo.toml: depends on [base, host], but line 7 of \
                        ARCHITECTURE.md says [base]";
        check_problems("| `cache` | no_std | `base` | x |", manifest, &[expected]);
    }

    #[test]
    fn crates_and_rows_come_in_pairs() {
        let expected = [
            "crates/cache/Cargo.toml: `cache` has no row in the table of crates in ARCHITECTURE.md",
            "ARCHITECTURE.md:7: there is no crate `shaper`",
        ];
        check_problems("| `shaper` | no_std | — | x |", "", &expected);
    }
}
