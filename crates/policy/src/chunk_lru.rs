//! `chunk-lru`: the chunk that was used longest ago goes, and the host cleans: the zone with the fewest
//! valid bytes is emptied, and what is valid in it is written again. ZNCache's CLRU, which its authors did
//! not get to work (Ramsden and Cheng, "ZNCache", 2025, section on eviction policies).
//!
//! The paper evicts when fewer chunks are free than a watermark, and cleans when fewer zones are. Here the
//! first watermark is `spare`, the part of what full zones hold that is no valid chunk; the second is that of reclaim,
//! the same for all policies. A chunk keeps its place in the order when it is moved. Room to move into is
//! never lacking: valid chunks leave at least the zones free that are busy or kept empty, and one more, so the
//! emptiest full zone always has something to gain.
//!
//! An evicted chunk is not read any more, as in the paper.

use alloc::vec;
use alloc::vec::Vec;

use zonal_base::{Nanos, ZoneId, index};

use crate::limit::Limit;
use crate::order::Spot;
use crate::recency::Recency;
use crate::regions::least;
use crate::share::Share;
use crate::{ChunkLocation, Keep, Knowledge, Layout, Mark, Policy, ZoneFacts};

/// See the module.
#[derive(Debug)]
pub(crate) struct ChunkLru {
    order: Recency,
    zones: Vec<Valid>,
    valid_bytes: u64,
    limit: Limit,
}

/// What of a zone is not evicted. The bytes of a chunk are taken as the mean of its zone: to know each would
/// cost four bytes more for each chunk.
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
            limit: Limit::new(layout, spare),
        }
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

    fn on_access(&mut self, place: &ChunkLocation, mark: Mark, _now: Nanos) -> Mark {
        self.order.touch(spot(place));
        mark
    }

    fn on_move(
        &mut self,
        from: &ChunkLocation,
        to: &ChunkLocation,
        mark: Mark,
        _now: Nanos,
    ) -> Mark {
        // What was evicted while it was on its way arrives evicted.
        if self.order.contains(spot(from)) {
            self.order.relocate(spot(from), spot(to));
            self.count(to);
            self.uncount(from.zone);
        }
        mark
    }

    fn on_forget(&mut self, place: &ChunkLocation, _mark: Mark) {
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

    fn holds(&self, place: &ChunkLocation, _mark: Mark) -> bool {
        self.order.contains(spot(place))
    }

    fn knowledge(&self) -> Knowledge {
        Knowledge::Chunks
    }

    fn age(&self, place: &ChunkLocation, _now: Nanos) -> Option<u64> {
        self.order.age(spot(place)).map(u64::from)
    }

    fn victim(&mut self, candidates: &[ZoneFacts]) -> Option<ZoneId> {
        self.limit.follow(candidates);
        self.evict();
        least(candidates, |zone| [self.zones[index(zone.0.into())].bytes])
    }

    fn keep(&mut self, place: &ChunkLocation, _mark: Mark) -> Keep {
        match self.order.contains(spot(place)) {
            true => Keep::Rewrite,
            false => Keep::Drop,
        }
    }
}
