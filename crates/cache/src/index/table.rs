//! Cuckoo hash table from key hashes to arena entries: two buckets of four slots for each hash.
//!
//! A slot holds where the entry lies, and eight bits of the hash, its *tag*: a look-up reads hardly any entry but the one
//! that it is for. The entry holds the rest of the hash. The tag also says how to get from one bucket of a hash to
//! the other, so an insertion moves slots without a look at entries. A slot costs 5 bytes, and a table runs at more
//! than nine tenths full. It is cut into parts that grow by an eighth on their own: no growth touches more than
//! a few thousand slots.

use alloc::vec;
use alloc::vec::Vec;

use zonal_base::{index, mix64, prefetch_cacheline};

use super::entry::{rest, tag};

/// In the place of an entry where there is none.
const EMPTY: u32 = u32::MAX;
const SLOTS: usize = 4;

/// Slots that a part is meant to have: moving so many takes well under a millisecond.
const PART_SLOTS: usize = 4096;

/// Parts at most: 10 bits of the hash.
const PARTS_MAX: usize = 1024;

/// Moves after which an insertion gives up and the part grows. At this length a part fills to about 94 %.
const KICKS_MAX: usize = 200;

/// Buckets that may be the other one of a bucket: whoever has an entry only, and so does not know its tag, looks at
/// all of them. With half as many parts would fill to 90 % only.
const WAYS: u8 = 16;

/// What chooses the sum of a bucket and its other one, by the tag.
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
    /// Which slot of a full bucket moves next: round and round, so that equal runs stay equal.
    turn: usize,
}

/// Four slots.
#[derive(Clone, Copy)]
struct Bucket {
    tags: [u8; SLOTS],
    /// Where their entries lie.
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

    /// The place of a hash. `rest_of` reads the rest of the hash of the entry in a place.
    pub(crate) fn find(&self, hash: u64, rest_of: impl Fn(u32) -> u64) -> Option<u32> {
        let (tag, rest) = (tag(hash), rest(hash));
        let part = &self.parts[self.part_of(rest)];
        // Memory is far: both buckets are on their way before an entry is looked at.
        let buckets = part.both(rest, tag).map(|bucket| part.buckets[bucket]);
        let places = buckets.iter().flat_map(|bucket| bucket.places.iter().zip(&bucket.tags));
        let mut known = places.filter(|(place, known)| **known == tag && **place != EMPTY);
        known.find(|(place, _)| rest_of(**place) == rest).map(|(place, _)| *place)
    }

    /// A hash will be looked for soon.
    pub(crate) fn prefetch(&self, hash: u64) {
        let part = &self.parts[self.part_of(rest(hash))];
        part.both(rest(hash), tag(hash)).iter().for_each(|bucket| part.buckets[*bucket].prefetch());
    }

    /// A place will be taken out soon that [`Table::remove`] finds with this rest of its hash.
    pub(crate) fn prefetch_rest(&self, rest: u64) {
        let part = &self.parts[self.part_of(rest)];
        part.buckets[part.first(rest)].prefetch();
    }

    /// Requires: no slot with this hash is in the table.
    pub(crate) fn insert(&mut self, hash: u64, place: u32, rest_of: &impl Fn(u32) -> u64) {
        assert!(place != EMPTY);
        let part = self.part_of(rest(hash));
        self.parts[part].insert(hash, place, rest_of);
        self.len += 1;
    }

    /// The tag of the hash whose rest stands in the entry at `place`. Requires: the place is in the table.
    pub(crate) fn tag(&self, rest: u64, place: u32) -> u8 {
        let part = &self.parts[self.part_of(rest)];
        let (bucket, at) = part.locate(rest, place);
        part.buckets[bucket].tags[at]
    }

    /// Takes a place out, and says with which tag. Requires: as for [`Table::tag`].
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
    /// The two buckets where a hash may be.
    fn both(&self, rest: u64, tag: u8) -> [usize; 2] {
        let first = self.first(rest);
        [first, self.other(first, tag)]
    }

    fn first(&self, rest: u64) -> usize {
        self.scaled(mix64(rest))
    }

    /// The bucket to which those of a tag move from this one, and back. Together they are a number that the
    /// tag chooses, around the end of the part.
    fn other(&self, bucket: usize, tag: u8) -> usize {
        let sum = self.scaled(SUMS[usize::from(tag % WAYS)]);
        if bucket <= sum { sum - bucket } else { sum + self.buckets.len() - bucket }
    }

    fn scaled(&self, mixed: u64) -> usize {
        index(((mixed >> 32) * self.buckets.len() as u64) >> 32)
    }

    /// The bucket and the slot in it of a place whose tag is not known.
    fn locate(&self, rest: u64, place: u32) -> (usize, usize) {
        let first = self.first(rest);
        let has = |bucket: usize| self.buckets[bucket].places.contains(&place);
        let mut bucket = first;
        if !has(first) {
            // All of them, also when it is found: memory is far, and so none waits for the one before.
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

    /// Puts the slot into one of its buckets, moving others out of the way. What has no place in the
    /// end is handed back.
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

    /// False when the bucket is full.
    fn put(&mut self, bucket: usize, slot: Slot) -> bool {
        let bucket = &mut self.buckets[bucket];
        let free = bucket.places.iter().position(|place| *place == EMPTY);
        free.is_some_and(|free| {
            bucket.set(free, slot);
            true
        })
    }

    /// Makes room for what has no place.
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
