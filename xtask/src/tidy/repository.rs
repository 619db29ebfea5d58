//! Files of the repository, as the checks see them.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::rust_text::RustText;

/// Size limit of a file: 256 KiB. An estimate: the largest text that belongs here, the lock file,
/// has a third of it. Larger files are refused unread.
pub(super) const FILE_BYTES_MAX: u64 = 256 * 1024;

/// Files that git tracks, or would track if they were added.
pub(super) struct Repository {
    pub(super) files: Vec<File>,
}

pub(super) struct File {
    /// Path from the top of the checkout, with `/`.
    pub(super) path: String,
    pub(super) bytes: u64,
    /// `None` if the file is too large or not UTF-8.
    pub(super) text: Option<String>,
    /// Rust files only.
    pub(super) rust: Option<RustText>,
}

impl Repository {
    pub(super) fn read(root: &Path) -> Result<Self, String> {
        let listing = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(root)
            .output()
            .map_err(|error| format!("git did not start: {error}"))?;
        if !listing.status.success() {
            return Err(format!("git: {}", String::from_utf8_lossy(&listing.stderr).trim()));
        }
        let listing = String::from_utf8_lossy(&listing.stdout).into_owned();
        let mut paths: Vec<&str> = listing.split('\0').filter(|path| !path.is_empty()).collect();
        paths.sort_unstable();
        paths.dedup();
        // A tracked file may be missing from the working tree; it is skipped.
        Ok(Self { files: paths.iter().filter_map(|path| File::read(root, path)).collect() })
    }

    /// A repository for tests.
    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let file = |(path, text): &(&str, &str)| {
            let bytes = u64::try_from(text.len()).unwrap_or(u64::MAX);
            File::new(path, bytes, Some((*text).to_owned()))
        };
        Self { files: files.iter().map(file).collect() }
    }

    /// Text of a file; empty if there is none.
    pub(super) fn text(&self, path: &str) -> &str {
        let file = self.files.iter().find(|file| file.path == path);
        file.and_then(|file| file.text.as_deref()).unwrap_or_default()
    }

    /// Rust files with their scanned text.
    pub(super) fn rust(&self) -> impl Iterator<Item = (&File, &RustText)> {
        self.files.iter().filter_map(|file| Some((file, file.rust.as_ref()?)))
    }

    /// Folders under `crates/` with a manifest, in order.
    pub(super) fn crates(&self) -> impl Iterator<Item = &str> {
        self.files.iter().filter_map(|file| {
            let name = file.path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")?;
            (!name.contains('/')).then_some(name)
        })
    }

    /// Root source file of a crate.
    pub(super) fn crate_root(&self, name: &str) -> Option<&File> {
        let roots = [format!("crates/{name}/src/lib.rs"), format!("crates/{name}/src/main.rs")];
        roots.iter().find_map(|path| self.files.iter().find(|file| file.path == *path))
    }
}

impl File {
    fn read(root: &Path, path: &str) -> Option<Self> {
        let full = root.join(path);
        let metadata = fs::metadata(&full).ok().filter(fs::Metadata::is_file)?;
        let text = if FILE_BYTES_MAX < metadata.len() {
            None
        } else {
            String::from_utf8(fs::read(&full).ok()?).ok()
        };
        Some(Self::new(path, metadata.len(), text))
    }

    fn new(path: &str, bytes: u64, text: Option<String>) -> Self {
        let rust = text.as_deref().filter(|_| path.ends_with(".rs")).map(RustText::scan);
        Self { path: path.to_owned(), bytes, text, rust }
    }

    /// True if the whole file is test code: `tests.rs`, or any file under a folder `tests`.
    pub(super) fn is_test(&self) -> bool {
        self.path.ends_with("/tests.rs") || self.path.split('/').any(|part| part == "tests")
    }
}
