//! Extent map of one zone: an ordered list of pieces, with the contents of each.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::mem;
use core::ops::Range;

use zonal_base::{BLOCK_BYTES, Blocks, TAG_BYTES, Tag, index, prefetch_cacheline};

use super::text::Text;

/// Pieces of a zone, ordered by their start. They follow each other without gaps from the first block on. Unwritten
/// blocks also form a piece.
#[derive(Clone, Debug, Default)]
pub(super) struct Pieces {
    pieces: Vec<Piece>,
    /// Contents of the pieces that are bytes, by their start. They are few.
    texts: BTreeMap<u32, Text>,
    /// End of the last piece: a block number.
    end: u32,
}

/// Start of a piece, and the tag of its first block if it holds tags. Both are side by side because every lookup
/// needs both.
#[derive(Clone, Copy, Debug)]
struct Piece {
    start: Start,
    tag: [u8; TAG_BYTES],
}

/// Block number in the zone; the lowest two bits give the kind of the piece that begins there.
#[derive(Clone, Copy, Debug)]
struct Start(u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Nothing,
    Tag,
    Text,
}

/// Contents of a piece.
#[derive(Clone, Debug)]
pub(super) enum PieceContents {
    /// The blocks were never written.
    Nothing,
    /// Tag of the first block; the tags of the other blocks follow from it.
    Tag(Tag),
    Text(Text),
}

/// Placeholder for a piece without a tag.
const NO_TAG: [u8; TAG_BYTES] = [0; TAG_BYTES];

/// Minimum growth of the list. The list grows by an eighth, not to twice its size: a full drive has tens of millions
/// of pieces.
const ROOM_MIN: usize = 64;

impl Start {
    fn new(block: u32, kind: Kind) -> Self {
        assert!(block <= u32::MAX >> 2, "a zone has less than 4 TiB");
        Self(block << 2 | kind as u32)
    }

    const fn block(self) -> u32 {
        self.0 >> 2
    }

    const fn kind(self) -> Kind {
        match self.0 & 3 {
            0 => Kind::Nothing,
            1 => Kind::Tag,
            _ => Kind::Text,
        }
    }
}

impl PieceContents {
    const fn kind(&self) -> Kind {
        match self {
            Self::Nothing => Kind::Nothing,
            Self::Tag(_) => Kind::Tag,
            Self::Text(_) => Kind::Text,
        }
    }
}

impl Pieces {
    /// Contents of all pieces that are bytes.
    pub(super) fn texts(&self) -> impl Iterator<Item = &Text> {
        self.texts.values()
    }

    /// Writes a piece, which replaces all earlier contents of `blocks`. Requires: `blocks` is not empty.
    pub(super) fn write(&mut self, blocks: Range<u32>, held: PieceContents) {
        if self.end < blocks.start {
            self.insert(self.pieces.len(), self.end, PieceContents::Nothing);
            self.end = blocks.start;
        }
        let place = match blocks.start == self.end {
            true => self.pieces.len(),
            false => self.cut(blocks.clone()),
        };
        self.insert(place, blocks.start, held);
        self.end = self.end.max(blocks.end);
    }

    /// Passes the contents of `blocks` to `tell`, part by part.
    pub(super) fn read(&self, blocks: Range<u32>, mut tell: impl FnMut(Range<u32>, PieceContents)) {
        let mut at = blocks.start;
        let mut piece = self.find(at);
        while let Some(found) = piece.filter(|_| at < blocks.end) {
            let next = self.end_of(found);
            let part = at..next.min(blocks.end);
            tell(part.clone(), self.part(found, &part));
            at = part.end;
            piece = (found + 1 < self.pieces.len()).then_some(found + 1);
        }
        if at < blocks.end {
            tell(at..blocks.end, PieceContents::Nothing);
        }
    }

    /// Drops all contents from block `end` on.
    pub(super) fn truncate(&mut self, end: u32) {
        if end == 0 {
            return drop(mem::take(self));
        }
        if end < self.end {
            self.cut(end..self.end);
            self.end = end;
        }
    }

    /// Hint that a block will be read soon.
    pub(super) fn prefetch(&self, block: u32) {
        if block < self.end {
            let near = self.guess(block).saturating_sub(1)..;
            let near = &self.pieces[near];
            prefetch_cacheline(&near[..near.len().min(3)]);
        }
    }

