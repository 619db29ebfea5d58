//! What the blocks hold: all of it, what is small, or nothing at all.
//!
//! A model of a drive does not care what is written to it. [`Memory`] keeps the bytes. [`Headers`] keeps
//! short pieces only: what a log writes about its records, but not the records. [`Forgetful`] keeps nothing.
//! The last two never touch the memory of what they do not keep, and so run terabytes at the cost of the model
//! alone. Whoever reads back through them must not expect a checksum over a long piece to hold.
//!
//! Whoever wants the bytes elsewhere (in a file, say) implements [`Medium`].

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::fmt;

use zonal_base::{BLOCK_BYTES, Blocks, Bytes, Lba, Payload, ZoneId, index};
use zonal_device::{DeviceError, Geometry};

/// Where the bytes of a drive lie. It has no time and no zones' states: the drive checked those.
pub trait Medium: fmt::Debug {
    /// Writes the pieces one after the other. Requires: whole blocks, within a zone.
    fn write(&mut self, lba: Lba, data: &[Payload]);

    /// Reads into `out`, which is whole blocks of one zone, what is kept of them.
    ///
    /// # Errors
    /// [`DeviceError::Media`] when a block cannot be read.
    fn read(&mut self, lba: Lba, out: &mut [u8]) -> Result<(), DeviceError>;

    /// Only the first blocks of the zone hold something from now on.
    fn truncate(&mut self, zone: ZoneId, written: Blocks);

    /// Silently turns one bit of a block over, if it is kept.
    fn flip_bit(&mut self, lba: Lba, bit: u32);

    /// False when it keeps nothing, whatever is written: then nobody needs to ask it.
    fn keeps_bytes(&self) -> bool {
        true
    }
}

/// Keeps nothing. What is read back is whatever the buffer held before.
#[derive(Clone, Copy, Debug, Default)]
pub struct Forgetful;

impl Medium for Forgetful {
    fn write(&mut self, _: Lba, _: &[Payload]) {}

    fn read(&mut self, _: Lba, _: &mut [u8]) -> Result<(), DeviceError> {
        Ok(())
    }

    fn truncate(&mut self, _: ZoneId, _: Blocks) {}

    fn flip_bit(&mut self, _: Lba, _: u32) {}

    fn keeps_bytes(&self) -> bool {
        false
    }
}

/// Keeps pieces up to a size, without the zeros at their end. The rest of what is read back is whatever the
/// buffer held before.
#[derive(Clone, Debug)]
pub struct Headers {
    geometry: Geometry,
    piece_max: Bytes,
    /// By where they begin in their zone.
    zones: Vec<BTreeMap<u64, Piece>>,
}

#[derive(Clone, Debug)]
struct Piece {
    blocks: u64,
    bytes: Box<[u8]>,
}

impl Headers {
    /// Of a drive that was never written; pieces longer than `piece_max` are not kept.
    #[must_use]
    pub fn new(geometry: &Geometry, piece_max: Bytes) -> Self {
        let zones = alloc::vec![BTreeMap::new(); geometry.zone_count as usize];
        Self { geometry: *geometry, piece_max, zones }
    }

    /// Bytes that are kept, all in all.
    #[must_use]
    pub fn kept(&self) -> Bytes {
        let pieces = self.zones.iter().flat_map(BTreeMap::values);
        Bytes(pieces.map(|piece| piece.bytes.len() as u64).sum())
    }

    fn locate(&self, lba: Lba) -> (usize, u64) {
        (self.geometry.zone_of(lba).0 as usize, self.geometry.offset_in_zone(lba).0)
    }
}

impl Medium for Headers {
    fn write(&mut self, lba: Lba, data: &[Payload]) {
        let (zone, mut at) = self.locate(lba);
        let kept = &mut self.zones[zone];
        for piece in data {
            let blocks = (piece.len() / BLOCK_BYTES) as u64;
            forget(kept, at, at + blocks);
            if piece.len() as u64 <= self.piece_max.0 {
                let bytes = piece.as_bytes();
                let len = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
                kept.insert(at, Piece { blocks, bytes: bytes[..len].into() });
            }
            at += blocks;
        }
    }

    fn read(&mut self, lba: Lba, out: &mut [u8]) -> Result<(), DeviceError> {
        let (zone, at) = self.locate(lba);
        let end = at + (out.len() / BLOCK_BYTES) as u64;
        let first = self.zones[zone].range(..=at).next_back().map_or(at, |(begin, _)| *begin);
        for (begin, piece) in self.zones[zone].range(first..end) {
            let (from, to) = ((*begin).max(at), (begin + piece.blocks).min(end));
            for block in from..to {
                let to = index(Blocks(block - at).bytes().0);
                let kept = piece.bytes.get(index(Blocks(block - begin).bytes().0)..);
                let kept = kept.unwrap_or_default();
                let kept = &kept[..kept.len().min(BLOCK_BYTES)];
                let out = &mut out[to..to + BLOCK_BYTES];
                out[..kept.len()].copy_from_slice(kept);
                out[kept.len()..].fill(0);
            }
        }
        Ok(())
    }

