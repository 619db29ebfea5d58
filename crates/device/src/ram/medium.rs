//! Storage medium of the RAM device: the bytes of its zones, and the volatile write cache that a power cut may lose.

use alloc::boxed::Box;
use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;

use zonal_base::{BLOCK_BYTES, Blocks, Lba, ZoneId, index};

use crate::{DeviceError, DeviceKind, Geometry, ZoneAction};

/// Size of the volatile write cache, in blocks: 16 MiB, within the 8 to 64 MiB of drives without power-loss
/// protection (an estimate). As in a drive, older blocks have reached the medium. Without a bound, a run that never
/// flushes would keep all of its history.
const UNFLUSHED_BLOCKS_MAX: u64 = 4096;

/// Bytes of one block.
pub(super) type Block = [u8; BLOCK_BYTES];

#[derive(Debug)]
pub(super) struct Medium {
    geometry: Geometry,
    /// Bytes of each zone, up to the last block that was ever written. The rest reads as zeros.
    zones: Vec<Vec<u8>>,
    unreadable: BTreeSet<Lba>,
    /// Blocks written since the last flush, oldest first.
    unflushed: VecDeque<Unflushed>,
    last_write: u64,
}

/// A block in the volatile write cache: written after the last flush.
#[derive(Debug)]
pub(super) struct Unflushed {
    write: u64,
    pub(super) lba: Lba,
    /// Previous bytes of the block; `None` on a zoned device, where a block is written once.
    pub(super) previous: Option<Box<Block>>,
}

impl Medium {
    pub(super) fn new(geometry: &Geometry) -> Self {
        Self {
            geometry: *geometry,
            zones: alloc::vec![Vec::new(); geometry.zone_count as usize],
            unreadable: BTreeSet::new(),
            unflushed: VecDeque::new(),
            last_write: 0,
        }
    }

    /// Number of the last write: a flush up to this number covers all writes so far.
    pub(super) const fn last_write(&self) -> u64 {
        self.last_write
    }

    pub(super) fn read(&self, lba: Lba, out: &mut [u8]) -> Result<(), DeviceError> {
        let end = lba + Blocks((out.len() / BLOCK_BYTES) as u64);
        if self.unreadable.range(lba..end).next().is_some() {
            return Err(DeviceError::Media);
        }
        let (zone, at) = self.locate(lba);
        let kept = self.zones[zone].get(at..).unwrap_or_default();
        let kept = &kept[..kept.len().min(out.len())];
        let (front, rest) = out.split_at_mut(kept.len());
        front.copy_from_slice(kept);
        rest.fill(0);
        Ok(())
    }

    /// Requires: whole blocks within a zone.
    pub(super) fn write<'a>(&mut self, lba: Lba, pieces: impl Iterator<Item = &'a [u8]>) {
        self.last_write += 1;
        let blocks = pieces.flat_map(|piece| piece.as_chunks::<BLOCK_BYTES>().0);
        for (n, block) in (0..).zip(blocks) {
            let lba = lba + Blocks(n);
            let previous = match self.geometry.kind {
                DeviceKind::Zoned => None,
                DeviceKind::Conventional => Some(Box::new(*self.block_mut(lba))),
            };
            self.unflushed.push_back(Unflushed { write: self.last_write, lba, previous });
            self.put(lba, block);
        }
        while UNFLUSHED_BLOCKS_MAX < self.unflushed.len() as u64 {
            self.unflushed.pop_front();
        }
    }

    /// Writes a block to the medium directly, past the write cache.
    pub(super) fn put(&mut self, lba: Lba, block: &Block) {
        self.unreadable.remove(&lba);
        *self.block_mut(lba) = *block;
    }

    /// Applies a reset or finish on a zoned device. The contents of the zone become durable: finishing programs the
    /// whole zone, and after a reset there are no data to lose.
    pub(super) fn managed(&mut self, zone: ZoneId, action: ZoneAction) {
        let (start, size) = (self.geometry.zone_start(zone), self.geometry.zone_size);
        let is_inside = |lba: Lba| start <= lba && lba < start + size;
        if matches!(action, ZoneAction::Reset | ZoneAction::Finish) {
            self.unflushed.retain(|block| !is_inside(block.lba));
        }
        if action == ZoneAction::Reset {
            self.truncate(zone, Blocks(0));
            self.unreadable.retain(|lba| !is_inside(*lba));
        }
    }

    /// Flush: every write up to number `covers` survives a power cut.
    pub(super) fn flushed(&mut self, covers: u64) {
        let kept = self.unflushed.partition_point(|block| block.write <= covers);
        self.unflushed.drain(..kept);
    }

    /// Takes the blocks of the write cache, oldest first, and leaves the cache empty.
    pub(super) fn take_unflushed(&mut self) -> VecDeque<Unflushed> {
        core::mem::take(&mut self.unflushed)
    }

    /// Cuts a zone back to its first `written` blocks.
    pub(super) fn truncate(&mut self, zone: ZoneId, written: Blocks) {
        let bytes = &mut self.zones[zone.0 as usize];
        bytes.truncate(index(written.bytes().0));
        bytes.shrink_to_fit();
    }

    pub(super) fn zone_bytes(&self, zone: ZoneId) -> &[u8] {
        &self.zones[zone.0 as usize]
    }

    pub(super) fn replace_zone_bytes(&mut self, zone: ZoneId, bytes: Vec<u8>) {
        self.zones[zone.0 as usize] = bytes;
    }

    pub(super) fn flip_bit(&mut self, lba: Lba, bit: u32) {
        let bit = bit as usize % (BLOCK_BYTES * 8);
        self.block_mut(lba)[bit / 8] ^= 1 << (bit % 8);
    }

    pub(super) fn make_unreadable(&mut self, lba: Lba) {
        self.unreadable.insert(lba);
    }

    fn locate(&self, lba: Lba) -> (usize, usize) {
        let at = self.geometry.offset_in_zone(lba).bytes().0;
        (self.geometry.zone_of(lba).0 as usize, index(at))
    }

    fn block_mut(&mut self, lba: Lba) -> &mut Block {
        let (zone, at) = self.locate(lba);
        let bytes = &mut self.zones[zone];
        if bytes.len() < at + BLOCK_BYTES {
            bytes.resize(at + BLOCK_BYTES, 0);
        }
        let (block, _) = bytes[at..].split_first_chunk_mut().expect("it was just made long enough");
        block
    }
}
