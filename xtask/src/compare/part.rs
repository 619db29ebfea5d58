//! Context of a part of a record, and the writing of its files.

use std::fs;
use std::path::{Path, PathBuf};

use super::program::Programs;

/// A tree that is being recorded, and the folder of one part of its record.
pub(super) struct Context {
    /// Top of the tree.
    pub(super) tree: PathBuf,
    pub(super) programs: Programs,
    /// Number of histories of each kind.
    pub(super) seeds: u32,
    /// Working folder of commands: empty at the start of a part, removed at its end.
    pub(super) scratch: PathBuf,
    /// Folder of the part's files.
    pub(super) folder: PathBuf,
}

impl Context {
    /// Writes one file of the part. An empty file is an error, because it would equal another empty
    /// one.
    pub(super) fn write(&self, name: &str, text: &str) -> Result<(), String> {
        if text.trim().is_empty() {
            return Err(format!("the record {name} came out empty"));
        }
        write(&self.folder.join(name), text)
    }
}

/// Creates a folder and its parents.
pub(super) fn make_folder(path: &Path) -> Result<(), String> {
    fs::create_dir_all(path).map_err(|error| format!("{}: {error}", path.display()))
}

pub(super) fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

pub(super) fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Names in a folder, sorted; none if there is no folder.
pub(super) fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    names
}

/// FNV-1a: enough to detect a difference, and needs no crate.
pub(super) fn hash(bytes: &[u8]) -> u64 {
    const OFFSET: u64 = 0xCBF2_9CE4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01B3;
    bytes.iter().fold(OFFSET, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}
