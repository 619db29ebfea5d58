//! What the experiments of a file gave: a table, CSV, JSON, figures, and a page that has them all.

use std::fmt;
use std::fs;
use std::path::Path;

use serde::Serialize;
use zonal_base::Nanos;

use super::{Done, Outcome};
use crate::chart::{Along, Chart, Line};
use crate::page;
use crate::simulated::Moved;

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
const OF_EXPERIMENT: [Column; 17] = [
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

/// What it gave.
const OF_OUTCOME: [Column; 13] = [
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

/// A trace says itself how many there are.
fn unless_traced(count: u64) -> String {
    if count == 0 { "trace".into() } else { count.to_string() }
}

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
        fs::write(folder.join("report.html"), self.page(&figures)).map_err(cannot)
    }

    fn page(&self, figures: &[String]) -> String {
        let alike = self.alike();
        let alike =
            alike.iter().map(|(name, value)| format!("{name} <b>{}</b>", page::escaped(value)));
        let body = format!(
            "<p>A cache on the model of a drive, in virtual time. {}.</p>\n{}<h2>Figures</h2>\n{}",
            alike.collect::<Vec<_>>().join(", "),
            page::table(&self.rows()),
            page::figures(figures),
        );
        let (commit, seeds) = (page::escaped(self.commit()), self.seeds());
        let made = format!("<code>zonal lab run</code>, commit {commit}, seed {seeds}");
        page::page(&self.title, &body, &made)
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

    /// The table: names of columns first.
    fn rows(&self) -> Vec<Vec<String>> {
        let columns = self.columns();
        let names = columns.iter().map(|(name, _)| (*name).to_owned()).collect();
        let of = |done: &Done| columns.iter().map(|(_, of)| of(done)).collect();
        std::iter::once(names).chain(self.done.iter().map(of)).collect()
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
        let throughput = self.by_minutes("throughput", "Throughput of gets", |moved| moved.got);
        let writes = "Written to the drive by a cache of threads";
        let writes = self.by_minutes("writes", writes, |moved| moved.written);
        let has_writes = self.done.iter().any(|done| 0 < done.outcome.write.count);
        let mut charts = vec![throughput, self.latencies()];
        charts.extend(has_writes.then_some(writes));
        charts
    }

    fn by_minutes(&self, file: &'static str, title: &'static str, of: fn(&Moved) -> u64) -> Chart {
        let lines = self.lines(|outcome| outcome.by_minutes(of));
        Chart { file, title, x: "minutes", y: "GiB/s", along: Along::Numbers, lines }
    }

    fn latencies(&self) -> Chart {
        let millis = |outcome: &Outcome| {
            let get = &outcome.get;
            let nanos = [get.p50_ns, get.mean_ns, get.p99_ns, get.p999_ns];
            nanos.map(|nanos| nanos as f64 / 1e6).to_vec()
        };
        Chart {
            file: "latency",
            title: "Latency of gets",
            x: "",
            y: "ms",
            along: Along::Places(["p50", "mean", "p99", "p99.9"].map(String::from).to_vec()),
            lines: self.lines(millis),
        }
    }

    /// A line for each experiment, its values at 0, 1, 2, …
    fn lines(&self, of: impl Fn(&Outcome) -> Vec<f64>) -> Vec<Line> {
        let line = |done: &Done| {
            let here = (0..).map(f64::from).zip(of(&done.outcome)).collect();
            Line { name: self.name(done), drive: Vec::new(), here }
        };
        self.done.iter().map(line).collect()
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
        f.write_str(&page::aligned(&self.rows()))?;
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
