//! Charts of paper 000's figures.
//!
//! The paper prints no numbers in them, except those of its tables. The charts draw those next to
//! the results here. The other figures are curves of the same runs.

use super::zncache::Outcomes;
use super::{Paper, Part, Published, ZnCache};
use crate::chart::{Along, Chart, ChartLine};
use crate::experiment::Outcome;

/// Value that a figure shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    /// Mean latency of gets, as in Table 5.
    MeanLatency,
    /// Mean throughput of gets, as in Table 8.
    MeanRate,
    /// Throughput of gets per minute.
    Rate,
    /// Mean latency of gets per minute.
    Latency,
    /// Hit ratio of gets per minute.
    Hits,
}

/// A figure, or one half of it.
#[derive(Clone, Copy, Debug)]
struct Figure {
    number: u32,
    file: &'static str,
    title: &'static str,
    /// Row names without the drive.
    rows: &'static [&'static str],
    parts: &'static [Part],
    shown: Shown,
}

const LARGE: [&str; 4] = ["512M-UNIF-10", "512M-UNIF-2", "512M-ZIPF-10", "512M-ZIPF-2"];
const SMALL: [&str; 4] = ["64K-UNIF-10", "64K-UNIF-2", "64K-ZIPF-10", "64K-ZIPF-2"];
const DRIVES: [&str; 2] = ["ZNS", "Block"];

/// A figure of the parameter evaluation.
const fn figure(
    (number, file): (u32, &'static str),
    title: &'static str,
    rows: &'static [&'static str],
    shown: Shown,
) -> Figure {
    Figure { number, file, title, rows, parts: &[Part::Parameters], shown }
}

