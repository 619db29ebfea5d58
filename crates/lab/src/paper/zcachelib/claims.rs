//! Claims of paper 002 about its tables, checked against the simulated results.

use super::super::{Choice, Claim, Verdict};
use super::{CacheLibOutcome, Outcomes, Scheme, published, value};
use crate::CachePool;

/// Largest difference to the published write amplification of schemes with almost none.
/// `MIDDLE_OFF` is the relative one for ZNS-Middle and ZNS-F2FS.
const WA_OFF: f64 = 0.1;
const MIDDLE_OFF: f64 = 0.15;

/// Percentage points within which the paper calls hit ratios similar.
const SIMILAR: f64 = 1.0;

/// Schemes with LRU eviction.
const LRU: [Scheme; 5] =
    [Scheme::RegLru, Scheme::ZnsF2fs, Scheme::ZnsDirect, Scheme::ZnsMiddle, Scheme::ZCacheLib];

pub(super) fn of(choice: &Choice, outcomes: &Outcomes<'_>) -> Vec<Claim> {
    let mut claims = Vec::new();
    for workload in CachePool::ALL {
        if choice.has("1") {
            claims.extend(order(outcomes, workload));
            claims.extend(faster(outcomes, workload));
            claims.extend(similar(outcomes, workload));
            claims.extend(against_fifo(outcomes, workload));
        }
        if choice.has("2") {
            claims.extend(amplification(outcomes, workload));
        }
    }
    claims
}

/// Schemes from the fastest to the slowest.
fn order(outcomes: &Outcomes<'_>, workload: CachePool) -> Option<Claim> {
    let sorted = |of: &dyn Fn(Scheme) -> Option<f64>| -> Option<Vec<Scheme>> {
        let mut with: Vec<(Scheme, f64)> = Scheme::ALL
            .into_iter()
            .map(|scheme| Some((scheme, of(scheme)?)))
            .collect::<Option<_>>()?;
        with.sort_by(|one, other| other.1.total_cmp(&one.1));
        Some(with.into_iter().map(|(scheme, _)| scheme).collect())
    };
    let published_mopm: &dyn Fn(Scheme) -> Option<f64> =
        &|scheme| published("MOPM", scheme, workload);
    let mopm: &dyn Fn(Scheme) -> Option<f64> =
        &|scheme| Some(outcomes.get(scheme, workload)?.mopm());
    let (theirs, ours) = (sorted(published_mopm)?, sorted(mopm)?);
    let pairs = |order: &[Scheme]| -> Vec<(Scheme, Scheme)> {
        let after = |at: usize| order[at + 1..].iter().map(move |slower| (order[at], *slower));
        (0..order.len()).flat_map(after).collect()
    };
    let found = pairs(&ours);
    let kept = pairs(&theirs).iter().filter(|pair| found.contains(pair)).count();
    let names = |order: &[Scheme], of: &dyn Fn(Scheme) -> Option<f64>| {
        let by_lru = |scheme| of(scheme).unwrap_or(0.0) / of(Scheme::RegLru).unwrap_or(1.0);
        let named = order.iter().map(|scheme| format!("{scheme} {:.2}", by_lru(*scheme)));
        named.collect::<Vec<_>>().join(", ")
    };
    Some(Claim {
        claim: format!("{workload}: which scheme is faster, by Reg-LRU"),
        published: names(&theirs, published_mopm),
        here: names(&ours, mopm),
        verdict: match kept {
            15 => Verdict::Holds,
            8..15 => Verdict::HoldsWeaker,
            _ => Verdict::DoesNotHold,
        },
        why: format!("{kept} of 15 pairs are in this order"),
    })
}

/// Throughput of Z-CacheLib compared with Reg-LRU.
fn faster(outcomes: &Outcomes<'_>, workload: CachePool) -> Option<Claim> {
    let of = |scheme| Some(outcomes.get(scheme, workload)?.mopm());
    let theirs = published("MOPM", Scheme::ZCacheLib, workload)?
        / published("MOPM", Scheme::RegLru, workload)?;
    let here = of(Scheme::ZCacheLib)? / of(Scheme::RegLru)?;
    let claim = format!("{workload}: throughput of Z-CacheLib against Reg-LRU");
    Some(Claim::of_effect(&claim, theirs - 1.0, here - 1.0))
}

fn hit_ratio(outcome: &CacheLibOutcome) -> f64 {
    value("%", outcome)
}

/// Hit ratios of the LRU schemes.
fn similar(outcomes: &Outcomes<'_>, workload: CachePool) -> Option<Claim> {
    let spread = |values: Vec<f64>| {
        let (low, high) = values
            .iter()
            .fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(*value), high.max(*value)));
        high - low
    };
    let theirs: Option<Vec<f64>> =
        LRU.into_iter().map(|scheme| published("%", scheme, workload)).collect();
    let ours: Option<Vec<f64>> =
        LRU.into_iter().map(|scheme| outcomes.get(scheme, workload).map(hit_ratio)).collect();
    let (theirs, here) = (spread(theirs?), spread(ours?));
    Some(Claim {
        claim: format!("{workload}: hit ratios of all schemes but Reg-FIFO are similar"),
        published: format!("{theirs:.2} points apart"),
        here: format!("{here:.2} points apart"),
        verdict: if here <= SIMILAR { Verdict::Holds } else { Verdict::DoesNotHold },
        why: String::new(),
    })
}

/// Hit ratio of Z-CacheLib compared with Reg-FIFO.
fn against_fifo(outcomes: &Outcomes<'_>, workload: CachePool) -> Option<Claim> {
    let theirs =
        published("%", Scheme::ZCacheLib, workload)? - published("%", Scheme::RegFifo, workload)?;
    let of = |scheme| outcomes.get(scheme, workload).map(hit_ratio);
    let here = of(Scheme::ZCacheLib)? - of(Scheme::RegFifo)?;
    // Below 0.05 points there is no difference to reproduce.
    let verdict = match (theirs.abs() < 0.05, here / theirs) {
        (true, _) if here.abs() < SIMILAR => Verdict::Holds,
        (false, part) if 0.5 <= part => Verdict::Holds,
        (false, part) if 0.0 < part => Verdict::HoldsWeaker,
        _ => Verdict::DoesNotHold,
    };
    Some(Claim {
        claim: format!("{workload}: hit ratio of Z-CacheLib against Reg-FIFO"),
        published: format!("{theirs:+.2} points"),
        here: format!("{here:+.2} points"),
        verdict,
        why: String::new(),
    })
}

fn amplification(outcomes: &Outcomes<'_>, workload: CachePool) -> Vec<Claim> {
    let of = |scheme, within: &dyn Fn(f64, f64) -> bool| {
        let here = outcomes.get(scheme, workload)?.write_amplification();
        let theirs = published("WA", scheme, workload)?;
        let is_within = within(theirs, here);
        Some(Claim {
            claim: format!("{workload}: write amplification of {scheme}"),
            published: format!("{theirs:.2}"),
            here: format!("{here:.2}"),
            verdict: if is_within { Verdict::Holds } else { Verdict::DoesNotHold },
            why: String::new(),
        })
    };
    let near = |theirs: f64, here: f64| (here - theirs).abs() <= WA_OFF;
    let part = |theirs: f64, here: f64| (here / theirs - 1.0).abs() <= MIDDLE_OFF;
    let claims = [
        of(Scheme::ZnsF2fs, &part),
        of(Scheme::ZnsDirect, &near),
        of(Scheme::ZnsMiddle, &part),
        of(Scheme::ZCacheLib, &near),
    ];
    claims.into_iter().flatten().collect()
}
