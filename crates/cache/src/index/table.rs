//! Cuckoo hash table from key hashes to arena entries: two buckets of four slots for each hash.
//!
//! A slot holds the location of the entry and eight bits of the hash, its *tag*, so that a lookup
//! rarely reads a wrong entry. The entry holds the rest of the hash. The tag also leads from one
//! bucket of a hash to the other, so an insertion moves slots without reading entries. A slot costs
//! 5 bytes, and the table is more than nine tenths full. It is divided into parts that grow by an
//! eighth each, so no growth touches more than a few thousand slots.

use alloc::vec;
use alloc::vec::Vec;

use zonal_base::{index, mix64, prefetch_cacheline};

use super::entry::{rest, tag};

/// Location value of an empty slot.
const EMPTY: u32 = u32::MAX;
const SLOTS: usize = 4;

/// Target slots per part: moving that many takes well under a millisecond.
const PART_SLOTS: usize = 4096;

/// Limit of parts: 10 bits of the hash select one.
const PARTS_MAX: usize = 1024;

/// Moves after which an insertion fails and the part grows. With this limit a part fills to about
/// 94 %.
const KICKS_MAX: usize = 200;

/// Candidates for the other bucket of a bucket. A removal that starts from an entry does not know
/// the tag, and checks all of them. With half as many, parts would fill to 90 % only.
const WAYS: u8 = 16;

/// Sum of the numbers of a bucket and its other one, unscaled, by the tag.
const SUMS: [u64; WAYS as usize] = {
    let mut sums = [0; WAYS as usize];
    let mut way = 0;
    while way < sums.len() {
        sums[way] = mix64(way as u64 + 1);
        way += 1;
    }
    sums
};

pub(crate) struct Table {
    parts: Vec<Part>,
    len: usize,
}

struct Part {
    buckets: Vec<Bucket>,
    /// Slot of a full bucket that moves next. It rotates, so that equal runs stay equal.
    turn: usize,
}

/// Bucket of four slots.
#[derive(Clone, Copy)]
struct Bucket {
    tags: [u8; SLOTS],
    /// Locations of the entries.
    places: [u32; SLOTS],
}

#[derive(Clone, Copy)]
struct Slot {
    tag: u8,
    place: u32,
}

