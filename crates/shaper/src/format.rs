//! On-flash format: segments, each a header of one block and the blocks that it describes (`docs/formats/shaper.md`).
//!
//! Encoded and decoded here and nowhere else.

mod zone_table;

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

/// True when a block begins as one of ours, whatever its version and whatever follows.
#[must_use]
pub fn bears_mark(block: &[u8]) -> bool {
    block.starts_with(&MAGIC)
}

/// Of headers. Version 1 had no zone table, no epochs and no chain of each tier; it is read, and never written.
pub(crate) const VERSION: u16 = 2;
const VERSION_WITHOUT_ZONE_TABLE: u16 = 1;

/// Of the table of exports. Readers refuse any other.
const EXPORTS_VERSION: u16 = 1;

/// Blocks of a header.
pub(crate) const HEADER_BLOCKS: u64 = 1;

/// A segment at most: 768 KiB, twelve indirection units of 64 KiB. Long enough that headers are half a percent of what is
/// written, short enough that their entries fit one block.
pub(crate) const SEGMENT_BLOCKS: u64 = 192;

/// Blocks behind a header at most.
pub(crate) const DATA_BLOCKS: usize = zonal_base::index(SEGMENT_BLOCKS - HEADER_BLOCKS);

const FRAME_BYTES: usize = 128;
const ENTRY_BYTES: usize = 20;

/// Entries of a header: those of all its blocks, and a few trims.
pub(crate) const ENTRIES_MAX: usize = (BLOCK_BYTES - FRAME_BYTES) / ENTRY_BYTES;

const _: () = assert!(DATA_BLOCKS <= ENTRIES_MAX);

/// What exports take of a table at most; the rest names zones.
const TABLE_EXPORTS_BYTES: usize = 8 + EXPORTS_MAX * (8 + 2 * (1 + NAME_BYTES_MAX));

const _: () = assert!(TABLE_EXPORTS_BYTES + 4 <= BLOCK_BYTES);

/// Blocks of one trim entry at most (256 MiB): so many a map entry are changed in one go.
pub(crate) const TRIM_BLOCKS: u64 = 1 << 16;

/// Blocks that one page of trims tells of: a bit each.
pub(crate) const PAGE_SPAN: u64 = BLOCK_BYTES as u64 * 8;

/// What an entry is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A block of an export.
    Data,
    /// Blocks of an export that are holes from now on. Takes no block.
    Trim,
    /// A page of trims: which blocks of a stretch of an export are holes.
    Page,
    /// The table of exports.
    Table,
    /// A block of an export that could not be read when it was to be moved. Its block holds nothing.
    Lost,
    /// A part of the zone table.
    Zones,
    /// What a zone holds counts no more, whatever the zone table says of it. Takes no block.
    Released,
}

impl Kind {
    const fn id(self) -> u8 {
        match self {
            Self::Data => 0,
            Self::Trim => 1,
            Self::Page => 2,
            Self::Table => 3,
            Self::Lost => 4,
            Self::Zones => 5,
            Self::Released => 6,
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
            _ => return None,
        })
    }

    pub(crate) const fn takes_block(self) -> bool {
        !matches!(self, Self::Trim | Self::Released)
    }
}

/// What is stored under an address: kind, export and number in one word, as on flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key(u64);

const NUMBER_BITS: u32 = 40;

impl Key {
    pub(crate) const TABLE: Self = Self(3 << 56);

    pub(crate) const fn new(kind: Kind, export: ExportId, number: u64) -> Self {
        assert!(number < 1 << NUMBER_BITS);
        Self((kind.id() as u64) << 56 | (export.0 as u64) << NUMBER_BITS | number)
    }

    pub(crate) const fn data(export: ExportId, number: u64) -> Self {
        Self::new(Kind::Data, export, number)
    }

    /// A part of the zone table, from 0 on.
    pub(crate) const fn zones(part: u32) -> Self {
        Self::new(Kind::Zones, ExportId(0), part as u64)
    }

    /// The page of trims that tells of a block.
    pub(crate) const fn page_of(export: ExportId, number: u64) -> Self {
        Self::new(Kind::Page, export, number / PAGE_SPAN)
    }

