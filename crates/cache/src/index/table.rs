//! The table from hashes to slots: cuckoo hashing with two buckets of four slots for each hash.
//!
//! A slot holds only where the entry lies; the entry holds the hash. So a slot costs 4 bytes, and a
//! table runs at more than nine tenths full. It is cut into parts that grow by an eighth on their own:
//! no growth touches more than a few thousand slots.

use alloc::vec;
use alloc::vec::Vec;

use zonal_base::{index, low_u32, mix64};

const EMPTY: u32 = u32::MAX;
const BUCKET: usize = 4;

/// Slots that a part is meant to have: moving so many takes well under a millisecond.
const PART_SLOTS: usize = 4096;

/// Parts at most: 10 bits of the hash.
const PARTS_MAX: usize = 1024;

/// Moves after which an insertion gives up and the part grows. At this length a part fills to about 95 %.
const KICKS_MAX: usize = 200;

pub(crate) struct Table {
    parts: Vec<Part>,
    len: usize,
}

struct Part {
    slots: Vec<u32>,
    /// Which slot of a full bucket moves next: round and round, so that equal runs stay equal.
    turn: usize,
}

impl Table {
    pub(crate) fn new(expected: usize) -> Self {
        let parts = (expected / PART_SLOTS).next_power_of_two().min(PARTS_MAX);
        let part = || Part { slots: vec![EMPTY; BUCKET * 2], turn: 0 };
        Self { parts: (0..parts).map(|_| part()).collect(), len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn memory(&self) -> usize {
        let slots: usize = self.parts.iter().map(|part| part.slots.capacity() * 4).sum();
        slots + self.parts.capacity() * size_of::<Part>()
    }

    /// The slot of a hash. `hash_of` reads the hash of the entry that a slot leads to.
    pub(crate) fn find(&self, hash: u64, hash_of: impl Fn(u32) -> u64) -> Option<u32> {
        let part = &self.parts[self.part_of(hash)];
        // Memory is far: both buckets are on their way before the entries of the first are looked at.
        let [first, second] = part.buckets(hash).map(|bucket| part.bucket(bucket));
        let mut slots = first.into_iter().chain(second);
        slots.find(|slot| *slot != EMPTY && hash_of(*slot) == hash)
    }

    /// Requires: no slot with this hash is in the table.
    pub(crate) fn insert(&mut self, hash: u64, slot: u32, hash_of: &impl Fn(u32) -> u64) {
        assert!(slot != EMPTY);
        let part = self.part_of(hash);
        self.parts[part].insert(hash, slot, hash_of);
        self.len += 1;
    }

    /// Requires: the slot is in the table under this hash.
    pub(crate) fn remove(&mut self, hash: u64, slot: u32) {
        let part = self.part_of(hash);
        let part = &mut self.parts[part];
        let places = part.buckets(hash).map(|bucket| bucket * BUCKET..(bucket + 1) * BUCKET);
        let at = places.into_iter().flatten().find(|at| part.slots[*at] == slot);
        part.slots[at.expect("an entry that is not forgotten is in the table")] = EMPTY;
        self.len -= 1;
    }

    fn part_of(&self, hash: u64) -> usize {
        index(hash) & (self.parts.len() - 1)
    }
}

impl Part {
    /// The two buckets where a hash may be.
    fn buckets(&self, hash: u64) -> [usize; 2] {
        let count = (self.slots.len() / BUCKET) as u64;
        let mixed = mix64(hash);
        [index(((mixed >> 32) * count) >> 32), index(((mixed & 0xFFFF_FFFF) * count) >> 32)]
    }

    fn bucket(&self, bucket: usize) -> [u32; BUCKET] {
        let mut slots = [EMPTY; BUCKET];
        slots.copy_from_slice(&self.slots[bucket * BUCKET..(bucket + 1) * BUCKET]);
        slots
    }

    fn insert(&mut self, hash: u64, slot: u32, hash_of: &impl Fn(u32) -> u64) {
        let mut homeless = self.try_insert(hash, slot, hash_of);
        while let Some((hash, slot)) = homeless {
            self.grow(hash_of);
            homeless = self.try_insert(hash, slot, hash_of);
        }
    }

    /// Puts the slot into one of its buckets, moving others out of the way. What has no place in the
    /// end is handed back.
    fn try_insert(
        &mut self,
        hash: u64,
        slot: u32,
        hash_of: &impl Fn(u32) -> u64,
    ) -> Option<(u64, u32)> {
        let (mut hash, mut slot) = (hash, slot);
        let mut came_from = usize::MAX;
        for _ in 0..KICKS_MAX {
            let buckets = self.buckets(hash);
            for bucket in buckets {
                let free = self.bucket(bucket).iter().position(|slot| *slot == EMPTY);
                if let Some(free) = free {
                    self.slots[bucket * BUCKET + free] = slot;
                    return None;
                }
            }
            let bucket = if buckets[0] == came_from { buckets[1] } else { buckets[0] };
            self.turn = (self.turn + 1) % BUCKET;
            let at = bucket * BUCKET + self.turn;
            let moved = core::mem::replace(&mut self.slots[at], slot);
            (hash, slot, came_from) = (hash_of(moved), moved, bucket);
        }
        Some((hash, slot))
    }

    fn grow(&mut self, hash_of: &impl Fn(u32) -> u64) {
        let buckets = self.slots.len() / BUCKET;
        let mut more = buckets + (buckets / 8).max(1);
        let old = core::mem::take(&mut self.slots);
        loop {
            self.slots = vec![EMPTY; more * BUCKET];
            let mut full = old.iter().filter(|slot| **slot != EMPTY);
            let all_fit =
                full.all(|slot| self.try_insert(hash_of(*slot), *slot, hash_of).is_none());
            if all_fit {
                assert!(low_u32(self.slots.len()) != EMPTY);
                return;
            }
            more += 1;
        }
    }
}
