//! Start-up rollback: files created by a start are removed again if it fails.

use std::fs;
use std::path::PathBuf;

/// New files and folders. Dropping the value removes them, unless `keep` was called.
#[derive(Debug, Default)]
pub(super) struct CreatedFiles(Vec<PathBuf>);

impl CreatedFiles {
    /// Records a path before it is created, a folder before its contents.
    ///
    /// Requires: the path does not exist, and no other process creates it.
    pub(super) fn note(&mut self, path: PathBuf) {
        self.0.push(path);
    }

    /// Keeps all files: the start has succeeded.
    pub(super) fn keep(&mut self) {
        self.0.clear();
    }
}

impl Drop for CreatedFiles {
    fn drop(&mut self) {
        // A folder is removed only if it is empty, so that other users' files stay. Some paths were
        // never created, and a failed removal does no harm.
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
            let mut made = CreatedFiles::default();
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
