//! Echo: each header repeats the entries of the previous segment of its zone.
//!
//! If a header cannot be read, recovery finds in its echo which blocks follow it, and their
//! checksums. The echo lies in the next segment of the zone, so no single block holds both, and it
//! stays as long as the segment. It fits the header of its segment as long as segments are short;
//! otherwise it has a block of its own, which only the recovery of a damaged zone reads.
//!
//! A header without entries closes a zone, and a run of moves: it repeats the last segment.

use alloc::vec::Vec;

use zonal_base::{BLOCK_BYTES, Checksum};

use super::{
    DATA_BLOCKS, ECHO_BYTES, ENTRIES_MAX, ENTRY_BYTES, Entry, FRAME_BYTES, FRONT_BLOCKS, Header,
};
use super::{u16_at, u32_at, u64_at};

/// What a header says about the previous segment of its zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Echo {
    pub(crate) number: u64,
    /// Number of the segment before it in the same tier.
    pub(crate) tier_previous: u64,
    /// Position of the segment in its zone, in blocks.
    pub(crate) at: u32,
    /// Checksum of the header before it in the zone; 0 if it is the first.
    pub(crate) previous: u32,
    /// True when its own echo has a block in front of its data.
    pub(crate) has_echo_block: bool,
    pub(crate) entries: Vec<Entry>,
}

impl Echo {
    /// What the next segment of the zone repeats about this one.
    pub(crate) fn of(header: Header) -> Self {
        let Header { number, tier_previous, at, previous, has_echo_block, entries, .. } = header;
        Self { number, tier_previous, at, previous, has_echo_block, entries }
    }

    /// Encodes the description of the segment, and its entries.
    pub(super) fn encode(&self, description: &mut [u8], room: &mut [u8]) {
        description[..8].copy_from_slice(&self.number.to_le_bytes());
        description[8..16].copy_from_slice(&self.tier_previous.to_le_bytes());
        description[16..20].copy_from_slice(&self.at.to_le_bytes());
        description[20..24].copy_from_slice(&self.previous.to_le_bytes());
        description[24] = u8::from(self.has_echo_block);
        for (entry, out) in self.entries.iter().zip(room.chunks_exact_mut(ENTRY_BYTES)) {
            entry.encode(out);
        }
    }

    /// Decodes the echo of a segment. `front`: the header, and the block behind it if the header
    /// says that the echo has one. `None` if there is no echo, or it is damaged.
    ///
    /// Requires: the first block of `front` is a valid header.
    pub(crate) fn decode(front: &[u8], checksum: Checksum) -> Option<Self> {
        let (header, echo_block) = front.split_at(BLOCK_BYTES);
        let (frame, behind) = header.split_at(FRAME_BYTES);
        let (description, inline) = behind.split_at(ECHO_BYTES);
        let (own, echoed) = (usize::from(u16_at(frame, 64)), usize::from(u16_at(frame, 68)));
        let has_echo_block = frame[70] != 0;
        let number = u64_at(description, 0);
        let room = match has_echo_block {
            true => echo_block.get(..BLOCK_BYTES)?,
            false => inline.get(own * ENTRY_BYTES..)?,
        };
        let is_whole = !has_echo_block || checksum.of(0, room) == u32_at(frame, 112);
        if !is_whole || number == 0 || ENTRIES_MAX < echoed {
            return None;
        }
        let entries = room.get(..echoed * ENTRY_BYTES)?.chunks_exact(ENTRY_BYTES);
        let entries: Vec<Entry> = entries.map(Entry::decode).collect::<Option<_>>()?;
        let with_block = entries.iter().filter(|entry| entry.key.kind().takes_block());
        (with_block.count() <= DATA_BLOCKS).then_some(Self {
            number,
            tier_previous: u64_at(description, 8),
            at: u32_at(description, 16),
            previous: u32_at(description, 20),
            has_echo_block: description[24] != 0,
            entries,
        })
    }

    /// The header of the echoed segment. `by`: the header that repeats it.
    pub(crate) fn header(self, by: &Header) -> Header {
        Header {
            at: self.at,
            number: self.number,
            previous: self.previous,
            tier_previous: self.tier_previous,
            has_echo_block: self.has_echo_block,
            entries: self.entries,
            // What it said about others is known at least as well from the younger header.
            ..by.clone()
        }
    }
}

/// Blocks that the fronts of segments take at most, if this many blocks are written as long
/// segments.
pub(crate) const fn front_blocks(blocks: u64) -> u64 {
    // The echo of a short segment fits the next header.
    let of_each = if ENTRIES_MAX as u64 / 2 < blocks { FRONT_BLOCKS.0 } else { 1 };
    blocks.div_ceil(DATA_BLOCKS as u64) * of_each
}

/// Room for a segment in a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentRoom {
    /// Entries that fit its header.
    pub(crate) entries: usize,
    /// Data blocks that fit behind its front.
    pub(crate) blocks: usize,
    /// The echo gets a block of its own.
    pub(crate) has_echo_block: bool,
}

impl SegmentRoom {
    /// Room for a segment of up to `wanted` entries in the last `left` blocks of a zone. `echoed`:
    /// entries of its echo. The last block is kept for the header that closes the zone, so it has no
    /// room for an entry. Requires: at least one block is left.
    pub(crate) fn new(left: u32, echoed: usize, wanted: usize) -> Self {
        let usable = left - 1;
        let inline = if usable == 0 { 0 } else { ENTRIES_MAX - echoed };
        // An echo of its own needs a data block behind it to be worth its block.
        let has_echo_block = inline < wanted && 3 <= usable;
        let front = 1 + u32::from(has_echo_block);
        Self {
            entries: if has_echo_block { ENTRIES_MAX } else { inline },
            blocks: zonal_base::index(u64::from(usable.saturating_sub(front))).min(DATA_BLOCKS),
            has_echo_block,
        }
    }
}

const _: () = assert!(ENTRIES_MAX * ENTRY_BYTES <= BLOCK_BYTES);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_echo_gets_a_block_only_when_both_do_not_fit_the_header() {
        let room = |left, echoed, wanted| {
            let SegmentRoom { entries, blocks, has_echo_block } =
                SegmentRoom::new(left, echoed, wanted);
            (entries, blocks, has_echo_block)
        };
        assert_eq!(room(1000, 1, 1), (195, 190, false));
        assert_eq!(room(1000, 100, 96), (96, 190, false));
        assert_eq!(room(1000, 100, 97), (196, 190, true));
        assert_eq!(room(10, 190, 190), (196, 7, true));
        assert_eq!(room(4, 196, 190), (196, 1, true));
        assert_eq!(room(3, 190, 190), (6, 1, false), "a block of data, and no block for the echo");
        assert_eq!(room(3, 196, 190), (0, 1, false), "a header alone");
        assert_eq!(room(2, 1, 190), (195, 0, false), "entries without blocks");
        assert_eq!(room(1, 0, 190), (0, 0, false), "the header that closes the zone");
    }
}
