//! Replay of paper 000 (ZNCache): maps its runs to experiments, and compares its tables.
//!
//! The paper is "ZNCache - ZNS Workload Analysis" (Ramsden and Cheng, 2025). A run is named as in
//! the paper's tables, `ZNS-512M-UNIF-10`: drive, chunk, distribution, and the ratio of all keys to
//! the cache. Tables 5 to 10 are the parameter evaluation on 200 zones (40 for chunks of 64 KiB) of
//! overwritten drives. Tables 11 to 16 evaluate garbage collection on whole trimmed drives, with
//! and without the origin's latency.

use zonal_base::{Bytes, Nanos};

use super::report::Cell;
use super::{Choice, Ours, Paper, PaperReport, Published, claims, plots};
use crate::Distribution;
use crate::experiment::{Done, Drive, Engine, Experiment, Outcome, Precondition};
use crate::simulated::Habits;

/// A run of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ZnCache {
    /// Name of the row.
    pub row: &'static str,
    /// Part of the evaluation.
    pub part: Part,
}

/// Part of the paper's evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Parameters: Tables 5 to 10.
    Parameters,
    /// Garbage collection with the origin's latency: Tables 11, 13 and 15.
    Collection,
    /// Garbage collection without the origin's latency: Tables 12, 14 and 16.
    CollectionAtOnce,
}

/// Quantity that a table shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Figure {
    GetLatency,
    WriteLatency,
    ReadLatency,
    GetRate,
    ReadRate,
    WriteRate,
}

/// Zones of the larger drive. The block drive has room for 850.
const WHOLE_DRIVE: u32 = 904;

/// All hyperthreads of the paper's machine.
const THREADS: usize = 64;

/// Skew of the paper's key generator.
const THETA: f64 = 0.99;

impl Part {
    /// Part that a table belongs to. `None`: the table has none of these runs.
    #[must_use]
    pub const fn of_table(table: u32) -> Option<Self> {
        match table {
            5..=10 => Some(Self::Parameters),
            11 | 13 | 15 => Some(Self::Collection),
            12 | 14 | 16 => Some(Self::CollectionAtOnce),
            _ => None,
        }
    }
}

impl ZnCache {
    /// Runs of these tables without duplicates, in the order of the tables.
    #[must_use]
    pub fn runs(tables: &[u32]) -> Vec<Self> {
        let mut runs = Vec::new();
        for figure in Published::of(Paper::ZnCache) {
            let run = Self::of(&figure);
            if tables.contains(&number(&figure)) && !runs.contains(&run) {
                runs.push(run);
            }
        }
        runs
    }

    /// Runs of the chosen tables and figures, without duplicates.
    fn chosen(choice: &Choice) -> Vec<Self> {
        let mut runs = Self::runs(&choice.of_tables(Paper::ZnCache));
        for run in plots::runs(&choice.figures) {
            if !runs.contains(&run) {
                runs.push(run);
            }
        }
        runs
    }

    /// Run that a published figure belongs to.
    #[must_use]
    pub fn of(figure: &Published) -> Self {
        let part = Part::of_table(number(figure)).expect("a table of this paper");
        Self { row: figure.row, part }
    }

