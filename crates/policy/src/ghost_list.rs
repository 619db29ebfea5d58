//! Ghost list: remembers the chunks that admission turned away lately, as fingerprints of two bytes.
//!
//! A slot holds 11 bits of a hash and 5 bits of time; the hash selects a bucket of eight slots. The clock counts bytes
//! that were turned away, so the reach of the list in bytes does not depend on the length of chunks.
//!
//! The list learns the number of chunks in its reach from the first of 24 parts of the reach. Then the list allocates
//! its slots for this number, and forgets that first part. So the list takes 2.7 bytes for each chunk, and up to twice
//! as much only if chunks become shorter later.
//!
//! False positives: the list takes an absent chunk for a remembered one about once in 250 times. Each costs a flash
//! write that was not needed.

use alloc::vec;
use alloc::vec::Vec;

use zonal_base::{Bytes, index, mix64};

const BUCKET: usize = 8;
const TIME_BITS: u32 = 5;
const TIMES: u16 = 1 << TIME_BITS;

/// Reach of the list in ticks, out of [`TIMES`] ticks that a slot tells apart. In the remaining ticks the sweep empties
/// an expired slot before its time comes round again.
const REACH: u16 = 24;

/// An empty slot. A used slot never has this value, because its hash bits are not zero.
const EMPTY: u16 = 0;

/// Ghost list of turned-away chunks.
#[derive(Debug)]
pub struct GhostList {
    slots: Vec<u16>,
    /// Length of a tick: turned-away bytes per step of the clock.
    tick: u64,
    /// Bytes turned away so far.
    bytes: u64,
    /// Current time, as a slot holds it. Cached, because the division that computes it takes longer than comparing all
    /// slots of a bucket with it.
    now: u16,
    /// First slot of the bucket that the sweep visits next to empty expired slots.
    swept: usize,
    /// Chunks turned away so far.
    chunks: u64,
}

impl GhostList {
    /// A ghost list that reaches back over `reach` bytes of turned-away chunks.
    #[must_use]
    pub fn new(reach: Bytes) -> Self {
        let tick = reach.0.div_ceil(REACH.into()).max(1);
        Self { slots: vec![EMPTY; 2 * BUCKET], tick, bytes: 0, now: 0, swept: 0, chunks: 0 }
    }

    /// Remembers a chunk. Requires: the list does not remember the chunk yet.
    pub fn insert(&mut self, chunk: u64, len: Bytes) {
        let was_in_first_tick = self.bytes < self.tick;
        self.bytes += len.0;
        self.now = self.time();
        self.chunks += 1;
        if was_in_first_tick && self.tick <= self.bytes {
            self.settle();
        }
        self.sweep();
        self.sweep();
        self.grow();
        let (bucket, print) = self.places(chunk);
        let now = print | self.now;
        let slots = bucket..bucket + BUCKET;
        if let Some(oldest) = slots.max_by_key(|at| self.age(self.slots[*at])) {
            self.slots[oldest] = now;
        }
    }

    /// Forgets a chunk. True if the list remembered the chunk.
    pub fn remove(&mut self, chunk: u64) -> bool {
        let (bucket, print) = self.places(chunk);
        let slots = bucket..bucket + BUCKET;
        let is_it = |at: &usize| {
            let slot = self.slots[*at];
            slot & !(TIMES - 1) == print && self.age(slot) < REACH
        };
        let found = slots.into_iter().find(is_it);
        if let Some(at) = found {
            self.slots[at] = EMPTY;
        }
        found.is_some()
    }

    /// Memory of the list in bytes.
    #[must_use]
    pub fn memory(&self) -> Bytes {
        Bytes((self.slots.capacity() * size_of::<u16>()) as u64)
    }

    /// Number of chunks in `bytes` turned-away bytes, if their mean length stays the same.
    fn expected(&self, bytes: u64) -> u64 {
        let expected = u128::from(self.chunks) * u128::from(bytes) / u128::from(self.bytes.max(1));
        u64::try_from(expected).unwrap_or(u64::MAX)
    }

