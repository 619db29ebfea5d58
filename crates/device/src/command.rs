//! Commands and completions of a zoned device: read, write, append, zone management, report, flush.

use alloc::vec::Vec;

use zonal_base::{Blocks, Buffer, Lba, Payload, ZoneId};

use crate::{DeviceError, ZoneAction, ZoneState};

/// Command of the host. The device owns its buffers until it answers.
#[derive(Debug)]
pub enum Command {
    /// Read `blocks` from `lba` into the front of `buffer`, within one zone.
    /// Requires: `0 < blocks <= buffer.blocks()`.
    Read {
        /// First block to read.
        lba: Lba,
        /// Number of blocks to read.
        blocks: Blocks,
        /// Destination. The device returns the buffer in [`Answer::Read`].
        buffer: Buffer,
    },
    /// Write the pieces of `data` one after the other at `lba`, which must be the zone's write pointer.
    /// Requires: at least one piece; each starts at a block-aligned address and is whole blocks.
    Write {
        /// Address of the zone's write pointer.
        lba: Lba,
        /// Pieces of memory to write, in order.
        data: Vec<Payload>,
    },
    /// Zone Append: the device writes at the write pointer and answers with the address. Requires: as for `Write`.
    Append {
        /// Zone to append to.
        zone: ZoneId,
        /// Pieces of memory to write, in order.
        data: Vec<Payload>,
    },
    /// Zone Management Send: open, close, finish or reset.
    Manage {
        /// Zone to manage.
        zone: ZoneId,
        /// Open, close, finish or reset. The device refuses `Write` and `WriteToCapacity` as unsupported.
        action: ZoneAction,
    },
    /// Zone Management Receive: report the state of `count` zones from `first` on (fewer at the end of the device).
    /// After a failed write this command also makes the zone writable again.
    Report {
        /// First zone to report.
        first: ZoneId,
        /// Maximum number of zones to report.
        count: u32,
    },
    /// Conventional devices only: set the write pointer of an `Empty` zone. After a restart the owner finds the write
    /// pointer in the data that it had written. The zone becomes `Closed`, or `Full` when `written` is the whole
    /// capacity. When `written` is 0, the zone stays `Empty`.
    Restore {
        /// Zone to restore.
        zone: ZoneId,
        /// Write pointer: blocks written since the zone's last reset.
        written: Blocks,
    },
    /// Flush the write cache: every write that was answered before the host submitted this command survives a power
    /// cut.
    Flush,
}

/// Result of a command that succeeded.
#[derive(Debug)]
pub enum Answer {
    /// Buffer of the read, with the data at its front.
    Read(Buffer),
    /// First block of the written data.
    Written(Lba),
    /// Zone reports, in the order of the zones.
    Report(Vec<ZoneReport>),
    /// Success of a command that returns no data.
    Done,
}

/// Completion of a command: its result or its error.
pub type Completion = Result<Answer, DeviceError>;

/// Zone report: one zone as the device sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneReport {
    /// Zone that this report describes.
    pub zone: ZoneId,
    /// State of the zone.
    pub state: ZoneState,
    /// Write pointer: blocks between the start of the zone and the write pointer. The capacity when the zone is
    /// `Full`.
    pub written: Blocks,
}
