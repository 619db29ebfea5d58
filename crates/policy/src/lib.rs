//! Cache policies for flash: admission, eviction, victim selection and reinsertion. Facts in, decisions out.
//!
//! Uses: `base`. Knows nothing of: devices, indexes, clocks, tasks. The caller brings the facts.
//! Read in this order: the trait [`Policy`] below; one file per policy, from `zone_fifo` to `flow`;
//! `spec`, which builds a policy from its name and settings.
//!
//! Eviction and garbage collection are separate decisions. *Eviction* chooses the chunks that the cache gives up
//! ([`Policy::evict`]). *Reclaim* is the garbage collection of zones: it picks the zone to empty
//! ([`Policy::victim`]) and the chunks of that zone to write again ([`Policy::keep`]). An evicted chunk lies on flash
//! until its zone is emptied. The policy decides whether the cache may read the chunk until then ([`Policy::holds`]).
//!
//! The state of a policy survives a restart if the caller persists three facts of each chunk: its mark, whether the
//! policy holds it, and its age ([`Policy::knowledge`], [`Policy::age`]). At start-up the caller reports the chunks
//! in the order of their ages ([`Policy::on_found`]), which restores the eviction order.
#![no_std]

extern crate alloc;

mod admission_throttle;
mod chunk_lru;
mod direct;
mod epoch;
mod flow;
mod ghost_list;
mod main_queue;
mod order;
mod over_provisioning;
mod pinned;
mod queue;
mod ranking;
mod recency;
mod region;
mod regions;
mod sequential;
mod share;
mod sketch;
mod small_queue;
mod spec;
#[cfg(test)]
mod testing;
mod write_budget;
mod z_cachelib;
mod zone_fifo;
mod zone_lru;

use alloc::vec::Vec;

use zonal_base::{Bytes, Nanos, ZoneId};

pub use admission_throttle::{AdmissionThrottle, SampleRank};
pub use ghost_list::GhostList;
pub use main_queue::MainQueue;
pub use order::{Order, Spot};
pub use ranking::{Ranked, Score};
pub use region::Promotion;
pub use sequential::{Prefetch, SequentialDetector, Wasted};
pub use small_queue::{SmallQueue, Verdict};
pub use spec::{InPlace, NAMES, Rules, Spec, SpecError};
pub use write_budget::{Account, Means, WriteBudget};

/// Address of a chunk on flash. A policy works at the granularity it wants: the chunk, the region that
/// `offset` falls into, or the zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkLocation {
    /// The zone that holds the chunk.
    pub zone: ZoneId,
    /// Number of the chunk within its zone; later chunks have higher numbers. Below 2^32 divided by the number of
    /// zones, and dense enough to index a vector.
    pub number: u32,
    /// Where the chunk begins, in bytes from the start of the zone.
    pub offset: Bytes,
    /// Length of the chunk in bytes.
    pub len: Bytes,
}

/// Policy tag (reference bits): two bits that the cache stores with each chunk for its policy. 0 when the chunk is
/// written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PolicyTag(pub u8);

impl PolicyTag {
    /// The highest mark that two bits hold.
    pub const MAX: Self = Self(3);
}

/// Persist level: the state of a policy that the log does not know and that is worth persisting over a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PersistLevel {
    /// Persist nothing: the log knows everything that the policy knows.
    Nothing,
    /// Persist the age of each full zone ([`Policy::zone_age`]).
    Zones,
    /// Persist the state of each chunk: its mark, whether the policy holds it, and its age if the policy has one.
    Chunks,
}

/// Reinsertion decision for a chunk whose zone is being emptied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reinsertion {
    /// Let the chunk go with its zone.
    Drop,
    /// Write the chunk again: it is worth another flash write.
    Rewrite,
}

/// A full zone as the log sees it: a candidate for reclaim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneFacts {
    /// Id of the full zone.
    pub zone: ZoneId,
    /// Position of the zone in the order in which zones were opened: the lowest is the oldest.
    pub sequence: u64,
    /// Number of chunks written to the zone.
    pub chunk_count: u32,
    /// Bytes of those chunks.
    pub bytes: Bytes,
    /// Bytes of the pinned chunks among them. Reclaim writes pinned chunks again whatever the policy says, and the
    /// policy is told nothing else of them.
    pub pinned: Bytes,
}