    /// Interpolation search: guesses the index of a block's piece as if all pieces were equally long, which they
    /// nearly are. Requires: the block is before the end.
    fn guess(&self, block: u32) -> usize {
        index(u64::from(block) * self.pieces.len() as u64 / u64::from(self.end))
    }

    /// Index of the piece that holds a block.
    fn find(&self, block: u32) -> Option<usize> {
        if self.end <= block {
            return None;
        }
        let pieces = &self.pieces;
        let begins_by = |piece: &Piece| piece.start.block() <= block;
        let guess = self.guess(block);
        // Search from the guess outwards, with doubling steps.
        let (mut low, mut high, mut step) = (guess, guess + 1, 1);
        while !begins_by(&pieces[low]) {
            (low, high, step) = (low.saturating_sub(step), low, step * 2);
        }
        while pieces.get(high).is_some_and(begins_by) {
            (low, high, step) = (high, high + step, step * 2);
        }
        let high = high.min(pieces.len());
        Some(low + pieces[low..high].partition_point(begins_by) - 1)
    }

    /// End of a piece: a block number.
    fn end_of(&self, piece: usize) -> u32 {
        self.pieces.get(piece + 1).map_or(self.end, |next| next.start.block())
    }

    /// Contents of `part` of a piece.
    fn part(&self, piece: usize, part: &Range<u32>) -> PieceContents {
        let Piece { start, tag } = self.pieces[piece];
        let skipped = part.start - start.block();
        match start.kind() {
            Kind::Nothing => PieceContents::Nothing,
            Kind::Tag => PieceContents::Tag(Tag::decode(tag).plus(Blocks(u64::from(skipped)))),
            Kind::Text => {
                let [from, to] = [skipped, part.end - start.block()];
                let bytes = from as usize * BLOCK_BYTES..to as usize * BLOCK_BYTES;
                PieceContents::Text(self.texts[&start.block()].slice(bytes))
            }
        }
    }

    fn insert(&mut self, place: usize, block: u32, held: PieceContents) {
        if self.pieces.len() == self.pieces.capacity() {
            self.pieces.reserve_exact(self.pieces.len() / 8 + ROOM_MIN);
        }
        let start = Start::new(block, held.kind());
        let tag = if let PieceContents::Tag(tag) = held { tag.encode() } else { NO_TAG };
        self.pieces.insert(place, Piece { start, tag });
        if let PieceContents::Text(text) = held {
            self.texts.insert(block, text);
        }
    }

    /// Removes the contents of `blocks`, and returns the index of the next piece. Requires: `blocks` begins before
    /// the end.
    fn cut(&mut self, blocks: Range<u32>) -> usize {
        let first = self.split(blocks.start);
        let next = self.split(blocks.end);
        for Piece { start, .. } in self.pieces.drain(first..next) {
            if start.kind() == Kind::Text {
                self.texts.remove(&start.block());
            }
        }
        first
    }

    /// Splits a piece so that one begins at `block`, and returns its index. At the end of the zone's contents no
    /// piece begins.
    fn split(&mut self, block: u32) -> usize {
        let Some(piece) = self.find(block) else { return self.pieces.len() };
        let start = self.pieces[piece].start.block();
        if start == block {
            return piece;
        }
        let next = self.end_of(piece);
        let [before, after] = [start..block, block..next].map(|part| self.part(piece, &part));
        if let PieceContents::Text(before) = before {
            self.texts.insert(start, before);
        }
        self.insert(piece + 1, block, after);
        piece + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zonal_base::Rng;

    #[test]
    fn a_piece_is_found_wherever_it_lies() {
        let mut rng = Rng::new(3);
        for round in 1..300 {
            let mut pieces = Pieces::default();
            for _ in 0..round {
                let gap = u32::from(rng.one_in(5)) * 40;
                let blocks = if rng.one_in(9) { 200 } else { 1 + u32::from(rng.one_in(3)) };
                let begin = pieces.end + gap;
                pieces.write(begin..begin + blocks, PieceContents::Tag(Tag::decode(NO_TAG)));
            }
            for _ in 0..40 {
                let block = zonal_base::low_u32(index(rng.below(u64::from(pieces.end) + 3)));
                let plain = pieces.pieces.partition_point(|piece| piece.start.block() <= block);
                let plain = (block < pieces.end).then(|| plain - 1);
                assert_eq!(pieces.find(block), plain, "block {block} of {pieces:?}");
            }
        }
    }

    #[test]
    fn a_piece_of_tags_takes_20_bytes() {
        assert_eq!(size_of::<Piece>(), 20);
    }
}
