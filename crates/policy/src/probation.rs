//! Who is worth a flash write: what is asked for twice. S3-FIFO's small queue and its ghost list (SOSP'23), in
//! front of flash.
//!
//! 1. What was missed waits in memory, first in first out. A read there is a hit, and is remembered.
//! 2. What was read while it waited goes to flash. The rest is turned away, and the ghost list remembers it.
//! 3. What the ghost list remembers goes to flash at its next miss, without waiting.
//!
//! While flash has never been full there is nobody to protect: unless the budget is short, everything goes there at once.
//!
//! Without memory this is admission at the second hit: a chunk goes to flash when it is missed twice within the
//! reach of the ghost list. With a frequency sketch in the place of the list, a chunk that was known once is still
//! known after it was admitted, until it is forgotten.

use zonal_base::Bytes;

use crate::queue::{Queue, Queued};
use crate::sketch::Sketch;
use crate::{Ghost, Means};

/// See the module.
#[derive(Debug)]
pub struct Probation {
    memory: Bytes,
    waiting: Queue,
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

/// What becomes of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// To flash.
    Admit,
    /// It waits in memory: [`Probation::wait`], as soon as its bytes are there.
    Wait,
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
        Self { memory, waiting: Queue::default(), known, is_flash_full: false }
    }

    /// A read: true if the chunk waits in memory.
    pub fn read(&mut self, chunk: u64) -> bool {
        self.waiting.read(chunk)
    }

    /// A chunk was missed, and so much may still be written: where it goes.
    pub fn miss(&mut self, chunk: u64, len: Bytes, means: Means) -> Verdict {
        let is_known = self.known.miss(chunk, len);
        let admits_all = !self.is_flash_full && means == Means::Ample;
        if is_known || admits_all {
            return Verdict::Admit;
        }
        if self.memory < len {
            self.known.turn_away(chunk, len);
            return Verdict::TurnAway;
        }
        Verdict::Wait
    }

    /// A chunk waits from now on; it may have been read already. [`Probation::leave`] says who leaves for it.
    ///
    /// Requires: it does not wait yet.
    pub fn wait(&mut self, chunk: u64, len: Bytes, was_read: bool) {
        self.waiting.push(Queued { chunk, len, reads: was_read.into() });
    }

    /// Who has to leave, and where to, while more waits than fits.
    pub fn leave(&mut self) -> Option<(u64, Bytes, Verdict)> {
        self.leave_to(self.memory)
    }

    /// Who leaves next at the end, when nobody waits any longer.
    pub fn leave_at_end(&mut self) -> Option<(u64, Bytes, Verdict)> {
        self.leave_to(Bytes(0))
    }

    fn leave_to(&mut self, room: Bytes) -> Option<(u64, Bytes, Verdict)> {
        let Queued { chunk, len, reads } = self.waiting.pop_beyond(room)?;
        if 0 < reads {
            return Some((chunk, len, Verdict::Admit));
        }
        self.known.turn_away(chunk, len);
        Some((chunk, len, Verdict::TurnAway))
    }

    /// A chunk is stale. Its room is free when its turn comes.
    pub fn forget(&mut self, chunk: u64) {
        self.waiting.forget(chunk);
    }

    /// Flash has been full: from now on not everybody is admitted.
    pub fn note_full_flash(&mut self) {
        self.is_flash_full = true;
    }

    /// Memory that is taken beside the waiting chunks themselves.
    #[must_use]
    pub fn memory(&self) -> Bytes {
        self.known.memory() + self.waiting.memory()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Verdict::{Admit, TurnAway, Wait};

    fn full(memory: u64) -> Probation {
        let mut probation = Probation::new(Bytes(memory), Bytes(100));
        probation.note_full_flash();
        probation
    }

    fn misses(probation: &mut Probation, chunk: u64) -> Verdict {
        let verdict = probation.miss(chunk, Bytes(1), Means::Ample);
        if verdict == Wait {
            probation.wait(chunk, Bytes(1), false);
        }
        verdict
    }

    #[test]
    fn what_was_read_while_it_waited_is_admitted() {
        let mut probation = full(2);
        assert_eq!([1, 2].map(|chunk| misses(&mut probation, chunk)), [Wait, Wait]);
        assert!(probation.read(1) && !probation.read(3));
        assert_eq!(probation.leave(), None);
        assert_eq!(misses(&mut probation, 3), Wait);
        assert_eq!(probation.leave(), Some((1, Bytes(1), Admit)));
        assert_eq!(probation.leave(), None);
        assert_eq!(misses(&mut probation, 4), Wait);
        assert_eq!(probation.leave(), Some((2, Bytes(1), TurnAway)));
        // It is remembered.
        assert!(!probation.read(2));
        assert_eq!(misses(&mut probation, 2), Admit);
    }

    #[test]
    fn what_was_read_before_it_could_wait_is_admitted_too() {
        let mut probation = full(1);
        probation.wait(1, Bytes(1), true);
        probation.wait(2, Bytes(1), false);
        assert_eq!(probation.leave(), Some((1, Bytes(1), Admit)));
        assert_eq!(probation.leave(), None);
        assert_eq!(probation.leave_at_end(), Some((2, Bytes(1), TurnAway)));
        assert_eq!(probation.leave_at_end(), None);
    }

    #[test]
    fn without_memory_the_second_miss_is_admitted() {
        let mut probation = full(0);
        assert_eq!([1; 3].map(|chunk| misses(&mut probation, chunk)), [TurnAway, Admit, TurnAway]);
    }

    #[test]
    fn by_frequency_what_was_admitted_is_known_when_it_is_missed_again() {
        let mut probation = Probation::by_frequency(Bytes(100));
        assert_eq!(misses(&mut probation, 1), Admit, "flash is not full yet");
        probation.note_full_flash();
        assert_eq!([2; 3].map(|chunk| misses(&mut probation, chunk)), [TurnAway, Admit, Admit]);
        assert_eq!(misses(&mut probation, 1), Admit);
        assert_eq!(probation.leave(), None);
    }

    #[test]
    fn where_means_are_short_only_who_is_known_is_admitted() {
        let mut probation = Probation::new(Bytes(0), Bytes(100));
        let mut short = || probation.miss(1, Bytes(1), Means::Short);
        assert_eq!([short(), short()], [TurnAway, Admit]);
    }

    #[test]
    fn everybody_is_admitted_until_flash_has_been_full() {
        let mut probation = Probation::new(Bytes(1), Bytes(100));
        assert_eq!([1, 2].map(|chunk| misses(&mut probation, chunk)), [Admit, Admit]);
        assert_eq!(probation.leave(), None);
    }

    #[test]
    fn what_was_forgotten_goes_nowhere() {
        let mut probation = full(1);
        assert_eq!(misses(&mut probation, 1), Wait);
        probation.forget(1);
        assert!(!probation.read(1));
        assert_eq!(misses(&mut probation, 1), Wait);
        assert_eq!(probation.leave(), None);
        assert!(probation.read(1));
    }
}
