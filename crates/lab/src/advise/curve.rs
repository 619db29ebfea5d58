//! Miss-ratio curves: replays a sample on policies, chunk sizes and capacities, all in one pass, and
//! scales the counts to the whole trace.

use std::sync::PoisonError;

use serde::Serialize;
use zonal_base::Bytes;
use zonal_device::Geometry;
use zonal_emulator::Profile;
use zonal_policy::Spec;

use super::cut::{Counts, Cut, GROUPS, Halves, SharedCounts};
use super::freshness::RULES;
use super::{Question, Sample};
use crate::bench::Progress;
use crate::trace::{Capacity, Contender, Room, make, replay_while};

/// Candidate policies: the default of `zonal serve`, then the best of a column in
/// docs/results/policies.md or policies-sizes.md, and the cheapest possible on zones.
pub(super) const POLICIES: [&str; 10] = [
    "flow",
    "zone-lru?admit=probation",
    "zone-fifo?admit=probation",
    "chunk-lru?admit=probation",
    "chunk-lru?admit=probation&spare=5%",
    "chunk-lru?admit=probation&spare=20%",
    "region-lru?admit=probation",
    "zlru+zdrop?admit=probation",
    "zone-lru",
    "zone-fifo",
];

/// Chunk sizes; the default of `zonal serve` first.
pub(super) const CHUNKS: [Bytes; 3] = [Bytes::kib(256), Bytes::kib(64), Bytes::mib(1)];

/// Zones of `zonal serve` on a drive without zones.
pub(super) const SMALL_ZONE: Bytes = Bytes::mib(64);

/// Zones of the modelled zoned drive.
pub(super) const LARGE_ZONE: Bytes = Bytes::mib(1077);

/// Smallest cache: `zonal serve` should have eight zones.
pub(super) const SIZE_MIN: Bytes = Bytes(8 * SMALL_ZONE.0);

/// Zones of a replay. More take time and change little; with fewer than real, a policy has less
/// choice.
const ZONES: std::ops::RangeInclusive<u64> = 16..=128;

/// Chunks that a replayed cache holds at least: with fewer, chance decides.
const CHUNKS_MIN: u64 = 256;

/// Standard errors of an error bar: 19 of 20 true values lie within.
const DEVIATIONS: f64 = 1.96;

/// A replay to do.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) policy: String,
    pub(super) chunk: Bytes,
    /// Size of the cache, and of its zones.
    pub(super) size: Bytes,
    pub(super) zone: Bytes,
    /// Whether the freshness rules are counted.
    pub(super) confirms: bool,
}

/// Result of a replay: what a cache of this size does with the whole trace, once the first half of
/// the trace has filled it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// Name of the policy.
    pub policy: String,
    /// Chunk size, in bytes.
    pub chunk: u64,
    /// Size of the cache, in bytes of flash.
    pub size: u64,
    /// Share of the reads that miss, and the half width of its 95 % interval.
    pub misses: f64,
    /// See `misses`.
    pub misses_error: f64,
    /// Share of the bytes that miss, and the half width of its 95 % interval.
    pub byte_misses: f64,
    /// See `byte_misses`.
    pub byte_misses_error: f64,
    /// Requests to the origin per read: for missing bytes and for metadata of new objects.
    pub fetches: f64,
    /// Bytes from the origin per read.
    pub fetched_bytes: f64,
    /// Confirmations per read, by freshness rule; empty if they were not counted.
    pub confirmations: Vec<f64>,
    /// Flash bytes written per read.
    pub flash_bytes: f64,
    /// Flash bytes written, per byte written for the first time.
    pub write_amplification: f64,
    /// Whether the first half of the trace filled the cache. Otherwise the misses are first reads
    /// of objects, of which nobody knows how long they go on.
    pub is_filled: bool,
}

