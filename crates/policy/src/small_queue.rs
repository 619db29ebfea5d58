//! S3-FIFO small queue and ghost list (SOSP'23) in front of flash: admits only chunks that are asked for twice.
//!
//! 1. A missed chunk waits in memory, in a FIFO queue. A read there is a hit, and the queue counts it.
//! 2. A chunk that was read while it waited goes to flash. The queue turns the others away, and the ghost list
//!    remembers them.
//! 3. A chunk in the ghost list goes to flash at its next miss, without waiting.
//!
//! While flash has never been full, admission has no data to protect: unless the write budget is short, every missed
//! chunk goes to flash at once.
//!
//! Without memory this is second-hit admission: a chunk goes to flash when it is missed twice within the reach of the
//! ghost list. A TinyLFU frequency sketch can replace the ghost list. The sketch still knows a chunk after the chunk
//! was admitted, until its counters are halved away.

use zonal_base::Bytes;

use crate::queue::{Queue, Queued};
use crate::sketch::Sketch;
use crate::{GhostList, Means};

/// Admission by the small queue and its ghost list, or by a frequency sketch.
#[derive(Debug)]
pub struct SmallQueue {
    memory: Bytes,
    waiting: Queue,
    known: Known,
    is_flash_full: bool,
}

/// History of misses: the chunks that were missed before.
#[derive(Debug)]
enum Known {
    Ghost(GhostList),
    Sketch(Sketch),
}

impl Known {
    /// Records a miss of a chunk. True if the chunk was missed before.
    fn miss(&mut self, chunk: u64, len: Bytes) -> bool {
        match self {
            Self::Ghost(ghost) => ghost.remove(chunk),
            Self::Sketch(sketch) => 2 <= sketch.count(chunk, len),
        }
    }

    fn turn_away(&mut self, chunk: u64, len: Bytes) {
        match self {
            Self::Ghost(ghost) => ghost.insert(chunk, len),
            // The sketch counted the chunk when it was missed.
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

/// Admission verdict for a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Write the chunk to flash.
    Admit,
    /// Keep the chunk in memory: call [`SmallQueue::wait`] as soon as its bytes are there.
    Wait,
    /// Do not store the chunk.
    TurnAway,
}

impl SmallQueue {
    /// A small queue of `memory` bytes, and a ghost list that reaches back over `reach` bytes of turned-away chunks.
    #[must_use]
    pub fn new(memory: Bytes, reach: Bytes) -> Self {
        Self::with(memory, Known::Ghost(GhostList::new(reach)))
    }

    /// Admission by a frequency sketch, without a small queue. `room`: capacity of the cache in bytes.
    #[must_use]
    pub fn by_frequency(room: Bytes) -> Self {
        Self::with(Bytes(0), Known::Sketch(Sketch::new(room)))
    }

    fn with(memory: Bytes, known: Known) -> Self {
        Self { memory, waiting: Queue::default(), known, is_flash_full: false }
    }

    /// Counts a read of a chunk. True if the chunk waits in memory.
    pub fn read(&mut self, chunk: u64) -> bool {
        self.waiting.read(chunk)
    }

    /// Decides where a missed chunk goes. `means` says whether the write budget is short.
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

    /// Adds a chunk to the small queue. `was_read`: the chunk was already read before it began to wait.
    /// [`SmallQueue::leave`] names the chunks that must make room.
    ///
    /// Requires: the chunk does not wait yet.
    pub fn wait(&mut self, chunk: u64, len: Bytes, was_read: bool) {
        self.waiting.push(Queued { chunk, len, reads: was_read.into() });
    }

    /// The next chunk that must leave the small queue, with its length and verdict. `None`: the queue fits its memory.
    pub fn leave(&mut self) -> Option<(u64, Bytes, Verdict)> {
        self.leave_to(self.memory)
    }

    /// Drains the small queue at shutdown: the next chunk, with its length and verdict. `None`: the queue is empty.
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

    /// Forgets a stale chunk. Its room in the small queue is free when its turn comes.
    pub fn forget(&mut self, chunk: u64) {
        self.waiting.forget(chunk);
    }

    /// Records that flash has been full: from now on only known chunks are admitted at once.
    pub fn note_full_flash(&mut self) {
        self.is_flash_full = true;
    }

    /// Memory of the small queue and the history in bytes, without the waiting chunks themselves.
    #[must_use]
    pub fn memory(&self) -> Bytes {
        self.known.memory() + self.waiting.memory()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Verdict::{Admit, TurnAway, Wait};

    fn full(memory: u64) -> SmallQueue {
        let mut probation = SmallQueue::new(Bytes(memory), Bytes(100));
        probation.note_full_flash();
        probation
    }

    fn misses(probation: &mut SmallQueue, chunk: u64) -> Verdict {
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
        // The ghost list remembers the chunk.
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
        let mut probation = SmallQueue::by_frequency(Bytes(100));
        assert_eq!(misses(&mut probation, 1), Admit, "flash is not full yet");
        probation.note_full_flash();
        assert_eq!([2; 3].map(|chunk| misses(&mut probation, chunk)), [TurnAway, Admit, Admit]);
        assert_eq!(misses(&mut probation, 1), Admit);
        assert_eq!(probation.leave(), None);
    }

    #[test]
    fn where_means_are_short_only_who_is_known_is_admitted() {
        let mut probation = SmallQueue::new(Bytes(0), Bytes(100));
        let mut short = || probation.miss(1, Bytes(1), Means::Short);
        assert_eq!([short(), short()], [TurnAway, Admit]);
    }

    #[test]
    fn everybody_is_admitted_until_flash_has_been_full() {
        let mut probation = SmallQueue::new(Bytes(1), Bytes(100));
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
