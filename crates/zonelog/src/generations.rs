//! Generation numbers: one sequence for all logs of a node, persisted with the records.
//!
//! An object's chunks may be in other logs than its tombstone, so a tombstone is kept until no log
//! has an older record. Comparing records across logs needs one sequence for all of them.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Handle of one log to the node's sequence.
#[derive(Clone, Debug)]
pub struct Generations {
    shared: Arc<GenerationState>,
    /// Number of this log in the node, from 0.
    log: usize,
}

#[derive(Debug)]
struct GenerationState {
    /// Next generation, without the skipped numbers.
    next: AtomicU64,
    /// Number of skips, each of [`GENERATIONS_SKIPPED`] generations: one per unreadable zone.
    skips: AtomicU64,
    /// Tombstones may be lost. So records of a lower generation than this may have been removed.
    suspect_below: AtomicU64,
    /// A log has lost zones, so whatever any log finds is suspect.
    has_losses: AtomicBool,
    /// By log: lower bound of the generations of its records. 0 until the log is open.
    oldest: Box<[AtomicU64]>,
}

impl Default for Generations {
    /// The sequence of a node with a single log.
    fn default() -> Self {
        Self::of_node(1).next().expect("there is one")
    }
}

impl Generations {
    /// Returns the handles of a node's logs.
    ///
    /// Requires: no log appends before all are open, so that each new generation is higher than all
    /// on flash.
    pub fn of_node(logs: usize) -> impl Iterator<Item = Self> {
        let oldest = (0..logs).map(|_| AtomicU64::new(0)).collect();
        let shared = Arc::new(GenerationState {
            next: AtomicU64::new(1),
            skips: AtomicU64::new(0),
            suspect_below: AtomicU64::new(0),
            has_losses: AtomicBool::new(false),
            oldest,
        });
        (0..logs).map(move |log| Self { shared: shared.clone(), log })
    }

    /// Assigns the next generation. No log of the node gets it twice.
    pub fn next(&self) -> u64 {
        self.shared.next.fetch_add(1, Ordering::Relaxed) + self.skipped()
    }

    fn skipped(&self) -> u64 {
        self.shared.skips.load(Ordering::Relaxed) * GENERATIONS_SKIPPED
    }

    /// Registers a generation that was found on flash.
    pub(crate) fn found(&self, generation: u64) {
        self.shared.next.fetch_max(generation + 1, Ordering::SeqCst);
        if self.shared.has_losses.load(Ordering::SeqCst) {
            self.note_suspect_below(generation + 1);
        }
    }

    /// Registers that this log has lost tombstones: every record that a log has found or will find
    /// when it is opened is suspect.
    pub(crate) fn note_losses(&self) {
        self.shared.has_losses.store(true, Ordering::SeqCst);
        self.note_suspect_below(self.shared.next.load(Ordering::SeqCst) + self.skipped());
    }

    /// Registers a bound that was found on flash.
    pub(crate) fn note_suspect_below(&self, generation: u64) {
        self.shared.suspect_below.fetch_max(generation, Ordering::Relaxed);
    }

    /// Records of a lower generation may have been removed by a tombstone that is lost.
    pub(crate) fn suspect_below(&self) -> u64 {
        self.shared.suspect_below.load(Ordering::Relaxed)
    }

    /// Skips generations after an unreadable part of a zone. It may hold records newer than all
    /// that recovery has found or will find. New records must be newer still.
    pub(crate) fn skip(&self) {
        self.shared.skips.fetch_add(1, Ordering::Relaxed);
    }

    /// Registers the lowest generation on this log's flash. The bound stays valid for later
    /// records: a record is placed soon after its number is assigned, long before a whole log has
    /// turned over.
    pub(crate) fn note_oldest(&self, generation: u64) {
        let next = self.shared.next.load(Ordering::Relaxed) + self.skipped();
        let oldest = generation.min(next);
        self.shared.oldest[self.log].store(oldest, Ordering::Release);
    }

    /// Lower bound of the generations in all logs, if `here` is the bound of this log.
    pub(crate) fn oldest(&self, here: u64) -> u64 {
        let others = self.shared.oldest.iter().enumerate().filter(|(log, _)| *log != self.log);
        others.map(|(_, oldest)| oldest.load(Ordering::Acquire)).fold(here, u64::min)
    }
}

/// Generations per skip: 2^40. That is more than a log assigns between two records that it has on
/// flash (twelve days at a million per second), and few enough for 16 million skips.
const GENERATIONS_SKIPPED: u64 = 1 << 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_is_newer_than_what_could_not_be_read_whenever_that_was() {
        for skip_first in [true, false] {
            let generations = Generations::default();
            // An earlier skip made the last found generation far higher than the first.
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