/// Sizes of a curve: powers of the root of two, from the smallest that a sample can tell, and one
/// that holds everything.
pub(super) fn sizes(sample: &Sample, footprint: Bytes) -> Vec<Bytes> {
    let whole = holding(footprint);
    let chunk = CHUNKS[0].min(sample.survey.mean()).0;
    let least = Bytes((CHUNKS_MIN * chunk) << sample.halvings()).max(SIZE_MIN);
    let mut sizes: Vec<Bytes> = Vec::new();
    for step in 0.. {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive")]
        let zones = (8.0 * 2.0_f64.powf(f64::from(step) / 2.0)).round() as u64;
        let size = Bytes(zones * SMALL_ZONE.0);
        // The next one would be much like the whole.
        if whole.0 / 10 * 9 < size.0 {
            break;
        }
        let holds = |size: Bytes| usable(size, SMALL_ZONE);
        if least <= size && sizes.last().is_none_or(|last| holds(*last) < holds(size)) {
            sizes.push(size);
        }
    }
    // The largest steps are enough for a curve.
    sizes.drain(..sizes.len().saturating_sub(STEPS));
    sizes.push(whole);
    sizes
}

/// Sizes of a curve below the whole one.
const STEPS: usize = 16;

/// Size of the cache that holds a number of bytes beside the zones that it keeps empty.
fn holding(bytes: Bytes) -> Bytes {
    let mut zones = bytes.0.div_ceil(SMALL_ZONE.0).max(SIZE_MIN.0 / SMALL_ZONE.0);
    while usable(Bytes(zones * SMALL_ZONE.0), SMALL_ZONE).0 < bytes.0 {
        zones += zones.div_ceil(64);
    }
    Bytes(zones * SMALL_ZONE.0)
}

/// Bytes of a cache that hold data: without empty zones, the one reserved for reclaim, and half of
/// each open zone.
fn usable(size: Bytes, zone: Bytes) -> Bytes {
    let zones = zonal_base::low_u32(zonal_base::index(size.0 / zone.0)).max(1);
    let large = Profile::zn540().geometry;
    let geometry = Geometry { zone_count: zones, zone_capacity: zone.blocks_ceil(), ..large };
    let settings = zonal_cache::Settings::for_device(&geometry);
    let empty = settings.log.high_zones;
    let filled = settings.layout(&geometry).busy_zones.saturating_sub(empty);
    let kept = (empty + 1 + filled / 2).min(zones.saturating_sub(ZONES_MIN));
    Bytes(u64::from(zones - kept) * zone.0)
}

/// Zones that are left at least: one more than any policy needs.
const ZONES_MIN: u32 = 6;

/// Replays plans on the sample. If the user stops it, the estimates are of the part that was
/// replayed by then.
pub(super) fn replay(
    question: &Question,
    sample: &Sample,
    plans: &[Plan],
    progress: &Progress,
) -> Result<Vec<Estimate>, String> {
    let (mut contenders, mut counts) =
        (Vec::<Box<dyn Contender>>::new(), Vec::<SharedCounts>::new());
    for plan in plans {
        let (cut, shared) = contender(question, sample, plan)?;
        contenders.push(Box::new(cut));
        counts.push(shared);
    }
    let trace = sample.trace("the sample");
    let goes_on = |done| {
        progress.show_share(done);
        !progress.is_stopped()
    };
    replay_while(&trace, contenders, &goes_on).map_err(|error| error.to_string())?;
    let estimates = plans.iter().zip(counts).map(|(plan, counts)| {
        let halves = *counts.lock().unwrap_or_else(PoisonError::into_inner);
        Estimate::new(plan, sample, &halves, progress.is_stopped())
    });
    Ok(estimates.collect())
}

fn contender(
    question: &Question,
    sample: &Sample,
    plan: &Plan,
) -> Result<(Cut, SharedCounts), String> {
    let flash = sample.scaled(usable(plan.size, plan.zone));
    let mut zones = (plan.size.0 / plan.zone.0).clamp(*ZONES.start(), *ZONES.end());
    // A zone holds several chunks, also in a sample.
    while *ZONES.start() < zones && flash.0 / zones < 8 * plan.chunk.0 {
        zones /= 2;
    }
    let spec: Spec = plan.policy.parse().map_err(|error| format!("{}: {error}", plan.policy))?;
    // For policies that rewrite, the replay itself reserves the zone for reclaim.
    let zones = zones + u64::from(spec.rewrites());
    let flash = Bytes(flash.0 / (zones - u64::from(spec.rewrites())) * zones);
    let (policy, room) = with_memory(&plan.policy, sample.scaled(question.dram), flash);
    let zones = zonal_base::low_u32(zonal_base::index(zones));
    let inner = make(&policy, Room { capacity: Capacity::Bytes(room), zones })?;
    Ok(Cut::new(inner, plan.chunk, sample.middle, plan.confirms))
}

