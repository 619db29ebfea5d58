//! What a cache keeps: facts in, decisions out.
//!
//! Uses: `base`. Knows nothing of: devices, indexes, clocks, tasks. Whoever asks brings the facts.
//! Read in this order: the trait [`Policy`] below, then `zone_fifo`, `zone_lru`, one file per policy.
//!
//! Two questions are kept apart. *Eviction* is what is no longer wanted ([`Policy::evict`]); *reclaim*
//! is which zone is emptied ([`Policy::victim`]) and what of it is written again ([`Policy::keep`]).
//! What was evicted stays readable until its zone goes.
#![no_std]

extern crate alloc;

mod zone_fifo;
mod zone_lru;

use alloc::boxed::Box;
use alloc::vec::Vec;

use zonal_base::{Bytes, Nanos, ZoneId};

pub use zone_fifo::ZoneFifo;
pub use zone_lru::ZoneLru;

/// A chunk and where it lies. A policy looks at the granularity it wants: the chunk, the region that
/// `offset` falls into, or the zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The zone.
    pub zone: ZoneId,
    /// From the start of the zone.
    pub offset: Bytes,
    /// Names the chunk among all others of the cache.
    pub chunk: u64,
}

/// What can be evicted as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unit {
    /// One chunk.
    Chunk(u64),
    /// A run of one zone, counted in the policy's own region size.
    Region(ZoneId, u32),
    /// A zone.
    Zone(ZoneId),
}

/// What becomes of a chunk whose zone is emptied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// It goes.
    Drop,
    /// It is worth another flash write.
    Rewrite,
}

/// A full zone, as the log sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneFacts {
    /// The zone.
    pub zone: ZoneId,
    /// Order in which zones were opened: the lowest is the oldest.
    pub sequence: u64,
    /// Chunks written to it.
    pub chunk_count: u32,
    /// Their bytes.
    pub bytes: Bytes,
}

/// One way to decide. Ties are broken by a stated rule, so that equal runs stay equal.
pub trait Policy {
    /// A chunk is on flash.
    fn on_insert(&mut self, _place: Place, _now: Nanos) {}

    /// A chunk on flash was read.
    fn on_access(&mut self, _place: Place, _now: Nanos) {}

    /// A chunk is gone: overwritten, damaged, or its zone was emptied.
    fn on_forget(&mut self, _place: Place) {}

    /// The last record of a zone was written, or a full zone was found at start-up (then in the order of
    /// their filling).
    fn on_sealed(&mut self, _zone: ZoneId, _now: Nanos) {}

    /// A zone was emptied.
    fn on_emptied(&mut self, _zone: ZoneId) {}

    /// What is no longer wanted, so that about `need` bytes can be had. Policies whose unit is the zone
    /// evict by choosing a victim and return nothing.
    fn evict(&mut self, _need: Bytes) -> Vec<Unit> {
        Vec::new()
    }

    /// The zone to empty next. `candidates` are the full zones, in `ZoneId` order; `None` when
    /// there are none.
    fn victim(&mut self, candidates: &[ZoneFacts]) -> Option<ZoneId>;

    /// Whether a chunk of the victim is written again.
    fn keep(&mut self, _place: Place) -> Keep {
        Keep::Drop
    }
}

/// The names that [`by_name`] knows.
pub const NAMES: [&str; 2] = ["zone-fifo", "zone-lru"];

/// A policy by its name in configurations and on command lines.
#[must_use]
pub fn by_name(name: &str) -> Option<Box<dyn Policy>> {
    match name {
        "zone-fifo" => Some(Box::new(ZoneFifo)),
        "zone-lru" => Some(Box::<ZoneLru>::default()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_known_and_no_other() {
        assert!(NAMES.iter().all(|name| by_name(name).is_some()));
        assert!(by_name("zone-lfu").is_none());
    }
}
