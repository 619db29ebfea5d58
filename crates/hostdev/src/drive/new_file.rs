//! Rollback of a new device file: a failed start removes the file that it created.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use super::{OpenError, find};

/// Truncates the file on drop, and removes it if this start created it, unless `keep` was called.
#[derive(Debug)]
pub(super) struct NewFile {
    file: File,
    path: PathBuf,
    /// The file existed before, and was empty.
    was_there: bool,
    stays: AtomicBool,
}

impl NewFile {
    /// A file that this start has just created.
    pub(super) fn made(file: File, path: &Path) -> Self {
        Self { file, path: path.into(), was_there: false, stays: AtomicBool::new(false) }
    }

    /// A file that existed and was empty.
    pub(super) fn found_empty(file: &File, path: &Path) -> Result<Self, OpenError> {
        let fail = |source: io::Error| OpenError::Io { action: "open", path: path.into(), source };
        let file = file.try_clone().map_err(fail)?;
        Ok(Self { file, path: path.into(), was_there: true, stays: AtomicBool::new(false) })
    }

    pub(super) fn keep(&self) {
        self.stays.store(true, Ordering::Relaxed);
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if *self.stays.get_mut() {
            return;
        }
        // Errors are ignored: the start has already failed and reports why.
        let _ = self.file.set_len(0);
        if !self.was_there && find::leads_to(&self.path, &self.file) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
