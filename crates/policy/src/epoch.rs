//! Epoch eviction (policy `epoch`): evicts the zones with the oldest mean last use of their chunks, several at a time.
//!
//! ZNSCCache's epoch eviction (Ramsden, "ZNS Based Chunk Cache", 2024). The paper gives each chunk the time of its last
//! use, and a zone the mean of its chunks' times. When all zones but one are full, the paper resets the two zones with
//! the lowest means. The paper's code sets the time only when a chunk is written: `update=insert` is that reading.
//! `update=access` (our default) is that of the text. Chunks that are gone do not count.

use alloc::vec;
use alloc::vec::Vec;

use zonal_base::{Nanos, ZoneId, index};

use crate::pinned::gaining;
use crate::ranking::{Ranked, Score, ranked};
use crate::{ChunkLocation, Layout, PersistLevel, Policy, PolicyTag, ZoneFacts};

/// Event that renews the time of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Update {
    /// A write and each read, as in the paper's text.
    Access,
    /// The write only, as in the paper's code.
    Insert,
}

/// Epoch eviction over zones.
#[derive(Debug)]
pub(crate) struct Epoch {
    update: Update,
    /// Number of victims chosen at a time.
    zones_at_once: u32,
    zones: Vec<Zone>,
    /// When the first chunk was reported: times count from [`EARLIEST`] before it.
    began: Option<Nanos>,
    /// Victims that are chosen and not emptied yet, in the order in which they go.
    chosen: Vec<ZoneId>,
}

#[derive(Clone, Debug, Default)]
struct Zone {
    /// Time of last use of each chunk, by chunk number; [`GONE`] for one that is gone.
    used: Vec<Time>,
    /// Sum of the times.
    sum: u64,
    /// Number of chunks that are not gone.
    count: u64,
}

/// Time in milliseconds. All times are moved back by [`SHIFT`] before the present one overflows.
type Time = u32;

/// Time of a chunk that is gone. Others are later.
const GONE: Time = 0;

/// 24 days. Chunks that were last used longer ago than this before a move are equally old.
const SHIFT: Time = 1 << 31;

/// Time of a start: chunks last used up to 12 days before the start keep their order.
const EARLIEST: Time = 1 << 30;

impl Epoch {
    pub(crate) fn new(layout: &Layout, update: Update, zones_at_once: u32) -> Self {
        let zones = vec![Zone::default(); index(layout.zone_count.into())];
        Self { update, zones_at_once, zones, began: None, chosen: Vec::new() }
    }

    fn zone(&mut self, zone: ZoneId) -> &mut Zone {
        &mut self.zones[index(zone.0.into())]
    }

    fn time(&self, now: Nanos) -> Time {
        let since = now.since(self.began.unwrap_or(now)).0 / 1_000_000;
        Time::try_from(since).map_or(Time::MAX, |since| EARLIEST.saturating_add(since))
    }

    /// Moves all times back when the present one is about to overflow, once in 24 days.
    fn keep_in_range(&mut self, now: Nanos) {
        let Some(began) = self.began else { return };
        while Time::MAX - 1 <= self.time(now) {
            let shift = Nanos::millis(SHIFT.into());
            self.began = Some(self.began.map_or(began, |began| began + shift));
            for zone in &mut self.zones {
                for used in zone.used.iter_mut().filter(|used| **used != GONE) {
                    *used = used.saturating_sub(SHIFT).max(GONE + 1);
                }
                zone.sum = zone.used.iter().map(|used| u64::from(*used)).sum();
            }
        }
    }

    fn insert(&mut self, place: &ChunkLocation, used: Time) {
        let used = used.max(GONE + 1);
        let zone = self.zone(place.zone);
        let number = place.number as usize;
        if zone.used.len() <= number {
            zone.used.resize(number + 1, GONE);
        }
        zone.used[number] = used;
        zone.sum += u64::from(used);
        zone.count += 1;
    }

    fn mean(&self, zone: ZoneId) -> u64 {
        let Zone { sum, count, .. } = self.zones[index(zone.0.into())];
        sum.checked_div(count).unwrap_or(0)
    }

    /// Zones that are not chosen come after those that are.
    fn score(&self, facts: &ZoneFacts) -> Score {
        let place = self.chosen.iter().position(|zone| *zone == facts.zone);
        [place.unwrap_or(self.chosen.len()) as u64, self.mean(facts.zone)]
    }
}

impl Policy for Epoch {
    fn on_insert(&mut self, place: &ChunkLocation, now: Nanos) {
        self.began.get_or_insert(now);
        self.keep_in_range(now);
        self.insert(place, self.time(now));
    }

    fn on_found(&mut self, place: &ChunkLocation, (_mark, age): (PolicyTag, u64), now: Nanos) {
        self.began.get_or_insert(now);
        self.keep_in_range(now);
        let age = Time::try_from(age).unwrap_or(Time::MAX);
        self.insert(place, self.time(now).saturating_sub(age));
    }

    fn on_access(&mut self, place: &ChunkLocation, mark: PolicyTag, now: Nanos) -> PolicyTag {
        if self.update == Update::Access {
            self.keep_in_range(now);
            let now = self.time(now);
            let zone = self.zone(place.zone);
            let used = core::mem::replace(&mut zone.used[place.number as usize], now);
            zone.sum = zone.sum + u64::from(now) - u64::from(used);
        }
        mark
    }

    fn on_forget(&mut self, place: &ChunkLocation, _mark: PolicyTag) {
        let zone = self.zone(place.zone);
        let used = core::mem::replace(&mut zone.used[place.number as usize], GONE);
        zone.sum -= u64::from(used);
        zone.count -= 1;
    }

