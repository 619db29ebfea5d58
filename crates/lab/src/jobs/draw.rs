//! Order of a job's writes: uniform, Zipf or sequential.

use std::fmt;
use std::str::FromStr;

use zonal_base::Rng;

use crate::{Distribution, Permutation, Zipf};

/// Order in which a job writes its part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WriteOrder {
    /// Random, every piece with the same probability.
    Uniform,
    /// Random, by a Zipf distribution with this exponent.
    Zipf(f64),
    /// Sequential, over and over.
    Sequential,
}

impl FromStr for WriteOrder {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            _ if text == "sequential" => Ok(Self::Sequential),
            Ok(Distribution::Uniform) => Ok(Self::Uniform),
            Ok(Distribution::Zipf { theta }) => Ok(Self::Zipf(theta)),
            _ => {
                Err("write uniform, sequential, or zipf:THETA with THETA above 0, such as zipf:1.2"
                    .into())
            }
        }
    }
}

impl fmt::Display for WriteOrder {
    /// Writes the text form that [`FromStr`] reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform => f.write_str("uniform"),
            Self::Zipf(theta) => write!(f, "zipf:{theta}"),
            Self::Sequential => f.write_str("sequential"),
        }
    }
}

/// Generator of write positions in a part, in units of a write.
#[derive(Debug)]
pub(super) enum Places {
    Uniform(u64),
    /// Next unit, and the number of units.
    Sequential(u64, u64),
    /// Ranks, number of ranks per unit, and the order of the units.
    Zipf(Zipf, u64, Permutation),
}

impl Places {
    /// Positions among `units` units. For Zipf, `merged` ranks are one unit.
    ///
    /// Requires: `units` is above 0.
    pub(super) fn new(order: WriteOrder, (units, merged): (u64, u64), seed: u64) -> Self {
        match order {
            WriteOrder::Uniform => Self::Uniform(units),
            WriteOrder::Sequential => Self::Sequential(0, units),
            WriteOrder::Zipf(theta) => {
                let ranks = Zipf::new(units * merged, theta);
                Self::Zipf(ranks, merged, Permutation::new(units, seed))
            }
        }
    }

    pub(super) fn draw(&mut self, rng: &mut Rng) -> u64 {
        match self {
            Self::Uniform(units) => rng.below(*units),
            Self::Sequential(next, units) => {
                let unit = *next;
                *next = (unit + 1) % *units;
                unit
            }
            Self::Zipf(ranks, merged, order) => order.at((ranks.draw(rng) - 1) / *merged),
        }
    }
}
