//! An NVMe namespace by its generic character device (`/dev/ngXnY`), which takes NVMe commands as they are.

use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;

use zonal_base::BLOCK_BYTES;

use super::passthrough::Passthrough;
use super::{Queue, ZonesError};
use crate::OpenError;

/// A namespace that takes zone appends.
#[derive(Debug)]
pub(crate) struct Generic {
    file: File,
    limits: Limits,
}

/// What commands to a namespace have to keep to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Its number, which each of them names.
    pub(super) namespace: u32,
    /// The block that they count in, in bytes.
    pub(super) block_bytes: u32,
    /// The most that one of them moves, in bytes: whole blocks of ours.
    pub(super) bytes_max: usize,
}

impl Generic {
    /// Opens the namespace that the kernel tells of, and sees whether it takes commands.
    ///
    /// # Errors
    /// When it is none, or this process may not give it commands.
    pub(crate) fn of(queue: &Queue, path: &Path) -> Result<Self, OpenError> {
        let generic = Self::find(queue);
        generic.map_err(|why| OpenError::zones(path, ZonesError::NoAppends(why)))
    }

    fn find(queue: &Queue) -> Result<Self, String> {
        const NO_NVME: &str = "it is no NVMe drive";
        let name = queue.name.strip_prefix("nvme").ok_or(NO_NVME)?;
        let namespace = queue.namespace.ok_or(NO_NVME)?;
        let (append, segments) = queue
            .append_max
            .zip(queue.segments_max)
            .ok_or("the kernel does not tell its limits")?;
        let block_bytes = queue.logical_block.ok_or("the kernel does not tell its blocks")?;
        // Each of our blocks may lie somewhere else in memory.
        let blocks = (append as usize / BLOCK_BYTES).min(segments as usize);
        if blocks == 0 {
            return Err(format!("its commands move {append} bytes at most"));
        }
        let path = format!("/dev/ng{name}");
        let failed = |error: io::Error| format!("{path}: {error}");
        let file = File::options().read(true).write(true).open(&path).map_err(failed)?;
        let limits = Limits { namespace, block_bytes, bytes_max: blocks * BLOCK_BYTES };
        Passthrough::probe(&file, limits).map_err(failed)?;
        Ok(Self { file, limits })
    }

    /// A queue of its own, of so many commands, that raises `wake` when one was carried out.
    pub(super) fn open(&self, depth: u32, wake: BorrowedFd<'_>) -> io::Result<Passthrough> {
        Passthrough::new(&self.file, self.limits, depth, wake)
    }
}
