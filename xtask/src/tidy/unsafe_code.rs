//! Allows `unsafe` in one crate only, so that an audit has one place to read.

use super::Problem;
use super::repository::Repository;

const ALLOWED: &str = "crates/hostdev/";

pub(super) fn check(repository: &Repository) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (file, rust) in repository.rust().filter(|(file, _)| !file.path.starts_with(ALLOWED)) {
        problems.extend(rust.words("unsafe").map(|at| {
            Problem::at(&file.path, rust.line_of(at), format!("`unsafe` belongs in {ALLOWED} only"))
        }));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::{Problem, Repository, check};

    #[test]
    fn unsafe_is_found_in_code_outside_hostdev() {
        let files = [
            ("crates/hostdev/src/ring.rs", "unsafe { }"),
            ("crates/base/src/a.rs", "// unsafe\n#![deny(unsafe_code)]\nunsafe { }"),
        ];
        let what = "`unsafe` belongs in crates/hostdev/ only";
        assert_eq!(check(&Repository::of(&files)), [Problem::at("crates/base/src/a.rs", 3, what)]);
    }
}
