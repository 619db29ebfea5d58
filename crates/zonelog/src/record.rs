//! Records: the input of an append, the descriptor on flash, and the extent.

use zonal_base::{BLOCK_BYTES, Blocks, Payload, ZoneId};

use crate::Checks;

/// What names a record: 128 bits that its owner chooses, spread evenly (a hash).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub u128);

/// What a record is to its owner. The log only carries it, except for [`Kind::TOMBSTONE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind(pub u8);

impl Kind {
    /// "Older records of this key are gone." Written by [`crate::Log::remove`] only.
    pub const TOMBSTONE: Self = Self(0);
}

/// Who appends: records of one stream share zones, records of two never do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stream {
    /// New data.
    Fill,
    /// What reclaim keeps. Has a slot and an empty zone of its own.
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
    /// Its name.
    pub key: Key,
    /// What it is.
    pub kind: Kind,
    /// The bytes of the record.
    pub len: u32,
    /// The bytes, and for records of a block or more the zeros up to the next whole block behind
    /// them, at a block-aligned address: they go to the device as they are.
    pub data: Payload,
    /// A rewritten record keeps the generation that it had; `None`: the next one.
    pub generation: Option<u64>,
}

impl Record {
    /// Records shorter than a block are packed; the others start on a block of their own.
    #[must_use]
    pub const fn is_packed(len: u32) -> bool {
        (len as usize) < BLOCK_BYTES
    }
}

/// Where the bytes of a record lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Extent {
    /// The zone.
    pub zone: ZoneId,
    /// From the start of the zone, in units of [`Extent::UNIT`] bytes.
    pub offset: u32,
    /// Bytes.
    pub len: u32,
}

impl Extent {
    /// Alignment of packed records, in bytes: 2^32 units reach over the largest zone (4 GiB) with room to spare.
    pub const UNIT: usize = 16;

    /// First byte, from the start of the zone.
    #[must_use]
    pub const fn byte_offset(&self) -> u64 {
        self.offset as u64 * Self::UNIT as u64
    }

    /// Blocks that the record touches.
    #[must_use]
    pub const fn blocks(&self) -> Blocks {
        let first = self.byte_offset() / BLOCK_BYTES as u64;
        let end = (self.byte_offset() + self.len as u64).div_ceil(BLOCK_BYTES as u64);
        Blocks(end - first)
    }
}

/// A record as a segment header and a footer describe it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// Its name.
    pub key: Key,
    /// Its place in the history of the log: of two records with one key the higher is the newer.
    pub generation: u64,
    /// What it is.
    pub kind: Kind,
    /// From the start of the zone, in units of [`Extent::UNIT`] bytes.
    pub offset: u32,
    /// Bytes.
    pub len: u32,
    /// One check for each granule of the record.
    pub checks: Checks,
}

/// A record that was found on flash when the log was opened.
#[derive(Clone, Debug)]
pub struct Recovered<'a> {
    /// Its zone.
    pub zone: ZoneId,
    /// The rest.
    pub descriptor: &'a Descriptor,
    /// Of records of one key that differ in nothing that their owner knows, the one with the highest was written last,
    /// as far as zones tell.
    pub precedence: u64,
}

impl Recovered<'_> {
    /// Where it lies.
    #[must_use]
    pub const fn extent(&self) -> Extent {
        Extent { zone: self.zone, offset: self.descriptor.offset, len: self.descriptor.len }
    }
}
