//! What a cache keeps: facts in, decisions out.
//!
//! Uses: `base`. Knows nothing of: devices, indexes, clocks, tasks. Whoever asks brings the facts.
//! Read in this order: the trait [`Policy`] below; one file per policy, from `zone_fifo` to `flow`;
//! `spec`, which makes them from their names.
//!
//! Two questions are kept apart. *Eviction* is what is no longer wanted ([`Policy::evict`]); *reclaim*
//! is which zone is emptied ([`Policy::victim`]) and what of it is written again ([`Policy::keep`]).
//! What was evicted lies on flash until its zone goes; whether it is still read until then is the
//! policy's to say ([`Policy::holds`]).
//!
//! What a policy knows survives a restart if whoever asks keeps it: the mark of each chunk, whether it is held,
//! and its age ([`Policy::knowledge`], [`Policy::age`]). It comes back as the order in which chunks are told.
#![no_std]

extern crate alloc;

mod budget;
mod chunk_lru;
mod direct;
mod epoch;
mod flow;
mod ghost;
mod hot;
mod limit;
mod lot;
mod order;
mod pinned;
mod probation;
mod queue;
mod recency;
mod region;
mod regions;
mod scans;
mod share;
mod sketch;
mod spec;
#[cfg(test)]
mod testing;
mod z_cachelib;
mod zone_fifo;
mod zone_lru;

use zonal_base::{Bytes, Nanos, ZoneId};

pub use budget::{Account, Budget, Means};
pub use ghost::Ghost;
pub use hot::Hot;
pub use lot::{Lot, Lots};
pub use order::{Order, Spot};
pub use probation::{Probation, Verdict};
pub use region::Promotion;
pub use scans::{Prefetch, Scans, Wasted};
pub use spec::{InPlace, NAMES, Rules, Spec, SpecError};

/// A chunk and where it lies. A policy looks at the granularity it wants: the chunk, the region that
/// `offset` falls into, or the zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkLocation {
    /// The zone.
    pub zone: ZoneId,
    /// Names the chunk within its zone; later chunks have higher numbers. Below 2^32 divided by the number of
    /// zones, and dense enough to be an index.
    pub number: u32,
    /// From the start of the zone.
    pub offset: Bytes,
    /// Its length.
    pub len: Bytes,
}

/// Two bits that the owner of the chunks keeps with each of them for its policy: 0 when it is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark(pub u8);

impl Mark {
    /// The highest.
    pub const MAX: Self = Self(3);
}

/// How much a policy knows besides marks and what it evicted, and how finely: it is worth keeping over a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Knowledge {
    /// Nothing that the log does not know.
    Nothing,
    /// Something of each full zone ([`Policy::zone_age`]).
    Zones,
    /// Something of each chunk.
    Chunks,
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
    /// Of them, what is pinned: written again whatever the policy says. It is told nothing else of those chunks.
    pub pinned: Bytes,
}

/// The flash that a policy decides about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Zones.
    pub zone_count: u32,
    /// What fits into each.
    pub zone_capacity: Bytes,
    /// Zones that hold nothing that can be reclaimed: those being filled, and those that must be empty so that
    /// reclaim can write.
    pub busy_zones: u32,
}

/// One way to decide. Ties are broken by a stated rule, so that equal runs stay equal.
pub trait Policy: Send {
    /// A chunk is on flash.
    fn on_insert(&mut self, _place: &ChunkLocation, _now: Nanos) {}

    /// A chunk was found on flash at start-up, with its mark and, to one part in eight, its age of before. Chunks are
    /// found in the order of their ages, the highest first; last, with an age of 0, those of which none was kept, zone by
    /// zone, in the order of their filling. What was evicted before is not found.
    fn on_found(&mut self, place: &ChunkLocation, (_mark, _age): (Mark, u64), now: Nanos) {
        self.on_insert(place, now);
    }

    /// A chunk on flash was read. What it is marked with from now on.
    fn on_access(&mut self, _place: &ChunkLocation, mark: Mark, _now: Nanos) -> Mark {
        mark
    }

    /// A chunk was written again because of [`Policy::keep`], and lies elsewhere now. What it is
    /// marked with there.
    fn on_move(
        &mut self,
        from: &ChunkLocation,
        to: &ChunkLocation,
        mark: Mark,
        now: Nanos,
    ) -> Mark {
        self.on_forget(from, mark);
        self.on_insert(to, now);
        Mark::default()
    }

    /// A chunk is gone: overwritten, damaged, or its zone is being emptied.
    fn on_forget(&mut self, _place: &ChunkLocation, _mark: Mark) {}

    /// The last record of a zone was written, or a full zone was found at start-up (then in the order of
    /// their ages, the highest first, then of their filling).
    fn on_sealed(&mut self, _zone: ZoneId, _now: Nanos) {}

    /// A zone was emptied; all its chunks were forgotten before.
    fn on_emptied(&mut self, _zone: ZoneId) {}

    /// Asked after each insertion, and before each choice of a victim: policies that keep less than
    /// fits decide here what that is. Those whose unit is the zone evict by choosing a victim.
    fn evict(&mut self) {}

    /// Whether a chunk that lies on flash may be read.
    fn holds(&self, _place: &ChunkLocation, _mark: Mark) -> bool {
        true
    }

    /// What is worth keeping over a restart.
    fn knowledge(&self) -> Knowledge {
        Knowledge::Nothing
    }

    /// How long ago a chunk was used, in whatever the policy counts in.
    fn age(&self, _place: &ChunkLocation, _now: Nanos) -> Option<u64> {
        None
    }

    /// How long ago a full zone was used.
    fn zone_age(&self, _zone: ZoneId) -> Option<u64> {
        None
    }

    /// The zone to empty next. `candidates` are the full zones, in `ZoneId` order; `None` when
    /// there are none.
    fn victim(&mut self, candidates: &[ZoneFacts]) -> Option<ZoneId>;

    /// Whether a chunk of the victim is written again. Asked for each of its chunks, in the order of
    /// their numbers, right after it was chosen: nothing else is told or asked in between.
    fn keep(&mut self, _place: &ChunkLocation, _mark: Mark) -> Keep {
        Keep::Drop
    }
}
