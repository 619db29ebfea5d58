//! Text checks: rules that the compiler cannot check.
//!
//! Each check is a function from the repository's files to problems, in its own file. A problem has
//! a place, and says what to do.

mod crate_docs;
mod crate_table;
mod flags;
pub(crate) mod golden;
mod machine_paths;
mod metrics;
mod module_names;
mod no_std;
mod paths;
mod prose;
mod ratchet;
mod refused;
mod repository;
mod unsafe_code;

use std::fmt;
use std::path::Path;

use repository::Repository;

/// A violation of a rule.
#[derive(Debug, PartialEq, Eq)]
struct Problem {
    path: String,
    /// Line, counted from 1; 0 for the file as a whole.
    line: usize,
    what: String,
}

impl Problem {
    fn at(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into() }
    }

    fn of_file(path: &str, what: impl Into<String>) -> Self {
        Self::at(path, 0, what)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(out, "{}: {}", self.path, self.what),
            line => write!(out, "{}:{line}: {}", self.path, self.what),
        }
    }
}

const CHECKS: &[fn(&Repository) -> Vec<Problem>] = &[
    crate_docs::check,
    crate_table::check,
    flags::check,
    golden::check,
    machine_paths::check,
    metrics::check,
    module_names::check,
    no_std::check,
    paths::check,
    prose::check,
    ratchet::check,
    refused::check,
    unsafe_code::check,
];

/// Runs all checks and prints the problems. True if there are none.
pub(crate) fn run(root: &Path) -> bool {
    let repository = match Repository::read(root) {
        Ok(repository) => repository,
        Err(why) => {
            eprintln!("tidy: {why}");
            return false;
        }
    };
    let problems: Vec<Problem> = CHECKS.iter().flat_map(|check| check(&repository)).collect();
    for problem in &problems {
        println!("{problem}");
    }
    println!("tidy: {} files, {} problems", repository.files.len(), problems.len());
    problems.is_empty()
}
