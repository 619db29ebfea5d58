//! Exports (volumes), block addresses, and the errors of requests.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use zonal_base::{Blocks, Lba, Payload};

use crate::format::{EntryKind, Key, PAGE_SPAN};
use crate::{OpenError, Tier};

/// A volume: an address space of its own that begins at block 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// Name that clients connect to: 1 to 64 bytes, unique.
    pub name: String,
    /// Tenant name: 1 to 64 bytes. Exports of one tenant share zones and counters.
    pub tenant: String,
    /// Size in blocks, which is also the quota. It may grow from one opening to the next, and never
    /// shrinks.
    pub blocks: Blocks,
    /// True if each read verifies the checksums of its blocks. Not stored on flash: exports that an
    /// opening does not name are verified.
    pub is_verified: bool,
}

/// Index of an export in [`Shaper::exports`](crate::Shaper::exports). It is stored on flash and
/// stays the same until the devices are formatted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExportId(pub u16);

/// True if the key addresses something that exists with these exports.
pub(crate) fn has_block(exports: &[Export], key: Key) -> bool {
    let export = exports.get(usize::from(key.export().0));
    match key.kind() {
        EntryKind::Data | EntryKind::Lost | EntryKind::Trim => {
            export.is_some_and(|export| key.number() < export.blocks.0)
        }
        EntryKind::Page | EntryKind::PageCopy => {
            export.is_some_and(|export| key.number() * PAGE_SPAN < export.blocks.0)
        }
        EntryKind::Table => key == Key::TABLE,
        EntryKind::TableCopy => key == Key::TABLE.copy(),
        EntryKind::Zones | EntryKind::ZonesCopy | EntryKind::Released => true,
    }
}

/// Exports on the devices, changed as requested, and behind them the new ones.
pub(crate) fn merge(old: &[Export], wanted: &[Export]) -> Result<Vec<Export>, OpenError> {
    let mut exports = old.to_vec();
    for export in wanted {
        match exports.iter_mut().find(|known| known.name == export.name) {
            None => exports.push(export.clone()),
            Some(known) if known.tenant != export.tenant => {
                return Err(OpenError::OtherTenant(export.name.clone()));
            }
            Some(known) if export.blocks < known.blocks => {
                return Err(OpenError::Shrunk(export.name.clone()));
            }
            Some(known) => {
                (known.blocks, known.is_verified) = (export.blocks, export.is_verified);
            }
        }
    }
    Ok(exports)
}

/// True if merged exports have the table of the old ones. Verification is not in it.
pub(crate) fn is_same_table(old: &[Export], merged: &[Export]) -> bool {
    old.len() == merged.len() && old.iter().zip(merged).all(|(old, new)| old.blocks == new.blocks)
}

/// A contiguous range of blocks of one export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The export that has the range.
    pub export: ExportId,
    /// First block, counted from the start of the export.
    pub first: Lba,
    /// Length in blocks.
    pub blocks: Blocks,
}

/// When a write or a trim is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// When the device completes the write: it survives the end of the process.
    Answered,
    /// After a flush, too (FUA): it survives a power cut.
    Durable,
}

/// One part of a read's data; the parts of a read are in order.
#[derive(Clone, Debug)]
pub enum Piece {
    /// Whole blocks, at a block-aligned memory address.
    Data(Payload),
    /// This many unmapped blocks, never written or trimmed. They read as zeros.
    Zeros(Blocks),
}

/// Contiguous blocks with the same status, for block status queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Length in blocks.
    pub blocks: Blocks,
    /// False for a hole (unmapped blocks), which reads as zeros.
    pub is_mapped: bool,
}

/// Why a request to the block device failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockError {
    /// Invalid request: no such export, blocks beyond its end, or a read longer than
    /// [`Settings::READ_BLOCKS`](crate::Settings::READ_BLOCKS).
    OutOfRange,
    /// Invalid request: not whole blocks at block-aligned addresses, or no blocks.
    Misaligned,
    /// These blocks are permanently unreadable. Writing or trimming them makes them good again.
    Unreadable,
    /// The device returned something other than what was written to these blocks. Writing or
    /// trimming them makes them good again.
    Corrupt,
    /// The device of this tier takes no writes, for instance because a thin pool is full. Reads go
    /// on, and writes as soon as it takes them.
    ReadOnly(Tier),
    /// Too many zones of the capacity tier are worn out for the stored data: trim, or copy the data
    /// elsewhere. Reads go on.
    NoSpace,
    /// The buffer device does not answer, or failed too often. All writes and flushes fail, and
    /// blocks in the buffer cannot be read. Acknowledged data are safe if the device comes back.
    BufferGone,
    /// The capacity device does not answer: blocks there cannot be read. Writes continue until the
    /// buffer is full.
    CapacityGone,
    /// The block device is shutting down: no blocks are moved any more.
    Closing,
}

impl fmt::Display for BlockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OutOfRange => "beyond the end of the export",
            Self::Misaligned => "not whole blocks of 4 KiB",
            Self::Unreadable => "the device cannot read these blocks any more",
            Self::Corrupt => "the content of these blocks does not fit its checksum",
            Self::ReadOnly(Tier::Buffer) => "the buffer device takes no writes",
            Self::ReadOnly(Tier::Capacity) => "the capacity device takes no writes",
            Self::NoSpace => "no zone is left to write to: too many are worn out",
            Self::BufferGone => "the buffer device failed",
            Self::CapacityGone => "the capacity device failed",
            Self::Closing => "the block device is being closed",
        })
    }
}

impl core::error::Error for BlockError {}
