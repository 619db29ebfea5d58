//! Stress policy: keeps a share of the records that reclaim offers, so that reclaim rewrites them.

use zonal_base::ZoneId;
use zonal_policy::{ChunkLocation, Policy, PolicyTag, Reinsertion, ZoneFacts};

/// Oldest zone first. Keeps every third record, whichever it is: a policy that always kept the same
/// ones would leave reclaim no space to gain.
#[derive(Default)]
pub(crate) struct StressPolicy {
    asked: u64,
}

impl Policy for StressPolicy {
    fn victim(&mut self, candidates: &[ZoneFacts]) -> Option<ZoneId> {
        // Zones with mostly pinned bytes come last: their reclaim frees little.
        let order = |facts: &&ZoneFacts| (facts.bytes.0 / 2 < facts.pinned.0, facts.sequence);
        candidates.iter().min_by_key(order).map(|facts| facts.zone)
    }

    fn keep(&mut self, _place: &ChunkLocation, _mark: PolicyTag) -> Reinsertion {
        self.asked += 1;
        if self.asked.is_multiple_of(3) { Reinsertion::Rewrite } else { Reinsertion::Drop }
    }
}
