//! Where a job writes.

use zonal_base::Rng;

use crate::{Permutation, Zipf};

/// Units of a partition.
#[derive(Debug)]
pub(super) enum Places {
    Uniform(u64),
    /// Ranks, how many of them are one unit, and which of these is which.
    Zipf(Zipf, u64, Permutation),
}

impl Places {
    /// `units` there are, and so many ranks are one of them.
    ///
    /// Requires: there are some.
    pub(super) fn new(zipf: Option<f64>, (units, merged): (u64, u64), seed: u64) -> Self {
        zipf.map_or(Self::Uniform(units), |theta| {
            let ranks = Zipf::new(units * merged, theta);
            Self::Zipf(ranks, merged, Permutation::new(units, seed))
        })
    }

    pub(super) fn draw(&self, rng: &mut Rng) -> u64 {
        match self {
            Self::Uniform(units) => rng.below(*units),
            Self::Zipf(ranks, merged, order) => order.at((ranks.draw(rng) - 1) / merged),
        }
    }
}
