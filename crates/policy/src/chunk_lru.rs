//! LRU eviction of chunks with greedy garbage collection (policy `chunk-lru`): evicts the least recently used chunk.
//!
//! Reclaim empties the zone with the fewest valid bytes and writes its valid chunks again. ZNCache's CLRU, which its
//! authors did not get to work (Ramsden and Cheng, "ZNCache", 2025, section on eviction policies).
//!
//! The paper has two watermarks: it evicts below a number of free chunks, and cleans below a number of free zones.
//! Here the first watermark is `spare` (over-provisioning): the share of the data in full zones that must not be valid.
//! The second watermark is that of reclaim, the same for all policies.
//!
//! A chunk keeps its place in the LRU order when reclaim moves it. Reclaim never lacks room to move chunks into: the
//! limit on valid chunks leaves free the zones that are busy or kept empty, and one more. So emptying the emptiest
//! full zone always gains something.
//!
//! The cache does not read an evicted chunk any more, as in the paper.

use alloc::vec;
use alloc::vec::Vec;

use zonal_base::{Nanos, ZoneId, index};

use crate::order::Spot;
use crate::over_provisioning::OverProvisioning;
use crate::ranking::{Ranked, Score, lowest, ranked};
use crate::recency::Recency;
use crate::share::Share;
use crate::{ChunkLocation, Layout, PersistLevel, Policy, PolicyTag, Reinsertion, ZoneFacts};

/// LRU over chunks, with the valid bytes of each zone.
#[derive(Debug)]
pub(crate) struct ChunkLru {
    order: Recency,
    zones: Vec<Valid>,
    valid_bytes: u64,
    limit: OverProvisioning,
}

/// Valid data of a zone: the chunks that are not evicted. A chunk counts with the mean size of its zone, because the
/// size of each chunk would cost four bytes more for each chunk.
#[derive(Clone, Copy, Debug, Default)]
struct Valid {
    count: u64,
    bytes: u64,
}

impl Valid {
    fn remove(&mut self) -> u64 {
        let mean = self.bytes / self.count;
        self.count -= 1;
        self.bytes -= mean;
        mean
    }
}

impl ChunkLru {
    pub(crate) fn new(layout: &Layout, spare: Share) -> Self {
        Self {
            order: Recency::new(layout.zone_count),
            zones: vec![Valid::default(); index(layout.zone_count.into())],
            valid_bytes: 0,
            limit: OverProvisioning::new(layout, spare),
        }
    }

    /// Bytes to write again: reclaim is greedy.
    fn score(&self, facts: &ZoneFacts) -> Score {
        [self.zones[index(facts.zone.0.into())].bytes + facts.pinned.0, 0]
    }

    fn remove(&mut self, spot: Spot) {
        if self.order.remove(spot) {
            self.uncount(spot.0);
        }
    }

    fn uncount(&mut self, zone: ZoneId) {
        self.valid_bytes -= self.zones[index(zone.0.into())].remove();
    }

    fn count(&mut self, place: &ChunkLocation) {
        let zone = &mut self.zones[index(place.zone.0.into())];
        zone.count += 1;
        zone.bytes += place.len.0;
        self.valid_bytes += place.len.0;
    }
}

const fn spot(place: &ChunkLocation) -> Spot {
    (place.zone, place.number)
}

impl Policy for ChunkLru {
    fn on_insert(&mut self, place: &ChunkLocation, _now: Nanos) {
        self.order.insert(spot(place));
        self.count(place);
    }

    fn on_access(&mut self, place: &ChunkLocation, mark: PolicyTag, _now: Nanos) -> PolicyTag {
        self.order.touch(spot(place));
        mark
    }

    fn on_move(
        &mut self,
        from: &ChunkLocation,
        to: &ChunkLocation,
        mark: PolicyTag,
        _now: Nanos,
    ) -> PolicyTag {
        // A chunk that was evicted while reclaim moved it stays evicted.
        if self.order.contains(spot(from)) {
            self.order.relocate(spot(from), spot(to));
            self.count(to);
            self.uncount(from.zone);
        }
        mark
    }

    fn on_forget(&mut self, place: &ChunkLocation, _mark: PolicyTag) {
        self.remove(spot(place));
    }

    fn on_sealed(&mut self, zone: ZoneId, _now: Nanos) {
        self.order.seal(zone);
    }

    fn on_emptied(&mut self, zone: ZoneId) {
        self.order.forget_zone(zone);
    }

    fn evict(&mut self) {
        while self.limit.is_exceeded(self.valid_bytes) {
            let Some(first) = self.order.oldest() else { return };
            self.remove(first);
        }
    }

    fn holds(&self, place: &ChunkLocation, _mark: PolicyTag) -> bool {
        self.order.contains(spot(place))
    }

    fn knowledge(&self) -> PersistLevel {
        PersistLevel::Chunks
    }

    fn age(&self, place: &ChunkLocation, _now: Nanos) -> Option<u64> {
        self.order.age(spot(place)).map(u64::from)
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

    fn keep(&mut self, place: &ChunkLocation, _mark: PolicyTag) -> Reinsertion {
        match self.order.contains(spot(place)) {
            true => Reinsertion::Rewrite,
            false => Reinsertion::Drop,
        }
    }
}
