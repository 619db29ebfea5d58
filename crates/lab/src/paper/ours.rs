//! Zonal's results: a paper's drives and workloads under Zonal's defaults.

use std::fmt;

use serde::Serialize;
use zonal_base::{Bytes, Nanos};

use super::report::short;
use crate::experiment::{Engine, Experiment, Outcome};
use crate::simulated::Habits;

/// Result of one cache in a row of the paper.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ours {
    /// Name of the row.
    pub row: String,
    /// Latency of the origin in milliseconds, from the request to the last byte of a chunk.
    pub origin_latency_ms: f64,
    /// Cache: that of the paper, or `zonal`.
    pub cache: &'static str,
    /// Gets in flight.
    pub tasks: usize,
    /// Throughput of gets in GiB/s.
    pub get_gib_per_s: f64,
    /// 99th percentile of the get latency, in milliseconds.
    pub get_p99_ms: f64,
    /// Hit ratio of gets.
    pub hit_ratio: f64,
    /// Bytes written to the drive for each byte that was got.
    pub written_for_got: f64,
    /// Write amplification of the drive: bytes programmed for each byte written to it.
    pub write_amplification: f64,
}

/// Gets of small chunks in flight under Zonal: its front end needs no thread per get.
const MANY: usize = 1024;

/// Chunks below this size are small.
const SMALL: Bytes = Bytes::mib(1);

/// Default memory of a shard.
const DRAM: Bytes = Bytes::mib(64);

impl Ours {
    /// Runs for a paper's run: Zonal with the paper's number of tasks, and for small chunks also
    /// with [`MANY`].
    pub(super) fn experiments(theirs: &Experiment) -> Vec<Experiment> {
        let with = |tasks| Experiment {
            cache: Engine::Zonal,
            policy: "flow".into(),
            dram: DRAM,
            tasks,
            hold_zone_during_fetch: false,
            habits: Habits::default(),
            limit: Nanos::MAX,
            ..theirs.clone()
        };
        let mut all = vec![with(theirs.tasks)];
        if theirs.chunk < SMALL {
            all.push(with(MANY));
        }
        all
    }

    /// Results of a row: the paper's run, then Zonal's for `asked`. Empty when Zonal was not run.
    pub(super) fn of<'a>(
        row: &str,
        (theirs, asked): (&Experiment, &Experiment),
        find: &dyn Fn(&Experiment) -> Option<&'a Outcome>,
    ) -> Vec<Self> {
        let of = |experiment: &Experiment| Some(Self::new(row, experiment, find(experiment)?));
        let ours: Vec<Self> = Self::experiments(asked).iter().filter_map(of).collect();
        if ours.is_empty() { Vec::new() } else { of(theirs).into_iter().chain(ours).collect() }
    }

    fn new(row: &str, experiment: &Experiment, outcome: &Outcome) -> Self {
        Self {
            row: row.into(),
            origin_latency_ms: experiment.origin_latency.0 as f64 / 1e6,
            cache: experiment.cache.name(),
            tasks: experiment.tasks,
            get_gib_per_s: outcome.get_gib_per_s(),
            get_p99_ms: outcome.get.p99_ns as f64 / 1e6,
            hit_ratio: outcome.hit_ratio(),
            written_for_got: outcome.written_for_got(),
            write_amplification: outcome.write_amplification(),
        }
    }

    pub(super) fn write_table(rows: &[Self], f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if rows.is_empty() {
            return Ok(());
        }
        writeln!(f, "\nThe same drives and workloads under Zonal's own defaults:\n")?;
        writeln!(
            f,
            "| {:<19} | {:>9} | cache     | tasks | {:>9} | {:>9} | hits    | written/got | WA    |",
            "row", "origin ms", "get GiB/s", "p99 ms"
        )?;
        writeln!(f, "| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: |")?;
        rows.iter().try_for_each(|row| {
            writeln!(
                f,
                "| {:<19} | {:>9} | {:<9} | {:>5} | {:>9} | {:>9} | {:>5.1} % | {:>11.3} | {:>5.2} |",
                row.row,
                short(row.origin_latency_ms),
                row.cache,
                row.tasks,
                short(row.get_gib_per_s),
                short(row.get_p99_ms),
                row.hit_ratio * 100.0,
                row.written_for_got,
                row.write_amplification
            )
        })
    }
}
