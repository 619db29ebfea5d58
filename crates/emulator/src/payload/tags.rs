//! Bytes where bytes were written, tags where tags were.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem;
use core::ops::Range;

use zonal_base::{BLOCK_BYTES, Blocks, Buffer, Lba, Payload, Tag, ZoneId, index};
use zonal_device::{DeviceError, Geometry};

use super::Medium;

/// Keeps what it is given: of pieces that hold tags the first one, of others the bytes, without the zeros at
/// their end. 32 bytes for a piece, and its bytes.
#[derive(Clone, Debug)]
pub struct Tags {
    geometry: Geometry,
    /// By where they begin; no two overlap.
    zones: Vec<Vec<Piece>>,
}

#[derive(Clone, Debug)]
struct Piece {
    /// From the start of the zone.
    at: u32,
    blocks: u32,
    held: Held,
}

#[derive(Clone, Debug)]
enum Held {
    /// Of the first block; the others follow.
    Tag(Tag),
    Bytes(Box<[u8]>),
}

/// Room is made for an eighth more, not for as much again: a full drive has tens of millions of pieces.
const ROOM_MIN: usize = 64;

impl Tags {
    /// Of a drive that was never written.
    #[must_use]
    pub fn new(geometry: &Geometry) -> Self {
        Self { geometry: *geometry, zones: alloc::vec![Vec::new(); geometry.zone_count as usize] }
    }

    fn locate(&self, lba: Lba) -> (usize, u32) {
        let at = self.geometry.offset_in_zone(lba).0;
        (self.geometry.zone_of(lba).0 as usize, zonal_base::low_u32(index(at)))
    }
}

impl Piece {
    fn new(at: u32, data: &Payload) -> Self {
        let held = data.tag().map_or_else(|| Held::bytes(data.as_bytes()), Held::Tag);
        Self { at, blocks: zonal_base::low_u32(data.len() / BLOCK_BYTES), held }
    }

    const fn end(&self) -> u32 {
        self.at + self.blocks
    }

    /// The part from block `from` to block `to` of the zone. Requires: there is one.
    fn part(&self, from: u32, to: u32) -> Self {
        let held = match &self.held {
            Held::Tag(tag) => Held::Tag(self.tag_at(*tag, from)),
            Held::Bytes(bytes) => Held::bytes(self.bytes_within(bytes, from, to)),
        };
        Self { at: from, blocks: to - from, held }
    }

    fn tag_at(&self, first: Tag, block: u32) -> Tag {
        first.plus(Blocks(u64::from(block - self.at)))
    }

    fn bytes_within<'a>(&self, bytes: &'a [u8], from: u32, to: u32) -> &'a [u8] {
        let [begin, end] =
            [from, to].map(|block| bytes.len().min((block - self.at) as usize * BLOCK_BYTES));
        &bytes[begin..end]
    }

    /// Gives the part from block `from` to block `to` of the zone to a reader who began at block `origin`.
    fn give(&self, (from, to): (u32, u32), origin: u32, out: &mut Buffer) {
        let [begin, end] = [from, to].map(|at| (at - origin) as usize);
        match &self.held {
            Held::Tag(tag) => out.set_tags(begin..end, self.tag_at(*tag, from)),
            Held::Bytes(bytes) => {
                let bytes = self.bytes_within(bytes, from, to);
                let out = &mut out.bytes_mut()[begin * BLOCK_BYTES..end * BLOCK_BYTES];
                let (kept, zeros) = out.split_at_mut(bytes.len());
                kept.copy_from_slice(bytes);
                zeros.fill(0);
            }
        }
    }
}

impl Held {
    fn bytes(bytes: &[u8]) -> Self {
        let len = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        Self::Bytes(bytes[..len].into())
    }
}

/// The first piece that reaches beyond a block, or how many there are.
fn beyond(pieces: &[Piece], block: u32) -> usize {
    let Some(last) = pieces.last().filter(|last| block < last.end()) else { return pieces.len() };
    // Pieces are of a kind: look first where it would be if all were equally long, then ever further away.
    let guess = u64::from(block) * pieces.len() as u64 / u64::from(last.end());
    let guess = index(guess).min(pieces.len() - 1);
    let (mut low, mut high, mut step) = (guess, guess, 1);
    while high < pieces.len() && pieces[high].end() <= block {
        (low, high, step) = (high + 1, high + step, step * 2);
    }
    while 0 < low && block < pieces[low - 1].end() {
        (low, high, step) = (low.saturating_sub(step), low - 1, step * 2);
    }
    let high = high.min(pieces.len());
    low + pieces[low..high].partition_point(|piece| piece.end() <= block)
}

