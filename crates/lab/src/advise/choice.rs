//! Choice: freshness rule, size, policy, chunk size and kind of drive, and the evidence for them.

use serde::Serialize;
use zonal_base::Bytes;

use super::curve::{self, CHUNKS, LARGE_ZONE, POLICIES, Plan, SMALL_ZONE};
use super::market::{Market, ZONED_MIN};
use super::prices::ReadPrice;
use super::runs::{self, Run};
use super::{Estimate, Question, Sample, Survey};
use crate::bench::Progress;

/// A recommendation, with its evidence.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// The trace.
    pub trace: String,
    /// Counts of the whole trace.
    pub survey: Survey,
    /// Fraction of the objects that was replayed.
    pub rate: f64,
    /// Bytes that the trace reads, each counted once: a cache of this size needs no eviction.
    pub footprint: u64,
    /// Price of reads.
    pub price: ReadPrice,
    /// What amounts are stated for.
    pub basis: Basis,
    /// Cost of the load without a cache.
    pub without: f64,
    /// Default policy at every size, the smallest first.
    pub sizes: Vec<SizeCost>,
    /// Other policies at some of the sizes.
    pub others: Vec<Estimate>,
    /// Freshness rules.
    pub freshness: Vec<RuleCost>,
    /// Policies at the recommended size, the best first. Equal ones are one row.
    pub policies: Vec<PolicyCost>,
    /// Chunk sizes at the recommended size, the best first.
    pub chunks: Vec<PolicyCost>,
    /// Kinds of drives, the best first.
    pub drives: Vec<DriveCost>,
    /// Latencies of the recommended cache on drive models.
    pub runs: Vec<Run>,
    /// The recommendation.
    pub choice: Choice,
    /// The largest cache to recommend, as asked for.
    pub capacity: Option<u64>,
    /// Gets in flight in the runs, and the latency of the origin.
    pub tasks: usize,
    /// See `tasks`.
    pub origin_latency_ns: u64,
    /// True if the user stopped it: what was not done by then is missing.
    pub is_cut: bool,
    /// The advice in sentences.
    pub sentences: Vec<String>,
    /// Commit of the program.
    pub commit: String,
}

/// The recommended cache.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Choice {
    /// Its estimate: size, policy, chunk size, misses.
    pub estimate: Estimate,
    /// Freshness rule.
    pub freshness: String,
    /// Kind of drive.
    pub drive: String,
    /// Cost of reads with the cache, and of the drive.
    pub origin_cost: f64,
    /// See `origin_cost`.
    pub drive_cost: f64,
    /// Requests to the origin, all of them.
    pub origin_requests: f64,
    /// Bytes written to the drive in a day; `None` if unknown.
    pub written_a_day: Option<f64>,
    /// Life of the drive in years; `None` if unknown.
    pub years: Option<f64>,
    /// Whether the cache costs less than it saves.
    pub pays: bool,
}

/// Number of reads that amounts are stated for, and the time that they take.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Basis {
    /// For text: "a month".
    pub name: String,
    /// Reads.
    pub reads: f64,
    /// Months; 0 if the trace has no times, so that drives cost nothing.
    pub months: f64,
}

/// A size, and what it costs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SizeCost {
    /// The estimate.
    #[serde(flatten)]
    pub estimate: Estimate,
    /// Cost of reads from the origin.
    pub origin_cost: f64,
    /// Cost of the cheapest kind of drive.
    pub drive_cost: f64,
}

/// A freshness rule, and what it costs with a cache that holds everything.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RuleCost {
    /// The rule, as the configuration has it.
    pub rule: String,
    /// Confirmations per read.
    pub confirmations: f64,
    /// Cost of reads from the origin.
    pub origin_cost: f64,
}

/// A policy or chunk size, and what it costs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PolicyCost {
    /// The estimate.
    #[serde(flatten)]
    pub estimate: Estimate,
    /// Policies with the same estimate.
    pub equal: Vec<String>,
    /// Cost of reads from the origin, and of the drive.
    pub cost: f64,
    /// Whether it costs hardly more than the cheapest.
    pub is_cheap: bool,
}

/// A kind of drive, and what it costs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DriveCost {
    /// Name of the kind.
    pub name: String,
    /// The drive to buy, in bytes: with what is left unused.
    pub drive_bytes: f64,
    /// Bytes that it programs in a day; `None` if unknown.
    pub programmed_a_day: Option<f64>,
    /// Life in years; `None` if unknown.
    pub years: Option<f64>,
    /// Cost of the drive.
    pub drive_cost: f64,
    /// Misses with this kind, and the cost of reads from the origin.
    pub misses: f64,
    /// See `misses`.
    pub origin_cost: f64,
}

