//! Shrinking (delta debugging): reduces a failing history to a small one that fails in the same
//! way.
//!
//! 1. Remove whole lives.
//! 2. Remove steps: halves, then quarters, down to single steps, repeated until no removal
//!    succeeds.
//! 3. Simplify the rest: an origin without faults, reads of whole objects by patient readers.
//!
//! A reduction is kept if the same kind of violation remains. The effort is counted in runs, not in
//! time, so a seed shrinks to the same history on every machine.

use zonal_base::{Bytes, Nanos};

use crate::history::{History, Life, Op, ReadStep, Shutdown, Step};
use crate::life::Lived;
use crate::violation::Violation;

/// Largest number of runs of one shrinking: some seconds. Most planted bugs take fewer than 300.
/// Bugs under pressure on a full device take more; shrinking then returns the smallest history so
/// far.
pub const SHRINK_RUNS_MAX: u32 = 500;

/// A history that can be shrunk: of the cache, or of a block device.
pub trait Shrink: Sized {
    /// Runs the history, and returns its violation.
    fn violation(&self) -> Option<Violation>;

    /// The smallest history found that fails in the same way.
    ///
    /// Requires: the violation is of this history.
    #[must_use]
    fn shrink(&self, violation: &Violation) -> Shrunk<Self>;

    /// Number of removable parts: steps and ends of lives.
    #[must_use]
    fn step_count(&self) -> usize;
}

impl<H: Lived> Shrink for H {
    fn violation(&self) -> Option<Violation> {
        self.wrong()
    }

    fn shrink(&self, violation: &Violation) -> Shrunk<Self> {
        let mut shrunk = Shrunk { history: self.clone(), violation: violation.clone(), runs: 0 };
        loop {
            let before = shrunk.history.step_count();
            without_lives(&mut shrunk);
            without_steps(&mut shrunk);
            if shrunk.history.step_count() == before || shrunk.is_exhausted() {
                break;
            }
        }
        Self::plainer(&mut shrunk);
        shrunk
    }

    fn step_count(&self) -> usize {
        self.flat_len() + self.lives().len()
    }
}

/// A history without removable parts, or the smallest within [`SHRINK_RUNS_MAX`].
#[derive(Clone, Debug)]
pub struct Shrunk<H = History> {
    /// Smallest history found so far.
    pub history: H,
    /// Violation of this history.
    pub violation: Violation,
    /// Number of runs that shrinking took.
    pub runs: u32,
}

impl<H> Shrunk<H> {
    const fn is_exhausted(&self) -> bool {
        SHRINK_RUNS_MAX <= self.runs
    }
}

/// Accepts the history if it fails in the same way.
fn attempt<H: Lived>(shrunk: &mut Shrunk<H>, history: H) -> bool {
    if shrunk.is_exhausted() {
        return false;
    }
    shrunk.runs += 1;
    match history.wrong() {
        Some(violation) if violation.kind == shrunk.violation.kind => {
            (shrunk.history, shrunk.violation) = (history, violation);
            true
        }
        _ => false,
    }
}

fn without_lives<H: Lived>(shrunk: &mut Shrunk<H>) {
    for life in (0..shrunk.history.lives().len()).rev() {
        let history = shrunk.history.without_life(life);
        attempt(shrunk, history);
    }
}

fn without_steps<H: Lived>(shrunk: &mut Shrunk<H>) {
    let mut count = shrunk.history.flat_len();
    while 0 < count {
        let mut at = 0;
        while at < shrunk.history.flat_len() {
            let history = shrunk.history.without(at, count);
            if !attempt(shrunk, history) {
                at += count;
            }
        }
        count /= 2;
    }
}

impl Lived for History {
    type Step = Step;
    type Shutdown = Shutdown;

    fn lives(&self) -> &[Life] {
        &self.lives
    }

    fn lives_mut(&mut self) -> &mut Vec<Life> {
        &mut self.lives
    }

    fn wrong(&self) -> Option<Violation> {
        self.run().err()
    }

    fn plainer(shrunk: &mut Shrunk) {
        let mut plainer = shrunk.history.clone();
        plainer.setting.origin_fault_rate = 0;
        attempt(shrunk, plainer);
        let mut plainer = shrunk.history.clone();
        plainer.setting.engine.prefetch = Bytes(0);
        attempt(shrunk, plainer);
        let mut plainer = shrunk.history.clone();
        plainer.setting.is_cut_by_rules = false;
        attempt(shrunk, plainer);
        for life in 0..shrunk.history.lives.len() {
            for step in 0..shrunk.history.lives[life].steps.len() {
                for plain in PLAINER {
                    let mut history = shrunk.history.clone();
                    match &mut history.lives[life].steps[step].deed {
                        Op::Read(read) => plain(read),
                        Op::Scan(scan) => plain(&mut scan.read),
                        Op::Write(_) | Op::Fault(_) => break,
                    }
                    attempt(shrunk, history);
                }
            }
        }
    }
}

/// Simplifications of a read.
const PLAINER: [fn(&mut ReadStep); 5] = [
    |read| read.range = None,
    |read| read.head_patience = None,
    |read| read.drop_after = None,
    |read| read.slowness = Nanos(0),
    |read| read.pieces_max = None,
];
