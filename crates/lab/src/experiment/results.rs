//! What the experiments of a file gave: a table, CSV, JSON, figures, and a page that has them all.

mod page;

use std::fmt::{self, Write as _};
use std::fs;
use std::path::Path;

use serde::Serialize;

use super::{Done, Outcome};
use crate::chart::{Along, Chart, Line};

/// Experiments of a file, done.
#[derive(Clone, Debug, Serialize)]
pub struct Results {
    /// What the file is about.
    pub title: String,
    /// In the order of the file.
    pub done: Vec<Done>,
}

/// A column of the table: its name, and a row's value.
type Column = (&'static str, fn(&Done) -> String);

/// What an experiment is. Those in which all are alike are left out of the table, not of the CSV.
const OF_EXPERIMENT: [Column; 14] = [
    ("cache", |done| format!("{:?}", done.experiment.cache).to_lowercase()),
    ("drive", |done| done.experiment.drive.to_string()),
    ("precondition", |done| done.experiment.precondition.to_string()),
    ("zones", |done| done.experiment.zones.to_string()),
    ("chunk", |done| done.experiment.chunk.to_string()),
    ("policy", |done| done.experiment.policy.clone()),
    ("dram", |done| done.experiment.dram.to_string()),
    ("workload", |done| done.experiment.workload.to_string()),
    ("keys", |done| done.experiment.keys.to_string()),
    ("gets", |done| done.experiment.gets.to_string()),
    ("tasks", |done| done.experiment.tasks.to_string()),
    ("origin-latency", |done| done.experiment.origin_latency.to_string()),
    ("hold-zone-during-fetch", |done| done.experiment.hold_zone_during_fetch.to_string()),
    ("seed", |done| done.experiment.seed.to_string()),
];

/// What it gave.
const OF_OUTCOME: [Column; 12] = [
    ("hit ratio", |done| format!("{:.4}", done.outcome.hit_ratio())),
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

fn millis(nanos: u64) -> String {
    format!("{:.3}", nanos as f64 / 1e6)
}

impl Results {
    /// Writes `results.csv`, `results.json`, the figures and `report.html`.
    ///
    /// # Errors
    /// When the folder cannot be written to.
    pub fn write(&self, folder: &Path) -> Result<(), String> {
        let cannot = |error: std::io::Error| format!("{}: {error}", folder.display());
        fs::create_dir_all(folder).map_err(cannot)?;
        let json = serde_json::to_string_pretty(self).map_err(|error| error.to_string())?;
        fs::write(folder.join("results.json"), json + "\n").map_err(cannot)?;
        fs::write(folder.join("results.csv"), self.csv()).map_err(cannot)?;
        let mut figures = Vec::new();
        for chart in self.charts() {
            let path = folder.join(format!("{}.svg", chart.file));
            chart.write(&path)?;
            figures.push(fs::read_to_string(&path).map_err(cannot)?);
        }
        let page = page::page(self, &figures);
        fs::write(folder.join("report.html"), page).map_err(cannot)
    }

    fn csv(&self) -> String {
        let mut csv = String::new();
        let names = OF_EXPERIMENT.iter().chain(&OF_OUTCOME).map(|(name, _)| *name);
        csv += &names.collect::<Vec<_>>().join(",");
        for done in &self.done {
            let fields = OF_EXPERIMENT.iter().chain(&OF_OUTCOME).map(|(_, of)| quoted(&of(done)));
            csv += "\n";
            csv += &fields.collect::<Vec<_>>().join(",");
        }
        csv + "\n"
    }

    /// The columns in which rows differ, and all of the outcome.
    fn columns(&self) -> Vec<Column> {
        let differs = |(_, of): &&Column| {
            let first = self.done.first().map(of);
            self.done.iter().any(|done| Some(of(done)) != first)
        };
        let of_experiment = OF_EXPERIMENT.iter().filter(differs);
        of_experiment.chain(&OF_OUTCOME).copied().collect()
    }

    /// The keys in which all experiments are alike, with their values.
    fn alike(&self) -> Vec<(&'static str, String)> {
        let Some(first) = self.done.first() else { return Vec::new() };
        let columns = self.columns();
        let is_alike = |(name, _): &&Column| columns.iter().all(|(differing, _)| differing != name);
        OF_EXPERIMENT.iter().filter(is_alike).map(|(name, of)| (*name, of(first))).collect()
    }

    /// What tells an experiment from the others.
    fn name(&self, done: &Done) -> String {
        let of_experiment = self.columns().into_iter().take_while(|(name, _)| *name != "hit ratio");
        let values: Vec<String> = of_experiment.map(|(_, of)| of(done)).collect();
        if values.is_empty() { "all".into() } else { values.join(" ") }
    }

    fn charts(&self) -> Vec<Chart> {
        let by_minute = |of: fn(&Outcome) -> Vec<f64>| {
            let line = |done: &Done| {
                let minutes = of(&done.outcome);
                let here = (0..).map(f64::from).zip(minutes).collect();
                Line { name: self.name(done), drive: Vec::new(), here }
            };
            self.done.iter().map(line).collect()
        };
        let throughput = Chart {
            file: "throughput",
            title: "Throughput of gets",
            x: "minutes",
            y: "GiB/s",
            along: Along::Numbers,
            lines: by_minute(|outcome| outcome.by_minutes(|moved| moved.got)),
        };
        let writes = Chart {
            file: "writes",
            title: "Written to the drive by a cache of threads",
            x: "minutes",
            y: "GiB/s",
            along: Along::Numbers,
            lines: by_minute(|outcome| outcome.by_minutes(|moved| moved.written)),
        };
        let latency = Chart {
            file: "latency",
            title: "Latency of gets",
            x: "",
            y: "ms",
            along: Along::Places(["p50", "mean", "p99", "p99.9"].map(String::from).to_vec()),
            lines: self.done.iter().map(|done| self.latencies(done)).collect(),
        };
        let has_writes = |done: &Done| 0 < done.outcome.write.count;
        let mut charts = vec![throughput, latency];
        charts.extend(self.done.iter().any(has_writes).then_some(writes));
        charts
    }

    fn latencies(&self, done: &Done) -> Line {
        let get = &done.outcome.get;
        let values = [get.p50_ns, get.mean_ns, get.p99_ns, get.p999_ns];
        let here = (0..).map(f64::from).zip(values.map(|nanos| nanos as f64 / 1e6)).collect();
        Line { name: self.name(done), drive: Vec::new(), here }
    }

    /// The seeds of all experiments, each once.
    fn seeds(&self) -> String {
        let mut seeds: Vec<u64> = self.done.iter().map(|done| done.experiment.seed).collect();
        seeds.sort_unstable();
        seeds.dedup();
        seeds.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }

    fn commit(&self) -> &str {
        self.done.first().map_or("", |done| &done.commit)
    }
}

impl fmt::Display for Results {
    /// A table, and what all rows have in common.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n", self.title)?;
        let columns = self.columns();
        let mut rows: Vec<Vec<String>> =
            vec![columns.iter().map(|(name, _)| (*name).to_owned()).collect()];
        rows.extend(self.done.iter().map(|done| columns.iter().map(|(_, of)| of(done)).collect()));
        let width = |at: usize| rows.iter().map(|row| row[at].len()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns.len()).map(width).collect();
        for row in &rows {
            let mut line = String::new();
            for (field, width) in row.iter().zip(&widths) {
                write!(line, "{field:>width$}  ")?;
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        let alike = self.alike();
        let alike = alike.iter().map(|(name, value)| format!("{name} {value}"));
        writeln!(f, "\n{}", alike.collect::<Vec<_>>().join(", "))?;
        writeln!(f, "commit {}", self.commit())
    }
}

/// A field of a CSV file.
fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}
