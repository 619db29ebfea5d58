//! Exports (volumes), block addresses, and the errors of requests.

use alloc::string::String;
use core::fmt;

use zonal_base::{Blocks, Lba, Payload};

use crate::format::{Key, Kind, PAGE_SPAN};

/// An address space of its own, from block 0 on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// What clients ask for: 1 to 64 bytes, one export of a name.
    pub name: String,
    /// Whose zones its data go to: 1 to 64 bytes. Exports of one tenant share zones and counters.
    pub tenant: String,
    /// Its size, which is also its quota. It may grow from one opening to the next and never shrinks.
    pub blocks: Blocks,
}

/// Names an export, in the order of [`Shaper::exports`](crate::Shaper::exports). Stays the same for the life of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExportId(pub u16);

/// True when there is such a block on these exports.
pub(crate) fn has_block(exports: &[Export], key: Key) -> bool {
    let export = exports.get(usize::from(key.export().0));
    match key.kind() {
        Kind::Data | Kind::Lost | Kind::Trim => {
            export.is_some_and(|export| key.number() < export.blocks.0)
        }
        Kind::Page => export.is_some_and(|export| key.number() * PAGE_SPAN < export.blocks.0),
        Kind::Table => key == Key::TABLE,
        Kind::Zones | Kind::Released => true,
    }
}

/// Blocks of one export that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Of which export.
    pub export: ExportId,
    /// The first of them, from 0.
    pub first: Lba,
    /// How many.
    pub blocks: Blocks,
}

/// When a write or a trim is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// When the device has answered it: it survives the end of the process.
    Answered,
    /// When it was flushed, too (FUA): it survives a power cut.
    Durable,
}

/// What was read, in order.
#[derive(Clone, Debug)]
pub enum Piece {
    /// Whole blocks, at a block-aligned address.
    Data(Payload),
    /// So many blocks that were never written or were trimmed: they read as zeros.
    Zeros(Blocks),
}

/// Neighbouring blocks of one kind, for block status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// How many.
    pub blocks: Blocks,
    /// False: a hole, which reads as zeros.
    pub is_mapped: bool,
}

/// Why the block device did not do what it was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockError {
    /// No such export, or blocks beyond its end: the request was wrong.
    OutOfRange,
    /// Not whole blocks at block-aligned addresses, or none: the request was wrong.
    Misaligned,
    /// These blocks cannot be read, neither now nor later; write or trim them, and they are good again.
    Unreadable,
    /// Too many zones of the capacity tier are worn out for what is stored: trim, or copy the data elsewhere. Reads go on.
    NoSpace,
    /// The buffer device does not answer, or failed too often: nothing can be written or flushed any more, and what lies there
    /// cannot be read. Whatever was acknowledged is safe if the device comes back.
    BufferGone,
    /// The capacity device does not answer: the same for what lies there. Writes go on until the buffer is full.
    CapacityGone,
    /// The block device is being closed: nothing is moved any more.
    Closing,
}

impl fmt::Display for BlockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OutOfRange => "beyond the end of the export",
            Self::Misaligned => "not whole blocks of 4 KiB",
            Self::Unreadable => "the device cannot read these blocks any more",
            Self::NoSpace => "no zone is left to write to: too many are worn out",
            Self::BufferGone => "the buffer device failed",
            Self::CapacityGone => "the capacity device failed",
            Self::Closing => "the block device is being closed",
        })
    }
}

impl core::error::Error for BlockError {}
