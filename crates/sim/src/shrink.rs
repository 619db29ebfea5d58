//! From a history that goes wrong to a small one that goes wrong in the same way (delta debugging).
//!
//! 1. Leave out whole lives.
//! 2. Leave out steps: halves of them, then quarters, down to single ones, again and again until nothing more goes.
//! 3. Make what is left plainer: an origin that does not fail, reads of whole objects by patient readers.
//!
//! What is left out is right if the same kind of violation remains. The effort is counted in runs, not in time: a seed
//! shrinks to the same history on every machine.

use std::ops::Range;

use zonal_base::{Bytes, Nanos};

use crate::history::{Deed, History, ReadStep};
use crate::violation::Violation;

/// Runs of one shrinking at most: some seconds. Most planted bugs take fewer than 300, those that come of
/// pressure on a full device more; what is left at the end of the effort is the smallest so far.
pub const SHRINK_RUNS_MAX: u32 = 500;

/// A history that can be made smaller: of the cache, or of a block device.
pub trait Shrink: Clone {
    /// Lets it happen, and says what goes wrong in it.
    fn violation(&self) -> Option<Violation>;

    /// Its lives.
    fn life_count(&self) -> usize;

    /// All but this life.
    fn without_life(&self, life: usize) -> Self;

    /// The steps of all lives.
    fn flat_len(&self) -> usize;

    /// Without `count` steps from the `first` on, counted over all lives.
    fn without(&self, first: usize, count: usize) -> Self;

    /// Makes what is left plainer.
    fn plainer(shrunk: &mut Shrunk<Self>);

    /// The smallest history that goes wrong in the same way.
    ///
    /// Requires: the violation is of this history.
    #[must_use]
    fn shrink(&self, violation: &Violation) -> Shrunk<Self> {
        let mut shrunk = Shrunk { history: self.clone(), violation: violation.clone(), runs: 0 };
        loop {
            let before = shrunk.history.step_count();
            shrunk.without_lives();
            shrunk.without_steps();
            if shrunk.history.step_count() == before || shrunk.is_exhausted() {
                break;
            }
        }
        Self::plainer(&mut shrunk);
        shrunk
    }

    /// What can be left out: steps and ends of lives.
    #[must_use]
    fn step_count(&self) -> usize {
        self.flat_len() + self.life_count()
    }
}

/// A history in which nothing can be spared, or nothing was found within [`SHRINK_RUNS_MAX`].
#[derive(Clone, Debug)]
pub struct Shrunk<H = History> {
    /// The history.
    pub history: H,
    /// What goes wrong in it.
    pub violation: Violation,
    /// Runs that it took.
    pub runs: u32,
}

/// Takes these steps out, counted over all lives.
pub(crate) fn leave_out<'a, Step: 'a>(
    lives: impl Iterator<Item = &'a mut Vec<Step>>,
    steps: Range<usize>,
) {
    let mut number = 0;
    for life in lives {
        life.retain(|_| {
            number += 1;
            !steps.contains(&(number - 1))
        });
    }
}

impl<H: Shrink> Shrunk<H> {
    const fn is_exhausted(&self) -> bool {
        SHRINK_RUNS_MAX <= self.runs
    }

    /// Takes the history if it goes wrong in the same way.
    fn attempt(&mut self, history: H) -> bool {
        if self.is_exhausted() {
            return false;
        }
        self.runs += 1;
        match history.violation() {
            Some(violation) if violation.kind == self.violation.kind => {
                (self.history, self.violation) = (history, violation);
                true
            }
            _ => false,
        }
    }

    fn without_lives(&mut self) {
        for life in (0..self.history.life_count()).rev() {
            self.attempt(self.history.without_life(life));
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
}

impl Shrink for History {
    fn violation(&self) -> Option<Violation> {
        self.run().err()
    }

    fn life_count(&self) -> usize {
        self.lives.len()
    }

    fn without_life(&self, life: usize) -> Self {
        let mut smaller = self.clone();
        smaller.lives.remove(life);
        smaller
    }

    fn flat_len(&self) -> usize {
        self.lives.iter().map(|life| life.steps.len()).sum()
    }

    fn without(&self, first: usize, count: usize) -> Self {
        let mut smaller = self.clone();
        leave_out(smaller.lives.iter_mut().map(|life| &mut life.steps), first..first + count);
        smaller
    }

    fn plainer(shrunk: &mut Shrunk) {
        let mut plainer = shrunk.history.clone();
        plainer.setting.origin_fault_rate = 0;
        shrunk.attempt(plainer);
        let mut plainer = shrunk.history.clone();
        plainer.setting.engine.prefetch = Bytes(0);
        shrunk.attempt(plainer);
        for life in 0..shrunk.history.lives.len() {
            for step in 0..shrunk.history.lives[life].steps.len() {
                for plain in PLAINER {
                    let mut history = shrunk.history.clone();
                    match &mut history.lives[life].steps[step].deed {
                        Deed::Read(read) => plain(read),
                        Deed::Scan(scan) => plain(&mut scan.read),
                        Deed::Write(_) | Deed::Fault(_) => break,
                    }
                    shrunk.attempt(history);
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
