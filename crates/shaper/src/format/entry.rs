//! Entries of a header: what each block of a segment is, and trims and releases without a block.

use super::{PAGE_SPAN, u32_at, u64_at};
use crate::ExportId;
use crate::layout::Zone;

/// Type of a header entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryKind {
    /// A data block of an export.
    Data,
    /// Trim: blocks of an export become holes. Has no block of its own.
    Trim,
    /// Trim bitmap: which blocks of a range of an export are holes.
    Page,
    /// The export table.
    Table,
    /// A data block that could not be read when it was moved. Its block has no content.
    Lost,
    /// A part of the zone table.
    Zones,
    /// Release of a zone: recovery ignores its content even if the zone table lists it. Has no
    /// block of its own.
    Released,
    /// Second copy of the export table, on the buffer.
    TableCopy,
    /// Second copy of a part of the zone table, on the buffer.
    ZonesCopy,
    /// Second copy of a trim bitmap.
    PageCopy,
}

impl EntryKind {
    const fn id(self) -> u8 {
        match self {
            Self::Data => 0,
            Self::Trim => 1,
            Self::Page => 2,
            Self::Table => 3,
            Self::Lost => 4,
            Self::Zones => 5,
            Self::Released => 6,
            Self::TableCopy => 7,
            Self::ZonesCopy => 8,
            Self::PageCopy => 9,
        }
    }

    const fn of(id: u8) -> Option<Self> {
        Some(match id {
            0 => Self::Data,
            1 => Self::Trim,
            2 => Self::Page,
            3 => Self::Table,
            4 => Self::Lost,
            5 => Self::Zones,
            6 => Self::Released,
            7 => Self::TableCopy,
            8 => Self::ZonesCopy,
            9 => Self::PageCopy,
            _ => return None,
        })
    }

    pub(crate) const fn takes_block(self) -> bool {
        !matches!(self, Self::Trim | Self::Released)
    }

    /// True for a block that describes others, of which the newest version counts.
    pub(crate) const fn is_metadata(self) -> bool {
        self.is_page() || self.is_table()
    }

    /// True for a copy of the export table, or of a part of the zone table.
    pub(crate) const fn is_table(self) -> bool {
        matches!(self, Self::Table | Self::TableCopy | Self::Zones | Self::ZonesCopy)
    }

    /// True for a copy of a trim bitmap.
    pub(crate) const fn is_page(self) -> bool {
        matches!(self, Self::Page | Self::PageCopy)
    }

    /// True for content of an export: data, or the error in their place.
    pub(crate) const fn is_users(self) -> bool {
        matches!(self, Self::Data | Self::Lost)
    }
}

/// Logical key: kind, export and block number in one word, as on flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key(pub(super) u64);

const NUMBER_BITS: u32 = 40;

impl Key {
    pub(crate) const TABLE: Self = Self(3 << 56);

    pub(crate) const fn new(kind: EntryKind, export: ExportId, number: u64) -> Self {
        assert!(number < 1 << NUMBER_BITS);
        Self((kind.id() as u64) << 56 | (export.0 as u64) << NUMBER_BITS | number)
    }

    pub(crate) const fn data(export: ExportId, number: u64) -> Self {
        Self::new(EntryKind::Data, export, number)
    }

    /// Key of a part of the zone table; parts count from 0.
    pub(crate) const fn zones(part: u32) -> Self {
        Self::new(EntryKind::Zones, ExportId(0), part as u64)
    }

    /// Key of the second copy of a part of the zone table, of the export table or of a trim bitmap.
    pub(crate) fn copy(self) -> Self {
        match self.kind() {
            EntryKind::Table => self.as_kind(EntryKind::TableCopy),
            EntryKind::Zones => self.as_kind(EntryKind::ZonesCopy),
            EntryKind::Page => self.as_kind(EntryKind::PageCopy),
            kind => unreachable!("a {kind:?} has no second copy"),
        }
    }

    /// Key of the first copy, if this is one of a second copy.
    pub(crate) fn first_copy(self) -> Self {
        match self.kind() {
            EntryKind::TableCopy => self.as_kind(EntryKind::Table),
            EntryKind::ZonesCopy => self.as_kind(EntryKind::Zones),
            EntryKind::PageCopy => self.as_kind(EntryKind::Page),
            _ => self,
        }
    }

    /// Key of the trim bitmap that covers a block.
    pub(crate) const fn page_of(export: ExportId, number: u64) -> Self {
        Self::new(EntryKind::Page, export, number / PAGE_SPAN)
    }

    /// Requires: made by [`Key::new`] or decoded successfully.
    pub(crate) fn kind(self) -> EntryKind {
        EntryKind::of(self.0.to_be_bytes()[0]).expect("checked when it was read")
    }

    pub(crate) fn export(self) -> ExportId {
        let [_, high, low, ..] = self.0.to_be_bytes();
        ExportId(u16::from_be_bytes([high, low]))
    }

    pub(crate) const fn number(self) -> u64 {
        self.0 & ((1 << NUMBER_BITS) - 1)
    }

    /// The same export and number with another kind.
    pub(crate) fn as_kind(self, kind: EntryKind) -> Self {
        Self::new(kind, self.export(), self.number())
    }
}

/// One entry of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: Key,
    /// Order of entries: of two entries for one block the one with the higher sequence wins. Moves
    /// keep it. In a release entry it is the number of the zone's first segment.
    pub(crate) sequence: u64,
    /// Checksum of the block. In a trim entry the number of trimmed blocks.
    pub(crate) check: u32,
}

impl Entry {
    /// Release entry for a zone. `incarnation`: number of the zone's first segment, so that a later
    /// use of the same zone is not released.
    pub(crate) const fn released(zone: Zone, incarnation: u64) -> Self {
        let key = Key::new(EntryKind::Released, ExportId(0), zone.0 as u64);
        Self { key, sequence: incarnation, check: 0 }
    }

    pub(super) fn encode(&self, out: &mut [u8]) {
        out[..8].copy_from_slice(&self.key.0.to_le_bytes());
        out[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        out[16..20].copy_from_slice(&self.check.to_le_bytes());
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let key = u64_at(bytes, 0);
        EntryKind::of(key.to_be_bytes()[0])?;
        Some(Self { key: Key(key), sequence: u64_at(bytes, 8), check: u32_at(bytes, 16) })
    }
}
