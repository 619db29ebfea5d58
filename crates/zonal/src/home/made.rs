//! Files created by a start, removed again when the start fails.

use std::fs;
use std::path::PathBuf;

/// Files and folders that were not there before. They are removed with this, unless they are kept.
#[derive(Debug, Default)]
pub(super) struct Made(Vec<PathBuf>);

impl Made {
    /// Notes what is made next, a folder before what is made in it.
    ///
    /// Requires: it is not there, and nobody else makes it.
    pub(super) fn note(&mut self, path: PathBuf) {
        self.0.push(path);
    }

    /// The start was good.
    pub(super) fn keep(&mut self) {
        self.0.clear();
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        // A folder goes only when it is empty: what others put there is theirs. Some of it was never made,
        // and what cannot be removed does no harm.
        for path in self.0.iter().rev() {
            let _ = fs::remove_file(path).or_else(|_| fs::remove_dir(path));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_kept_goes_and_what_others_put_there_stays() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let make = || {
            let mut made = Made::default();
            for folder in ["a", "a/b", "c"] {
                made.note(at(folder));
                fs::create_dir(at(folder)).unwrap();
            }
            made.note(at("a/b/file"));
            fs::write(at("a/b/file"), "").unwrap();
            made.note(at("never"));
            made
        };
        let made = make();
        fs::write(at("c/of another"), "").unwrap();
        drop(made);
        let left = |name: &str| at(name).exists();
        assert_eq!(["a", "c", "c/of another"].map(left), [false, true, true]);
        fs::remove_dir_all(at("c")).unwrap();
        make().keep();
        assert!(["a/b/file", "c"].map(left).iter().all(|is_there| *is_there));
    }
}
