//! `zone-lru`: any access to a chunk promotes its whole zone; the zone that was promoted longest ago
//! goes. ZNCache's ZPLRU (Ramsden and Cheng, "ZNCache", 2025, section on eviction policies).
//!
//! As the paper has it, a zone enters the order when its last chunk was written, as the most recent;
//! reads of zones that are still being filled do not count, and neither do writes.

use alloc::collections::BTreeMap;

use zonal_base::{Nanos, ZoneId};

use crate::{Place, Policy, ZoneFacts};

/// See the module.
#[derive(Debug, Default)]
pub struct ZoneLru {
    /// When each full zone was last promoted, counted in promotions: times may be equal, these are not.
    promoted: BTreeMap<ZoneId, u64>,
    promotions: u64,
}

impl ZoneLru {
    fn next(&mut self) -> u64 {
        self.promotions += 1;
        self.promotions
    }
}

impl Policy for ZoneLru {
    fn on_access(&mut self, place: Place, _now: Nanos) {
        let next = self.next();
        if let Some(promoted) = self.promoted.get_mut(&place.zone) {
            *promoted = next;
        }
    }

    fn on_sealed(&mut self, zone: ZoneId, _now: Nanos) {
        let next = self.next();
        self.promoted.insert(zone, next);
    }

    fn on_emptied(&mut self, zone: ZoneId) {
        self.promoted.remove(&zone);
    }

    fn victim(&mut self, candidates: &[ZoneFacts]) -> Option<ZoneId> {
        let least = candidates
            .iter()
            .min_by_key(|facts| (self.promoted.get(&facts.zone).copied().unwrap_or(0), facts.zone));
        least.map(|facts| facts.zone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use zonal_base::Bytes;

    fn facts(zones: &[u32]) -> Vec<ZoneFacts> {
        let of = |zone: &u32| ZoneFacts {
            zone: ZoneId(*zone),
            sequence: u64::from(*zone),
            chunk_count: 1,
            bytes: Bytes::kib(64),
        };
        zones.iter().map(of).collect()
    }

    #[test]
    fn an_access_promotes_the_whole_zone_and_only_full_zones_count() {
        let mut policy = ZoneLru::default();
        let read = |zone| Place { zone: ZoneId(zone), offset: Bytes(0), chunk: 0 };
        for zone in [0, 1, 2] {
            policy.on_sealed(ZoneId(zone), Nanos(0));
        }
        policy.on_access(read(3), Nanos(0));
        policy.on_sealed(ZoneId(3), Nanos(0));
        policy.on_access(read(0), Nanos(0));
        let mut order = Vec::new();
        let mut left = Vec::from([0, 1, 2, 3]);
        while let Some(zone) = policy.victim(&facts(&left)) {
            policy.on_emptied(zone);
            left.retain(|other| *other != zone.0);
            order.push(zone.0);
        }
        assert_eq!(order, [1, 2, 3, 0]);
    }
}
