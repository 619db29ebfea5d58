//! Region LRU with one region per zone (policy `direct`): resets the least recently used zone and fills it again.
//! ZNS-Direct of Z-CacheLib (2024): CacheLib's LRU with regions of a zone's size.
//!
//! The policy never writes a chunk again, so it needs no over-provisioning. A zone enters the LRU order when it is
//! full. Until then it stands for CacheLib's region buffer in memory, which CacheLib's order does not contain.

use alloc::vec::Vec;

use zonal_base::{Nanos, ZoneId};

use crate::order::Order;
use crate::pinned::gaining;
use crate::ranking::Ranked;
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

    /// The candidates, which come in `ZoneId` order, in the LRU order.
    fn in_order(&self, candidates: &[ZoneFacts]) -> impl Iterator<Item = Ranked> {
        let is_candidate =
            |zone: ZoneId| candidates.binary_search_by_key(&zone, |facts| facts.zone).is_ok();
        let places = (0..).zip(self.order.spots());
        places.filter_map(move |(place, (zone, _))| {
            is_candidate(zone).then_some(Ranked { zone, score: [place, 0] })
        })
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
        // A full zone that cannot be emptied now keeps its place in the order.
        self.in_order(&gaining(candidates)).next().map(|ranked| ranked.zone)
    }

    fn ranking(&self, candidates: &[ZoneFacts]) -> Vec<Ranked> {
        self.in_order(&gaining(candidates)).collect()
    }

    fn scored_by(&self) -> &'static [&'static str] {
        &["place in the LRU order"]
    }
}
