//! On-flash format: segments, each a header of one block and the data blocks that it describes
//! (`docs/formats/shaper.md`).
//!
//! Only this module encodes and decodes the format.

mod echo;
mod zone_table;

pub(crate) use echo::{Echo, SegmentRoom, front_blocks};
pub(crate) use zone_table::{CLAIMS_MAX, ZoneClaim, ZoneTablePart};

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use zonal_base::{BLOCK_BYTES, Blocks, Checksum, SEED_BYTES, Seed};

use crate::layout::Zone;
use crate::open::Identity;
use crate::settings::{EXPORTS_MAX, NAME_BYTES_MAX};
use crate::{Export, ExportId, Tier};

const MAGIC: [u8; 4] = *b"ZSHP";

/// True if the block starts with this format's magic number, whatever its version and the rest.
#[must_use]
pub fn bears_mark(block: &[u8]) -> bool {
    block.starts_with(&MAGIC)
}

/// Version of headers. Readers refuse any other. Version 1 had no zone table and version 2 no
/// echoes; neither was ever released.
const VERSION: u16 = 3;

/// Version of the export table. Readers refuse any other.
const EXPORTS_VERSION: u16 = 1;

/// Maximum number of blocks in front of a segment's data: its header, and the echo.
pub(crate) const FRONT_BLOCKS: Blocks = Blocks(2);

/// Maximum length of a segment, in blocks: 768 KiB, twelve indirection units of 64 KiB. Long enough
/// that headers and echoes are one percent of the written blocks, short enough that the entries fit
/// one block.
pub(crate) const SEGMENT_BLOCKS: u64 = 192;

/// Maximum number of data blocks of a segment.
pub(crate) const DATA_BLOCKS: usize = zonal_base::index(SEGMENT_BLOCKS - FRONT_BLOCKS.0);

const FRAME_BYTES: usize = 128;
/// Description of the echoed segment, between the frame and the entries.
const ECHO_BYTES: usize = 32;
const ENTRY_BYTES: usize = 20;

/// Entries that fit a header: one for each data block of a segment, and a few trims. The echo
/// shares this room if both fit.
pub(crate) const ENTRIES_MAX: usize = (BLOCK_BYTES - FRAME_BYTES - ECHO_BYTES) / ENTRY_BYTES;

const _: () = assert!(DATA_BLOCKS <= ENTRIES_MAX);

/// Maximum size of the exports in the export table, in bytes. Retired zones use the rest of the
/// block.
const TABLE_EXPORTS_BYTES: usize = 8 + EXPORTS_MAX * (8 + 2 * (1 + NAME_BYTES_MAX));

const _: () = assert!(TABLE_EXPORTS_BYTES + 4 <= BLOCK_BYTES);

/// Maximum length of one trim entry, in blocks (256 MiB): this bounds the map entries changed at
/// once.
pub(crate) const TRIM_BLOCKS: u64 = 1 << 16;

/// Blocks that one trim bitmap covers: one bit each.
pub(crate) const PAGE_SPAN: u64 = BLOCK_BYTES as u64 * 8;

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
            _ => return None,
        })
    }

    pub(crate) const fn takes_block(self) -> bool {
        !matches!(self, Self::Trim | Self::Released)
    }

    /// True for a block that describes others, of which the newest version counts.
    pub(crate) const fn is_metadata(self) -> bool {
        matches!(self, Self::Page | Self::Table | Self::TableCopy | Self::Zones | Self::ZonesCopy)
    }

    /// True for a copy of the export table, or of a part of the zone table.
    pub(crate) const fn is_table(self) -> bool {
        self.is_metadata() && !matches!(self, Self::Page)
    }

    /// True for content of an export: data, or the error in their place.
    pub(crate) const fn is_users(self) -> bool {
        matches!(self, Self::Data | Self::Lost)
    }
}

