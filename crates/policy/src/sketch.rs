//! `TinyLFU` frequency sketch: estimates how often a chunk was missed lately, for admission at the second miss.
//!
//! A count-min sketch of four-bit counters (Einziger, Friedman and Manes, 2017). All counters are halved from time to
//! time, so that the sketch forgets.
//!
//! A chunk has four counters, which other chunks share. The lowest of the four is the best estimate, and is never too
//! low but for halving. A miss raises only the lowest counters.
//!
//! `TinyLFU` compares two chunks by their counts, and can halve as late as after ten times as many accesses as it has
//! counters. Here the question is whether a chunk was seen twice. With such late halving, 93 of 100 chunks that come
//! only once would be taken for known. So the counters are halved much sooner, see `PERIOD`.

use alloc::vec;
use alloc::vec::Vec;

use zonal_base::{Bytes, index, mix64};

/// Number of counters of a chunk.
const ROWS: usize = 4;

/// The highest value of a four-bit counter.
const MOST: u64 = 15;

/// Number of counters in a word.
const IN_WORD: u64 = 16;

/// Mask of the three lower bits of all counters of a word: clears the bits that halving shifts in from a neighbour.
const HALVES: u64 = 0x7777_7777_7777_7777;

/// Minimum number of counters for each chunk that fits into the cache. The sketch then takes four to eight bytes for
/// each chunk.
const COUNTERS: u64 = 8;

/// Halving period: the counters are halved after as many misses as there are counters, divided by this. So the last
/// miss before a halving finds less than half of the counters raised. Of chunks that come only once, fewer than 3 in
/// 100 are taken for known (test `few_of_those_that_come_once_are_taken_for_known`).
const PERIOD: u64 = 6;

/// Count-min sketch of misses.
#[derive(Debug)]
pub(crate) struct Sketch {
    words: Vec<u64>,
    room: Bytes,
    /// Number of misses so far.
    chunks: u64,
    /// Bytes of these misses.
    bytes: u64,
    /// Number of misses since the counters were halved last.
    counted: u64,
}

impl Sketch {
    /// A sketch for a cache of `room` bytes.
    pub(crate) fn new(room: Bytes) -> Self {
        Self { words: vec![0; 8], room, chunks: 0, bytes: 0, counted: 0 }
    }

    /// Counts a miss of a chunk. Returns the estimated number of its misses, this one included; 16 at most.
    pub(crate) fn count(&mut self, chunk: u64, len: Bytes) -> u64 {
        self.chunks += 1;
        self.bytes += len.0;
        self.grow();
        let places = self.places(chunk);
        let least = places.map(|place| self.counter(place)).into_iter().min().unwrap_or(0);
        for place in places {
            // Two of the four counters may be the same one: the second check keeps it from being raised twice.
            if least < MOST && self.counter(place) == least {
                self.words[index(place / IN_WORD)] += 1 << (place % IN_WORD * 4);
            }
        }
        self.counted += 1;
        if self.counters() <= self.counted * PERIOD {
            self.counted = 0;
            self.words.iter_mut().for_each(|word| *word = *word >> 1 & HALVES);
        }
        least + 1
    }

    /// Memory of the sketch in bytes.
    pub(crate) fn memory(&self) -> Bytes {
        Bytes((self.words.capacity() * size_of::<u64>()) as u64)
    }

    /// Doubles the counters when more chunks fit than expected: their number follows from the mean length of missed
    /// chunks. Doubling needs one more bit of the hash, so existing counts stand in both halves until they are halved
    /// away.
    fn grow(&mut self) {
        let fitting = self.room.0 / (self.bytes / self.chunks).max(1);
        if self.counters() < fitting * COUNTERS {
            self.words.reserve_exact(self.words.len());
            self.words.extend_from_within(..);
        }
    }

    const fn counters(&self) -> u64 {
        self.words.len() as u64 * IN_WORD
    }

    fn places(&self, chunk: u64) -> [u64; ROWS] {
        let hash = mix64(chunk);
        let (first, step) = (hash, hash >> 32 | 1);
        core::array::from_fn(|row| first.wrapping_add(step * row as u64) & (self.counters() - 1))
    }

    fn counter(&self, place: u64) -> u64 {
        self.words[index(place / IN_WORD)] >> (place % IN_WORD * 4) & MOST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_counts_up_to_its_most() {
        let mut sketch = Sketch::new(Bytes(1000));
        (1000..1020).for_each(|chunk| {
            sketch.count(chunk, Bytes(1));
        });
        let counts: Vec<u64> = (0..20).map(|_| sketch.count(7, Bytes(1))).collect();
        assert_eq!(counts[..4], [1, 2, 3, 4]);
        assert_eq!(counts[19], 16);
    }

    #[test]
    fn what_was_counted_long_ago_is_forgotten() {
        let mut sketch = Sketch::new(Bytes(1000));
        (0..100).for_each(|_| {
            sketch.count(7, Bytes(1));
        });
        (1000..21_000).for_each(|chunk| {
            sketch.count(chunk, Bytes(1));
        });
        assert!(sketch.count(7, Bytes(1)) <= 2);
    }

    #[test]
    fn few_of_those_that_come_once_are_taken_for_known() {
        let mut sketch = Sketch::new(Bytes(10_000));
        let known = (0..1_000_000).filter(|chunk| 2 <= sketch.count(*chunk, Bytes(1))).count();
        assert!(known < 30_000, "{known} of 1000000");
    }

    #[test]
    fn what_comes_again_within_the_room_is_known() {
        let mut sketch = Sketch::new(Bytes(40_960_000));
        (0..10_000).for_each(|chunk| {
            sketch.count(chunk, Bytes(4096));
        });
        let known = (0..10_000).filter(|chunk| 2 <= sketch.count(*chunk, Bytes(4096))).count();
        assert!(9_000 < known, "{known} of 10000");
    }

    #[test]
    fn eight_bytes_at_most_for_each_chunk_that_there_is_room_for() {
        let mut sketch = Sketch::new(Bytes(10_000 * 4096));
        (0..100_000).for_each(|chunk| {
            sketch.count(chunk, Bytes(4096));
        });
        assert!(sketch.memory() <= Bytes(80_000), "{:?}", sketch.memory());
    }
}