pub(super) fn advise(
    question: &Question,
    sample: &Sample,
    progress: &Progress,
) -> Result<Advice, String> {
    let (_, footprint) = sample.footprint(CHUNKS[0]);
    let (curve, others) = curves(question, sample, (footprint, progress))?;
    let mut market = Market::new(question, sample, Basis::per_month(question, sample))?;
    let mut freshness = market.choose_rule(&curve, &sample.survey);
    let mut sizes = market.sizes(&curve);
    let mut at = market.best_size(&sizes);
    if !sizes[at].estimate.is_filled && 0.0 < market.basis.months {
        // First reads of objects are no sign of what comes after the trace.
        market = Market::new(question, sample, market.basis.of_trace(sample))?;
        freshness = market.choose_rule(&curve, &sample.survey);
        sizes = market.sizes(&curve);
        at = market.best_size(&sizes);
    }
    let size = Bytes(sizes[at].estimate.size);
    let is_cut = sample.survey.is_cut || progress.is_stopped();
    let details = match is_cut {
        true => Details::of(&sizes[at].estimate),
        false => Details::replay(question, sample, (size, progress))?,
    };
    let policies = market.ranked(details.policies.clone());
    let chunks = market.ranked(details.chunks(&policies[0].estimate));
    let chosen = chunks[0].estimate.clone();
    let drives = market.drives(&chosen, details.zoned(&chosen.policy).as_ref());
    let runs = match is_cut || progress.is_stopped() {
        true => Vec::new(),
        false => runs::run(question, sample, &chosen, progress)?,
    };
    let without = market.without();
    let drive = drives[0].clone();
    let choice = Choice {
        freshness: market.rule.to_string(),
        drive: drive.name,
        origin_cost: drive.origin_cost,
        drive_cost: drive.drive_cost,
        origin_requests: market.requests(&chosen),
        written_a_day: market.written_a_day(&chosen),
        years: drive.years,
        pays: drive.origin_cost + drive.drive_cost < without,
        estimate: chosen,
    };
    let mut advice = Advice {
        trace: question.trace.to_string(),
        survey: sample.survey.clone(),
        rate: sample.rate(),
        footprint: footprint.0,
        price: market.price,
        basis: market.basis,
        without,
        sizes,
        others,
        freshness,
        policies,
        chunks,
        drives,
        runs,
        choice,
        capacity: question.capacity.map(|capacity| capacity.0),
        tasks: question.tasks,
        origin_latency_ns: question.origin_latency.0,
        is_cut: is_cut || progress.is_stopped(),
        sentences: Vec::new(),
        commit: question.commit.clone(),
    };
    advice.sentences = advice.say();
    Ok(advice)
}

/// Curve of the default policy, and points of the others.
fn curves(
    question: &Question,
    sample: &Sample,
    (footprint, progress): (Bytes, &Progress),
) -> Result<(Vec<Estimate>, Vec<Estimate>), String> {
    let mut sizes = curve::sizes(sample, footprint);
    let whole = sizes.last().copied().unwrap_or(curve::SIZE_MIN);
    let capacity = question.capacity.map(|asked| Bytes(asked.0 / SMALL_ZONE.0 * SMALL_ZONE.0));
    if let Some(capacity) = capacity.filter(|capacity| *capacity < whole) {
        sizes.push(capacity);
        sizes.sort_unstable();
        sizes.dedup();
    }
    let plan = |policy: &str, size: Bytes| Plan {
        policy: policy.into(),
        chunk: CHUNKS[0],
        size,
        zone: SMALL_ZONE,
        confirms: policy == POLICIES[0] && size == whole,
    };
    let mut plans: Vec<Plan> = sizes.iter().map(|size| plan(POLICIES[0], *size)).collect();
    for policy in &POLICIES[1..] {
        plans.extend(sizes.iter().rev().step_by(2).rev().map(|size| plan(policy, *size)));
    }
    progress.begin("curves");
    let mut all = curve::replay(question, sample, &plans, progress)?;
    let others = all.split_off(sizes.len());
    Ok((all, others))
}

/// Replays at the recommended size.
struct Details {
    policies: Vec<Estimate>,
    /// Every policy with every other chunk size, and on large zones.
    more: Vec<Estimate>,
    zoned: Vec<Estimate>,
}

impl Details {
    /// Only what is known already.
    fn of(estimate: &Estimate) -> Self {
        Self { policies: vec![estimate.clone()], more: Vec::new(), zoned: Vec::new() }
    }

    fn replay(
        question: &Question,
        sample: &Sample,
        (size, progress): (Bytes, &Progress),
    ) -> Result<Self, String> {
        let plan = |policy: &str, chunk, zone| Plan {
            policy: policy.into(),
            chunk,
            size,
            zone,
            confirms: false,
        };
        let chunks: Vec<Bytes> =
            CHUNKS[1..].iter().copied().filter(|chunk| tells(sample, *chunk)).collect();
        let has_zones = ZONED_MIN <= size;
        let mut plans: Vec<Plan> =
            POLICIES.iter().map(|policy| plan(policy, CHUNKS[0], SMALL_ZONE)).collect();
        for chunk in &chunks {
            plans.extend(POLICIES.iter().map(|policy| plan(policy, *chunk, SMALL_ZONE)));
        }
        if has_zones {
            plans.extend(POLICIES.iter().map(|policy| plan(policy, CHUNKS[0], LARGE_ZONE)));
        }
        progress.begin("details");
        let mut policies = curve::replay(question, sample, &plans, progress)?;
        let mut more = policies.split_off(POLICIES.len());
        let zoned = more.split_off(POLICIES.len() * chunks.len());
        Ok(Self { policies, more, zoned })
    }

    /// The chosen policy with each chunk size.
    fn chunks(&self, chosen: &Estimate) -> Vec<Estimate> {
        let more = self.more.iter().filter(|one| one.policy == chosen.policy);
        std::iter::once(chosen).chain(more).cloned().collect()
    }

    fn zoned(&self, policy: &str) -> Option<Estimate> {
        self.zoned.iter().find(|one| one.policy == policy).cloned()
    }
}

/// Whether a chunk size cuts any object otherwise than the default.
fn tells(sample: &Sample, chunk: Bytes) -> bool {
    chunk.min(CHUNKS[0]).0 < sample.survey.largest
}
