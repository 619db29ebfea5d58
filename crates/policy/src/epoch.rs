//! `epoch`: the zones whose chunks were used longest ago, on the mean, go; several at a time. ZNSCCache's
//! epoch eviction (Ramsden, "ZNS Based Chunk Cache", 2024).
//!
//! The paper gives each chunk the time of its last use, and a zone the mean of its chunks'; when all zones
//! but one are full, the two with the lowest means are reset. Its code sets the time only when a chunk is
//! written: `update=insert` is that reading, `update=access` (ours unless told otherwise) that of the text.
//! Chunks that are gone do not count.

use alloc::vec;
use alloc::vec::Vec;

use zonal_base::{Nanos, ZoneId, index};

use crate::pinned::gaining;
use crate::{Layout, Mark, Place, Policy, ZoneFacts};

/// What renews the time of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Update {
    Access,
    Insert,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Epoch {
    update: Update,
    /// Zones chosen at a time.
    zones_at_once: u32,
    zones: Vec<Zone>,
    /// Chosen, not asked for yet; the next one last.
    chosen: Vec<ZoneId>,
}

#[derive(Clone, Debug, Default)]
struct Zone {
    /// Time of last use of each chunk, by number.
    used: Vec<Time>,
    /// Sum of those that are not gone.
    sum: u64,
    count: u64,
}

/// Milliseconds: 49 days, then all chunks are equally new.
type Time = u32;

fn time(now: Nanos) -> Time {
    Time::try_from(now.0 / 1_000_000).unwrap_or(Time::MAX)
}

impl Epoch {
    pub(crate) fn new(layout: &Layout, update: Update, zones_at_once: u32) -> Self {
        let zones = vec![Zone::default(); index(layout.zone_count.into())];
        Self { update, zones_at_once, zones, chosen: Vec::new() }
    }

    fn zone(&mut self, zone: ZoneId) -> &mut Zone {
        &mut self.zones[index(zone.0.into())]
    }

    fn mean(&self, zone: ZoneId) -> u64 {
        let Zone { sum, count, .. } = self.zones[index(zone.0.into())];
        sum.checked_div(count).unwrap_or(0)
    }
}

impl Policy for Epoch {
    fn on_insert(&mut self, place: &Place, now: Nanos) {
        let zone = self.zone(place.zone);
        let number = place.number as usize;
        if zone.used.len() <= number {
            zone.used.resize(number + 1, 0);
        }
        zone.used[number] = time(now);
        zone.sum += u64::from(time(now));
        zone.count += 1;
    }

    fn on_access(&mut self, place: &Place, mark: Mark, now: Nanos) -> Mark {
        if self.update == Update::Access {
            let zone = self.zone(place.zone);
            let used = core::mem::replace(&mut zone.used[place.number as usize], time(now));
            zone.sum = zone.sum + u64::from(time(now)) - u64::from(used);
        }
        mark
    }

    fn on_forget(&mut self, place: &Place, _mark: Mark) {
        let zone = self.zone(place.zone);
        zone.sum -= u64::from(zone.used[place.number as usize]);
        zone.count -= 1;
    }

    fn on_emptied(&mut self, zone: ZoneId) {
        *self.zone(zone) = Zone::default();
        self.chosen.retain(|other| *other != zone);
    }

    fn victim(&mut self, candidates: &[ZoneFacts]) -> Option<ZoneId> {
        let is_candidate = |zone: &ZoneId| candidates.iter().any(|facts| facts.zone == *zone);
        self.chosen.retain(is_candidate);
        if self.chosen.is_empty() {
            let mut order: Vec<ZoneId> =
                gaining(candidates).iter().map(|facts| facts.zone).collect();
            // Equal means: the lower zone goes first.
            order.sort_by_key(|zone| (self.mean(*zone), *zone));
            order.truncate(self.zones_at_once as usize);
            order.reverse();
            self.chosen = order;
        }
        self.chosen.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{candidates, chunk, layout};

    fn filled(update: Update) -> Epoch {
        let mut policy = Epoch::new(&layout(3, 2), update, 2);
        for (at, place) in [chunk(0, 0), chunk(0, 1), chunk(1, 0), chunk(1, 1)].iter().enumerate() {
            policy.on_insert(place, Nanos::millis(10 * at as u64));
        }
        // The older zone is used much later.
        policy.on_access(&chunk(0, 1), Mark::default(), Nanos::millis(100));
        policy
    }

    #[test]
    fn the_zone_with_the_lowest_mean_goes() {
        assert_eq!(filled(Update::Access).victim(&candidates(&[0, 1])), Some(ZoneId(1)));
        assert_eq!(filled(Update::Insert).victim(&candidates(&[0, 1])), Some(ZoneId(0)));
    }

    #[test]
    fn zones_are_chosen_some_at_a_time() {
        let mut policy = filled(Update::Access);
        assert_eq!(policy.victim(&candidates(&[0, 1])), Some(ZoneId(1)));
        policy.on_access(&chunk(1, 0), Mark::default(), Nanos::millis(900));
        assert_eq!(policy.victim(&candidates(&[0, 1])), Some(ZoneId(0)));
        assert_eq!(policy.victim(&candidates(&[0, 1])), Some(ZoneId(0)));
    }

    #[test]
    fn chunks_that_are_gone_do_not_count() {
        let mut policy = filled(Update::Access);
        policy.on_forget(&chunk(0, 1), Mark::default());
        assert_eq!(policy.victim(&candidates(&[0, 1])), Some(ZoneId(0)));
    }
}
