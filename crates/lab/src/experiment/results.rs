//! Results of an experiment file: a table, CSV, JSON, charts and a page with all of them.

use std::fmt;
use std::fs;
use std::path::Path;

use serde::Serialize;

use super::{Done, Experiment, Run};
use crate::chart::{Along, Chart, ChartLine};
use crate::page;
use crate::simulated::Latency;

/// Results of a file's experiments.
#[derive(Clone, Serialize)]
#[serde(bound = "")]
pub struct Results<E: Shown = Experiment> {
    /// Title of the file.
    pub title: String,
    /// Results in the order of the file.
    pub done: Vec<Done<E>>,
}

/// Presentation of an experiment type in results.
pub trait Shown: Run + 'static {
    /// Short description of the experiments.
    const ABOUT: &'static str;
    /// Columns of an experiment's parameters. The table leaves out columns with equal values, the
    /// CSV does not.
    const OF_EXPERIMENT: &'static [Column<Self>];
    /// Columns of an outcome.
    const OF_OUTCOME: &'static [Column<Self>];

    /// Seed of the experiment.
    fn seed(&self) -> u64;

    /// Charts of the results.
    fn charts(results: &Results<Self>) -> Vec<Chart>;
}

/// Column of the table: its name, and the function that returns a row's value.
pub(crate) type Column<E> = (&'static str, fn(&Done<E>) -> String);

/// Formats nanoseconds as milliseconds.
pub(crate) fn millis(nanos: u64) -> String {
    format!("{:.3}", nanos as f64 / 1e6)
}

impl<E: Shown> Results<E> {
    /// Writes `results.csv`, `results.json`, the charts and `report.html`.
    ///
    /// # Errors
    /// When the directory cannot be written.
    pub fn write(&self, folder: &Path) -> Result<(), String> {
        let cannot = |error: std::io::Error| format!("{}: {error}", folder.display());
        fs::create_dir_all(folder).map_err(cannot)?;
        let json = serde_json::to_string_pretty(self).map_err(|error| error.to_string())?;
        fs::write(folder.join("results.json"), json + "\n").map_err(cannot)?;
        fs::write(folder.join("results.csv"), self.csv()).map_err(cannot)?;
        let mut figures = Vec::new();
        for chart in E::charts(self) {
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
            "<p>{}, in virtual time. {}.</p>\n{}<h2>Figures</h2>\n{}",
            E::ABOUT,
            alike.collect::<Vec<_>>().join(", "),
            page::table(&self.rows()),
            page::figures(figures),
        );
        let (commit, seeds) = (page::escaped(self.commit()), self.seeds());
        let made = format!("<code>zonal-lab run</code>, commit {commit}, seed {seeds}");
        page::page(&self.title, &body, &made)
    }

    fn csv(&self) -> String {
        let mut csv = String::new();
        let names = E::OF_EXPERIMENT.iter().chain(E::OF_OUTCOME).map(|(name, _)| *name);
        csv += &names.collect::<Vec<_>>().join(",");
        for done in &self.done {
            let fields =
                E::OF_EXPERIMENT.iter().chain(E::OF_OUTCOME).map(|(_, of)| quoted(&of(done)));
            csv += "\n";
            csv += &fields.collect::<Vec<_>>().join(",");
        }
        csv + "\n"
    }

    /// Columns in which rows differ, and all columns of the outcome.
    fn columns(&self) -> Vec<Column<E>> {
        let differs = |(_, of): &&Column<E>| {
            let first = self.done.first().map(of);
            self.done.iter().any(|done| Some(of(done)) != first)
        };
        let of_experiment = E::OF_EXPERIMENT.iter().filter(differs);
        of_experiment.chain(E::OF_OUTCOME).copied().collect()
    }

    /// Rows of the table. The first row holds the column names.
    fn rows(&self) -> Vec<Vec<String>> {
        let columns = self.columns();
        let names = columns.iter().map(|(name, _)| (*name).to_owned()).collect();
        let of = |done: &Done<E>| columns.iter().map(|(_, of)| of(done)).collect();
        std::iter::once(names).chain(self.done.iter().map(of)).collect()
    }

    /// Parameters that are equal in all experiments, with their values.
    fn alike(&self) -> Vec<(&'static str, String)> {
        let Some(first) = self.done.first() else { return Vec::new() };
        let columns = self.columns();
        let is_alike =
            |(name, _): &&Column<E>| columns.iter().all(|(differing, _)| differing != name);
        E::OF_EXPERIMENT.iter().filter(is_alike).map(|(name, of)| (*name, of(first))).collect()
    }

    /// Values that tell an experiment from the others.
    fn name(&self, done: &Done<E>) -> String {
        let first = E::OF_OUTCOME[0].0;
        let of_experiment = self.columns().into_iter().take_while(|(name, _)| *name != first);
        let values: Vec<String> = of_experiment.map(|(_, of)| of(done)).collect();
        if values.is_empty() { "all".into() } else { values.join(" ") }
    }

    /// Chart of a latency's percentiles per experiment, in milliseconds.
    pub(crate) fn latencies(
        &self,
        title: &'static str,
        of: impl Fn(&E::Outcome) -> Latency,
    ) -> Chart {
        let millis = |outcome: &E::Outcome| {
            let Latency { p50_ns, mean_ns, p99_ns, p999_ns, .. } = of(outcome);
            [p50_ns, mean_ns, p99_ns, p999_ns].map(|nanos| nanos as f64 / 1e6).to_vec()
        };
        Chart {
            file: "latency",
            title,
            x: "",
            y: "ms",
            along: Along::Places(["p50", "mean", "p99", "p99.9"].map(String::from).to_vec()),
            lines: self.lines(millis),
        }
    }

    /// A line for each experiment, with its values at 0, 1, 2, …
    pub(crate) fn lines(&self, of: impl Fn(&E::Outcome) -> Vec<f64>) -> Vec<ChartLine> {
        let line = |done: &Done<E>| {
            let here = (0..).map(f64::from).zip(of(&done.outcome)).collect();
            ChartLine { name: self.name(done), drive: Vec::new(), here }
        };
        self.done.iter().map(line).collect()
    }

    /// Seeds of the experiments, without duplicates.
    fn seeds(&self) -> String {
        let mut seeds: Vec<u64> = self.done.iter().map(|done| done.experiment.seed()).collect();
        seeds.sort_unstable();
        seeds.dedup();
        seeds.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }

    fn commit(&self) -> &str {
        self.done.first().map_or("", |done| &done.commit)
    }
}

impl<E: Shown> fmt::Display for Results<E> {
    /// Writes the table, then the parameters that all rows share.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n", self.title)?;
        f.write_str(&page::aligned(&self.rows()))?;
        let alike = self.alike();
        let alike = alike.iter().map(|(name, value)| format!("{name} {value}"));
        writeln!(f, "\n{}", alike.collect::<Vec<_>>().join(", "))?;
        writeln!(f, "commit {}", self.commit())
    }
}

/// A field of a CSV file, quoted if needed.
fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}
