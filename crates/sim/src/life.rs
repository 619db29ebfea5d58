//! Lives of a process, as both kinds of histories have them, and what can be left out of them.

use crate::shrink::Shrunk;
use crate::violation::Violation;

/// From a start of the process to its end.
#[derive(Clone, Debug)]
pub(crate) struct Life<Step, Shutdown> {
    /// Where what stays to chance comes from: delays, and what a crash leaves.
    pub(crate) chance: u64,
    /// By actor, then by time.
    pub(crate) steps: Vec<Step>,
    pub(crate) ending: Shutdown,
}

/// A history that is made of lives.
pub(crate) trait Lived: Clone {
    type Step: Clone;
    type Shutdown: Clone;

    fn lives(&self) -> &[Life<Self::Step, Self::Shutdown>];

    fn lives_mut(&mut self) -> &mut Vec<Life<Self::Step, Self::Shutdown>>;

    /// Lets it happen, and says what goes wrong in it.
    fn wrong(&self) -> Option<Violation>;

    /// Makes what is left plainer.
    fn plainer(shrunk: &mut Shrunk<Self>);

    /// The steps of all lives.
    fn flat_len(&self) -> usize {
        self.lives().iter().map(|life| life.steps.len()).sum()
    }

    /// All but this life.
    fn without_life(&self, life: usize) -> Self {
        let mut smaller = self.clone();
        smaller.lives_mut().remove(life);
        smaller
    }

    /// Without `count` steps from the `first` on, counted over all lives.
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
