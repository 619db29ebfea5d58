//! A file created by a start, removed again when the start fails.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use super::{OpenError, find};

/// Undoes what was done to the file when it is dropped, unless the file is to stay.
#[derive(Debug)]
pub(super) struct NewFile {
    file: File,
    path: PathBuf,
    /// It was there before, and empty.
    was_there: bool,
    stays: AtomicBool,
}

impl NewFile {
    /// The file was made just now.
    pub(super) fn made(file: File, path: &Path) -> Self {
        Self { file, path: path.into(), was_there: false, stays: AtomicBool::new(false) }
    }

    /// The file was there, and nothing was in it.
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
        // What cannot be undone is left: the start has failed, and says why.
        let _ = self.file.set_len(0);
        if !self.was_there && find::leads_to(&self.path, &self.file) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