    fn truncate(&mut self, zone: ZoneId, written: Blocks) {
        forget(&mut self.zones[zone.0 as usize], written.0, u64::MAX);
    }

    fn flip_bit(&mut self, lba: Lba, bit: u32) {
        let (zone, at) = self.locate(lba);
        let Some((begin, piece)) = self.zones[zone].range_mut(..=at).next_back() else { return };
        let bit = bit as usize % (BLOCK_BYTES * 8);
        let byte = index(Blocks(at - begin).bytes().0) + bit / 8;
        if let Some(byte) = piece.bytes.get_mut(byte) {
            *byte ^= 1 << (bit % 8);
        }
    }
}

/// Forgets what is kept of the blocks from `at` to `end`; a piece that begins before is cut.
fn forget(kept: &mut BTreeMap<u64, Piece>, at: u64, end: u64) {
    if let Some((begin, piece)) = kept.range_mut(..at).next_back()
        && at < begin + piece.blocks
    {
        piece.blocks = at - begin;
        let len = index(Blocks(piece.blocks).bytes().0).min(piece.bytes.len());
        piece.bytes = piece.bytes[..len].into();
    }
    while let Some((begin, _)) = kept.range(at..end).next() {
        let begin = *begin;
        kept.remove(&begin);
    }
}

/// Keeps everything in memory, a zone at a time as far as it is written.
#[derive(Clone, Debug)]
pub struct Memory {
    geometry: Geometry,
    zones: Vec<Vec<u8>>,
}

impl Memory {
    /// Of a drive that was never written.
    #[must_use]
    pub fn new(geometry: &Geometry) -> Self {
        Self { geometry: *geometry, zones: alloc::vec![Vec::new(); geometry.zone_count as usize] }
    }

    fn locate(&self, lba: Lba) -> (usize, usize) {
        let at = self.geometry.offset_in_zone(lba).bytes().0;
        (self.geometry.zone_of(lba).0 as usize, index(at))
    }

    /// The bytes from `lba` on, so many, made if they were not there.
    fn bytes_mut(&mut self, lba: Lba, len: usize) -> &mut [u8] {
        let (zone, at) = self.locate(lba);
        let bytes = &mut self.zones[zone];
        if bytes.len() < at + len {
            bytes.resize(at + len, 0);
        }
        &mut bytes[at..at + len]
    }
}

impl Medium for Memory {
    fn write(&mut self, lba: Lba, data: &[Payload]) {
        let mut at = lba;
        for piece in data {
            self.bytes_mut(at, piece.len()).copy_from_slice(piece.as_bytes());
            at = at + Blocks((piece.len() / BLOCK_BYTES) as u64);
        }
    }

    fn read(&mut self, lba: Lba, out: &mut [u8]) -> Result<(), DeviceError> {
        let (zone, at) = self.locate(lba);
        let kept = self.zones[zone].get(at..).unwrap_or_default();
        let kept = &kept[..kept.len().min(out.len())];
        let (front, rest) = out.split_at_mut(kept.len());
        front.copy_from_slice(kept);
        rest.fill(0);
        Ok(())
    }

    fn truncate(&mut self, zone: ZoneId, written: Blocks) {
        let bytes = &mut self.zones[zone.0 as usize];
        bytes.truncate(index(written.bytes().0));
        bytes.shrink_to_fit();
    }

    fn flip_bit(&mut self, lba: Lba, bit: u32) {
        let bit = bit as usize % (BLOCK_BYTES * 8);
        self.bytes_mut(lba, BLOCK_BYTES)[bit / 8] ^= 1 << (bit % 8);
    }
}

/// Blocks that cannot be read until they are written again or their zone is reset.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unreadable(BTreeSet<Lba>);

impl Unreadable {
    pub(crate) fn insert(&mut self, lba: Lba) {
        self.0.insert(lba);
    }

    pub(crate) fn contains_any(&self, lba: Lba, blocks: Blocks) -> bool {
        !self.0.is_empty() && self.0.range(lba..lba + blocks).next().is_some()
    }

    pub(crate) fn forget(&mut self, lba: Lba, blocks: Blocks) {
        if !self.0.is_empty() {
            self.0.retain(|bad| *bad < lba || lba + blocks <= *bad);
        }
    }
}

#[cfg(test)]
mod tests;
