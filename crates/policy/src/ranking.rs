//! Ranking of victim candidates: the order in which a policy would empty full zones, and the figures that decide.
//! A policy picks its victim by the same figures, so the ranking explains the choice.

use alloc::vec::Vec;

use zonal_base::ZoneId;

use crate::ZoneFacts;

/// Figures of a victim candidate, which policies compare one after the other. The lowest is emptied first; of equal
/// candidates, the lowest zone. [`Policy::scored_by`](crate::Policy::scored_by) names the figures in use, from the
/// first; the others are 0.
pub type Score = [u64; 2];

/// A candidate in the ranking of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ranked {
    /// The candidate.
    pub zone: ZoneId,
    /// Its figures.
    pub score: Score,
}

/// The candidate with the lowest score.
pub(crate) fn lowest<'a>(
    candidates: impl IntoIterator<Item = &'a ZoneFacts>,
    score: impl Fn(&ZoneFacts) -> Score,
) -> Option<&'a ZoneFacts> {
    candidates.into_iter().min_by_key(|facts| (score(facts), facts.zone))
}

/// The candidates from the lowest score to the highest.
pub(crate) fn ranked<'a>(
    candidates: impl IntoIterator<Item = &'a ZoneFacts>,
    score: impl Fn(&ZoneFacts) -> Score,
) -> Vec<Ranked> {
    let ranked = |facts: &ZoneFacts| Ranked { zone: facts.zone, score: score(facts) };
    let mut all: Vec<Ranked> = candidates.into_iter().map(ranked).collect();
    all.sort_unstable_by_key(|ranked| (ranked.score, ranked.zone));
    all
}

#[cfg(test)]
mod tests {
    use alloc::boxed::Box;
    use alloc::collections::BTreeMap;
    use alloc::vec::Vec;

    use zonal_base::{Bytes, Nanos, ZoneId};

    use crate::spec::{NAMES, Spec};
    use crate::testing::{candidates, chunk, layout};
    use crate::{Policy, PolicyTag, ZoneFacts};

    const ZONES: u32 = 8;
    const CHUNKS: u32 = 16;

    /// A policy over full zones, and the marks of their chunks.
    struct Filled {
        policy: Box<dyn Policy>,
        marks: BTreeMap<(u32, u32), PolicyTag>,
    }

    impl Filled {
        /// Fills all zones, and reads chunks as a generator with this seed says.
        fn new(name: &str, seed: u64) -> Self {
            let spec: Spec = name.parse().unwrap();
            let policy = spec.policy(&layout(ZONES + 2, CHUNKS.into()));
            let mut filled = Self { policy, marks: BTreeMap::new() };
            for zone in 0..ZONES {
                for number in 0..CHUNKS {
                    let now = Nanos::millis(u64::from(zone * CHUNKS + number));
                    filled.policy.on_insert(&chunk(zone, number), now);
                    filled.marks.insert((zone, number), PolicyTag::default());
                }
                filled.policy.on_sealed(ZoneId(zone), Nanos::secs(1));
            }
            let mut random = seed;
            for turn in 0..200 {
                random = zonal_base::mix64(random + turn);
                let part = |shift, of| u32::try_from((random >> shift) % u64::from(of)).unwrap();
                let (zone, number) = (part(0, ZONES), part(32, CHUNKS));
                let (place, mark) =
                    (chunk(zone, number), filled.marks.get_mut(&(zone, number)).unwrap());
                if filled.policy.holds(&place, *mark) {
                    *mark = filled.policy.on_access(&place, *mark, Nanos::secs(2 + turn));
                }
            }
            filled
        }

        fn empty(&mut self, zone: ZoneId) {
            for number in 0..CHUNKS {
                let (place, mark) = (chunk(zone.0, number), self.marks[&(zone.0, number)]);
                self.policy.on_forget(&place, mark);
            }
            self.policy.on_emptied(zone);
        }
    }

    fn facts(seed: u64, zones: &[u32]) -> Vec<ZoneFacts> {
        let mut facts = candidates(zones);
        for facts in &mut facts {
            facts.bytes = Bytes(CHUNKS.into());
            facts.pinned = Bytes(zonal_base::mix64(seed + u64::from(facts.zone.0)) % 12);
        }
        facts
    }

    #[test]
    fn every_policy_takes_the_first_of_its_ranking() {
        for (name, seed) in NAMES.iter().flat_map(|name| (0..20).map(move |seed| (name, seed))) {
            let mut filled = Filled::new(name, seed);
            let mut left: Vec<u32> = (0..ZONES).collect();
            while !left.is_empty() {
                let facts = facts(seed, &left);
                let victim = filled.policy.victim(&facts).unwrap();
                let ranking = filled.policy.ranking(&facts);
                assert_eq!(ranking[0].zone, victim, "{name}, seed {seed}: {ranking:?}");
                assert!(ranking.is_sorted_by_key(|ranked| (ranked.score, ranked.zone)), "{name}");
                let unnamed = &ranking[0].score[filled.policy.scored_by().len()..];
                assert!(unnamed.iter().all(|figure| *figure == 0), "{name}: {ranking:?}");
                filled.empty(victim);
                left.retain(|zone| *zone != victim.0);
            }
        }
    }
}
