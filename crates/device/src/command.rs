//! What a device is asked and what it answers.

use alloc::vec::Vec;

use zonal_base::{Blocks, Buffer, Lba, Payload, ZoneId};

use crate::{Action, DeviceError, ZoneState};

/// A command. Its buffers belong to the device until it is answered.
#[derive(Debug)]
pub enum Command {
    /// Read `blocks` from `lba` into the front of `buffer`, within one zone.
    /// Requires: `0 < blocks <= buffer.blocks()`.
    Read {
        /// First block.
        lba: Lba,
        /// How many.
        blocks: Blocks,
        /// Where to; comes back in [`Answer::Read`].
        buffer: Buffer,
    },
    /// Write `data`, one piece after the other, at `lba`, which must be the zone's write pointer.
    /// Requires: at least one piece; each starts at a block-aligned address and is whole blocks.
    Write {
        /// The zone's write pointer.
        lba: Lba,
        /// The pieces.
        data: Vec<Payload>,
    },
    /// Zone Append: like a write, but the device says where it went. Requires: as for `Write`.
    Append {
        /// The zone.
        zone: ZoneId,
        /// The pieces.
        data: Vec<Payload>,
    },
    /// Zone Management Send: open, close, finish or reset.
    Manage {
        /// The zone.
        zone: ZoneId,
        /// Not `Write` nor `WriteToCapacity`: those are refused as unsupported.
        action: Action,
    },
    /// Zone Management Receive: the state of `count` zones from `first` on (fewer at the end).
    /// Also what makes a zone writable again after a failed write.
    Report {
        /// First zone.
        first: ZoneId,
        /// How many.
        count: u32,
    },
    /// Conventional devices only: the owner found, in what it had written before a restart, where
    /// the zone's write pointer is. Allowed on an `Empty` zone; makes it `Closed`, or `Full` when
    /// `written` is the whole capacity.
    Restore {
        /// The zone.
        zone: ZoneId,
        /// Blocks written since the zone's last reset.
        written: Blocks,
    },
    /// Everything that was answered before this command was submitted survives a power cut.
    Flush,
}

/// What a device answers when it did as asked.
#[derive(Debug)]
pub enum Answer {
    /// The buffer, filled.
    Read(Buffer),
    /// Where the data went.
    Written(Lba),
    /// The zones, in order.
    Report(Vec<ZoneReport>),
    /// Done; nothing to tell.
    Done,
}

/// The answer to a command.
pub type Completion = Result<Answer, DeviceError>;

/// One zone as the device sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneReport {
    /// Which one.
    pub zone: ZoneId,
    /// Its state.
    pub state: ZoneState,
    /// Blocks between the start of the zone and its write pointer; the capacity when it is `Full`.
    pub written: Blocks,
}