/// A figure of the garbage collection evaluation.
const fn collection(
    (number, file): (u32, &'static str),
    title: &'static str,
    parts: &'static [Part],
    shown: Shown,
) -> Figure {
    Figure { number, file, title, rows: &["256M-UNIF-10"], parts, shown }
}

const fn hits(number: u32, file: &'static str, rows: &'static [&'static str; 1]) -> Figure {
    figure((number, file), rows[0], rows, Shown::Hits)
}

const FIGURES: [Figure; 15] = [
    figure((3, "figure-3-512M"), "Get latency, 512 MiB", &LARGE, Shown::MeanLatency),
    figure((3, "figure-3-64K"), "Get latency, 64 KiB", &SMALL, Shown::MeanLatency),
    figure((4, "figure-4-512M"), "Throughput, 512 MiB", &LARGE, Shown::MeanRate),
    figure((4, "figure-4-64K"), "Throughput, 64 KiB", &SMALL, Shown::MeanRate),
    collection((5, "figure-5"), "Throughput with GC", &[Part::Collection], Shown::Rate),
    collection((6, "figure-6"), "Get latency with GC", &[Part::Collection], Shown::Latency),
    collection(
        (7, "figure-7"),
        "Throughput with GC, the origin 3.2 s away and at once",
        &[Part::Collection, Part::CollectionAtOnce],
        Shown::Rate,
    ),
    hits(72, "figure-72", &["512M-UNIF-10"]),
    hits(73, "figure-73", &["512M-UNIF-2"]),
    hits(74, "figure-74", &["512M-ZIPF-10"]),
    hits(75, "figure-75", &["512M-ZIPF-2"]),
    hits(76, "figure-76", &["64K-UNIF-10"]),
    hits(77, "figure-77", &["64K-UNIF-2"]),
    hits(78, "figure-78", &["64K-ZIPF-10"]),
    hits(79, "figure-79", &["64K-ZIPF-2"]),
];

/// Numbers of the figures.
pub(super) fn numbers() -> Vec<u32> {
    let mut numbers: Vec<u32> = FIGURES.iter().map(|figure| figure.number).collect();
    numbers.dedup();
    numbers
}

/// Runs that these figures show. A run may appear twice.
pub(super) fn runs(numbers: &[u32]) -> impl Iterator<Item = ZnCache> {
    let wanted = FIGURES.iter().filter(|figure| numbers.contains(&figure.number));
    wanted.flat_map(|figure| figure.lines().flat_map(|line| line.runs))
}

/// Charts of these figures.
pub(super) fn charts(numbers: &[u32], outcomes: &Outcomes<'_>) -> Vec<Chart> {
    let wanted = FIGURES.iter().filter(|figure| numbers.contains(&figure.number));
    wanted.map(|figure| figure.chart(outcomes)).collect()
}

impl Shown {
    /// Table with the published values.
    const fn table(self) -> Option<&'static str> {
        match self {
            Self::MeanLatency => Some("5"),
            Self::MeanRate => Some("8"),
            Self::Rate | Self::Latency | Self::Hits => None,
        }
    }
}

/// Runs of one drive, in row order.
struct OfDrive {
    name: String,
    runs: Vec<ZnCache>,
}

impl Figure {
    /// One line per drive and part.
    fn lines(&self) -> impl Iterator<Item = OfDrive> {
        let parts = self.parts.iter();
        let drives = parts.flat_map(|part| DRIVES.into_iter().map(move |drive| (drive, *part)));
        drives.map(|(drive, part)| {
            let run = |row: &&str| ZnCache { row: published(drive, row), part };
            let name = match part {
                Part::CollectionAtOnce => format!("{drive}, at once"),
                Part::Parameters | Part::Collection => drive.to_owned(),
            };
            OfDrive { name, runs: self.rows.iter().map(run).collect() }
        })
    }

    fn chart(&self, outcomes: &Outcomes<'_>) -> Chart {
        let (x, y) = match self.shown {
            Shown::MeanLatency => ("dashed: published", "ms"),
            Shown::MeanRate => ("dashed: published", "GiB/s"),
            Shown::Rate => ("minutes", "GiB/s"),
            Shown::Latency => ("minutes", "ms"),
            Shown::Hits => ("minutes", "hits of all gets"),
        };
        let along = match self.shown.table() {
            Some(_) => Along::Places(self.rows.iter().map(ToString::to_string).collect()),
            None => Along::Numbers,
        };
        let lines = self.lines().map(|line| self.line(&line, outcomes)).collect();
        Chart { file: self.file, title: self.title, x, y, along, lines }
    }

    fn line(&self, line: &OfDrive, outcomes: &Outcomes<'_>) -> ChartLine {
        let at = |values: Vec<f64>| (0..).map(f64::from).zip(values).collect();
        let of_all = |of: fn(&Outcome) -> f64| {
            line.runs.iter().filter_map(|run| outcomes.get(run)).map(of).collect::<Vec<_>>()
        };
        let by_minutes = |of: fn(&Outcome) -> Vec<f64>| {
            line.runs.first().and_then(|run| outcomes.get(run)).map(of).unwrap_or_default()
        };
        let here = match self.shown {
            Shown::MeanLatency => of_all(|outcome| outcome.get.mean_ns as f64 / 1e6),
            Shown::MeanRate => of_all(Outcome::get_gib_per_s),
            Shown::Rate => by_minutes(|outcome| outcome.by_minutes(|moved| moved.got)),
            Shown::Latency => by_minutes(Outcome::latency_by_minutes),
            Shown::Hits => by_minutes(Outcome::hits_by_minutes),
        };
        let drive = self.shown.table().map_or_else(Vec::new, |table| {
            line.runs.iter().map(|run| mean(table, run.row)).collect()
        });
        ChartLine { name: line.name.clone(), drive: at(drive), here: at(here) }
    }
}

/// Row name as in the tables.
fn published(drive: &str, row: &str) -> &'static str {
    let name = format!("{drive}-{row}");
    let mut rows = Published::of(Paper::ZnCache).into_iter().map(|figure| figure.row);
    rows.find(|other| *other == name).expect("a row of the paper's tables")
}

/// Published mean of a row in a table.
fn mean(table: &str, row: &str) -> f64 {
    let figures = Published::of(Paper::ZnCache);
    let is_it = |one: &&Published| one.table == table && one.row == row && one.column == "mean";
    figures.iter().find(is_it).map(|one| one.value).expect("a row of this table")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_of_runs_that_tables_have_as_well() {
        let of_tables = ZnCache::runs(&(5..=16).collect::<Vec<_>>());
        for number in numbers() {
            let runs: Vec<ZnCache> = runs(&[number]).collect();
            assert!(2 <= runs.len() && runs.iter().all(|run| of_tables.contains(run)), "{number}");
        }
        assert_eq!(numbers(), [3, 4, 5, 6, 7, 72, 73, 74, 75, 76, 77, 78, 79]);
    }

    #[test]
    fn a_chart_has_a_line_for_each_drive_and_what_was_published() {
        let nothing = Outcomes(Vec::new());
        let charts = charts(&[3, 7], &nothing);
        let files: Vec<_> = charts.iter().map(|chart| chart.file).collect();
        assert_eq!(files, ["figure-3-512M", "figure-3-64K", "figure-7"]);
        let small = &charts[1].lines[1];
        assert_eq!((small.name.as_str(), small.drive[2]), ("Block", (2.0, 45.13)));
        let names: Vec<_> = charts[2].lines.iter().map(|line| line.name.as_str()).collect();
        assert_eq!(names, ["ZNS", "Block", "ZNS, at once", "Block, at once"]);
    }
}
