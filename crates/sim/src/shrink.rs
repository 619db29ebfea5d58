//! From a history that goes wrong to a small one that goes wrong in the same way (delta debugging).
//!
//! 1. Leave out whole lives.
//! 2. Leave out steps: halves of them, then quarters, down to single ones, again and again until nothing more goes.
//! 3. Make what is left plainer: an origin that does not fail, reads of whole objects by patient readers.
//!
//! What is left out is right if the same kind of violation remains. The effort is counted in runs, not in time: a seed
//! shrinks to the same history on every machine.

use zonal_base::{Bytes, Nanos};

use crate::history::{History, Life, Op, ReadStep, Shutdown, Step};
use crate::life::Lived;
use crate::violation::Violation;

/// Runs of one shrinking at most: some seconds. Most planted bugs take fewer than 300, those that come of
/// pressure on a full device more; what is left at the end of the effort is the smallest so far.
pub const SHRINK_RUNS_MAX: u32 = 500;

/// A history that can be made smaller: of the cache, or of a block device.
pub trait Shrink: Sized {
    /// Lets it happen, and says what goes wrong in it.
    fn violation(&self) -> Option<Violation>;

    /// The smallest history that goes wrong in the same way.
    ///
    /// Requires: the violation is of this history.
    #[must_use]
    fn shrink(&self, violation: &Violation) -> Shrunk<Self>;

    /// What can be left out: steps and ends of lives.
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

impl<H> Shrunk<H> {
    const fn is_exhausted(&self) -> bool {
        SHRINK_RUNS_MAX <= self.runs
    }
}

/// Takes the history if it goes wrong in the same way.
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

/// What makes a read plainer.
const PLAINER: [fn(&mut ReadStep); 5] = [
    |read| read.range = None,
    |read| read.head_patience = None,
    |read| read.drop_after = None,
    |read| read.slowness = Nanos(0),
    |read| read.pieces_max = None,
];
