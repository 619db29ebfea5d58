//! Claims of paper 000, checked against the simulated results.

use serde::Serialize;

use super::report::short;
use super::zncache::{Outcomes, Part, ZnCache};
use crate::experiment::{Experiment, Outcome};

/// A claim of a paper, with its verdict.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Claim {
    /// Text of the claim.
    pub claim: String,
    /// Published figures.
    pub published: String,
    /// The same figures in the simulation.
    pub here: String,
    /// Whether the claim holds.
    pub verdict: Verdict,
    /// Reason for the verdict, or its meaning.
    pub why: String,
}

/// Verdict on a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Holds: at least half of the published effect, in the same direction.
    Holds,
    /// Holds weakly: the same direction, but less than half of the effect.
    HoldsWeaker,
    /// Does not hold: another direction.
    DoesNotHold,
}

/// Rows of the ZNS and the block drive with the same parameters.
type Pair = (&'static str, &'static str);

const LARGE: [Pair; 4] = [
    ("ZNS-512M-UNIF-10", "Block-512M-UNIF-10"),
    ("ZNS-512M-UNIF-2", "Block-512M-UNIF-2"),
    ("ZNS-512M-ZIPF-10", "Block-512M-ZIPF-10"),
    ("ZNS-512M-ZIPF-2", "Block-512M-ZIPF-2"),
];

const SMALL: [Pair; 4] = [
    ("ZNS-64K-UNIF-10", "Block-64K-UNIF-10"),
    ("ZNS-64K-UNIF-2", "Block-64K-UNIF-2"),
    ("ZNS-64K-ZIPF-10", "Block-64K-ZIPF-10"),
    ("ZNS-64K-ZIPF-2", "Block-64K-ZIPF-2"),
];

/// The 64 KiB rows on the ZNS drive, with a zone that is claimed after the fetch.
pub(super) fn without_hold() -> impl Iterator<Item = Experiment> {
    SMALL.into_iter().map(|(zns, _)| Experiment {
        hold_zone_during_fetch: false,
        ..ZnCache { row: zns, part: Part::Parameters }.experiment()
    })
}

/// Claims of paper 000 whose runs are done.
pub(super) fn of_paper_000<'a>(
    outcomes: &Outcomes<'_>,
    find: &dyn Fn(&Experiment) -> Option<&'a Outcome>,
) -> Vec<Claim> {
    let mut claims = Vec::new();
    claims.extend(large_chunks(outcomes));
    claims.extend(small_chunks(outcomes));
    claims.extend(active_zones(outcomes, find));
    claims.extend(collection(outcomes));
    claims
}

/// Mean difference between the drives over the pairs: ZNS divided by block, minus one.
fn advantage(outcomes: &Outcomes<'_>, pairs: &[Pair], of: fn(&Outcome) -> f64) -> Option<f64> {
    let get = |row| outcomes.get(&ZnCache { row, part: Part::Parameters });
    let ratios: Option<Vec<f64>> =
        pairs.iter().map(|(zns, block)| Some(of(get(zns)?) / of(get(block)?) - 1.0)).collect();
    ratios.map(|ratios| ratios.iter().sum::<f64>() / ratios.len() as f64)
}

fn mean_get(outcome: &Outcome) -> f64 {
    outcome.get.mean_ns as f64
}

fn p99_get(outcome: &Outcome) -> f64 {
    outcome.get.p99_ns as f64
}

