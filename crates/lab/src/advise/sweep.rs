//! Sweep: replays policies, chunk sizes and capacities without a drive, all in one pass over the
//! trace.

use std::sync::PoisonError;

use serde::Serialize;
use zonal_base::Bytes;
use zonal_device::Geometry;
use zonal_emulator::Profile;
use zonal_policy::Spec;

use super::cut::{Cut, Half, SharedCounts};
use super::{Question, Survey, ZONE, ZONES_MIN};
use crate::Recorded;
use crate::bench::Progress;
use crate::trace::{Capacity, Contender, Room, make, replay as replay_all};

/// Candidate policies: the best of a column in docs/results/policies.md or policies-sizes.md, or
/// the cheapest possible on zones.
pub(super) const POLICIES: [&str; 7] = [
    "flow",
    "zone-lru?admit=probation",
    "zone-fifo?admit=probation",
    "chunk-lru?admit=probation",
    "region-lru?admit=probation",
    "zlru+zdrop?admit=probation",
    "zone-lru",
];

/// Spare space of policies that garbage-collect, in addition to their built-in tenth.
const SPARES: [&str; 2] =
    ["chunk-lru?admit=probation&spare=5%", "chunk-lru?admit=probation&spare=20%"];

/// Chunk sizes; the default of `zonal serve` first.
const CHUNKS: [Bytes; 3] = [Bytes::kib(256), Bytes::kib(64), Bytes::mib(1)];

/// Divisors of the capacity.
const PARTS: [u32; 4] = [1, 2, 4, 8];

/// Chunk lookups of all replays together, about: two minutes on two cores. Longer traces are
/// sampled, with the same fraction of the capacity.
const LOOKUPS_MAX: u64 = 600_000_000;

/// Replay of a policy with a chunk size and a capacity.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Replayed {
    /// Name of the policy.
    pub policy: String,
    /// Chunk size, in bytes.
    pub chunk: u64,
    /// Zones, at full size.
    pub zones: u32,
    /// Sampling: one object in this many was replayed, on the same fraction of the zones.
    pub sample: u32,
    /// Hit ratio: whole reads from the cache, over all reads.
    pub hit_ratio: f64,
    /// Hit ratio of the second half of the trace, after the first half as warm-up. The same holds
    /// for the other `late` values.
    pub late_hit_ratio: f64,
    /// Byte hit ratio.
    pub late_byte_hit_ratio: f64,
    /// Origin requests per read.
    pub late_fetches: f64,
    /// Flash bytes written per read.
    pub late_flash_bytes: f64,
    /// Flash bytes written, per byte written for the first time.
    pub late_write_amplification: f64,
}

/// Minimum zones of a replay: one more than any policy needs.
const LEAST: u32 = 6;

/// A replay to do.
struct Plan {
    policy: String,
    chunk: Bytes,
    zones: u32,
    sample: u32,
}

pub(super) fn replay(
    question: &Question,
    survey: &Survey,
    progress: &Progress,
) -> Result<Vec<Replayed>, String> {
    let plans = plans(question, survey);
    let (mut contenders, mut counts) =
        (Vec::<Box<dyn Contender>>::new(), Vec::<SharedCounts>::new());
    for plan in &plans {
        let (cut, shared) = contender(question, survey, plan)?;
        contenders.push(Box::new(cut));
        counts.push(shared);
    }
    progress.begin("replays");
    let trace = question.recorded.file();
    let replayed = replay_all(&trace, contenders, &|done| progress.show_share(done));
    replayed.map_err(|error| error.to_string())?;
    let rows = plans.into_iter().zip(counts).map(|(plan, counts)| {
        let counts = *counts.lock().unwrap_or_else(PoisonError::into_inner);
        Replayed::new(plan, counts.whole(), counts.halves[1])
    });
    Ok(rows.collect())
}

/// Chunk sizes that the trace can tell apart: all below its largest object, and the next one up.
pub(super) fn chunks(question: &Question, survey: &Survey) -> Vec<Bytes> {
    if question.recorded.size_of_all(question.size).is_some() {
        return vec![question.size];
    }
    let mut sizes = CHUNKS;
    sizes.sort_unstable();
    let least = sizes.iter().position(|chunk| survey.largest <= chunk.0);
    let useful = &sizes[..=least.unwrap_or(sizes.len() - 1)];
    let mut chunks: Vec<Bytes> = CHUNKS.into_iter().filter(|size| useful.contains(size)).collect();
    if chunks.is_empty() {
        chunks.push(CHUNKS[0]);
    }
    chunks
}

/// Sampling factor that limits `lookups` to about `most`, as long as enough zones are left.
pub(super) fn sample(question: &Question, lookups: u64, most: u64) -> u32 {
    let wanted = zonal_base::low_u32(zonal_base::index(lookups.div_ceil(most.max(1)).max(1)));
    wanted.clamp(1, (question.zones() / ZONES_MIN).max(1))
}

/// Chunk lookups in the whole trace.
pub(super) fn lookups(survey: &Survey, chunk: Bytes) -> u64 {
    survey.reads + survey.read_bytes / chunk.0
}