    /// Allocates the slots for the whole reach: three quarters of them will be full.
    fn settle(&mut self) {
        let expected = index(self.expected(u64::from(REACH) * self.tick));
        let slots = (expected + expected / 3).next_multiple_of(BUCKET).max(2 * BUCKET);
        self.slots = vec![EMPTY; slots];
        self.swept = 0;
    }

    /// Keeps the buckets less than five sixths full. Doubling the slots needs one more bit of the hash, which existing
    /// slots do not have. So an existing slot stands in both halves until it expires.
    fn grow(&mut self) {
        let expected = self.expected(self.bytes.min(u64::from(REACH) * self.tick));
        if (self.slots.len() as u64) < expected + expected / 5 {
            self.slots.reserve_exact(self.slots.len());
            self.slots.extend_from_within(..);
        }
    }

    fn sweep(&mut self) {
        let bucket = self.swept..self.swept + BUCKET;
        for at in bucket {
            if REACH <= self.age(self.slots[at]) {
                self.slots[at] = EMPTY;
            }
        }
        self.swept = (self.swept + BUCKET) % self.slots.len();
    }

    /// First slot of a chunk's bucket, and the hash bits (fingerprint) that a slot holds.
    fn places(&self, chunk: u64) -> (usize, u16) {
        let hash = mix64(chunk);
        let bucket = index(hash % (self.slots.len() / BUCKET) as u64) * BUCKET;
        let print = (hash >> 48) as u16 & !(TIMES - 1);
        (bucket, print.max(1 << TIME_BITS))
    }

    #[expect(clippy::cast_possible_truncation, reason = "the time is in the lowest bits")]
    const fn time(&self) -> u16 {
        (self.bytes / self.tick) as u16 % TIMES
    }

    /// Age of a slot in ticks. An empty slot is older than all others.
    const fn age(&self, slot: u16) -> u16 {
        match slot {
            EMPTY => u16::MAX,
            slot => (self.now + TIMES - slot % TIMES) % TIMES,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reaches_as_far_back_as_it_is_told_to() {
        let mut ghost = GhostList::new(Bytes(24_000));
        (0..100_000).for_each(|chunk| ghost.insert(chunk, Bytes(1)));
        let remembered = |ghost: &mut GhostList, chunks: core::ops::Range<u64>| {
            chunks.filter(|chunk| ghost.remove(*chunk)).count()
        };
        // The last tick may have begun just now, and a few expired chunks match the fingerprints of others.
        assert!(remembered(&mut ghost, 0..60_000) < 600);
        let late = remembered(&mut ghost, 78_000..100_000);
        assert!(21_000 < late, "{late} of 22000");
    }

    #[test]
    fn it_reaches_as_far_back_when_chunks_become_shorter() {
        let mut ghost = GhostList::new(Bytes(24_000));
        (0..10_000).for_each(|chunk| ghost.insert(chunk, Bytes(10)));
        (10_000..1_000_000).for_each(|chunk| ghost.insert(chunk, Bytes(1)));
        let late = (978_000..1_000_000).filter(|chunk| ghost.remove(*chunk)).count();
        assert!(20_900 < late, "{late} of 22000");
        assert!(ghost.memory() <= Bytes(24_000 * 6), "{:?}", ghost.memory());
    }

    #[test]
    fn what_was_removed_is_not_remembered() {
        let mut ghost = GhostList::new(Bytes(1000));
        ghost.insert(7, Bytes(1));
        assert!(ghost.remove(7) && !ghost.remove(7));
    }

    #[test]
    fn less_than_three_bytes_for_each_chunk() {
        let mut ghost = GhostList::new(Bytes(100_000));
        (0..1_000_000).for_each(|chunk| ghost.insert(chunk, Bytes(1)));
        assert!(ghost.memory() <= Bytes(280_000), "{:?}", ghost.memory());
    }
}