    /// Requires: made by [`Key::new`] or decoded with success.
    pub(crate) fn kind(self) -> Kind {
        Kind::of(self.0.to_be_bytes()[0]).expect("checked when it was read")
    }

    pub(crate) fn export(self) -> ExportId {
        let [_, high, low, ..] = self.0.to_be_bytes();
        ExportId(u16::from_be_bytes([high, low]))
    }

    pub(crate) const fn number(self) -> u64 {
        self.0 & ((1 << NUMBER_BITS) - 1)
    }

    /// The same address as another kind.
    pub(crate) fn as_kind(self, kind: Kind) -> Self {
        Self::new(kind, self.export(), self.number())
    }
}

/// One entry of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: Key,
    /// Of two entries that tell of one block the one with the higher sequence counts. Moves keep it. Of a zone that is
    /// released it is the number of its first segment.
    pub(crate) sequence: u64,
    /// The block's checksum; of a trim, how many blocks.
    pub(crate) check: u32,
}

impl Entry {
    /// The zone counts no more: that life of it that began with the segment `incarnation`.
    pub(crate) const fn released(zone: Zone, incarnation: u64) -> Self {
        let key = Key::new(Kind::Released, ExportId(0), zone.0 as u64);
        Self { key, sequence: incarnation, check: 0 }
    }

    /// What the checksum of the block begins with: the same bytes elsewhere, or of another time, do not pass.
    pub(crate) fn seed(key: Key, sequence: u64) -> Seed {
        let mut seed = [0; SEED_BYTES];
        seed[..8].copy_from_slice(&key.0.to_le_bytes());
        seed[8..16].copy_from_slice(&sequence.to_le_bytes());
        seed
    }

    fn encode(&self, out: &mut [u8]) {
        out[..8].copy_from_slice(&self.key.0.to_le_bytes());
        out[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        out[16..20].copy_from_slice(&self.check.to_le_bytes());
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let key = u64_at(bytes, 0);
        Kind::of(key.to_be_bytes()[0])?;
        Some(Self { key: Key(key), sequence: u64_at(bytes, 8), check: u32_at(bytes, 16) })
    }
}

/// A segment's header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Of the format that it was written in.
    pub(crate) version: u16,
    pub(crate) tier: Tier,
    pub(crate) identity: Identity,
    pub(crate) shape: Shape,
    pub(crate) zone: Zone,
    /// Where in the zone the header is.
    pub(crate) at: u32,
    /// Of all segments of both tiers: the higher was made later.
    pub(crate) number: u64,
    /// Checksum of the header before this one in the zone; 0 in the first.
    pub(crate) previous: u32,
    /// Chosen anew whenever the devices are opened.
    pub(crate) session: u32,
    /// By tier: the number of its last segment that was flushed, with all before it, when this header was written.
    pub(crate) durable: [u64; 2],
    /// Number of the segment before this one in the same tier; 0: not told.
    pub(crate) tier_previous: u64,
    /// Of the last zone table that was flushed when this header was written; 0: none was.
    pub(crate) epoch: u64,
    /// No entry made so far has this sequence or a higher one.
    pub(crate) next_sequence: u64,
    pub(crate) entries: Vec<Entry>,
}

/// Both tiers, as every header tells it: devices that were formatted otherwise are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) zones: [u32; 2],
    pub(crate) zone_blocks: [u32; 2],
}

/// Why a block is not a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Malformed {
    /// Zeros.
    Blank,
    /// Not ours.
    Foreign,
    /// Ours, of another version.
    Version(u16),
    /// Ours, with something that a later program writes: a bit for each such thing.
    Features(u16),
    /// Ours by its magic, and damaged.
    Damaged,
}

impl Header {
    /// Blocks behind the header.
    pub(crate) fn blocks(&self) -> u32 {
        let with_block = self.entries.iter().filter(|entry| entry.key.kind().takes_block());
        zonal_base::low_u32(with_block.count())
    }