/// Geometry of the flash that a policy decides about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Number of zones.
    pub zone_count: u32,
    /// Bytes that fit into each zone.
    pub zone_capacity: Bytes,
    /// Number of zones that reclaim cannot choose: zones being filled, and zones that must be empty so that reclaim
    /// can write.
    pub busy_zones: u32,
}

/// Cache policy: eviction, victim selection and reinsertion. A stated rule breaks ties, so that equal runs stay equal.
pub trait Policy: Send {
    /// Called when a chunk is on flash.
    fn on_insert(&mut self, _place: &ChunkLocation, _now: Nanos) {}

    /// Called at start-up for each chunk found on flash, with the mark and the age that it had before the restart.
    /// The age is exact to one part in eight. Chunks with a persisted age come first, the highest age first. The other
    /// chunks follow with an age of 0, zone by zone, in the order of their filling. Chunks that were evicted before
    /// the restart are not reported.
    fn on_found(&mut self, place: &ChunkLocation, (_mark, _age): (PolicyTag, u64), now: Nanos) {
        self.on_insert(place, now);
    }

    /// Called when a chunk on flash was read. Returns the chunk's new mark.
    fn on_access(&mut self, _place: &ChunkLocation, mark: PolicyTag, _now: Nanos) -> PolicyTag {
        mark
    }

    /// Called when reclaim has moved a chunk because of [`Policy::keep`]. Returns the chunk's mark at its new place.
    fn on_move(
        &mut self,
        from: &ChunkLocation,
        to: &ChunkLocation,
        mark: PolicyTag,
        now: Nanos,
    ) -> PolicyTag {
        self.on_forget(from, mark);
        self.on_insert(to, now);
        PolicyTag::default()
    }

    /// Called when a chunk is gone: overwritten, damaged, or its zone is being emptied.
    fn on_forget(&mut self, _place: &ChunkLocation, _mark: PolicyTag) {}

    /// Called when the last record of a zone was written, and at start-up for each full zone. At start-up zones come
    /// in the order of their ages, the highest first, then in the order of their filling.
    fn on_sealed(&mut self, _zone: ZoneId, _now: Nanos) {}

    /// Called when a zone was emptied. All its chunks were forgotten before.
    fn on_emptied(&mut self, _zone: ZoneId) {}

    /// Evicts chunks while the valid data exceeds the policy's limit. The cache calls it after each insertion and
    /// before each choice of a victim. Policies that keep less than fits evict here. Policies whose unit is the zone
    /// evict by choosing a victim.
    fn evict(&mut self) {}

    /// Whether the cache may read a chunk that lies on flash. False once the policy has evicted the chunk.
    fn holds(&self, _place: &ChunkLocation, _mark: PolicyTag) -> bool {
        true
    }

    /// The state that the cache should persist over a restart.
    fn knowledge(&self) -> PersistLevel {
        PersistLevel::Nothing
    }

    /// Age of a chunk since its last use, in the policy's own unit. `None`: the policy has no age for it.
    fn age(&self, _place: &ChunkLocation, _now: Nanos) -> Option<u64> {
        None
    }

    /// Age of a full zone since its last use, in the policy's own unit. `None`: the policy has no age for it.
    fn zone_age(&self, _zone: ZoneId) -> Option<u64> {
        None
    }

    /// Victim selection: the zone to empty next. `candidates` are the full zones, in `ZoneId` order; `None` when
    /// there are none.
    fn victim(&mut self, candidates: &[ZoneFacts]) -> Option<ZoneId>;

    /// The order in which the policy would empty the candidates that it considers now. Right after [`Policy::victim`]
    /// the first is the victim.
    fn ranking(&self, candidates: &[ZoneFacts]) -> Vec<Ranked>;

    /// Names of the figures in a [`Score`], for operators.
    fn scored_by(&self) -> &'static [&'static str];

    /// Reinsertion: whether reclaim writes a chunk of the victim again. The cache asks for each chunk of the victim
    /// that is not pinned, in the order of their numbers, right after [`Policy::victim`]. The cache calls no other
    /// method in between.
    fn keep(&mut self, _place: &ChunkLocation, _mark: PolicyTag) -> Reinsertion {
        Reinsertion::Drop
    }
}
