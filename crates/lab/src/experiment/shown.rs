//! Columns and charts for caches on drives.

use zonal_base::Nanos;

use super::results::{Column, Shown, millis};
use super::{Experiment, Results};
use crate::chart::{Along, Chart};
use crate::simulated::Moved;

impl Shown for Experiment {
    const ABOUT: &'static str = "A cache on the model of a drive";

    const OF_EXPERIMENT: &'static [Column<Self>] = &[
        ("cache", |done| format!("{:?}", done.experiment.cache).to_lowercase()),
        ("drive", |done| done.experiment.drive.to_string()),
        ("precondition", |done| done.experiment.precondition.to_string()),
        ("zones", |done| done.experiment.zones.to_string()),
        ("chunk", |done| done.experiment.chunk.to_string()),
        ("policy", |done| done.experiment.policy.clone()),
        ("dram", |done| done.experiment.dram.to_string()),
        ("workload", |done| done.experiment.workload.to_string()),
        ("keys", |done| unless_traced(done.experiment.keys)),
        ("gets", |done| unless_traced(done.experiment.gets)),
        ("tasks", |done| done.experiment.tasks.to_string()),
        ("origin-latency", |done| done.experiment.origin_latency.to_string()),
        ("origin-sd", |done| done.experiment.origin_sd.to_string()),
        ("hold-zone-during-fetch", |done| done.experiment.hold_zone_during_fetch.to_string()),
        ("habits", |done| done.experiment.habits.to_string()),
        ("limit", |done| match done.experiment.limit {
            Nanos::MAX => "none".into(),
            limit => limit.to_string(),
        }),
        ("seed", |done| done.experiment.seed.to_string()),
    ];

    const OF_OUTCOME: &'static [Column<Self>] = &[
        ("hit ratio", |done| format!("{:.4}", done.outcome.hit_ratio())),
        ("origin requests", |done| done.outcome.origin_requests.to_string()),
        ("GiB/s", |done| format!("{:.4}", done.outcome.get_gib_per_s())),
        ("get mean ms", |done| millis(done.outcome.get.mean_ns)),
        ("get p50 ms", |done| millis(done.outcome.get.p50_ns)),
        ("get p99 ms", |done| millis(done.outcome.get.p99_ns)),
        ("get p99.9 ms", |done| millis(done.outcome.get.p999_ns)),
        ("hit mean ms", |done| millis(done.outcome.hit.mean_ns)),
        ("hit p99 ms", |done| millis(done.outcome.hit.p99_ns)),
        ("miss mean ms", |done| millis(done.outcome.miss.mean_ns)),
        ("miss p99 ms", |done| millis(done.outcome.miss.p99_ns)),
        ("written/got", |done| format!("{:.4}", done.outcome.written_for_got())),
        ("device WA", |done| format!("{:.3}", done.outcome.write_amplification())),
    ];

    fn seed(&self) -> u64 {
        self.seed
    }

    fn charts(results: &Results) -> Vec<Chart> {
        let throughput = by_minutes(results, ("throughput", "Throughput of gets"), |m| m.got);
        let writes = "Written to the drive by a cache of threads";
        let writes = by_minutes(results, ("writes", writes), |moved| moved.written);
        let has_writes = results.done.iter().any(|done| 0 < done.outcome.write.count);
        let latencies = results.latencies("Latency of gets", |outcome| outcome.get);
        let mut charts = vec![throughput, latencies];
        charts.extend(has_writes.then_some(writes));
        charts
    }
}

fn by_minutes(
    results: &Results,
    (file, title): (&'static str, &'static str),
    of: fn(&Moved) -> u64,
) -> Chart {
    let lines = results.lines(|outcome| outcome.by_minutes(of));
    Chart { file, title, x: "minutes", y: "GiB/s", along: Along::Numbers, lines }
}

/// A count, or `trace` when a trace defines it.
fn unless_traced(count: u64) -> String {
    if count == 0 { "trace".into() } else { count.to_string() }
}