/// A claim, the published difference of ZNS to block as a fraction, and the compared value.
type Effect = (&'static str, f64, fn(&Outcome) -> f64);

fn large_chunks(outcomes: &Outcomes<'_>) -> Vec<Claim> {
    let claims: [Effect; 3] = [
        ("512 MiB: mean latency of gets, ZNS against block", -0.5058, mean_get),
        ("512 MiB: 99th percentile, ZNS against block", -0.5587, p99_get),
        ("512 MiB: throughput, ZNS against block", 1.079, Outcome::get_gib_per_s),
    ];
    let made = claims.into_iter().filter_map(|(claim, published, of)| {
        Some(Claim::of_effect(claim, published, advantage(outcomes, &LARGE, of)?))
    });
    made.collect()
}

/// Differences below this count as none: the paper has 3.3 % at most.
const ALIKE: f64 = 0.05;

fn small_chunks(outcomes: &Outcomes<'_>) -> Option<Claim> {
    let here = advantage(outcomes, &SMALL, Outcome::get_gib_per_s)?;
    Some(Claim {
        claim: "64 KiB: both drives are alike in throughput".into(),
        published: "-1.88 %".into(),
        here: percent(here),
        verdict: if here.abs() <= ALIKE { Verdict::Holds } else { Verdict::DoesNotHold },
        why: String::new(),
    })
}

/// GiB/s through 14 active zones, when each waits 40.632 ms for its 64 KiB.
const FOURTEEN_ZONES: f64 = 14.0 * 65536.0 / 0.040_632 / (1_u64 << 30) as f64;

fn active_zones<'a>(
    outcomes: &Outcomes<'_>,
    find: &dyn Fn(&Experiment) -> Option<&'a Outcome>,
) -> Option<Claim> {
    let rate = |outcome: &Outcome| {
        outcome.drive.written as f64 / outcome.took_ns as f64 * 1e9 / (1_u64 << 30) as f64
    };
    let holding = outcomes.get(&ZnCache { row: SMALL[0].0, part: Part::Parameters })?;
    let without = rate(find(&without_hold().next()?)?);
    let holding = rate(holding);
    let is_law = (holding / FOURTEEN_ZONES - 1.0).abs() < ALIKE && holding * 2.0 < without;
    Some(Claim {
        claim: "64 KiB are too slow for garbage collection: 0.021 GiB/s are written".into(),
        published: "0.021 GiB/s in all eight rows".into(),
        here: format!("{} GiB/s; {} when the zone is claimed after the fetch", short(holding), short(without)),
        verdict: if is_law { Verdict::Holds } else { Verdict::DoesNotHold },
        why: "it is no property of the drives: a miss claims one of 14 active zones and then waits 40.6 ms for the origin. \
              Claimed after the fetch, all 64 threads fetch at once"
            .into(),
    })
}

/// Mean throughput per minute of gets before the drive is full, and from then on.
fn before_and_after(outcome: &Outcome, run: &Experiment) -> Option<(f64, f64)> {
    let capacity = u64::from(run.zones) * (1077 << 20);
    let minutes = outcome.by_minutes(|moved| moved.got);
    let mut written = 0;
    let full = outcome.moved.iter().position(|moved| {
        written += moved.written;
        capacity <= written
    })?;
    let mean = |minutes: &[f64]| minutes.iter().sum::<f64>() / minutes.len() as f64;
    let (before, after) = (minutes.get(1..full)?, minutes.get(full + 1..)?);
    (!before.is_empty() && !after.is_empty()).then(|| (mean(before), mean(after)))
}

fn collection(outcomes: &Outcomes<'_>) -> Vec<Claim> {
    let drop = |row, part| {
        let run = ZnCache { row, part };
        let (before, after) = before_and_after(outcomes.get(&run)?, &run.experiment())?;
        Some(after / before - 1.0)
    };
    let mut claims = Vec::new();
    if let Some(here) = drop("Block-256M-UNIF-10", Part::Collection) {
        let claim = "256 MiB, block, trimmed: throughput once the drive is full";
        claims.push(Claim::of_effect(claim, -0.354, here));
    }
    if let Some(here) = drop("Block-512M-UNIF-10", Part::Collection) {
        claims.push(Claim {
            claim: "512 MiB, block, trimmed: no garbage collection is seen".into(),
            published: "no drop".into(),
            here: percent(here),
            verdict: if -0.1 < here { Verdict::Holds } else { Verdict::DoesNotHold },
            why: String::new(),
        });
    }
    let gain = |drive: &str| {
        let row = ZnCache::runs(&[12])
            .into_iter()
            .find(|run| run.row.starts_with(drive) && run.row.contains("256M"))?;
        let with = outcomes.get(&ZnCache { part: Part::Collection, ..row })?;
        Some(outcomes.get(&row)?.get_gib_per_s() / with.get_gib_per_s() - 1.0)
    };
    if let (Some(zns), Some(block)) = (gain("ZNS"), gain("Block")) {
        claims.push(Claim {
            claim: "256 MiB: without the origin's latency ZNS gets faster, block does not".into(),
            published: "+27 % and +1 %".into(),
            here: format!("{} and {}", percent(zns), percent(block)),
            verdict: match (0.13 < zns, block < zns / 2.0) {
                (true, true) => Verdict::Holds,
                (_, true) => Verdict::HoldsWeaker,
                _ => Verdict::DoesNotHold,
            },
            why: String::new(),
        });
    }
    claims
}

impl Claim {
    pub(super) fn of_effect(claim: &str, published: f64, here: f64) -> Self {
        let verdict = match here / published {
            part if 0.5 <= part => Verdict::Holds,
            part if 0.0 < part => Verdict::HoldsWeaker,
            _ => Verdict::DoesNotHold,
        };
        let (published, here) = (percent(published), percent(here));
        Self { claim: claim.into(), published, here, verdict, why: String::new() }
    }
}

pub(super) fn percent(part: f64) -> String {
    format!("{:+.1} %", part * 100.0)
}
