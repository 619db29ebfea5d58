//! `direct`: a region is a zone: reset, written to its end, read until it is the one that was used longest ago,
//! and reset again. ZNS-Direct of Z-CacheLib (2024): CacheLib's LRU with regions of a zone's size.
//!
//! Nothing is ever written again, so nothing needs spare space. A zone enters the order when it is full: until
//! then it is CacheLib's buffer in memory, which its order does not know.

use zonal_base::{Nanos, ZoneId};

use crate::order::Order;
use crate::pinned::gaining;
use crate::{ChunkLocation, Knowledge, Layout, Mark, Policy, ZoneFacts};

/// See the module.
#[derive(Debug)]
pub(crate) struct Direct {
    order: Order,
}

/// The only region of a zone.
const REGION: u32 = 0;

impl Direct {
    pub(crate) fn new(layout: &Layout) -> Self {
        Self { order: Order::new(layout.zone_count) }
    }
}

impl Policy for Direct {
    fn on_access(&mut self, place: &ChunkLocation, mark: Mark, _now: Nanos) -> Mark {
        if self.order.remove((place.zone, REGION)) {
            self.order.push_last((place.zone, REGION));
        }
        mark
    }

    fn on_sealed(&mut self, zone: ZoneId, _now: Nanos) {
        self.order.push_last((zone, REGION));
    }

    fn on_emptied(&mut self, zone: ZoneId) {
        self.order.remove((zone, REGION));
    }

    fn knowledge(&self) -> Knowledge {
        Knowledge::Zones
    }

    fn zone_age(&self, zone: ZoneId) -> Option<u64> {
        let newer = self.order.spots().skip_while(|(other, _)| *other != zone);
        newer.count().checked_sub(1).map(|newer| newer as u64)
    }

    fn victim(&mut self, candidates: &[ZoneFacts]) -> Option<ZoneId> {
        let candidates = gaining(candidates);
        let is_candidate = |zone: ZoneId| candidates.iter().any(|facts| facts.zone == zone);
        // A full zone that cannot be emptied just now keeps its place.
        self.order.spots().map(|(zone, _)| zone).find(|zone| is_candidate(*zone))
    }
}