impl Table {
    pub(crate) fn new(expected: usize) -> Self {
        let parts = (expected / PART_SLOTS).next_power_of_two().min(PARTS_MAX);
        let part = || Part { buckets: vec![Bucket::NEW; 2], turn: 0 };
        Self { parts: (0..parts).map(|_| part()).collect(), len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn memory(&self) -> usize {
        let buckets: usize = self.parts.iter().map(|part| part.buckets.capacity()).sum();
        buckets * size_of::<Bucket>() + self.parts.capacity() * size_of::<Part>()
    }

    /// Looks up the location for a hash. `rest_of` reads the rest of the hash from the entry at a
    /// location.
    pub(crate) fn find(&self, hash: u64, rest_of: impl Fn(u32) -> u64) -> Option<u32> {
        let (tag, rest) = (tag(hash), rest(hash));
        let part = &self.parts[self.part_of(rest)];
        // Cache misses are slow: both buckets are loaded before an entry is read.
        let buckets = part.both(rest, tag).map(|bucket| part.buckets[bucket]);
        let places = buckets.iter().flat_map(|bucket| bucket.places.iter().zip(&bucket.tags));
        let mut known = places.filter(|(place, known)| **known == tag && **place != EMPTY);
        known.find(|(place, _)| rest_of(**place) == rest).map(|(place, _)| *place)
    }

    /// Prefetches the CPU cache lines of both buckets of a hash.
    pub(crate) fn prefetch(&self, hash: u64) {
        let part = &self.parts[self.part_of(rest(hash))];
        part.both(rest(hash), tag(hash)).iter().for_each(|bucket| part.buckets[*bucket].prefetch());
    }

    /// Prefetches the first bucket for a later [`Table::remove`] with this rest.
    pub(crate) fn prefetch_rest(&self, rest: u64) {
        let part = &self.parts[self.part_of(rest)];
        part.buckets[part.first(rest)].prefetch();
    }

    /// Inserts a location. Requires: the table has no slot with this hash.
    pub(crate) fn insert(&mut self, hash: u64, place: u32, rest_of: &impl Fn(u32) -> u64) {
        assert!(place != EMPTY);
        let part = self.part_of(rest(hash));
        self.parts[part].insert(hash, place, rest_of);
        self.len += 1;
    }

    /// Returns the tag of the hash whose rest is in the entry at `place`. Requires: `place` is in
    /// the table.
    pub(crate) fn tag(&self, rest: u64, place: u32) -> u8 {
        let part = &self.parts[self.part_of(rest)];
        let (bucket, at) = part.locate(rest, place);
        part.buckets[bucket].tags[at]
    }

    /// Removes a location and returns its tag. Requires: `place` is in the table.
    pub(crate) fn remove(&mut self, rest: u64, place: u32) -> u8 {
        let part = self.part_of(rest);
        let part = &mut self.parts[part];
        let (bucket, at) = part.locate(rest, place);
        part.buckets[bucket].places[at] = EMPTY;
        self.len -= 1;
        part.buckets[bucket].tags[at]
    }

    fn part_of(&self, rest: u64) -> usize {
        index(rest) & (self.parts.len() - 1)
    }
}

impl Bucket {
    const NEW: Self = Self { tags: [0; SLOTS], places: [EMPTY; SLOTS] };

    fn set(&mut self, at: usize, Slot { tag, place }: Slot) {
        (self.tags[at], self.places[at]) = (tag, place);
    }

    fn prefetch(&self) {
        prefetch_cacheline(&self.places);
    }

    fn slots(&self) -> impl Iterator<Item = Slot> {
        let slots = self.tags.into_iter().zip(self.places);
        slots.map(|(tag, place)| Slot { tag, place }).filter(|slot| slot.place != EMPTY)
    }
}

impl Part {
    /// The two candidate buckets of a hash.
    fn both(&self, rest: u64, tag: u8) -> [usize; 2] {
        let first = self.first(rest);
        [first, self.other(first, tag)]
    }

    fn first(&self, rest: u64) -> usize {
        self.scaled(mix64(rest))
    }

    /// The other bucket for a tag; applying it twice returns to the first. Both bucket numbers add
    /// up to a sum that the tag selects, modulo the number of buckets.
    fn other(&self, bucket: usize, tag: u8) -> usize {
        let sum = self.scaled(SUMS[usize::from(tag % WAYS)]);
        if bucket <= sum { sum - bucket } else { sum + self.buckets.len() - bucket }
    }

    fn scaled(&self, mixed: u64) -> usize {
        index(((mixed >> 32) * self.buckets.len() as u64) >> 32)
    }

    /// Finds bucket and slot of a location whose tag is unknown.
    fn locate(&self, rest: u64, place: u32) -> (usize, usize) {
        let first = self.first(rest);
        let has = |bucket: usize| self.buckets[bucket].places.contains(&place);
        let mut bucket = first;
        if !has(first) {
            // Checks all candidates even after a match: the loads are independent, so their cache
            // misses overlap.
            for way in 0..WAYS {
                let other = self.other(first, way);
                bucket = if has(other) { other } else { bucket };
            }
        }
        let at = self.buckets[bucket].places.iter().position(|known| *known == place);
        (bucket, at.expect("an entry that is not forgotten is in the table"))
    }

    fn insert(&mut self, hash: u64, place: u32, rest_of: &impl Fn(u32) -> u64) {
        let slot = Slot { tag: tag(hash), place };
        if let Some(homeless) = self.try_insert(rest(hash), slot) {
            self.grow(homeless, rest_of);
        }
    }

    /// Inserts a slot, moving others out of the way. Returns the slot that found no room.
    fn try_insert(&mut self, rest: u64, slot: Slot) -> Option<Slot> {
        let [first, second] = self.both(rest, slot.tag);
        if self.put(first, slot) || self.put(second, slot) {
            return None;
        }
        let (mut bucket, mut slot) = (first, slot);
        for _ in 0..KICKS_MAX {
            self.turn = (self.turn + 1) % SLOTS;
            let full = &mut self.buckets[bucket];
            let moved = Slot { tag: full.tags[self.turn], place: full.places[self.turn] };
            full.set(self.turn, slot);
            (bucket, slot) = (self.other(bucket, moved.tag), moved);
            if self.put(bucket, slot) {
                return None;
            }
        }
        Some(slot)
    }

    /// Puts a slot into a free place of the bucket. False when the bucket is full.
    fn put(&mut self, bucket: usize, slot: Slot) -> bool {
        let bucket = &mut self.buckets[bucket];
        let free = bucket.places.iter().position(|place| *place == EMPTY);
        free.is_some_and(|free| {
            bucket.set(free, slot);
            true
        })
    }

    /// Grows the part, and inserts the slot that found no room.
    fn grow(&mut self, homeless: Slot, rest_of: &impl Fn(u32) -> u64) {
        let count = self.buckets.len();
        let mut more = count + (count / 8).max(1);
        let old = core::mem::take(&mut self.buckets);
        loop {
            self.buckets = vec![Bucket::NEW; more];
            let mut all = old.iter().flat_map(Bucket::slots).chain([homeless]);
            if all.all(|slot| self.try_insert(rest_of(slot.place), slot).is_none()) {
                return;
            }
            more += 1;
        }
    }
}
