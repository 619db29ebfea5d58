//! Policies at the granularity of objects, as others published them: lines to compare with.
//!
//! They know nothing of flash. What they write is counted as if each miss that they keep were one write of the
//! object, and nothing were ever moved; so their write amplification is 1.

mod arc;
mod belady;
mod clock;
mod fifo;
mod kept;
mod lru;
mod s3_fifo;
mod sieve;

use super::{Capacity, Contender};
use kept::ObjectList;

type Make = fn(Capacity) -> Box<dyn Contender>;

/// Every policy, with its name.
pub(super) const ALL: [(&str, Make); 7] = [
    ("lru", |capacity| Box::new(ObjectList::<lru::Lru>::new(capacity))),
    ("fifo", |capacity| Box::new(ObjectList::<fifo::Fifo>::new(capacity))),
    ("clock", |capacity| Box::new(ObjectList::<clock::Clock>::new(capacity))),
    ("sieve", |capacity| Box::new(ObjectList::<sieve::Sieve>::new(capacity))),
    ("s3-fifo", |capacity| Box::new(s3_fifo::S3Fifo::new(capacity))),
    ("arc", |capacity| Box::new(arc::Arc::new(capacity))),
    ("belady", |capacity| Box::new(belady::Belady::new(capacity))),
];
