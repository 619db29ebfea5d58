//! LRU eviction of whole zones (policy `zone-lru`): a read of any chunk promotes its zone, and the least recently
//! promoted zone is evicted. ZNCache's ZPLRU (Ramsden and Cheng, "ZNCache", 2025, section on eviction policies).
//!
//! As in the paper, a zone enters the LRU order as the most recent when its last chunk was written. Reads of zones
//! that are still being filled do not count, and neither do writes.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use zonal_base::{Nanos, ZoneId};

use crate::pinned::gaining;
use crate::ranking::{Ranked, Score, lowest, ranked};
use crate::{ChunkLocation, PersistLevel, Policy, PolicyTag, ZoneFacts};

/// LRU over full zones.
#[derive(Debug, Default)]
pub(crate) struct ZoneLru {
    /// Last promotion of each full zone, as a count of promotions. Clock times may be equal; counts are not.
    promoted: BTreeMap<ZoneId, u64>,
    promotions: u64,
}

impl ZoneLru {
    fn next(&mut self) -> u64 {
        self.promotions += 1;
        self.promotions
    }

    fn score(&self, facts: &ZoneFacts) -> Score {
        [self.promoted.get(&facts.zone).copied().unwrap_or(0), 0]
    }
}

impl Policy for ZoneLru {
    fn on_access(&mut self, place: &ChunkLocation, mark: PolicyTag, _now: Nanos) -> PolicyTag {
        let next = self.next();
        if let Some(promoted) = self.promoted.get_mut(&place.zone) {
            *promoted = next;
        }
        mark
    }

    fn on_sealed(&mut self, zone: ZoneId, _now: Nanos) {
        let next = self.next();
        self.promoted.insert(zone, next);
    }

    fn on_emptied(&mut self, zone: ZoneId) {
        self.promoted.remove(&zone);
    }

    fn knowledge(&self) -> PersistLevel {
        PersistLevel::Zones
    }

    fn zone_age(&self, zone: ZoneId) -> Option<u64> {
        self.promoted.get(&zone).map(|promoted| self.promotions - promoted)
    }

    fn victim(&mut self, candidates: &[ZoneFacts]) -> Option<ZoneId> {
        lowest(&gaining(candidates), |facts| self.score(facts)).map(|facts| facts.zone)
    }

    fn ranking(&self, candidates: &[ZoneFacts]) -> Vec<Ranked> {
        ranked(&gaining(candidates), |facts| self.score(facts))
    }

    fn scored_by(&self) -> &'static [&'static str] {
        &["last promotion"]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{candidates, chunk};

    #[test]
    fn an_access_promotes_the_whole_zone_and_only_full_zones_count() {
        let mut policy = ZoneLru::default();
        let read = |policy: &mut ZoneLru, zone| {
            policy.on_access(&chunk(zone, 0), PolicyTag::default(), Nanos(0));
        };
        for zone in [0, 1, 2] {
            policy.on_sealed(ZoneId(zone), Nanos(0));
        }
        read(&mut policy, 3);
        policy.on_sealed(ZoneId(3), Nanos(0));
        read(&mut policy, 0);
        let mut order = Vec::new();
        let mut left = Vec::from([0, 1, 2, 3]);
        while let Some(zone) = policy.victim(&candidates(&left)) {
            policy.on_emptied(zone);
            left.retain(|other| *other != zone.0);
            order.push(zone.0);
        }
        assert_eq!(order, [1, 2, 3, 0]);
    }
}
