//! Map entry of a block, and its form on map pages.

use zonal_base::BLOCK_BYTES;

use crate::Export;
use crate::layout::PhysAddr;

/// Map entry of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MapEntry {
    /// Address of the block; [`PhysAddr::NONE`] for a hole.
    pub(crate) spot: PhysAddr,
    /// Checksum of the block's content. 0 for holes, and in exports that are not verified.
    pub(crate) check: u32,
}

/// How entries of an export are stored on map pages and in lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryForm {
    /// The address alone, 4 bytes: the export is not verified.
    Address,
    /// Address and checksum, 8 bytes.
    Checked,
}

impl MapEntry {
    pub(crate) const HOLE: Self = Self { spot: PhysAddr::NONE, check: 0 };

    pub(crate) const fn is_hole(self) -> bool {
        self.spot.0 == PhysAddr::NONE.0
    }
}

impl EntryForm {
    pub(crate) const fn of(export: &Export) -> Self {
        if export.is_verified { Self::Checked } else { Self::Address }
    }

    pub(crate) const fn bytes(self) -> usize {
        match self {
            Self::Address => 4,
            Self::Checked => 8,
        }
    }

    /// Blocks of one map page: as many entries as fit one flash block.
    pub(crate) const fn page_blocks(self) -> u64 {
        (BLOCK_BYTES / self.bytes()) as u64
    }

    /// Number of map pages for this many blocks.
    pub(crate) const fn pages(self, blocks: u64) -> u64 {
        blocks.div_ceil(self.page_blocks())
    }

    /// Writes an entry. Requires: `out` has [`EntryForm::bytes`].
    pub(crate) fn encode(self, entry: MapEntry, out: &mut [u8]) {
        out[..4].copy_from_slice(&entry.spot.0.to_le_bytes());
        if self == Self::Checked {
            out[4..].copy_from_slice(&entry.check.to_le_bytes());
        }
    }

    /// Reads an entry. Requires: `bytes` has [`EntryForm::bytes`].
    pub(crate) fn decode(self, bytes: &[u8]) -> MapEntry {
        let word = |at| u32::from_le_bytes(*bytes[at..].first_chunk().expect("four bytes"));
        let check = if self == Self::Checked { word(4) } else { 0 };
        MapEntry { spot: PhysAddr(word(0)), check }
    }

    /// Entry number `n` of a page.
    pub(crate) fn at(self, page: &[u8], n: u16) -> MapEntry {
        let at = usize::from(n) * self.bytes();
        self.decode(&page[at..at + self.bytes()])
    }
}
