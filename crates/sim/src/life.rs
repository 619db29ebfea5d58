//! Lives of a process: shared by both kinds of histories, with the operations that shrinking needs.

use crate::shrink::Shrunk;
use crate::violation::Violation;

/// Life of a process: from its start to its end.
#[derive(Clone, Debug)]
pub(crate) struct Life<Step, Shutdown> {
    /// Seed of the delays, and of the state after a crash.
    pub(crate) chance: u64,
    /// Steps, ordered by actor, then by time.
    pub(crate) steps: Vec<Step>,
    pub(crate) shutdown: Shutdown,
}

/// A history that consists of lives: each lasts from a start of the process to its end.
pub(crate) trait Lived: Clone {
    type Step: Clone;
    type Shutdown: Clone;

    fn lives(&self) -> &[Life<Self::Step, Self::Shutdown>];

    fn lives_mut(&mut self) -> &mut Vec<Life<Self::Step, Self::Shutdown>>;

    /// Runs the history, and returns its violation.
    fn wrong(&self) -> Option<Violation>;

    /// Simplifies the history.
    fn plainer(shrunk: &mut Shrunk<Self>);

    /// Number of steps of all lives.
    fn flat_len(&self) -> usize {
        self.lives().iter().map(|life| life.steps.len()).sum()
    }

    /// The history without this life.
    fn without_life(&self, life: usize) -> Self {
        let mut smaller = self.clone();
        smaller.lives_mut().remove(life);
        smaller
    }

    /// The history without `count` steps from `first`, counted over all lives.
    fn without(&self, first: usize, count: usize) -> Self {
        let mut smaller = self.clone();
        let mut number = 0;
        for life in smaller.lives_mut() {
            life.steps.retain(|_| {
                number += 1;
                !(first..first + count).contains(&(number - 1))
            });
        }
        smaller
    }
}