fn plans(question: &Question, survey: &Survey) -> Vec<Plan> {
    let chunks = chunks(question, survey);
    let mut plans = Vec::new();
    let mut plan = |policy: &str, chunk: Bytes, zones: u32| {
        plans.push(Plan { policy: policy.into(), chunk, zones, sample: 1 });
    };
    for policy in POLICIES {
        for part in PARTS {
            plan(policy, chunks[0], question.zones() / part);
        }
        for chunk in &chunks[1..] {
            plan(policy, *chunk, question.zones());
        }
    }
    for policy in SPARES {
        plan(policy, chunks[0], question.zones());
    }
    for spare in super::finals::SPARES.into_iter().filter(|spare| *spare != 0) {
        plan(POLICIES[0], chunks[0], super::finals::used(question.zones(), spare));
    }
    let all = plans.iter().map(|plan| lookups(survey, plan.chunk)).sum();
    let sample = sample(question, all, LOOKUPS_MAX);
    plans.iter_mut().for_each(|plan| plan.sample = sample);
    // A cache with fewer zones is unrealistic.
    plans.retain(|plan| ZONES_MIN / 2 <= plan.zones / plan.sample);
    // Sampling of the runs, so that its effect is visible beside replays of everything.
    let finals = super::finals::sample(question, survey);
    if sample < finals {
        let zones = question.zones();
        plans.push(Plan { policy: POLICIES[0].into(), chunk: chunks[0], zones, sample: finals });
    }
    plans
}

/// Adds the memory that buffers chunks before flash to a replay's policy and capacity. The policy
/// takes the share in units of 1e-5 of the capacity.
fn with_memory(policy: &str, question: &Question, flash: Bytes) -> (String, Bytes) {
    // A tenth of the memory buffers chunks before flash: docs/policies.md.
    let waiting = question.dram.0 / 10;
    let thousandths = (waiting * 100_000).div_ceil(flash.0 + waiting).max(1);
    let sign = if policy.contains('?') { '&' } else { '?' };
    let is_waited = policy.contains("probation") || !policy.contains('?') && policy == "flow";
    if !is_waited {
        return (policy.into(), flash);
    }
    let percent = format!("{}.{:03}%", thousandths / 1000, thousandths % 1000);
    (format!("{policy}{sign}memory={percent}"), Bytes(flash.0 + waiting))
}

fn contender(
    question: &Question,
    survey: &Survey,
    plan: &Plan,
) -> Result<(Cut, SharedCounts), String> {
    let zones = (plan.zones / plan.sample).max(1);
    // For policies that rewrite, the replay itself reserves the zone for reclaim.
    let spec: Spec = plan.policy.parse().map_err(|error| format!("{}: {error}", plan.policy))?;
    let zones = zones - kept_free(zones).saturating_sub(u32::from(spec.rewrites()));
    let flash = Bytes(u64::from(zones) * ZONE.0);
    let sampled =
        Question { dram: Bytes(question.dram.0 / u64::from(plan.sample)), ..question.clone() };
    let (policy, room) = with_memory(&plan.policy, &sampled, flash);
    let inner = make(&policy, Room { capacity: Capacity::Bytes(room), zones })?;
    let recorded = Recorded { sample: plan.sample, ..question.recorded.clone() };
    Ok(Cut::new(inner, recorded, (question.size, plan.chunk), survey.requests))
}

/// Zones that the engine keeps free, beyond a replay: empty zones, the one reserved for reclaim,
/// and half of each open zone.
pub(super) fn kept_free(zones: u32) -> u32 {
    let geometry = Geometry { zone_count: zones, ..Profile::zn540().geometry };
    let settings = zonal_cache::Settings::for_device(&geometry);
    let empty = settings.log.high_zones;
    let filled = settings.layout(&geometry).busy_zones - empty;
    (empty + 1 + filled / 2).min(zones.saturating_sub(LEAST))
}

impl Replayed {
    fn new(plan: Plan, whole: Half, late: Half) -> Self {
        Self {
            policy: plan.policy,
            chunk: plan.chunk.0,
            zones: plan.zones,
            sample: plan.sample,
            hit_ratio: ratio(whole.hits, whole.reads),
            late_hit_ratio: ratio(late.hits, late.reads),
            late_byte_hit_ratio: ratio(late.hit_bytes, late.bytes),
            late_fetches: ratio(late.fetches, late.reads),
            late_flash_bytes: ratio(late.filled + late.moved, late.reads),
            late_write_amplification: match late.filled {
                0 => 1.0,
                filled => ratio(filled + late.moved, filled),
            },
        }
    }

    /// True if both policies have exactly the same results: they are equivalent on this trace and
    /// capacity.
    pub(super) fn is_replayed_as(&self, other: &Self) -> bool {
        self.policy != other.policy
            && Self { policy: other.policy.clone(), ..self.clone() } == *other
    }

    /// Pareto dominance: `other` is better in origin requests or bytes written, and worse in
    /// neither.
    pub(super) fn is_beaten_by(&self, other: &Self) -> bool {
        let (a, b) = (self.late_fetches, self.late_flash_bytes);
        let (c, d) = (other.late_fetches, other.late_flash_bytes);
        c <= a && d <= b && (c < a || d < b)
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
