//! Stress policy: keeps a share of the records that reclaim offers, so that reclaim rewrites them.

use zonal_base::ZoneId;
use zonal_policy::{ChunkLocation, Policy, PolicyTag, Ranked, Reinsertion, Score, ZoneFacts};

/// Oldest zone first. Keeps every third record, whichever it is: a policy that always kept the same
/// ones would leave reclaim no space to gain.
#[derive(Default)]
pub(crate) struct StressPolicy {
    asked: u64,
}

impl Policy for StressPolicy {
    fn victim(&mut self, candidates: &[ZoneFacts]) -> Option<ZoneId> {
        self.ranking(candidates).first().map(|ranked| ranked.zone)
    }

    fn ranking(&self, candidates: &[ZoneFacts]) -> Vec<Ranked> {
        let ranked = |facts: &ZoneFacts| Ranked { zone: facts.zone, score: score(facts) };
        let mut all: Vec<Ranked> = candidates.iter().map(ranked).collect();
        all.sort_by_key(|ranked| ranked.score);
        all
    }

    fn scored_by(&self) -> &'static [&'static str] {
        &["mostly pinned", "sequence"]
    }

    fn keep(&mut self, _place: &ChunkLocation, _mark: PolicyTag) -> Reinsertion {
        self.asked += 1;
        if self.asked.is_multiple_of(3) { Reinsertion::Rewrite } else { Reinsertion::Drop }
    }
}

/// Zones with mostly pinned bytes come last: their reclaim frees little.
fn score(facts: &ZoneFacts) -> Score {
    [u64::from(facts.bytes.0 / 2 < facts.pinned.0), facts.sequence]
}
