//! Policies at the granularity of objects, as others published them: lines to compare with.
//!
//! They know nothing of flash. What they write is counted as if each miss that they keep were one write of the
//! object, and nothing were ever moved; so their write amplification is 1.

mod fifo;
mod shelf;

use super::{Capacity, Contender};

type Make = fn(Capacity) -> Box<dyn Contender>;

/// Every policy, with its name.
pub(super) const ALL: [(&str, Make); 1] =
    [("fifo", |capacity| Box::new(fifo::Fifo::new(capacity)))];
