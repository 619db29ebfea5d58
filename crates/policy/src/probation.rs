//! Who is worth a flash write: what is asked for twice. S3-FIFO's small queue and its ghost list (SOSP'23), in
//! front of flash.
//!
//! 1. What was missed waits in memory, first in first out. A read there is a hit, and is remembered.
//! 2. What was read while it waited goes to flash. The rest is turned away, and the ghost list remembers it.
//! 3. What the ghost list remembers goes to flash at its next miss, without waiting.
//!
//! While flash has never been full there is nobody to protect: everything that waited goes there.
//!
//! Without memory this is admission at the second hit: a chunk goes to flash when it is missed twice within the
//! reach of the ghost list. With a frequency sketch in the place of the list, a chunk that was known once is still
//! known after it was admitted, until it is forgotten.

use alloc::collections::VecDeque;

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use zonal_base::{Bytes, mix64};

use crate::Ghost;
use crate::sketch::Sketch;

/// See the module.
#[derive(Debug)]
pub struct Probation {
    memory: Bytes,
    used: Bytes,
    queue: VecDeque<Waiting>,
    /// Where each chunk waits, counted from the first that ever did.
    places: HashMap<u64, u64, Mixed>,
    /// The number of the first of the queue.
    first: u64,
    known: Known,
    is_flash_full: bool,
}

/// Who was missed before.
#[derive(Debug)]
enum Known {
    Ghost(Ghost),
    Sketch(Sketch),
}

impl Known {
    /// A chunk was missed: whether that happened before.
    fn miss(&mut self, chunk: u64, len: Bytes) -> bool {
        match self {
            Self::Ghost(ghost) => ghost.remove(chunk),
            Self::Sketch(sketch) => 2 <= sketch.count(chunk, len),
        }
    }

    fn turn_away(&mut self, chunk: u64, len: Bytes) {
        match self {
            Self::Ghost(ghost) => ghost.insert(chunk, len),
            // It was counted when it was missed.
            Self::Sketch(_) => {}
        }
    }

    fn memory(&self) -> Bytes {
        match self {
            Self::Ghost(ghost) => ghost.memory(),
            Self::Sketch(sketch) => sketch.memory(),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    chunk: u64,
    len: Bytes,
    was_read: bool,
}

/// What becomes of a chunk that waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// To flash.
    Admit,
    /// Nowhere.
    TurnAway,
}

impl Probation {
    /// So much memory to wait in, and a ghost list that reaches back over so many bytes.
    #[must_use]
    pub fn new(memory: Bytes, reach: Bytes) -> Self {
        Self::with(memory, Known::Ghost(Ghost::new(reach)))
    }

    /// Without memory, by a frequency sketch for a cache that has room for so much.
    #[must_use]
    pub fn by_frequency(room: Bytes) -> Self {
        Self::with(Bytes(0), Known::Sketch(Sketch::new(room)))
    }

    fn with(memory: Bytes, known: Known) -> Self {
        Self {
            memory,
            used: Bytes(0),
            queue: VecDeque::new(),
            places: HashMap::default(),
            first: 0,
            known,
            is_flash_full: false,
        }
    }

    /// A read: true if the chunk waits in memory.
    pub fn read(&mut self, chunk: u64) -> bool {
        let place = self.places.get(&chunk);
        let waiting = place.map(|place| &mut self.queue[zonal_base::index(place - self.first)]);
        waiting.is_some_and(|waiting| {
            waiting.was_read = true;
            true
        })
    }

    /// A chunk was missed. True if it goes to flash at once; otherwise it waits, and [`Probation::leave`]
    /// says who leaves for it.
    pub fn miss(&mut self, chunk: u64, len: Bytes) -> bool {
        let is_known = self.known.miss(chunk, len);
        if is_known || (self.memory < len && !self.is_flash_full) {
            return true;
        }
        if self.memory < len {
            self.known.turn_away(chunk, len);
            return false;
        }
        self.places.insert(chunk, self.first + self.queue.len() as u64);
        self.queue.push_back(Waiting { chunk, len, was_read: false });
        self.used += len;
        false
    }

