//! FIFO eviction of whole zones (policy `zone-fifo`): evicts the zone that was opened first. CacheLib's FIFO, on zones.

use alloc::vec::Vec;

use zonal_base::ZoneId;

use crate::pinned::gaining;
use crate::ranking::{Ranked, Score, lowest, ranked};
use crate::{Policy, ZoneFacts};

/// FIFO over zones. Stateless: the sequence numbers of the log give the order.
#[derive(Debug, Default)]
pub(crate) struct ZoneFifo;

impl Policy for ZoneFifo {
    fn victim(&mut self, candidates: &[ZoneFacts]) -> Option<ZoneId> {
        lowest(&gaining(candidates), score).map(|facts| facts.zone)
    }

    fn ranking(&self, candidates: &[ZoneFacts]) -> Vec<Ranked> {
        ranked(&gaining(candidates), score)
    }

    fn scored_by(&self) -> &'static [&'static str] {
        &["sequence"]
    }
}

const fn score(facts: &ZoneFacts) -> Score {
    [facts.sequence, 0]
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
