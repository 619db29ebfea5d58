//! Path mapping: the file of a bucket and key, and the names that never become a file.

use std::path::{Path, PathBuf};

/// Folder in each bucket for uploads before they are renamed. No key can name it.
pub(crate) const UPLOADS: &str = ".zonal-uploads";

/// Longest key in bytes (S3's limit).
const KEY_BYTES_MAX: usize = 1024;

/// Longest file name in bytes on Linux file systems.
const NAME_BYTES_MAX: usize = 255;

/// Reason why a key cannot be a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotAFile {
    /// The path would leave the bucket, or be another spelling of another key: refuse the request.
    Leaves,
    /// No file can have this name: the object does not exist and cannot be created.
    Impossible,
}

/// The path of an object. The file may not exist.
pub(crate) fn file(root: &Path, bucket: &str, key: &str) -> Result<PathBuf, NotAFile> {
    if key.starts_with('/') || key.contains('\0') {
        return Err(NotAFile::Leaves);
    }
    let mut path = folder(root, bucket).ok_or(NotAFile::Impossible)?;
    let mut possible = key.len() <= KEY_BYTES_MAX;
    for name in key.split('/') {
        if name == "." || name == ".." {
            return Err(NotAFile::Leaves);
        }
        possible &= !name.is_empty() && name.len() <= NAME_BYTES_MAX && name != UPLOADS;
        path.push(name);
    }
    if possible { Ok(path) } else { Err(NotAFile::Impossible) }
}

/// The folder of a bucket. `None` if no bucket can have this name.
pub(crate) fn folder(root: &Path, bucket: &str) -> Option<PathBuf> {
    let is_possible = !bucket.is_empty()
        && !bucket.starts_with('.')
        && bucket.len() <= NAME_BYTES_MAX
        && !bucket.contains(['/', '\0']);
    is_possible.then(|| root.join(bucket))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bucket: &str, key: &str, expected: Result<&str, NotAFile>) {
        let path = file(Path::new("/root"), bucket, key);
        assert_eq!(path, expected.map(PathBuf::from), "{bucket:?} {key:?}");
    }

    #[test]
    fn a_key_is_a_path_below_its_bucket() {
        check("b", "k", Ok("/root/b/k"));
        check("b", "a/b c/Ω.txt", Ok("/root/b/a/b c/Ω.txt"));
        check("b", "..a/b..", Ok("/root/b/..a/b.."));
    }

    #[test]
    fn no_name_leads_out_of_the_folder_or_to_another_key() {
        for key in ["..", "../k", "a/../k", "a/..", "./k", "a/./k", "/etc/passwd", "a\0b", "/"] {
            check("b", key, Err(NotAFile::Leaves));
        }
        for bucket in ["", ".", "..", ".hidden", "a/b", "../b", "/b", "b\0"] {
            check(bucket, "k", Err(NotAFile::Impossible));
        }
    }

    #[test]
    fn names_that_no_file_has_are_told_apart_from_attempts_to_leave() {
        let long = "x".repeat(256);
        for key in ["", "a/", "a//b", ".zonal-uploads/1", &long, &"x/".repeat(600)] {
            check("b", key, Err(NotAFile::Impossible));
        }
    }
}
