//! From a history that goes wrong to a small one that goes wrong in the same way (delta debugging).
//!
//! 1. Leave out whole lives.
//! 2. Leave out steps: halves of them, then quarters, down to single ones, again and again until nothing more goes.
//! 3. Make what is left plainer: an origin that does not fail, reads of whole objects by patient readers.
//!
//! What is left out is right if the same kind of violation remains. The effort is counted in runs, not in time: a seed
//! shrinks to the same history on every machine.

use zonal_base::{Bytes, Nanos};

use crate::history::{Deed, History, ReadStep};
use crate::violation::Violation;

/// Runs of one shrinking at most: some seconds. Most planted bugs take fewer than 300, those that come of
/// pressure on a full device more; what is left at the end of the effort is the smallest so far.
pub const SHRINK_RUNS_MAX: u32 = 500;

/// A history in which nothing can be spared, or nothing was found within [`SHRINK_RUNS_MAX`].
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// The history.
    pub history: History,
    /// What goes wrong in it.
    pub violation: Violation,
    /// Runs that it took.
    pub runs: u32,
}

impl History {
    /// The smallest history that goes wrong in the same way.
    ///
    /// Requires: the violation is of this history.
    #[must_use]
    pub fn shrink(&self, violation: &Violation) -> Shrunk {
        let mut shrunk = Shrunk { history: self.clone(), violation: violation.clone(), runs: 0 };
        loop {
            let before = shrunk.history.step_count();
            shrunk.without_lives();
            shrunk.without_steps();
            if shrunk.history.step_count() == before || shrunk.is_exhausted() {
                break;
            }
        }
        shrunk.plainer();
        shrunk
    }
}

impl Shrunk {
    const fn is_exhausted(&self) -> bool {
        SHRINK_RUNS_MAX <= self.runs
    }

    /// Takes the history if it goes wrong in the same way.
    fn attempt(&mut self, history: History) -> bool {
        if self.is_exhausted() {
            return false;
        }
        self.runs += 1;
        match history.run() {
            Err(violation) if violation.kind == self.violation.kind => {
                (self.history, self.violation) = (history, violation);
                true
            }
            _ => false,
        }
    }

    fn without_lives(&mut self) {
        for life in (0..self.history.lives.len()).rev() {
            let mut smaller = self.history.clone();
            smaller.lives.remove(life);
            self.attempt(smaller);
        }
    }

    fn without_steps(&mut self) {
        let mut count = self.history.flat_len();
        while 0 < count {
            let mut at = 0;
            while at < self.history.flat_len() {
                if !self.attempt(self.history.without(at, count)) {
                    at += count;
                }
            }
            count /= 2;
        }
    }

    fn plainer(&mut self) {
        let mut plainer = self.history.clone();
        plainer.setting.origin_fault_rate = 0;
        self.attempt(plainer);
        let mut plainer = self.history.clone();
        plainer.setting.engine.prefetch = Bytes(0);
        self.attempt(plainer);
        for life in 0..self.history.lives.len() {
            for step in 0..self.history.lives[life].steps.len() {
                for plain in PLAINER {
                    let mut history = self.history.clone();
                    match &mut history.lives[life].steps[step].deed {
                        Deed::Read(read) => plain(read),
                        Deed::Scan(scan) => plain(&mut scan.read),
                        Deed::Write(_) | Deed::Fault(_) => break,
                    }
                    self.attempt(history);
                }
            }
        }
    }
}

/// What makes a read plainer.
const PLAINER: [fn(&mut ReadStep); 5] = [
    |read| read.range = None,
    |read| read.head_patience = None,
    |read| read.drop_after = None,
    |read| read.slowness = Nanos(0),
    |read| read.pieces_max = None,
];

impl History {
    fn flat_len(&self) -> usize {
        self.lives.iter().map(|life| life.steps.len()).sum()
    }

    /// Without `count` steps from the `first` on, counted over all lives.
    fn without(&self, first: usize, count: usize) -> Self {
        let mut smaller = self.clone();
        let mut number = 0;
        for life in &mut smaller.lives {
            life.steps.retain(|_| {
                number += 1;
                !(first + 1..=first + count).contains(&number)
            });
        }
        smaller
    }
}
