//! On-flash format: segments, each a header of one block and the data blocks that it describes
//! (`docs/formats/shaper.md`).
//!
//! Only this module encodes and decodes the format.

mod echo;
mod entry;
mod zone_table;

pub(crate) use echo::{Echo, SegmentRoom, front_blocks};
pub(crate) use entry::{Entry, EntryKind, Key};
pub(crate) use zone_table::{CLAIMS_MAX, ZoneClaim, ZoneTablePart};

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use zonal_base::{BLOCK_BYTES, Blocks, Checksum, SEED_BYTES, Seed};

use crate::layout::Zone;
use crate::open::Identity;
use crate::settings::{EXPORTS_MAX, NAME_BYTES_MAX};
use crate::{Export, Tier};

const MAGIC: [u8; 4] = *b"ZSHP";

/// True if the block starts with this format's magic number, whatever its version and the rest.
#[must_use]
pub fn bears_mark(block: &[u8]) -> bool {
    block.starts_with(&MAGIC)
}

/// Version of headers. Readers refuse any other. Version 1 had no zone table, version 2 no echoes,
/// and version 3 echoes in other zones; none was ever released.
const VERSION: u16 = 4;

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
    /// Number of the previous segment with entries in the same tier; 0 if there is none.
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

    /// True for a header that only repeats the segment before it. It does not count as a segment of
    /// its tier: nothing is missing when it is lost.
    pub(crate) fn is_closing(&self) -> bool {
        self.entries.is_empty()
    }

    /// Blocks in front of the data: the header, and the echo if it has a block of its own.
    pub(crate) fn front_blocks(&self) -> u32 {
        1 + u32::from(self.has_echo_block)
    }

    /// Length of the whole segment, in blocks.
    pub(crate) fn segment_blocks(&self) -> u32 {
        self.front_blocks() + self.data_blocks()
    }

    /// Encodes the header, and the echo of the previous segment of its zone, into one block, or
    /// into two if the header says so. Returns the header's checksum, which the next header in its
    /// zone repeats.
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
        Some(Export { name, tenant, blocks, is_verified: true })
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
