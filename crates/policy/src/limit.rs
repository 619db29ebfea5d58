//! How much may be valid, of zones that are cleaned.
//!
//! Records do not fill a zone to its end: what the last of them leaves free is not there to be had. So a limit counted in
//! whole zones may lie above all that they hold, and cleaning, which writes everything again, gain nothing for ever. The
//! limit therefore follows what full zones really hold. Of that, what is pinned is taken: it is as good as valid.

use zonal_base::Bytes;

use crate::share::Share;
use crate::{Layout, ZoneFacts};

/// See the module.
#[derive(Debug)]
pub(crate) struct Limit {
    /// If every zone were full to its end.
    most: u64,
    zone_capacity: u64,
    now: u64,
}

impl Limit {
    /// So that `spare` of the flash is not valid, and reclaim always finds a zone that gains something.
    pub(crate) fn new(layout: &Layout, spare: Share) -> Self {
        let zone = layout.zone_capacity.0;
        let total = zone * u64::from(layout.zone_count);
        let usable = match layout.zone_count.saturating_sub(layout.busy_zones + 1) {
            // Of two zones, one of which is to be emptied into the other.
            0 => zone / 2,
            zones => zone * u64::from(zones),
        };
        let most = usable.min(total - spare.of_bytes(Bytes(total)).0);
        Self { most, zone_capacity: zone, now: most }
    }

    /// These are the full zones.
    pub(crate) fn follow(&mut self, full: &[ZoneFacts]) {
        let held: u64 = full.iter().map(|facts| facts.bytes.0.min(self.zone_capacity)).sum();
        let capacity = self.zone_capacity * full.len() as u64;
        let now = u128::from(self.most) * u128::from(held) / u128::from(capacity.max(1));
        let pinned: u64 = full.iter().map(|facts| facts.pinned.0).sum();
        self.now = u64::try_from(now).unwrap_or(self.most).saturating_sub(pinned);
    }

    /// Whether something has to be evicted.
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
        let mut limit = Limit::new(&layout(10, 10), Share::percent(20));
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
            Limit::new(&layout, Share::NOTHING).most
        };
        assert_eq!([of(10, 3), of(5, 3), of(4, 3), of(2, 3)], [60, 10, 5, 5]);
    }
}