/// Puts a piece in; what lay there is gone.
fn put(pieces: &mut Vec<Piece>, piece: Piece) {
    if pieces.len() == pieces.capacity() {
        pieces.reserve_exact(pieces.len() / 8 + ROOM_MIN);
    }
    if pieces.last().is_none_or(|last| last.end() <= piece.at) {
        return pieces.push(piece);
    }
    let place = cut(pieces, piece.at, piece.end());
    pieces.insert(place, piece);
}

/// Takes out what lies between two blocks, and says where among the pieces that is.
fn cut(pieces: &mut Vec<Piece>, from: u32, to: u32) -> usize {
    let first = beyond(pieces, from);
    let last = pieces.partition_point(|piece| piece.at < to);
    let Some(touched) = pieces.get(first..last).filter(|touched| !touched.is_empty()) else {
        return first;
    };
    let (head, tail) = (&touched[0], &touched[touched.len() - 1]);
    let before = (head.at < from).then(|| head.part(head.at, from));
    let after = (to < tail.end()).then(|| tail.part(to, tail.end()));
    let place = first + usize::from(before.is_some());
    pieces.splice(first..last, before.into_iter().chain(after));
    place
}

/// Blocks that were never written.
fn clear(out: &mut Buffer, blocks: Range<u32>) {
    let [from, to] = [blocks.start, blocks.end].map(|block| block as usize * BLOCK_BYTES);
    out.bytes_mut()[from..to].fill(0);
}

impl Medium for Tags {
    fn write(&mut self, lba: Lba, data: &[Payload]) {
        let (zone, mut at) = self.locate(lba);
        for data in data {
            let piece = Piece::new(at, data);
            at = piece.end();
            put(&mut self.zones[zone], piece);
        }
    }

    fn read(&mut self, lba: Lba, blocks: Blocks, out: &mut Buffer) -> Result<(), DeviceError> {
        let (zone, origin) = self.locate(lba);
        let end = origin + zonal_base::low_u32(index(blocks.0));
        let pieces = &self.zones[zone];
        let first = beyond(pieces, origin);
        let mut done = origin;
        for piece in pieces[first..].iter().take_while(|piece| piece.at < end) {
            let (from, to) = (piece.at.max(origin), piece.end().min(end));
            clear(out, done - origin..from - origin);
            piece.give((from, to), origin, out);
            done = to;
        }
        clear(out, done - origin..end - origin);
        Ok(())
    }

    fn truncate(&mut self, zone: ZoneId, written: Blocks) {
        let pieces = &mut self.zones[zone.0 as usize];
        cut(pieces, zonal_base::low_u32(index(written.0)), u32::MAX);
        if written == Blocks(0) {
            mem::take(pieces);
        }
    }

    fn flip_bit(&mut self, lba: Lba, bit: u32) {
        let (zone, at) = self.locate(lba);
        let pieces = &mut self.zones[zone];
        let found = beyond(pieces, at);
        let Some(piece) = pieces.get(found).filter(|piece| piece.at <= at) else { return };
        let mut block = piece.part(at, at + 1);
        match &mut block.held {
            Held::Tag(tag) => tag.source ^= 1 << (bit % u64::BITS),
            Held::Bytes(bytes) => {
                let mut whole = alloc::vec![0; BLOCK_BYTES];
                whole[..bytes.len()].copy_from_slice(bytes);
                whole[bit as usize / 8 % BLOCK_BYTES] ^= 1 << (bit % 8);
                block.held = Held::bytes(&whole);
            }
        }
        put(pieces, block);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zonal_base::Rng;

    #[test]
    fn a_piece_is_found_wherever_it_lies() {
        let mut rng = Rng::new(3);
        for round in 0..300 {
            let (mut pieces, mut at) = (Vec::new(), 0);
            for _ in 0..round {
                at += u32::from(rng.one_in(5)) * 40;
                let blocks = if rng.one_in(9) { 200 } else { 1 + u32::from(rng.one_in(3)) };
                pieces.push(Piece { at, blocks, held: Held::bytes(&[]) });
                at += blocks;
            }
            for _ in 0..40 {
                let block = zonal_base::low_u32(index(rng.below(u64::from(at) + 3)));
                let plain = pieces.partition_point(|piece| piece.end() <= block);
                assert_eq!(beyond(&pieces, block), plain, "block {block} of {pieces:?}");
            }
        }
    }
}