/// Logical key: kind, export and block number in one word, as on flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key(u64);

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

    /// Key of the second copy of a part of the zone table, or of the export table.
    pub(crate) fn copy(self) -> Self {
        match self.kind() {
            EntryKind::Table => self.as_kind(EntryKind::TableCopy),
            EntryKind::Zones => self.as_kind(EntryKind::ZonesCopy),
            kind => unreachable!("a {kind:?} has no second copy"),
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

    fn encode(&self, out: &mut [u8]) {
        out[..8].copy_from_slice(&self.key.0.to_le_bytes());
        out[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        out[16..20].copy_from_slice(&self.check.to_le_bytes());
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let key = u64_at(bytes, 0);
        EntryKind::of(key.to_be_bytes()[0])?;
        Some(Self { key: Key(key), sequence: u64_at(bytes, 8), check: u32_at(bytes, 16) })
    }
}

/// Seed of a block's checksum. The checksum covers the content alone: the header vouches for key
/// and sequence, and a reader that knows only the address can verify the content.
pub(crate) const SEED: Seed = [0; SEED_BYTES];

/// A segment's header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) tier: Tier,
    pub(crate) identity: Identity,
    pub(crate) shape: Shape,
    pub(crate) zone: Zone,
    /// Position of the header in its zone, in blocks.
    pub(crate) at: u32,
    /// Segment number, counted over both tiers: a higher one was made later.
    pub(crate) number: u64,
    /// Checksum of the previous header in the zone; 0 in the first.
    pub(crate) previous: u32,
    /// New for each opening of the devices, derived from the clock.
    pub(crate) session: u32,
    /// By tier: when this header was written, this segment and all before it in the tier were
    /// flushed.
    pub(crate) durable: [u64; 2],
    /// Number of the previous segment in the same tier, the one that the echo repeats; 0 if there
    /// is none.
    pub(crate) tier_previous: u64,
    /// Epoch of the last flushed zone table when this header was written; 0 if there was none.
    pub(crate) epoch: u64,
    /// Every sequence assigned so far is lower than this.
    pub(crate) next_sequence: u64,
    /// True when the echo has a block of its own between the header and the data.
    pub(crate) has_echo_block: bool,
    pub(crate) entries: Vec<Entry>,
}

/// Geometry of both tiers, stored in every header. Devices formatted with another one are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) zones: [u32; 2],
    pub(crate) zone_blocks: [u32; 2],
}

/// Why a block is not a valid header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Malformed {
    /// All zeros.
    Blank,
    /// No magic number of this format, and not all zeros.
    Foreign,
    /// A header of an unsupported version.
    Version(u16),
    /// A header with features that this program does not know: one bit for each.
    Features(u16),
    /// A header with a wrong checksum or invalid fields.
    Damaged,
}

impl Header {
    /// Number of data blocks of the segment.
    pub(crate) fn data_blocks(&self) -> u32 {
        let with_block = self.entries.iter().filter(|entry| entry.key.kind().takes_block());
        zonal_base::low_u32(with_block.count())
    }

    /// Blocks in front of the data: the header, and the echo if it has a block of its own.
    pub(crate) fn front_blocks(&self) -> u32 {
        1 + u32::from(self.has_echo_block)
    }

    /// Length of the whole segment, in blocks.
    pub(crate) fn segment_blocks(&self) -> u32 {
        self.front_blocks() + self.data_blocks()
    }

