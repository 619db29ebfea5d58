//! Region LRU with virtual over-provisioning (policies `zlru`, `zdrop`, `zlru+zdrop`): gives up old regions instead of
//! rewriting them.
//!
//! From Z-CacheLib (2024). The LRU order of regions has two parts: the newer part, and the `vop` part of the least
//! recently used regions. The paper calls the second part virtual over-provisioning (VOP): its regions may be evicted,
//! and the cache reads them until then. A read of a region in the `vop` part brings it back to the newer end.
//!
//! - *zLRU, from the top:* the policy dumps zones that will be emptied soon, whenever a zone is full. Such a zone has
//!   fewer regions in the newer part than the average of all full zones. Dumping moves its `vop` regions to the end of
//!   the order, where they are evicted first, so that the zone empties by itself. That is the paper's rule
//!   (`dump=mean`). The paper's code dumps a zone when more than 48 of its 67 regions are in the `vop` part or evicted
//!   (`dump=72%`).
//! - *zDrop, from the bottom:* when reclaim empties a zone, the policy drops the zone's `vop` regions. Reclaim writes
//!   only regions of the newer part again. With `vop=100%`, the paper's default, reclaim never writes a region again.
//!
//! With zDrop, the victim is the zone with the fewest bytes in the newer part, then with the fewest valid bytes. With
//! zLRU alone, only the valid bytes count. The paper's code takes the first zone that is less than half valid if there
//! is one; we saw no reason to.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use zonal_base::{Nanos, ZoneId};

use crate::order::{Order, Spot};
use crate::over_provisioning::OverProvisioning;
use crate::ranking::{Ranked, Score, lowest, ranked};
use crate::regions::Regions;
use crate::share::Share;
use crate::{ChunkLocation, Layout, PersistLevel, Policy, PolicyTag, Reinsertion, ZoneFacts};

/// Dump rule of zLRU: the condition that moves the `vop` regions of a zone to the end of the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dump {
    /// Dump a zone that has fewer regions in the newer part than the mean of all full zones.
    BelowMean,
    /// Dump a zone when more than this share of its regions is in the `vop` part, or evicted.
    Above(Share),
}

/// Settings that distinguish the three policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Variant {
    /// zLRU's dump rule. `None`: the policy never dumps a zone.
    pub(crate) dump: Option<Dump>,
    /// zDrop: whether reclaim drops regions of the `vop` part.
    pub(crate) drops: bool,
    /// Share of all regions in the order that forms the `vop` part.
    pub(crate) vop: Share,
    pub(crate) regions_per_zone: u32,
    pub(crate) spare: Share,
}

/// LRU over regions in two parts.
#[derive(Debug)]
pub(crate) struct ZCacheLib {
    variant: Variant,
    newer: Order,
    vop: Order,
    regions: Regions,
    /// Full zones: the zones that zLRU may dump.
    sealed: BTreeSet<ZoneId>,
    limit: OverProvisioning,
}

impl ZCacheLib {
    pub(crate) fn new(layout: &Layout, variant: Variant) -> Self {
        Self {
            variant,
            newer: Order::new(layout.zone_count),
            vop: Order::new(layout.zone_count),
            regions: Regions::new(layout, variant.regions_per_zone),
            sealed: BTreeSet::new(),
            limit: OverProvisioning::new(layout, variant.spare),
        }
    }

    /// Moves regions between the two parts until the `vop` part has its share.
    fn balance(&mut self) {
        let wanted = self.variant.vop.of(self.newer.len() + self.vop.len());
        while self.vop.len() < wanted {
            let Some(oldest) = self.newer.first() else { return };
            self.newer.remove(oldest);
            self.vop.push_last(oldest);
        }
        while wanted < self.vop.len() {
            let Some(newest) = self.vop.last() else { return };
            self.vop.remove(newest);
            self.newer.push_first(newest);
        }
    }

    fn push_first(&mut self, region: Spot) {
        self.vop.push_first(region);
        self.regions.note_first(region);
    }

    fn remove(&mut self, region: Spot) {
        if self.newer.remove(region) || self.vop.remove(region) {
            self.balance();
        }
    }