    fn on_emptied(&mut self, zone: ZoneId) {
        *self.zone(zone) = Zone::default();
        self.chosen.retain(|other| *other != zone);
    }

    fn knowledge(&self) -> PersistLevel {
        PersistLevel::Chunks
    }

    fn age(&self, place: &ChunkLocation, now: Nanos) -> Option<u64> {
        let used = self.zones[index(place.zone.0.into())].used.get(place.number as usize);
        used.map(|used| self.time(now).saturating_sub(*used).into())
    }

    fn victim(&mut self, candidates: &[ZoneFacts]) -> Option<ZoneId> {
        let is_candidate = |zone: &ZoneId| candidates.iter().any(|facts| facts.zone == *zone);
        self.chosen.retain(is_candidate);
        if self.chosen.is_empty() {
            let order = self.ranking(candidates).into_iter().map(|ranked| ranked.zone);
            self.chosen = order.take(self.zones_at_once as usize).collect();
        }
        self.chosen.first().copied()
    }

    fn ranking(&self, candidates: &[ZoneFacts]) -> Vec<Ranked> {
        let gaining = gaining(candidates);
        // Both lists are in `ZoneId` order.
        let is_gaining =
            |zone: ZoneId| gaining.binary_search_by_key(&zone, |facts| facts.zone).is_ok();
        let is_considered =
            |facts: &&ZoneFacts| self.chosen.contains(&facts.zone) || is_gaining(facts.zone);
        ranked(candidates.iter().filter(is_considered), |facts| self.score(facts))
    }

    fn scored_by(&self) -> &'static [&'static str] {
        &["place among the chosen", "mean last use"]
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
        policy.on_access(&chunk(0, 1), PolicyTag::default(), Nanos::millis(100));
        policy
    }

    #[test]
    fn the_zone_with_the_lowest_mean_goes() {
        assert_eq!(filled(Update::Access).victim(&candidates(&[0, 1])), Some(ZoneId(1)));
        assert_eq!(filled(Update::Insert).victim(&candidates(&[0, 1])), Some(ZoneId(0)));
    }

    /// Regression: hosts count time from 1970, so times saturated, and all zones were equally new.
    #[test]
    fn a_clock_that_began_long_ago_tells_old_from_new() {
        let today = |millis: u64| Nanos::secs(1_800_000_000) + Nanos::millis(millis);
        let mut policy = Epoch::new(&layout(2, 1), Update::Access, 1);
        policy.on_insert(&chunk(0, 0), today(0));
        policy.on_insert(&chunk(1, 0), today(10));
        policy.on_access(&chunk(0, 0), PolicyTag::default(), today(20));
        assert_eq!(policy.victim(&candidates(&[0, 1])), Some(ZoneId(1)));
    }

    /// Regression: times saturated 37 days after a start, and all zones were equally new.
    #[test]
    fn months_after_a_start_old_is_told_from_new() {
        for days in [24, 37, 60, 400, 4000] {
            let later = |millis: u64| Nanos::secs(days * 86_400) + Nanos::millis(millis);
            let mut policy = Epoch::new(&layout(3, 2), Update::Access, 1);
            policy.on_insert(&chunk(0, 0), Nanos::millis(1));
            policy.on_insert(&chunk(1, 0), later(0));
            policy.on_insert(&chunk(2, 0), later(10));
            policy.on_insert(&chunk(2, 1), later(10));
            policy.on_forget(&chunk(2, 1), PolicyTag::default());
            policy.on_access(&chunk(1, 0), PolicyTag::default(), later(20));
            assert_eq!(policy.age(&chunk(2, 0), later(30)), Some(20), "{days} days");
            for (left, victim) in [(&[0, 1, 2][..], 0), (&[1, 2], 2), (&[1], 1)] {
                assert_eq!(policy.victim(&candidates(left)), Some(ZoneId(victim)), "{days} days");
                policy.on_emptied(ZoneId(victim));
            }
        }
    }

    #[test]
    fn what_was_used_before_a_start_is_older_than_what_is_used_after_it() {
        let mut policy = Epoch::new(&layout(3, 1), Update::Access, 1);
        let now = Nanos::secs(7);
        for (zone, age) in [(0, 500), (1, 900), (2, 0)] {
            policy.on_found(&chunk(zone, 0), (PolicyTag::default(), age), now);
        }
        assert_eq!(policy.age(&chunk(1, 0), now + Nanos::millis(30)), Some(930));
        let mut left = Vec::from([0, 1, 2]);
        while let Some(zone) = policy.victim(&candidates(&left)) {
            policy.on_emptied(zone);
            left.retain(|other| *other != zone.0);
            let rest: &[u32] = [&[0, 2][..], &[2], &[]][2 - left.len()];
            assert_eq!(left, rest);
        }
    }

    #[test]
    fn zones_are_chosen_some_at_a_time() {
        let mut policy = filled(Update::Access);
        assert_eq!(policy.victim(&candidates(&[0, 1])), Some(ZoneId(1)));
        policy.on_access(&chunk(1, 0), PolicyTag::default(), Nanos::millis(900));
        assert_eq!(policy.victim(&candidates(&[0, 1])), Some(ZoneId(1)), "it is chosen");
        policy.on_emptied(ZoneId(1));
        assert_eq!(policy.victim(&candidates(&[0])), Some(ZoneId(0)));
    }

    #[test]
    fn chunks_that_are_gone_do_not_count() {
        let mut policy = filled(Update::Access);
        policy.on_forget(&chunk(0, 1), PolicyTag::default());
        assert_eq!(policy.victim(&candidates(&[0, 1])), Some(ZoneId(0)));
    }
}