    /// Encodes the header, and the echo of the previous segment of its tier, into one block, or
    /// into two if the header says so. Returns the header's checksum, which the next header in its
    /// zone repeats.
    ///
    /// Requires: the echo is of segment `tier_previous`.
    pub(crate) fn encode(&self, echo: Option<&Echo>, checksum: Checksum, out: &mut [u8]) -> u32 {
        let echoed = echo.map_or(0, |echo| echo.entries.len());
        let inline = if self.has_echo_block { 0 } else { echoed };
        assert!(self.entries.len() + inline <= ENTRIES_MAX);
        assert!(out.len() == BLOCK_BYTES * (1 + usize::from(self.has_echo_block)));
        out.fill(0);
        let (out, echo_block) = out.split_at_mut(BLOCK_BYTES);
        out[..4].copy_from_slice(&MAGIC);
        out[4..6].copy_from_slice(&VERSION.to_le_bytes());
        out[6] = self.tier.id();
        out[8..24].copy_from_slice(&self.identity.0);
        out[24..28].copy_from_slice(&self.zone.0.to_le_bytes());
        out[28..32].copy_from_slice(&self.at.to_le_bytes());
        out[32..40].copy_from_slice(&self.number.to_le_bytes());
        out[40..44].copy_from_slice(&self.previous.to_le_bytes());
        out[44..48].copy_from_slice(&self.session.to_le_bytes());
        out[48..56].copy_from_slice(&self.durable[0].to_le_bytes());
        out[56..64].copy_from_slice(&self.durable[1].to_le_bytes());
        let count = u16::try_from(self.entries.len()).expect("at most ENTRIES_MAX");
        out[64..66].copy_from_slice(&count.to_le_bytes());
        let echoed = u16::try_from(echoed).expect("at most ENTRIES_MAX");
        out[68..70].copy_from_slice(&echoed.to_le_bytes());
        out[70] = u8::from(self.has_echo_block);
        out[72..80].copy_from_slice(&self.next_sequence.to_le_bytes());
        let [buffer, capacity] = self.shape.zones;
        out[80..84].copy_from_slice(&buffer.to_le_bytes());
        out[84..88].copy_from_slice(&capacity.to_le_bytes());
        let [buffer, capacity] = self.shape.zone_blocks;
        out[88..92].copy_from_slice(&buffer.to_le_bytes());
        out[92..96].copy_from_slice(&capacity.to_le_bytes());
        out[96..104].copy_from_slice(&self.epoch.to_le_bytes());
        out[104..112].copy_from_slice(&self.tier_previous.to_le_bytes());
        let (frame, behind) = out.split_at_mut(FRAME_BYTES);
        let (description, entries) = behind.split_at_mut(ECHO_BYTES);
        for (entry, out) in self.entries.iter().zip(entries.chunks_exact_mut(ENTRY_BYTES)) {
            entry.encode(out);
        }
        if let Some(echo) = echo {
            let room = match self.has_echo_block {
                true => &mut *echo_block,
                false => &mut entries[self.entries.len() * ENTRY_BYTES..],
            };
            echo.encode(description, room);
        }
        if self.has_echo_block {
            let sum = checksum.of(0, echo_block);
            frame[112..116].copy_from_slice(&sum.to_le_bytes());
        }
        frame[120..124].copy_from_slice(&checksum.of(0, behind).to_le_bytes());
        let sum = checksum.of(0, &frame[..124]);
        frame[124..].copy_from_slice(&sum.to_le_bytes());
        sum
    }

    /// Decodes a block. Also returns the checksum that the next header in the zone must repeat.
    pub(crate) fn decode(block: &[u8], checksum: Checksum) -> Result<(Self, u32), Malformed> {
        let (frame, behind) = block.split_at(FRAME_BYTES);
        if frame[..4] != MAGIC {
            let is_blank = block.iter().all(|byte| *byte == 0);
            return Err(if is_blank { Malformed::Blank } else { Malformed::Foreign });
        }
        let sum = u32_at(frame, 124);
        if checksum.of(0, &frame[..124]) != sum {
            return Err(Malformed::Damaged);
        }
        let version = u16_at(frame, 4);
        if version != VERSION {
            return Err(Malformed::Version(version));
        }
        let features = u16_at(frame, 66);
        if features != 0 {
            return Err(Malformed::Features(features));
        }
        if checksum.of(0, behind) != u32_at(frame, 120) {
            return Err(Malformed::Damaged);
        }
        let header = Self::fields(frame, &behind[ECHO_BYTES..]).ok_or(Malformed::Damaged)?;
        Ok((header, sum))
    }

