//! A policy of the simulator's own: it keeps some of what it is asked about, so that reclaim rewrites.

use zonal_base::ZoneId;
use zonal_policy::{ChunkLocation, Policy, PolicyTag, Reinsertion, ZoneFacts};

/// Oldest zone first; every third chunk is worth another write, whichever it is: a policy that kept the
/// same ones for ever would leave reclaim nothing to win.
#[derive(Default)]
pub(crate) struct StressPolicy {
    asked: u64,
}

impl Policy for StressPolicy {
    fn victim(&mut self, candidates: &[ZoneFacts]) -> Option<ZoneId> {
        // Mostly pinned zones last: they gain nothing.
        let order = |facts: &&ZoneFacts| (facts.bytes.0 / 2 < facts.pinned.0, facts.sequence);
        candidates.iter().min_by_key(order).map(|facts| facts.zone)
    }

    fn keep(&mut self, _place: &ChunkLocation, _mark: PolicyTag) -> Reinsertion {
        self.asked += 1;
        if self.asked.is_multiple_of(3) { Reinsertion::Rewrite } else { Reinsertion::Drop }
    }
}
