//! Generation numbers: one sequence for all logs of a node, persisted with the records.
//!
//! An object's chunks may lie in other logs than its tombstone, so a tombstone is kept until every log has
//! nothing older than it. That can only be told when all of them number their records in one sequence.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};

/// A log's part in the sequence that it shares with the other logs of its node.
#[derive(Clone, Debug)]
pub struct Generations {
    shared: Arc<GenerationState>,
    /// Which log this is.
    log: usize,
}

#[derive(Debug)]
struct GenerationState {
    /// The next one, without what is skipped.
    next: AtomicU64,
    /// How often something could not be read.
    skips: AtomicU64,
    /// By log: nothing in it is older. 0 as long as nobody has looked.
    oldest: Box<[AtomicU64]>,
}

impl Default for Generations {
    /// Of a node with a single log.
    fn default() -> Self {
        Self::of_node(1).next().expect("there is one")
    }
}

impl Generations {
    /// The parts of so many logs. Requires: none of them appends before all of them are open, so that each
    /// number is higher than all that were found on flash.
    pub fn of_node(logs: usize) -> impl Iterator<Item = Self> {
        let oldest = (0..logs).map(|_| AtomicU64::new(0)).collect();
        let shared =
            Arc::new(GenerationState { next: AtomicU64::new(1), skips: AtomicU64::new(0), oldest });
        (0..logs).map(move |log| Self { shared: shared.clone(), log })
    }

    /// The next one, which no log has had.
    pub fn next(&self) -> u64 {
        self.shared.next.fetch_add(1, Ordering::Relaxed) + self.skipped()
    }

    fn skipped(&self) -> u64 {
        self.shared.skips.load(Ordering::Relaxed) * GENERATIONS_SKIPPED
    }

    /// A record of this generation was found on flash.
    pub(crate) fn found(&self, generation: u64) {
        self.shared.next.fetch_max(generation + 1, Ordering::Relaxed);
    }

    /// A part of a zone could not be read, and may hold records that are newer than all that were found, or will be
    /// found yet. What comes is newer than they are.
    pub(crate) fn skip(&self) {
        self.shared.skips.fetch_add(1, Ordering::Relaxed);
    }

    /// Nothing on this log's flash is older than `generation`. Neither will be anything later: records are
    /// placed in the order in which they got their numbers, by far before a whole log has turned over.
    pub(crate) fn note_oldest(&self, generation: u64) {
        let next = self.shared.next.load(Ordering::Relaxed) + self.skipped();
        let oldest = generation.min(next);
        self.shared.oldest[self.log].store(oldest, Ordering::Release);
    }

    /// Nothing in any log is older than this, if nothing in this log is older than `here`.
    pub(crate) fn oldest(&self, here: u64) -> u64 {
        let others = self.shared.oldest.iter().enumerate().filter(|(log, _)| *log != self.log);
        others.map(|(_, oldest)| oldest.load(Ordering::Acquire)).fold(here, u64::min)
    }
}

/// Numbers left out for what could not be read: more than a log ever handed out between two of its records that
/// it has on flash (at a million in a second, in twelve days), and few enough to do it 16 million times.
const GENERATIONS_SKIPPED: u64 = 1 << 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_is_newer_than_what_could_not_be_read_whenever_that_was() {
        for skip_first in [true, false] {
            let generations = Generations::default();
            // Numbers were left out before: what is found last is far above what was found first.
            let found = [3, GENERATIONS_SKIPPED + 7];
            if skip_first {
                generations.skip();
            }
            found.iter().for_each(|generation| generations.found(*generation));
            if !skip_first {
                generations.skip();
            }
            assert_eq!(generations.next(), 2 * GENERATIONS_SKIPPED + 8, "{skip_first}");
            assert_eq!(generations.next(), 2 * GENERATIONS_SKIPPED + 9);
        }
    }
}
