//! Victim filter for pinned data: keeps reclaim away from zones that are mostly pinned, and so gain little.
//!
//! Reclaim writes pinned chunks again in any case. Policies that know the valid bytes of a zone count pinned bytes as
//! valid, and find the zone that gains most by themselves. The other policies would sooner or later choose a zone full
//! of pinned chunks, write all of it again, and gain nothing. They choose among the zones that gain a half. There is
//! such a zone, because the cache keeps pinned bytes below a share of all full zones. So in some zone no larger share
//! is pinned.

use alloc::vec::Vec;

use crate::ZoneFacts;

/// The candidates of which no more than a half is pinned. If there are none, the one with the fewest pinned bytes.
pub(crate) fn gaining(candidates: &[ZoneFacts]) -> Vec<ZoneFacts> {
    let gains = |facts: &&ZoneFacts| facts.pinned.0 <= facts.bytes.0 / 2;
    let gaining: Vec<ZoneFacts> = candidates.iter().filter(gains).copied().collect();
    if !gaining.is_empty() {
        return gaining;
    }
    candidates.iter().min_by_key(|facts| (facts.pinned, facts.zone)).copied().into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{NAMES, Spec};
    use crate::testing::{candidates, layout};
    use zonal_base::{Bytes, Nanos, ZoneId};

    fn full(pinned: &[u64]) -> Vec<ZoneFacts> {
        let zones: Vec<u32> = (0..).take(pinned.len()).collect();
        let mut full = candidates(&zones);
        for (facts, pinned) in full.iter_mut().zip(pinned) {
            (facts.bytes, facts.pinned) = (Bytes(10), Bytes(*pinned));
        }
        full
    }

    #[test]
    fn a_zone_that_is_mostly_pinned_waits_while_another_gains_more() {
        let zones = |pinned: &[u64]| -> Vec<u32> {
            gaining(&full(pinned)).iter().map(|facts| facts.zone.0).collect()
        };
        assert_eq!(zones(&[10, 5, 6, 0]), [1, 3]);
        assert_eq!(zones(&[10, 7, 6, 6]), [2]);
        assert!(zones(&[]).is_empty());
    }

    #[test]
    fn no_policy_empties_a_zone_that_is_full_of_what_is_pinned() {
        for name in NAMES {
            let spec: Spec = name.parse().unwrap();
            let mut policy = spec.policy(&layout(4, 10));
            (0..3).for_each(|zone| policy.on_sealed(ZoneId(zone), Nanos(0)));
            assert_eq!(policy.victim(&full(&[10, 10, 2])), Some(ZoneId(2)), "{name}");
        }
    }
}
