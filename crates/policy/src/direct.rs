//! Region LRU with one region per zone (policy `direct`): resets the least recently used zone and fills it again.
//! ZNS-Direct of Z-CacheLib (2024): CacheLib's LRU with regions of a zone's size.
//!
//! The policy never writes a chunk again, so it needs no over-provisioning. A zone enters the LRU order when it is
//! full. Until then it stands for CacheLib's region buffer in memory, which CacheLib's order does not contain.

use zonal_base::{Nanos, ZoneId};

use crate::order::Order;
use crate::pinned::gaining;
use crate::{ChunkLocation, Layout, PersistLevel, Policy, PolicyTag, ZoneFacts};

/// LRU over full zones, each of which is one region.
#[derive(Debug)]
pub(crate) struct Direct {
    order: Order,
}

/// Number of the only region of a zone.
const REGION: u32 = 0;

impl Direct {
    pub(crate) fn new(layout: &Layout) -> Self {
        Self { order: Order::new(layout.zone_count) }
    }
}

impl Policy for Direct {
    fn on_access(&mut self, place: &ChunkLocation, mark: PolicyTag, _now: Nanos) -> PolicyTag {
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

    fn knowledge(&self) -> PersistLevel {
        PersistLevel::Zones
    }

    fn zone_age(&self, zone: ZoneId) -> Option<u64> {
        let newer = self.order.spots().skip_while(|(other, _)| *other != zone);
        newer.count().checked_sub(1).map(|newer| newer as u64)
    }

    fn victim(&mut self, candidates: &[ZoneFacts]) -> Option<ZoneId> {
        let candidates = gaining(candidates);
        let is_candidate = |zone: ZoneId| candidates.iter().any(|facts| facts.zone == zone);
        // A full zone that cannot be emptied now keeps its place in the order.
        self.order.spots().map(|(zone, _)| zone).find(|zone| is_candidate(*zone))
    }
}