    /// The run as an experiment, with the ZN540 as the ZNS drive and the SN540 as the block drive.
    ///
    /// # Panics
    /// When the row is not one of the paper's.
    #[must_use]
    pub fn experiment(&self) -> Experiment {
        let fields: Vec<&str> = self.row.split('-').collect();
        let [drive, chunk, workload, ratio] = fields[..] else { panic!("a row of four parts") };
        let (chunk, parameter_zones, fetch) = match chunk {
            "512M" => (Bytes::mib(512), 200, Nanos::micros(5_413_781)),
            "256M" => (Bytes::mib(256), 200, Nanos::micros(3_209_583)),
            "64K" => (Bytes::kib(64), 40, Nanos::micros(40_632)),
            other => panic!("the paper has no chunks of {other}"),
        };
        let is_parameters = self.part == Part::Parameters;
        let zones = if is_parameters { parameter_zones } else { WHOLE_DRIVE };
        // Both drives get the same list of keys, made for the larger one.
        let ratio: u64 = ratio.parse().expect("a number in the paper's tables");
        let keys = Bytes::mib(1077).0 / chunk.0 * u64::from(zones) * ratio;
        let bytes = match (is_parameters, zones) {
            (true, 40) => Bytes::mib(600 << 10),
            (true, _) => Bytes::mib(3 << 20),
            (false, _) => Bytes::mib(6 << 20),
        };
        let drive: Drive = if drive == "ZNS" { "zn540" } else { "sn540" }.parse().expect("ours");
        let precondition = if is_parameters {
            Precondition::Random(Bytes::kib(64))
        } else {
            Precondition::Nothing
        };
        Experiment {
            cache: Engine::Zncache,
            drive,
            precondition,
            zones: zones.min(drive.zones()),
            chunk,
            policy: "zone-lru".into(),
            dram: Bytes(0),
            workload: match workload {
                "UNIF" => Distribution::Uniform,
                _ => Distribution::YcsbZipf { theta: THETA },
            }
            .into(),
            keys,
            gets: bytes.0 / chunk.0,
            tasks: THREADS,
            origin_latency: if self.part == Part::CollectionAtOnce { Nanos(0) } else { fetch },
            origin_sd: Nanos(0),
            hold_zone_during_fetch: true,
            habits: Habits::default(),
            limit: Nanos::MAX,
            seed: 1,
        }
    }
}

/// Experiments of a choice. `ours` adds the same workloads under Zonal.
pub(super) fn experiments(choice: &Choice, ours: bool) -> Vec<Experiment> {
    let runs: Vec<Experiment> = ZnCache::chosen(choice).iter().map(ZnCache::experiment).collect();
    let mut experiments = runs.clone();
    if choice.of_tables(Paper::ZnCache).iter().any(|table| *table <= 10) {
        experiments.extend(claims::without_hold());
    }
    if ours {
        experiments.extend(runs.iter().flat_map(Ours::experiments));
    }
    experiments
}

/// Report of these runs.
pub(super) fn report(choice: &Choice, done: &[Done]) -> PaperReport {
    let find = |experiment: &Experiment| {
        let found = done.iter().find(|done| done.experiment == *experiment);
        found.map(|done| &done.outcome)
    };
    let (tables, runs) = (choice.of_tables(Paper::ZnCache), ZnCache::chosen(choice));
    let outcomes = runs.iter().filter_map(|run| Some((*run, find(&run.experiment())?)));
    let outcomes = Outcomes(outcomes.collect());
    let figures = Published::of(Paper::ZnCache);
    let figures = figures.iter().filter(|figure| tables.contains(&number(figure)));
    let cell = |figure: &Published| {
        Some(Cell::new(figure, value(figure, outcomes.get(&ZnCache::of(figure))?)))
    };
    let cells = figures.filter_map(cell).collect();
    let claims = claims::of_paper_000(&outcomes, &find);
    let ours = runs.iter().flat_map(|run| {
        let experiment = run.experiment();
        Ours::of(run.row, (&experiment, &experiment), &find)
    });
    let ours = ours.collect();
    let numbers = if choice.is_all() { plots::numbers() } else { choice.figures.clone() };
    let charts = plots::charts(&numbers, &outcomes);
    let notes = vec![FITTED.into()];
    PaperReport { ours, charts, notes, ..PaperReport::new(Paper::ZnCache, cells, claims, done) }
}

const FITTED: &str = "fitted: what fresh memory for a chunk costs a thread, to ZNS-512M-UNIF-10 of Tables 6 to 8, and what it costs that a thread sleeps and is woken, to the mean of ZNS-64K-UNIF-10 in Table 6; those cells are no predictions, all others are";

/// Outcomes by run.
pub(super) struct Outcomes<'a>(pub(super) Vec<(ZnCache, &'a Outcome)>);

impl Outcomes<'_> {
    pub(super) fn get(&self, run: &ZnCache) -> Option<&Outcome> {
        self.0.iter().find(|(other, _)| other == run).map(|(_, outcome)| *outcome)
    }
}

/// Number of the table. The paper prints numbers only in tables.
fn number(figure: &Published) -> u32 {
    figure.table.parse().expect("the number of a table")
}

