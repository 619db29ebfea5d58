//! FIFO or LRU eviction of regions with greedy garbage collection (policies `region-fifo` and `region-lru`).
//!
//! Reclaim empties the zone with the fewest valid bytes and writes its valid regions again. CacheLib's regions over a
//! mapping with greedy garbage collection: ZNS-Middle of Z-CacheLib (2024). On a drive that takes overwrites the same
//! orders work in place, without any cleaning: setting `place=slots`, for replays of traces (crate `lab`).
//!
//! The paper moves whole regions, and a moved region keeps its place in the order. Here reclaim moves chunks, so one
//! new region may hold the valid chunks of several old regions. The new region stands where the first of them stood.
//!
//! The policy never evicts a region that is being written. With `region-lru`, a read of such a region promotes it, as
//! in CacheLib.

use alloc::vec::Vec;

use zonal_base::{Nanos, ZoneId};

use crate::order::Order;
use crate::over_provisioning::OverProvisioning;
use crate::ranking::{Ranked, Score, lowest, ranked};
use crate::regions::Regions;
use crate::share::Share;
use crate::{ChunkLocation, Layout, PersistLevel, Policy, PolicyTag, Reinsertion, ZoneFacts};

/// Promotion rule: the event that moves a region to the newest end of the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promotion {
    /// FIFO: no event moves a region.
    Never,
    /// LRU: a read of the region moves it.
    Access,
}

/// FIFO or LRU over regions.
#[derive(Debug)]
pub(crate) struct RegionOrder {
    promotion: Promotion,
    order: Order,
    regions: Regions,
    limit: OverProvisioning,
}

impl RegionOrder {
    pub(crate) fn new(
        layout: &Layout,
        promotion: Promotion,
        regions_per_zone: u32,
        spare: Share,
    ) -> Self {
        Self {
            promotion,
            order: Order::new(layout.zone_count),
            regions: Regions::new(layout, regions_per_zone),
            limit: OverProvisioning::new(layout, spare),
        }
    }

    /// Bytes to write again: reclaim is greedy.
    fn score(&self, facts: &ZoneFacts) -> Score {
        [self.regions.zone_valid_bytes(facts.zone) + facts.pinned.0, 0]
    }
}

impl Policy for RegionOrder {
    fn on_insert(&mut self, place: &ChunkLocation, _now: Nanos) {
        if self.regions.insert(place) {
            let region = self.regions.of(place);
            self.order.push_last(region);
            self.regions.note_use(region);
        }
    }

    fn on_access(&mut self, place: &ChunkLocation, mark: PolicyTag, _now: Nanos) -> PolicyTag {
        let region = self.regions.of(place);
        if self.promotion == Promotion::Access && self.order.remove(region) {
            self.order.push_last(region);
            self.regions.note_use(region);
        }
        mark
    }

    fn on_move(
        &mut self,
        from: &ChunkLocation,
        to: &ChunkLocation,
        mark: PolicyTag,
        _now: Nanos,
    ) -> PolicyTag {
        let (old, new) = (self.regions.of(from), self.regions.of(to));
        if self.regions.insert(to) {
            if self.order.contains(old) {
                self.order.push_after(new, old);
                self.regions.note_beside(new, old);
            } else {
                self.order.push_first(new);
                self.regions.note_first(new);
            }
        }
        self.on_forget(from, mark);
        mark
    }

    fn on_forget(&mut self, place: &ChunkLocation, _mark: PolicyTag) {
        if self.regions.remove(place) {
            self.order.remove(self.regions.of(place));
        }
    }

    fn on_sealed(&mut self, zone: ZoneId, _now: Nanos) {
        self.regions.seal(zone);
    }

    fn on_emptied(&mut self, zone: ZoneId) {
        self.regions.empty(zone);
        self.order.forget_zone(zone);
    }

    fn evict(&mut self) {
        while self.limit.is_exceeded(self.regions.valid_bytes().0) {
            let first = self.order.spots().find(|region| self.regions.is_complete(*region));
            let Some(first) = first else { return };
            self.regions.evict(first);
            self.order.remove(first);
        }
    }

    fn holds(&self, place: &ChunkLocation, _mark: PolicyTag) -> bool {
        !self.regions.is_evicted(self.regions.of(place))
    }

    fn knowledge(&self) -> PersistLevel {
        PersistLevel::Chunks
    }

    fn age(&self, place: &ChunkLocation, _now: Nanos) -> Option<u64> {
        self.regions.age(place)
    }

    fn victim(&mut self, candidates: &[ZoneFacts]) -> Option<ZoneId> {
        self.limit.follow(candidates);
        self.evict();
        lowest(candidates, |facts| self.score(facts)).map(|facts| facts.zone)
    }

    fn ranking(&self, candidates: &[ZoneFacts]) -> Vec<Ranked> {
        ranked(candidates, |facts| self.score(facts))
    }

    fn scored_by(&self) -> &'static [&'static str] {
        &["valid and pinned bytes"]
    }

    fn keep(&mut self, place: &ChunkLocation, mark: PolicyTag) -> Reinsertion {
        match self.holds(place, mark) {
            true => Reinsertion::Rewrite,
            false => Reinsertion::Drop,
        }
    }
}