    fn newer_bytes(&self, zone: ZoneId) -> u64 {
        let regions = (0..self.variant.regions_per_zone).map(|number| (zone, number));
        let newer = regions.filter(|region| self.newer.contains(*region));
        newer.map(|region| self.regions.region_valid_bytes(region)).sum()
    }

    fn score(&self, facts: &ZoneFacts) -> Score {
        let valid = self.regions.zone_valid_bytes(facts.zone) + facts.pinned.0;
        match self.variant.drops {
            true => [self.newer_bytes(facts.zone) + facts.pinned.0, valid],
            false => [valid, 0],
        }
    }

    /// zLRU: moves the `vop` regions of zones that will be emptied soon to the end of the order.
    fn dump(&mut self) {
        let Some(dump) = self.variant.dump else { return };
        let count = |policy: &Self, zone: ZoneId| {
            let regions = (0..policy.variant.regions_per_zone).map(|number| (zone, number));
            regions.filter(|region| policy.newer.contains(*region)).count()
        };
        let total: usize = self.sealed.iter().map(|zone| count(self, *zone)).sum();
        let per_zone = self.variant.regions_per_zone as usize;
        let is_dumped = |zone: &ZoneId| match dump {
            Dump::BelowMean => count(self, *zone) * self.sealed.len() < total,
            Dump::Above(share) => share.of(per_zone) < per_zone - count(self, *zone),
        };
        let dumped: Vec<ZoneId> = self.sealed.iter().copied().filter(is_dumped).collect();
        for zone in dumped {
            for region in (0..self.variant.regions_per_zone).map(|number| (zone, number)) {
                if self.vop.remove(region) {
                    self.push_first(region);
                }
            }
        }
    }
}

impl Policy for ZCacheLib {
    fn on_insert(&mut self, place: &ChunkLocation, _now: Nanos) {
        if self.regions.insert(place) {
            let region = self.regions.of(place);
            self.newer.push_last(region);
            self.regions.note_use(region);
            self.balance();
        }
    }

    fn on_access(&mut self, place: &ChunkLocation, mark: PolicyTag, _now: Nanos) -> PolicyTag {
        let region = self.regions.of(place);
        if self.newer.remove(region) || self.vop.remove(region) {
            self.newer.push_last(region);
            self.regions.note_use(region);
            self.balance();
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
            self.regions.note_beside(new, old);
            match (self.newer.contains(old), self.vop.contains(old)) {
                (true, _) => self.newer.push_after(new, old),
                (_, true) => self.vop.push_after(new, old),
                _ => self.push_first(new),
            }
            self.balance();
        }
        self.on_forget(from, mark);
        mark
    }

    fn on_forget(&mut self, place: &ChunkLocation, _mark: PolicyTag) {
        if self.regions.remove(place) {
            self.remove(self.regions.of(place));
        }
    }

    fn on_sealed(&mut self, zone: ZoneId, _now: Nanos) {
        self.regions.seal(zone);
        self.sealed.insert(zone);
        self.dump();
    }

    fn on_emptied(&mut self, zone: ZoneId) {
        self.regions.empty(zone);
        self.sealed.remove(&zone);
        self.newer.forget_zone(zone);
        self.vop.forget_zone(zone);
    }

    fn evict(&mut self) {
        while self.limit.is_exceeded(self.regions.valid_bytes().0) {
            let mut order = self.vop.spots().chain(self.newer.spots());
            let first = order.find(|region| self.regions.is_complete(*region));
            drop(order);
            let Some(first) = first else { return };
            self.regions.evict(first);
            self.remove(first);
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
        match self.variant.drops {
            true => &["newer and pinned bytes", "valid and pinned bytes"],
            false => &["valid and pinned bytes"],
        }
    }

    fn keep(&mut self, place: &ChunkLocation, mark: PolicyTag) -> Reinsertion {
        let is_dropped = self.variant.drops && self.vop.contains(self.regions.of(place));
        match self.holds(place, mark) && !is_dropped {
            true => Reinsertion::Rewrite,
            false => Reinsertion::Drop,
        }
    }
}
