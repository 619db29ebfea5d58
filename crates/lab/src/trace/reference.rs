//! Reference policies: published eviction policies at object granularity, for comparison.
//!
//! They do not model flash. Each miss that a policy keeps counts as one write of the object, and
//! nothing is moved. Their write amplification is therefore 1.

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

/// Every reference policy by name.
pub(super) const ALL: [(&str, Make); 7] = [
    ("lru", |capacity| Box::new(ObjectList::<lru::Lru>::new(capacity))),
    ("fifo", |capacity| Box::new(ObjectList::<fifo::Fifo>::new(capacity))),
    ("clock", |capacity| Box::new(ObjectList::<clock::Clock>::new(capacity))),
    ("sieve", |capacity| Box::new(ObjectList::<sieve::Sieve>::new(capacity))),
    ("s3-fifo", |capacity| Box::new(s3_fifo::S3Fifo::new(capacity))),
    ("arc", |capacity| Box::new(arc::Arc::new(capacity))),
    ("belady", |capacity| Box::new(belady::Belady::new(capacity))),
];
