//! Replay of paper 004's Figure 10: write amplification of tenants with different data lifetimes.
//!
//! Four tenants write to a zoned drive, each in its own zones or all in shared zones. Other runs
//! use a conventional drive.

use super::exhibit::Exhibit;
use super::report::short;
use super::{Choice, Claim, Verdict};
use crate::experiment::Done;
use crate::jobs::{Mix, TENANTS, Tenants, TenantsOutcome, TenantsPrecondition};

/// Place in the paper.
pub(super) const FIGURE: &str = "figure 10";

/// Seed of every run.
pub(super) const SEED: u64 = 1;

/// Blocks per zone. Everything is 287 times smaller than the real drive.
const ZONE_BLOCKS: u64 = 960;

/// Fractions count as equal below this difference.
const ALIKE: f64 = 0.03;

const fn run(mix: Mix, ground: TenantsPrecondition) -> Tenants {
    Tenants { mix, ground, zone_blocks: ZONE_BLOCKS, seed: SEED }
}

/// Runs for a choice.
pub(super) fn runs(choice: &Choice) -> Vec<Tenants> {
    if !choice.has(FIGURE) {
        return Vec::new();
    }
    let of_mix = |mix| TenantsPrecondition::ALL.map(|ground| run(mix, ground));
    Mix::ALL.into_iter().flat_map(of_mix).collect()
}

/// Tables: write amplification of all tenants on each drive, and of each tenant in its own zones.
pub(super) fn exhibits(done: &[Done<Tenants>]) -> Vec<Exhibit> {
    if done.is_empty() {
        return Vec::new();
    }
    let grounds = TenantsPrecondition::ALL.map(TenantsPrecondition::name);
    let columns: Vec<&str> = std::iter::once("workload").chain(grounds).collect();
    let title = "what the drive programs for each byte that four tenants write";
    let mut all = Exhibit::new(FIGURE, title, &columns);
    let title = "what it is given for each byte of each, in zones of their own";
    let columns = ["workload", "first", "second", "third", "fourth"];
    let mut each = Exhibit::new(FIGURE, title, &columns);
    for mix in Mix::ALL {
        let of = |ground| outcome(done, mix, ground);
        let values =
            TenantsPrecondition::ALL.map(|ground| of(ground).map(TenantsOutcome::amplification));
        all.push(mix.name(), values.to_vec());
        let isolated = of(TenantsPrecondition::Isolated);
        let one = |at| isolated.and_then(|outcome| outcome.amplification_of(at));
        each.push(mix.name(), (0..TENANTS).map(one).collect());
    }
    vec![all, each]
}

fn outcome(
    done: &[Done<Tenants>],
    mix: Mix,
    ground: TenantsPrecondition,
) -> Option<&TenantsOutcome> {
    let run = run(mix, ground);
    done.iter().find(|done| done.experiment == run).map(|done| &done.outcome)
}

/// Claims of the paper about the figure whose runs are done.
pub(super) fn claims(done: &[Done<Tenants>]) -> Vec<Claim> {
    let part = |other: TenantsPrecondition| {
        let of_mix = |mix| {
            let isolated = outcome(done, mix, TenantsPrecondition::Isolated)?.amplification();
            Some(isolated / outcome(done, mix, other)?.amplification())
        };
        Mix::ALL.into_iter().map(of_mix).collect::<Option<Vec<f64>>>()
    };
    let against = [
        (
            TenantsPrecondition::Together,
            "isolation lowers WAF: zones of their own over the same zones",
        ),
        (
            TenantsPrecondition::OnConventional,
            "the drive with zones lowers WAF: over the same on a SN540",
        ),
        (
            TenantsPrecondition::Conventional,
            "the drive with zones lowers WAF: over the SN540 alone",
        ),
    ];
    let mut claims = Vec::new();
    for (other, claim) in against {
        let Some(parts) = part(other) else { continue };
        claims.push(lower(claim, &parts));
        if other == TenantsPrecondition::Together {
            claims.push(most(&parts));
        }
    }
    claims
}

/// Verdict over the workloads whose tenants differ.
fn lower(claim: &str, parts: &[f64]) -> Claim {
    let count = |is: fn(f64) -> bool| parts[1..].iter().filter(|part| is(**part)).count();
    Claim {
        claim: claim.into(),
        published: "reduced".into(),
        here: here(parts),
        verdict: match (count(|part| part < 1.0 - ALIKE), count(|part| part <= 1.0 + ALIKE)) {
            (lower, _) if lower == parts.len() - 1 => Verdict::Holds,
            (1.., not_higher) if not_higher == parts.len() - 1 => Verdict::HoldsWeaker,
            _ => Verdict::DoesNotHold,
        },
        why: String::new(),
    }
}

/// Verdict on the workload in which every tenant differs from the others.
fn most(parts: &[f64]) -> Claim {
    let (last, others) = parts.split_last().expect("a part for each mix");
    let is_most = others.iter().all(|other| last <= other);
    Claim {
        claim: "most of all where each tenant has a characteristic of its own".into(),
        published: "the biggest reduction".into(),
        here: here(parts),
        verdict: match is_most {
            true => Verdict::Holds,
            false if *last < parts[0] - ALIKE => Verdict::HoldsWeaker,
            false => Verdict::DoesNotHold,
        },
        why: String::new(),
    }
}

fn here(parts: &[f64]) -> String {
    let of_mix = |(mix, part): (Mix, &f64)| format!("{}: x {}", mix.name(), short(*part));
    Mix::ALL.into_iter().zip(parts).map(of_mix).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn isolation_holds_where_it_lowers_what_is_programmed_in_every_mix_of_unlike_tenants() {
        let verdict = |parts: [f64; 4]| lower("", &parts).verdict;
        assert_eq!(verdict([1.0, 0.9, 0.8, 0.7]), Verdict::Holds);
        assert_eq!(verdict([1.2, 0.9, 1.0, 0.7]), Verdict::HoldsWeaker);
        assert_eq!(verdict([1.0, 0.9, 1.1, 0.7]), Verdict::DoesNotHold);
        assert_eq!(verdict([0.5, 1.0, 1.0, 1.0]), Verdict::DoesNotHold);
        assert_eq!(most(&[1.0, 0.9, 0.8, 0.7]).verdict, Verdict::Holds);
        assert_eq!(most(&[1.0, 0.6, 0.8, 0.7]).verdict, Verdict::HoldsWeaker);
        assert_eq!(most(&[1.0, 0.6, 0.8, 1.0]).verdict, Verdict::DoesNotHold);
    }
}