    /// Fills a block. Returns the checksum that the next header names.
    pub(crate) fn encode(&self, checksum: Checksum, out: &mut [u8]) -> u32 {
        assert!(self.entries.len() <= ENTRIES_MAX && out.len() == BLOCK_BYTES);
        out.fill(0);
        out[..4].copy_from_slice(&MAGIC);
        assert!(self.version == VERSION, "other versions are not written");
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
        out[72..80].copy_from_slice(&self.next_sequence.to_le_bytes());
        let [buffer, capacity] = self.shape.zones;
        out[80..84].copy_from_slice(&buffer.to_le_bytes());
        out[84..88].copy_from_slice(&capacity.to_le_bytes());
        let [buffer, capacity] = self.shape.zone_blocks;
        out[88..92].copy_from_slice(&buffer.to_le_bytes());
        out[92..96].copy_from_slice(&capacity.to_le_bytes());
        out[96..104].copy_from_slice(&self.epoch.to_le_bytes());
        out[104..112].copy_from_slice(&self.tier_previous.to_le_bytes());
        let (frame, entries) = out.split_at_mut(FRAME_BYTES);
        for (entry, out) in self.entries.iter().zip(entries.chunks_exact_mut(ENTRY_BYTES)) {
            entry.encode(out);
        }
        frame[120..124].copy_from_slice(&checksum.of(0, entries).to_le_bytes());
        let sum = checksum.of(0, &frame[..124]);
        frame[124..].copy_from_slice(&sum.to_le_bytes());
        sum
    }

    /// Reads a block. With it comes the checksum that the next header names.
    pub(crate) fn decode(block: &[u8], checksum: Checksum) -> Result<(Self, u32), Malformed> {
        let (frame, entries) = block.split_at(FRAME_BYTES);
        if frame[..4] != MAGIC {
            let is_blank = block.iter().all(|byte| *byte == 0);
            return Err(if is_blank { Malformed::Blank } else { Malformed::Foreign });
        }
        let sum = u32_at(frame, 124);
        if checksum.of(0, &frame[..124]) != sum {
            return Err(Malformed::Damaged);
        }
        let version = u16_at(frame, 4);
        if version != VERSION && version != VERSION_WITHOUT_ZONE_TABLE {
            return Err(Malformed::Version(version));
        }
        let features = u16_at(frame, 66);
        if features != 0 {
            return Err(Malformed::Features(features));
        }
        if checksum.of(0, entries) != u32_at(frame, 120) {
            return Err(Malformed::Damaged);
        }
        let header = Self::fields(frame, entries).ok_or(Malformed::Damaged)?;
        Ok((header, sum))
    }

    fn fields(frame: &[u8], entries: &[u8]) -> Option<Self> {
        let tier = Tier::ALL.into_iter().find(|tier| tier.id() == frame[6])?;
        let count = usize::from(u16_at(frame, 64));
        if ENTRIES_MAX < count {
            return None;
        }
        let entries = entries.chunks_exact(ENTRY_BYTES).take(count).map(Entry::decode);
        let version = u16_at(frame, 4);
        // Version 1 named the first segment that was not flushed.
        let flushed = |at| match version {
            VERSION_WITHOUT_ZONE_TABLE => u64_at(frame, at).saturating_sub(1),
            _ => u64_at(frame, at),
        };
        let header = Self {
            version,
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
            durable: [flushed(48), flushed(56)],
            tier_previous: u64_at(frame, 104),
            epoch: u64_at(frame, 96),
            next_sequence: u64_at(frame, 72),
            entries: entries.collect::<Option<_>>()?,
        };
        (usize::try_from(header.blocks()).ok()? <= DATA_BLOCKS).then_some(header)
    }
}

/// The table of exports, and of zones that were given up, as one block. Of the zones as many as it has room for.
pub(crate) fn encode_table(exports: &[Export], given_up: &BTreeSet<Zone>, out: &mut [u8]) {
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
    let zones = zones.chunks_exact_mut(4).zip(given_up);
    let named = zones.map(|(out, zone)| out.copy_from_slice(&zone.0.to_le_bytes())).count();
    count.copy_from_slice(&zonal_base::low_u32(named).to_le_bytes());
}

/// Reads a table; `None` when it makes no sense.
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