/// Title of a table of paper 000.
pub(super) fn title(table: &str) -> &'static str {
    match table {
        "5" => "latency of gets",
        "6" => "latency of writing a chunk",
        "7" => "latency of reading a chunk",
        "8" => "throughput of gets",
        "9" => "throughput of reads",
        "10" => "throughput of writes",
        "11" => "latency of gets, whole drive, trimmed",
        "12" => "latency of gets, whole drive, trimmed, an origin without latency",
        "13" => "latency of writing a chunk, whole drive, trimmed",
        "14" => "latency of writing a chunk, whole drive, trimmed, an origin without latency",
        "15" => "latency of reading a chunk, whole drive, trimmed",
        _ => "latency of reading a chunk, whole drive, trimmed, an origin without latency",
    }
}

/// Value here of a published figure.
fn value(figure: &Published, outcome: &Outcome) -> f64 {
    let of = match number(figure) {
        5 | 11 | 12 => Figure::GetLatency,
        6 | 13 | 14 => Figure::WriteLatency,
        7 | 15 | 16 => Figure::ReadLatency,
        8 => Figure::GetRate,
        9 => Figure::ReadRate,
        _ => Figure::WriteRate,
    };
    let latency = match of {
        Figure::GetLatency => &outcome.get,
        Figure::WriteLatency => &outcome.write,
        Figure::ReadLatency => &outcome.read,
        Figure::GetRate | Figure::ReadRate | Figure::WriteRate => {
            return rate(of, figure.column, outcome);
        }
    };
    let nanos = if figure.column == "mean" { latency.mean_ns } else { latency.p99_ns };
    nanos as f64 / 1e6
}

/// The mean of Table 8 is all bytes divided by the whole time. Those of the other two tables are
/// means of minutes.
fn rate(of: Figure, column: &str, outcome: &Outcome) -> f64 {
    let minutes = match of {
        Figure::ReadRate => outcome.by_minutes(|moved| moved.read),
        Figure::WriteRate => outcome.by_minutes(|moved| moved.written),
        _ => outcome.by_minutes(|moved| moved.got),
    };
    match (column, of) {
        ("mean", Figure::GetRate) => outcome.get_gib_per_s(),
        ("mean", _) => minutes.iter().sum::<f64>() / minutes.len().max(1) as f64,
        _ => first_percentile(minutes),
    }
}

/// First percentile, interpolated between its two neighbours.
fn first_percentile(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let Some(last) = values.len().checked_sub(1) else { return 0.0 };
    let at = 0.01 * last as f64;
    let low = zonal_base::index(whole(at));
    let high = (low + 1).min(last);
    values[low] + (values[high] - values[low]) * (at - low as f64)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an index, rounded down"
)]
const fn whole(at: f64) -> u64 {
    at as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_the_experiments_that_the_paper_describes() {
        let runs = ZnCache::runs(&(5..=16).collect::<Vec<_>>());
        assert_eq!(runs.len(), 16 + 4 + 4);
        for run in &runs {
            run.experiment().check().expect("it can be run");
        }
        let large = ZnCache { row: "ZNS-512M-UNIF-10", part: Part::Parameters }.experiment();
        assert_eq!((large.gets, large.keys, large.zones), (6144, 4000, 200));
        let small = ZnCache { row: "Block-64K-ZIPF-2", part: Part::Parameters }.experiment();
        assert_eq!((small.gets, small.keys, small.zones), (9_830_400, 17_232 * 80, 40));
        let whole =
            ZnCache { row: "Block-256M-UNIF-10", part: Part::CollectionAtOnce }.experiment();
        assert_eq!((whole.gets, whole.keys, whole.zones), (24_576, 36_160, 850));
        assert_eq!(whole.origin_latency, Nanos(0));
    }

    #[test]
    fn the_first_percentile_lies_between_the_two_lowest() {
        assert_eq!(first_percentile(Vec::new()), 0.0);
        assert_eq!(first_percentile(vec![3.0]), 3.0);
        assert_eq!(first_percentile((0..=50).rev().map(f64::from).collect()), 0.5);
    }
}