    /// Who has to leave, and where to, while more waits than fits.
    pub fn leave(&mut self) -> Option<(u64, Bytes, Verdict)> {
        while self.memory < self.used {
            let Waiting { chunk, len, was_read } = self.queue.pop_front()?;
            let number = self.first;
            self.first += 1;
            self.used = Bytes(self.used.0 - len.0);
            // It may have been forgotten, and even be waiting anew.
            let Entry::Occupied(place) = self.places.entry(chunk) else { continue };
            if *place.get() != number {
                continue;
            }
            place.remove();
            if was_read || !self.is_flash_full {
                return Some((chunk, len, Verdict::Admit));
            }
            self.known.turn_away(chunk, len);
            return Some((chunk, len, Verdict::TurnAway));
        }
        None
    }

    /// A chunk is stale. Its room is free when its turn comes.
    pub fn forget(&mut self, chunk: u64) {
        self.places.remove(&chunk);
    }

    /// Flash has been full: from now on not everybody is admitted.
    pub fn note_full_flash(&mut self) {
        self.is_flash_full = true;
    }

    /// Memory that is taken beside the waiting chunks themselves.
    #[must_use]
    pub fn memory(&self) -> Bytes {
        let waiting = self.queue.capacity() * size_of::<Waiting>();
        let places = self.places.capacity() * size_of::<(u64, u64)>();
        self.known.memory() + Bytes((waiting + places) as u64)
    }
}

/// Chunk numbers may be anything: the bits of a hash, or counted from 0.
#[derive(Clone, Copy, Debug, Default)]
struct Mixed;

impl core::hash::BuildHasher for Mixed {
    type Hasher = Mixer;

    fn build_hasher(&self) -> Mixer {
        Mixer(0)
    }
}

struct Mixer(u64);

impl core::hash::Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, n: u64) {
        self.0 = mix64(self.0 ^ n);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full(memory: u64) -> Probation {
        let mut probation = Probation::new(Bytes(memory), Bytes(100));
        probation.note_full_flash();
        probation
    }

    #[test]
    fn what_was_read_while_it_waited_is_admitted() {
        let mut probation = full(2);
        for chunk in [1, 2] {
            assert!(!probation.miss(chunk, Bytes(1)));
        }
        assert!(probation.read(1) && !probation.read(3));
        assert_eq!(probation.leave(), None);
        assert!(!probation.miss(3, Bytes(1)));
        assert_eq!(probation.leave(), Some((1, Bytes(1), Verdict::Admit)));
        assert_eq!(probation.leave(), None);
        assert!(!probation.miss(4, Bytes(1)));
        assert_eq!(probation.leave(), Some((2, Bytes(1), Verdict::TurnAway)));
        // It is remembered.
        assert!(!probation.read(2) && probation.miss(2, Bytes(1)));
    }

    #[test]
    fn without_memory_the_second_miss_is_admitted() {
        let mut probation = full(0);
        assert!(!probation.miss(1, Bytes(1)));
        assert!(probation.miss(1, Bytes(1)));
        assert!(!probation.miss(1, Bytes(1)));
    }

    #[test]
    fn by_frequency_what_was_admitted_is_known_when_it_is_missed_again() {
        let mut probation = Probation::by_frequency(Bytes(100));
        assert!(probation.miss(1, Bytes(1)), "flash is not full yet");
        probation.note_full_flash();
        assert!(!probation.miss(2, Bytes(1)));
        assert!(probation.miss(2, Bytes(1)) && probation.miss(2, Bytes(1)));
        assert!(probation.miss(1, Bytes(1)));
        assert_eq!(probation.leave(), None);
    }

    #[test]
    fn everybody_is_admitted_until_flash_has_been_full() {
        let mut probation = Probation::new(Bytes(1), Bytes(100));
        assert!(!probation.miss(1, Bytes(1)) && !probation.miss(2, Bytes(1)));
        assert_eq!(probation.leave(), Some((1, Bytes(1), Verdict::Admit)));
        assert!(probation.miss(3, Bytes(2)));
    }

    #[test]
    fn what_was_forgotten_goes_nowhere() {
        let mut probation = full(1);
        assert!(!probation.miss(1, Bytes(1)));
        probation.forget(1);
        assert!(!probation.read(1) && !probation.miss(1, Bytes(1)));
        assert_eq!(probation.leave(), None);
        assert!(probation.read(1));
    }
}
