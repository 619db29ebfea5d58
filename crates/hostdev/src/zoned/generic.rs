//! NVMe generic character device (`/dev/ngXnY`), which takes raw NVMe commands.

use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;

use zonal_base::BLOCK_BYTES;

use super::passthrough::Passthrough;
use super::{Queue, ZonesError};
use crate::OpenError;

/// A namespace that takes zone appends by passthrough.
#[derive(Debug)]
pub(crate) struct Generic {
    file: File,
    limits: TransferLimits,
}

/// Limits of NVMe commands to a namespace.
#[derive(Clone, Copy, Debug)]
pub(super) struct TransferLimits {
    /// Namespace ID, which every command carries.
    pub(super) namespace: u32,
    /// Logical block size of the namespace, in bytes: commands count in these blocks.
    pub(super) block_bytes: u32,
    /// Maximum bytes of one command, a multiple of 4 KiB.
    pub(super) bytes_max: usize,
}

/// Maximum logical blocks of one command: NLB is a 0's based field of 16 bits.
pub(super) const COMMAND_BLOCKS_MAX: usize = 1 << 16;

impl TransferLimits {
    /// Limits of a namespace whose appends take `append` bytes in `segments` pieces of memory.
    /// `None` when that is less than one block of 4 KiB.
    fn of(namespace: u32, block_bytes: u32, (append, segments): (u32, u32)) -> Option<Self> {
        let bytes = (append as usize).min(COMMAND_BLOCKS_MAX * block_bytes as usize);
        // Each block of 4 KiB may lie elsewhere in memory.
        let blocks = (bytes / BLOCK_BYTES).min(segments as usize);
        let bytes_max = blocks * BLOCK_BYTES;
        (0 < blocks).then_some(Self { namespace, block_bytes, bytes_max })
    }
}

impl Generic {
    /// Opens the generic device of a namespace, and tests whether it takes passthrough commands.
    ///
    /// # Errors
    /// When the drive is not an NVMe drive, or this process may not send it commands.
    pub(crate) fn of(queue: &Queue, path: &Path) -> Result<Self, OpenError> {
        let generic = Self::find(queue);
        generic.map_err(|why| OpenError::zones(path, ZonesError::NoAppends(why)))
    }

    fn find(queue: &Queue) -> Result<Self, String> {
        const NO_NVME: &str = "it is not an NVMe drive";
        let name = queue.name.strip_prefix("nvme").ok_or(NO_NVME)?;
        let namespace = queue.namespace.ok_or(NO_NVME)?;
        let (append, segments) = queue
            .append_max
            .zip(queue.segments_max)
            .ok_or("the kernel does not report its limits")?;
        let block_bytes = queue.logical_block.ok_or("the kernel does not report its block size")?;
        let limits = TransferLimits::of(namespace, block_bytes, (append, segments))
            .ok_or_else(|| format!("its commands transfer at most {append} bytes"))?;
        let path = format!("/dev/ng{name}");
        let failed = |error: io::Error| format!("{path}: {error}");
        let file = File::options().read(true).write(true).open(&path).map_err(failed)?;
        Passthrough::probe(&file, limits).map_err(failed)?;
        Ok(Self { file, limits })
    }

    /// Opens a command queue of `depth` commands, which raises `wake` at each completion.
    pub(super) fn open(&self, depth: u32, wake: BorrowedFd<'_>) -> io::Result<Passthrough> {
        Passthrough::new(&self.file, self.limits, depth, wake)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn whatever_a_kernel_tells_a_command_moves_whole_blocks_of_which_it_can_name_the_number(
            block_bytes in prop_oneof![Just(512), Just(1024), Just(2048), Just(4096)],
            append in any::<u32>(), segments in any::<u32>(),
        ) {
            let Some(limits) = TransferLimits::of(1, block_bytes, (append, segments)) else {
                prop_assert!(append < 4096 || segments == 0);
                return Ok(());
            };
            let bytes = limits.bytes_max;
            prop_assert!(0 < bytes && bytes.is_multiple_of(BLOCK_BYTES));
            prop_assert!(bytes <= append as usize && bytes / BLOCK_BYTES <= segments as usize);
            prop_assert!(bytes / block_bytes as usize <= COMMAND_BLOCKS_MAX);
        }
    }
}
