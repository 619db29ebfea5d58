//! Records: the input of an append, the descriptor on flash, and the extent.

use zonal_base::{BLOCK_BYTES, Blocks, Payload, ZoneId};

use crate::Checks;

/// Key of a record: 128 bits, evenly distributed (a hash). The owner of the log chooses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub u128);

/// Type tag of a record. The log stores it and interprets only [`Kind::TOMBSTONE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind(pub u8);

impl Kind {
    /// Tombstone: older records of its key are removed. Only the log itself writes tombstones.
    pub const TOMBSTONE: Self = Self(0);
}

/// Placement stream: records of one stream share zones; records of different streams never do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stream {
    /// New data and removals.
    Fill,
    /// Records and tombstones that reclaim rewrites. The stream has an active slot and an empty
    /// zone of its own.
    Rewrite,
}

impl Stream {
    pub(crate) const ALL: [Self; 2] = [Self::Fill, Self::Rewrite];

    pub(crate) const fn id(self) -> u8 {
        match self {
            Self::Fill => 0,
            Self::Rewrite => 1,
        }
    }
}

/// A record to append.
pub struct Record {
    /// Key, chosen by the owner.
    pub key: Key,
    /// Type tag, chosen by the owner.
    pub kind: Kind,
    /// Length of the record in bytes, without padding.
    pub len: u32,
    /// Payload. A record of a block or more is padded with zeros to a whole block and starts at a
    /// block-aligned address, because it goes to the device without a copy.
    pub data: Payload,
    /// Generation of a rewritten record, which must not change; `None` assigns the next one.
    pub generation: Option<u64>,
}

impl Record {
    /// True when a record of `len` bytes is packed: records shorter than a block share blocks,
    /// longer ones start on a block boundary.
    #[must_use]
    pub const fn is_packed(len: u32) -> bool {
        (len as usize) < BLOCK_BYTES
    }
}

/// Extent: the location of a record's payload on flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Extent {
    /// Zone that holds the record.
    pub zone: ZoneId,
    /// Offset from the start of the zone, in units of [`Extent::UNIT`] bytes.
    pub offset: u32,
    /// Length in bytes.
    pub len: u32,
}

impl Extent {
    /// Alignment of packed records, in bytes: 2^32 units reach over the largest zone (4 GiB) with
    /// room to spare.
    pub const UNIT: usize = 16;

    /// Offset of the first byte from the start of the zone.
    #[must_use]
    pub const fn byte_offset(&self) -> u64 {
        self.offset as u64 * Self::UNIT as u64
    }

    /// Number of blocks that the record touches.
    #[must_use]
    pub const fn blocks(&self) -> Blocks {
        let first = self.byte_offset() / BLOCK_BYTES as u64;
        let end = (self.byte_offset() + self.len as u64).div_ceil(BLOCK_BYTES as u64);
        Blocks(end - first)
    }
}

/// Record descriptor, as stored in segment headers and zone footers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// Key of the record.
    pub key: Key,
    /// Sequence number: of two records with one key the higher generation is the newer.
    pub generation: u64,
    /// Type tag of the record.
    pub kind: Kind,
    /// Offset from the start of the zone, in units of [`Extent::UNIT`] bytes.
    pub offset: u32,
    /// Length in bytes.
    pub len: u32,
    /// One CRC-32C per granule of the record.
    pub checks: Checks,
}

/// A record that was found on flash when the log was opened.
#[derive(Clone, Debug)]
pub struct Recovered<'a> {
    /// Zone that holds the record.
    pub zone: ZoneId,
    /// Descriptor of the record.
    pub descriptor: &'a Descriptor,
    /// Tie-breaker for records of one key that the owner cannot tell apart: the record with the
    /// highest value was written last, as far as the order of zones tells.
    pub precedence: u64,
}

impl Recovered<'_> {
    /// Location of the record's payload.
    #[must_use]
    pub const fn extent(&self) -> Extent {
        Extent { zone: self.zone, offset: self.descriptor.offset, len: self.descriptor.len }
    }
}
