//! Runs: the recommended cache as a whole on drive models, in virtual time, for its latencies.

use serde::Serialize;
use zonal_base::{Bytes, Nanos};

use super::curve::LARGE_ZONE;
use super::{Estimate, Question, Sample};
use crate::bench::Progress;
use crate::experiment::{Campaign, Drive, Engine, Experiment, Precondition};
use crate::simulated::{Habits, Latency};
use crate::trace::Op;
use crate::{Recorded, Workload};

/// Latencies of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Run {
    /// Drive model.
    pub drive: String,
    /// Gets that were run, from an empty cache on.
    pub gets: u64,
    /// Latency of hits.
    pub hit: Latency,
    /// Latency of misses, with the time of the origin.
    pub miss: Latency,
    /// Throughput of gets in GiB/s, with the tasks of the question.
    pub gib_per_s: f64,
}

/// Drive models: those that were measured.
const DRIVES: [&str; 2] = ["zn540", "sn540"];

/// Chunk lookups of a run: a few CPU seconds.
const LOOKUPS_MAX: u64 = 200_000;

/// Zones of a run. Latencies depend on the load, not on the size.
const ZONES: std::ops::RangeInclusive<u64> = 16..=64;

/// Memory of a run at least: the cache needs some to work.
const DRAM_MIN: Bytes = Bytes::mib(1);

/// Write unit that ages a conventional drive before the run.
const PIECE: Bytes = Bytes::kib(64);

/// Runs a cache on each drive model.
pub(super) fn run(
    question: &Question,
    sample: &Sample,
    chosen: &Estimate,
    progress: &Progress,
) -> Result<Vec<Run>, String> {
    progress.begin("runs");
    let drives = DRIVES.iter().map(|name| name.parse::<Drive>());
    let drives: Vec<Drive> = drives.collect::<Result<_, _>>()?;
    let experiments = drives.iter().map(|drive| experiment(question, sample, (*drive, chosen)));
    let campaign = Campaign {
        experiments: experiments.collect::<Result<_, _>>()?,
        at_once: question.at_once,
        kept: None,
        commit: question.commit.clone(),
    };
    let runs = campaign.run(progress)?.into_iter().zip(DRIVES).map(|(done, drive)| Run {
        drive: drive.into(),
        gets: done.outcome.gets,
        hit: done.outcome.hit,
        miss: done.outcome.miss,
        gib_per_s: done.outcome.get_gib_per_s(),
    });
    Ok(runs.collect())
}

fn experiment(
    question: &Question,
    sample: &Sample,
    (drive, chosen): (Drive, &Estimate),
) -> Result<Experiment, String> {
    let scaled = sample.scaled(Bytes(chosen.size)).0 / LARGE_ZONE.0;
    let zones = scaled.clamp(*ZONES.start(), *ZONES.end());
    let conventional = drive != DRIVES[0].parse::<Drive>()?;
    // Three sixteenths of a conventional drive are unused, as in the kinds of drives.
    let size = Bytes(zones * LARGE_ZONE.0 * 16 / 13);
    let (drive, precondition) = match conventional {
        true => (drive.with_size(size), Precondition::Used(PIECE)),
        false => (drive, Precondition::Nothing),
    };
    let (mut lookups, mut requests) = (0, 0);
    for request in sample.requests.iter() {
        lookups += match request.op {
            Op::Read => 1 + request.bytes / chosen.chunk,
            Op::Invalidate => 1,
        };
        if LOOKUPS_MAX < lookups {
            break;
        }
        requests += 1;
    }
    let mut recorded = Recorded::of(sample.trace(&question.trace.to_string()));
    recorded.requests = Some(requests);
    Ok(Experiment {
        cache: Engine::Zonal,
        drive,
        precondition,
        zones: zonal_base::low_u32(zonal_base::index(zones)),
        chunk: Bytes(chosen.chunk),
        policy: chosen.policy.clone(),
        dram: sample.scaled(question.dram).max(DRAM_MIN),
        workload: Workload::Recorded(recorded),
        keys: 0,
        gets: 0,
        tasks: question.tasks,
        origin_latency: question.origin_latency,
        origin_sd: Nanos(0),
        hold_zone_during_fetch: false,
        habits: Habits::default(),
        limit: Nanos::MAX,
        seed: question.seed,
    })
}
