//! Report of a characterization: points, each with the figure of the reference drive, if any.

use std::fmt;

use serde::{Serialize, Serializer};

/// Results of one device. Their JSON is a stable interface: `{"device", "seed", "points": [{"id",
/// "observation", "unit", "reference", "value"}]}`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Characterization {
    /// Label of the device.
    pub device: String,
    /// Note for the reader, above the figures.
    #[serde(skip)]
    pub note: Option<&'static str>,
    /// Fingerprint of the drive model, if it is one.
    #[serde(skip)]
    pub constants: Option<u64>,
    /// Seed of the random choices, of the model and the load.
    pub seed: u64,
    /// Length of the runs, as a multiple of the default.
    #[serde(skip)]
    pub effort: f64,
    /// Points, in the order of measurement.
    pub points: Vec<Point>,
    /// Runs that need more zones than the device has, by name.
    #[serde(skip)]
    pub skipped: Vec<String>,
    /// Throughput series under garbage collection, for the plot.
    #[serde(skip)]
    pub series: Vec<Series>,
}

/// Measured figure, with the figure of the reference drive if there is one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Name of the measurement, such as `write.4KiB.qd1.latency_us.mean`. Unique in a report.
    pub id: String,
    /// Observation of the paper that the point belongs to, from 1.
    pub observation: u8,
    /// Unit of `reference` and `value`.
    pub unit: &'static str,
    /// Kind of the figure.
    #[serde(skip)]
    pub statistic: Statistic,
    /// Whether drive models may be fitted to the point.
    #[serde(skip)]
    pub set: Set,
    /// Value of the reference drive.
    #[serde(serialize_with = "rounded_option")]
    pub reference: Option<f64>,
    /// Table and row that the reference is from.
    #[serde(skip)]
    pub source: String,
    /// Value of this device.
    #[serde(serialize_with = "rounded")]
    pub value: f64,
}

/// Kind of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statistic {
    /// Mean or rate: held to the tolerance of means.
    Mean,
    /// Median: shown, not scored.
    Median,
    /// A 99th percentile.
    P99,
    /// Standard deviation of a series: shown, not scored.
    Spread,
}

/// Use of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    /// Models may be fitted to the point.
    Fit,
    /// Held out: models are never fitted to it.
    Test,
    /// Shown only; says nothing about a model.
    Unscored,
}

/// Throughput per second, in MiB/s.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Name of the series.
    pub name: String,
    /// Throughput of the writers.
    pub write_mib_s: Vec<f64>,
    /// Throughput of the readers.
    pub read_mib_s: Vec<f64>,
}

/// Number of points within the tolerance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Score {
    /// Points within the tolerance.
    pub within: usize,
    /// Points with a reference.
    pub of: usize,
}

/// Summary of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scores {
    /// Means and rates of the fit set.
    pub fit_means: Score,
    /// 99th percentiles of the fit set.
    pub fit_p99: Score,
    /// Means and rates of the test set.
    pub test_means: Score,
}

/// Runs of the default length have 4,000 completions. A 99th percentile needs a thousand, ten of
/// them above it.
const EFFORT_MIN: f64 = 0.25;

/// Tolerance for means of the fit set: half of what published device models reach, and above the
/// drive's own spread between runs.
const FIT_MEAN: f64 = 0.05;
/// Tolerance for 99th percentiles of the fit set.
const FIT_P99: f64 = 0.20;
/// Tolerance for means of the test set.
const TEST_MEAN: f64 = 0.10;

impl Point {
    /// (this device - reference) / reference; `None` without a reference.
    #[must_use]
    pub fn deviation(&self) -> Option<f64> {
        self.reference.filter(|drive| *drive != 0.0).map(|drive| (self.value - drive) / drive)
    }

    /// Tolerance; `None` if the point is not scored.
    #[must_use]
    pub const fn tolerance(&self) -> Option<f64> {
        match (self.set, self.statistic) {
            (Set::Fit, Statistic::Mean) => Some(FIT_MEAN),
            (Set::Fit, Statistic::P99) => Some(FIT_P99),
            (Set::Test, Statistic::Mean) => Some(TEST_MEAN),
            _ => None,
        }
    }

    /// True within the tolerance; `None` if the point is not scored.
    #[must_use]
    pub fn is_within(&self) -> Option<bool> {
        Some(self.deviation()?.abs() <= self.tolerance()?)
    }
}

impl Characterization {
    /// True if the runs were too short for percentiles, and for filling a write buffer.
    #[must_use]
    pub fn is_too_short(&self) -> bool {
        self.effort < EFFORT_MIN
    }

    /// Counts the points within the tolerance.
    #[must_use]
    pub fn scores(&self) -> Scores {
        let score = |set, statistic| {
            let points = self.points.iter();
            let asked = points.filter(|point| point.set == set && point.statistic == statistic);
            let verdicts: Vec<bool> = asked.filter_map(Point::is_within).collect();
            let within = verdicts.iter().filter(|is_within| **is_within).count();
            Score { within, of: verdicts.len() }
        };
        Scores {
            fit_means: score(Set::Fit, Statistic::Mean),
            fit_p99: score(Set::Fit, Statistic::P99),
            test_means: score(Set::Test, Statistic::Mean),
        }
    }
}

impl fmt::Display for Scores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: f64| share * 100.0;
        let Self { fit_means, fit_p99, test_means } = self;
        let Score { within, of } = fit_means;
        write!(f, "fit set: {within} of {of} means within {} %, ", percent(FIT_MEAN))?;
        let Score { within, of } = fit_p99;
        writeln!(f, "{within} of {of} p99 within {} %", percent(FIT_P99))?;
        let Score { within, of } = test_means;
        write!(f, "test set: {within} of {of} means within {} %", percent(TEST_MEAN))
    }
}

/// Rounding in JSON, in steps of 1e-4: a thousandth of a microsecond is more than any drive
/// repeats.
const DECIMALS: f64 = 1e4;

fn rounded<S: Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64((value * DECIMALS).round() / DECIMALS)
}

fn rounded_option<S: Serializer>(value: &Option<f64>, to: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => rounded(value, to),
        None => to.serialize_none(),
    }
}
