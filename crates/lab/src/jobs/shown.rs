//! Columns and charts for jobs on block devices.

use super::Jobs;
use crate::chart::{Along, Chart};
use crate::experiment::{Column, Results, Shown, millis};

impl Shown for Jobs {
    const ABOUT: &'static str = "Jobs on a block device on the models of drives";

    const OF_EXPERIMENT: &'static [Column<Self>] = &[
        ("jobs", |done| done.experiment.jobs.to_string()),
        ("write", |done| done.experiment.write.to_string()),
        ("workload", |done| done.experiment.order.to_string()),
        ("read", |done| done.experiment.read.to_string()),
        ("read-rate", |done| done.experiment.read_rate.to_string()),
        ("depth", |done| done.experiment.depth.to_string()),
        ("buffer", |done| done.experiment.buffer.to_string()),
        ("drive", |done| done.experiment.drive.to_string()),
        ("spare-percent", |done| done.experiment.spare_percent.to_string()),
        ("smaller", |done| done.experiment.smaller.to_string()),
        ("seed", |done| done.experiment.seed.to_string()),
    ];

    const OF_OUTCOME: &'static [Column<Self>] = &[
        ("written MiB/s", |done| format!("{:.1}", done.outcome.write_rate())),
        ("read MiB/s", |done| format!("{:.1}", done.outcome.read_rate())),
        ("write mean ms", |done| millis(done.outcome.write.mean_ns)),
        ("write p50 ms", |done| millis(done.outcome.write.p50_ns)),
        ("write p99 ms", |done| millis(done.outcome.write.p99_ns)),
        ("write p99.9 ms", |done| millis(done.outcome.write.p999_ns)),
        ("given/written", |done| format!("{:.3}", done.outcome.amplification())),
        ("programmed/written", |done| format!("{:.3}", done.outcome.flash_amplification())),
    ];

    fn seed(&self) -> u64 {
        self.seed
    }

    fn charts(results: &Results<Self>) -> Vec<Chart> {
        let amplification = Chart {
            file: "amplification",
            title: "Bytes for each that the jobs wrote",
            x: "",
            y: "",
            along: Along::Places(["given to the drive", "programmed"].map(String::from).to_vec()),
            lines: results
                .lines(|outcome| vec![outcome.amplification(), outcome.flash_amplification()]),
        };
        vec![amplification, results.latencies("Latency of writes", |outcome| outcome.write)]
    }
}