/// Adds the memory that buffers chunks before flash to a replay's policy and capacity. The policy
/// takes the share in units of 1e-5 of the capacity.
fn with_memory(policy: &str, dram: Bytes, flash: Bytes) -> (String, Bytes) {
    let is_buffered = policy.contains("probation") || !policy.contains('?') && policy == "flow";
    if !is_buffered {
        return (policy.into(), flash);
    }
    // A tenth of the memory buffers chunks before flash: docs/policies.md.
    let waiting = dram.0 / 10;
    let thousandths = (waiting * 100_000).div_ceil(flash.0 + waiting).clamp(1, 50_000);
    let sign = if policy.contains('?') { '&' } else { '?' };
    let percent = format!("{}.{:03}%", thousandths / 1000, thousandths % 1000);
    (format!("{policy}{sign}memory={percent}"), Bytes(flash.0 + waiting))
}

impl Estimate {
    fn new(plan: &Plan, sample: &Sample, [first, late]: &Halves, is_cut: bool) -> Self {
        let rate = sample.rate();
        let usable = sample.scaled(usable(plan.size, plan.zone));
        let is_filled = usable.0 / 10 * 9 <= first.filled;
        // Counts of a sample stand for so many times more, and the reads of the trace are known.
        let (reads, bytes) = match is_cut {
            false => (sample.late_reads as f64 * rate, sample.late_bytes as f64 * rate),
            true => ((first.reads + late.reads).max(1) as f64, (first.bytes + late.bytes) as f64),
        };
        let both = first.plus(late);
        let late = if is_cut { &both } else { late };
        let share = |part: u64| (part as f64 / reads).min(1.0);
        let per_read = |part: u64| part as f64 / reads;
        let error = |groups: &[u64; GROUPS], whole: f64| {
            DEVIATIONS * deviation(groups) * (1.0 - rate).sqrt() / whole.max(1.0)
        };
        let missed_bytes: u64 = late.missed_bytes.iter().sum();
        Self {
            policy: plan.policy.clone(),
            chunk: plan.chunk.0,
            size: plan.size.0,
            misses: share(late.reads - late.hits),
            misses_error: error(&late.missed, reads),
            byte_misses: (missed_bytes as f64 / bytes.max(1.0)).min(1.0),
            byte_misses_error: error(&late.missed_bytes, bytes),
            fetches: per_read(late.fetches + late.heads),
            fetched_bytes: per_read(late.fetched_bytes),
            confirmations: match plan.confirms {
                true => late.confirmations.iter().map(|count| per_read(*count)).collect(),
                false => Vec::new(),
            },
            flash_bytes: per_read(late.filled + late.moved),
            write_amplification: match late.filled {
                0 => 1.0,
                filled => (filled + late.moved) as f64 / filled as f64,
            },
            is_filled,
        }
    }
}

impl Counts {
    fn plus(&self, other: &Self) -> Self {
        let add =
            |a: &[u64], b: &[u64]| -> Vec<u64> { a.iter().zip(b).map(|(a, b)| a + b).collect() };
        let groups =
            |a: &[u64; GROUPS], b: &[u64; GROUPS]| add(a, b).try_into().unwrap_or([0; GROUPS]);
        Self {
            reads: self.reads + other.reads,
            hits: self.hits + other.hits,
            bytes: self.bytes + other.bytes,
            hit_bytes: self.hit_bytes + other.hit_bytes,
            fetches: self.fetches + other.fetches,
            fetched_bytes: self.fetched_bytes + other.fetched_bytes,
            heads: self.heads + other.heads,
            confirmations: add(&self.confirmations, &other.confirmations)
                .try_into()
                .unwrap_or([0; RULES]),
            filled: self.filled + other.filled,
            moved: self.moved + other.moved,
            missed: groups(&self.missed, &other.missed),
            missed_bytes: groups(&self.missed_bytes, &other.missed_bytes),
        }
    }
}

/// Standard deviation of the sum of groups that differ by chance.
fn deviation(groups: &[u64; GROUPS]) -> f64 {
    let count = GROUPS as f64;
    let mean = groups.iter().sum::<u64>() as f64 / count;
    let squares = groups.iter().map(|sum| (*sum as f64 - mean).powi(2)).sum::<f64>();
    (squares / (count - 1.0) * count).sqrt()
}
