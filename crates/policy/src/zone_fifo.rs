//! FIFO eviction of whole zones (policy `zone-fifo`): evicts the zone that was opened first. CacheLib's FIFO, on zones.

use zonal_base::ZoneId;

use crate::pinned::gaining;
use crate::{Policy, ZoneFacts};

/// FIFO over zones. Stateless: the sequence numbers of the log give the order.
#[derive(Debug, Default)]
pub(crate) struct ZoneFifo;

impl Policy for ZoneFifo {
    fn victim(&mut self, candidates: &[ZoneFacts]) -> Option<ZoneId> {
        // Sequences are unique; should two ever be equal, the lower zone is the victim.
        let oldest =
            gaining(candidates).into_iter().min_by_key(|facts| (facts.sequence, facts.zone));
        oldest.map(|facts| facts.zone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zonal_base::Bytes;

    #[test]
    fn the_zone_that_was_opened_first_goes_first() {
        let facts = |zone, sequence| ZoneFacts {
            zone: ZoneId(zone),
            sequence,
            chunk_count: 1,
            bytes: Bytes::kib(64),
            pinned: Bytes(0),
        };
        let mut policy = ZoneFifo;
        assert_eq!(policy.victim(&[facts(0, 7), facts(1, 3), facts(2, 9)]), Some(ZoneId(1)));
        assert_eq!(policy.victim(&[]), None);
    }
}
