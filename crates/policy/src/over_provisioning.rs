//! Over-provisioning: limits the valid bytes in zones, so that garbage collection always gains room.
//!
//! Records do not fill a zone to its end, and the space behind the last record is not usable. So a limit counted in
//! whole zones may lie above all that the zones hold. Cleaning would then write everything again, and gain nothing for
//! ever. The limit therefore follows the bytes that full zones really hold. Pinned bytes are taken off the limit,
//! because they are as good as valid.

use zonal_base::Bytes;

use crate::share::Share;
use crate::{Layout, ZoneFacts};

/// Limit on valid bytes.
#[derive(Debug)]
pub(crate) struct OverProvisioning {
    /// The limit in bytes, if every zone were full to its end.
    most: u64,
    zone_capacity: u64,
    /// The limit in bytes for the present full zones.
    now: u64,
}

impl OverProvisioning {
    /// A limit that keeps the share `spare` of the flash free of valid data. Reclaim then always finds a zone that
    /// gains something.
    pub(crate) fn new(layout: &Layout, spare: Share) -> Self {
        let zone = layout.zone_capacity.0;
        let total = zone * u64::from(layout.zone_count);
        let usable = match layout.zone_count.saturating_sub(layout.busy_zones + 1) {
            // As with two zones, one of which reclaim empties into the other.
            0 => zone / 2,
            zones => zone * u64::from(zones),
        };
        let most = usable.min(total - spare.of_bytes(Bytes(total)).0);
        Self { most, zone_capacity: zone, now: most }
    }

    /// Adapts the limit to the bytes that the full zones hold.
    pub(crate) fn follow(&mut self, full: &[ZoneFacts]) {
        let held: u64 = full.iter().map(|facts| facts.bytes.0.min(self.zone_capacity)).sum();
        let capacity = self.zone_capacity * full.len() as u64;
        let now = u128::from(self.most) * u128::from(held) / u128::from(capacity.max(1));
        let pinned: u64 = full.iter().map(|facts| facts.pinned.0).sum();
        self.now = u64::try_from(now).unwrap_or(self.most).saturating_sub(pinned);
    }

    /// Whether the policy has to evict.
    pub(crate) const fn is_exceeded(&self, valid_bytes: u64) -> bool {
        self.now < valid_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{candidates, layout};

    #[test]
    fn spare_is_of_all_zones_and_of_what_they_hold() {
        let mut limit = OverProvisioning::new(&layout(10, 10), Share::percent(20));
        assert!(limit.is_exceeded(81) && !limit.is_exceeded(80));
        let mut full = candidates(&[0, 1, 2]);
        full.iter_mut().for_each(|facts| facts.bytes = Bytes(10));
        limit.follow(&full);
        assert!(limit.is_exceeded(81) && !limit.is_exceeded(80));
        full[0].bytes = Bytes(4);
        limit.follow(&full);
        assert!(limit.is_exceeded(65) && !limit.is_exceeded(64));
        full[1].pinned = Bytes(9);
        limit.follow(&full);
        assert!(limit.is_exceeded(56) && !limit.is_exceeded(55), "what is pinned is taken");
    }

    #[test]
    fn without_spare_a_zone_and_those_that_are_busy_are_not_valid() {
        let of = |zone_count, busy_zones| {
            let layout = Layout { busy_zones, ..layout(zone_count, 10) };
            OverProvisioning::new(&layout, Share::NOTHING).most
        };
        assert_eq!([of(10, 3), of(5, 3), of(4, 3), of(2, 3)], [60, 10, 5, 5]);
    }
}