    fn fields(frame: &[u8], entries: &[u8]) -> Option<Self> {
        let tier = Tier::ALL.into_iter().find(|tier| tier.id() == frame[6])?;
        let count = usize::from(u16_at(frame, 64));
        if ENTRIES_MAX < count {
            return None;
        }
        let entries = entries.chunks_exact(ENTRY_BYTES).take(count).map(Entry::decode);
        let header = Self {
            tier,
            identity: Identity(*frame[8..].first_chunk()?),
            shape: Shape {
                zones: [u32_at(frame, 80), u32_at(frame, 84)],
                zone_blocks: [u32_at(frame, 88), u32_at(frame, 92)],
            },
            zone: Zone(u32_at(frame, 24)),
            at: u32_at(frame, 28),
            number: u64_at(frame, 32),
            previous: u32_at(frame, 40),
            session: u32_at(frame, 44),
            durable: [u64_at(frame, 48), u64_at(frame, 56)],
            tier_previous: u64_at(frame, 104),
            epoch: u64_at(frame, 96),
            next_sequence: u64_at(frame, 72),
            has_echo_block: frame[70] != 0,
            entries: entries.collect::<Option<_>>()?,
        };
        (usize::try_from(header.data_blocks()).ok()? <= DATA_BLOCKS).then_some(header)
    }
}

/// Encodes the export table and the retired zones as one block. Zones that do not fit are left out.
pub(crate) fn encode_table(exports: &[Export], retired: &BTreeSet<Zone>, out: &mut [u8]) {
    out.fill(0);
    let count = u16::try_from(exports.len()).expect("at most EXPORTS_MAX");
    out[..2].copy_from_slice(&EXPORTS_VERSION.to_le_bytes());
    out[2..4].copy_from_slice(&count.to_le_bytes());
    let mut at = 8;
    for export in exports {
        out[at..at + 8].copy_from_slice(&export.blocks.0.to_le_bytes());
        at += 8;
        for name in [&export.name, &export.tenant] {
            out[at] = u8::try_from(name.len()).expect("at most NAME_BYTES_MAX");
            out[at + 1..at + 1 + name.len()].copy_from_slice(name.as_bytes());
            at += 1 + name.len();
        }
    }
    let (count, zones) = out[at..].split_at_mut(4);
    let zones = zones.chunks_exact_mut(4).zip(retired);
    let named = zones.map(|(out, zone)| out.copy_from_slice(&zone.0.to_le_bytes())).count();
    count.copy_from_slice(&zonal_base::low_u32(named).to_le_bytes());
}

/// Decodes an export table; `None` if it is invalid.
pub(crate) fn decode_table(block: &[u8]) -> Option<(Vec<Export>, BTreeSet<Zone>)> {
    if u16_at(block, 0) != EXPORTS_VERSION {
        return None;
    }
    let mut rest = &block[8..];
    let text = |rest: &mut &[u8]| {
        let (len, after) = rest.split_first()?;
        let (text, after) = after.split_at_checked(usize::from(*len))?;
        *rest = after;
        String::from_utf8(text.to_vec()).ok()
    };
    let export = |_| {
        let (blocks, after) = rest.split_first_chunk()?;
        rest = after;
        let blocks = Blocks(u64::from_le_bytes(*blocks));
        let (name, tenant) = (text(&mut rest)?, text(&mut rest)?);
        Some(Export { name, tenant, blocks })
    };
    let exports = (0..u16_at(block, 2)).map(export).collect::<Option<_>>()?;
    let (count, zones) = rest.split_first_chunk()?;
    let count = usize::try_from(u32::from_le_bytes(*count)).ok()?;
    let zones = zones.get(..count.checked_mul(4)?)?.chunks_exact(4);
    Some((exports, zones.map(|zone| Zone(u32_at(zone, 0))).collect()))
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*bytes[at..].first_chunk().expect("inside the block"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*bytes[at..].first_chunk().expect("inside the block"))
}

#[cfg(test)]
mod tests;
