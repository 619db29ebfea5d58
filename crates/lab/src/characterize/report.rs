//! What was measured: points, each with the figure of the reference drive where there is one.

use std::fmt;

use serde::{Serialize, Serializer};

/// A device, measured. Its JSON is a contract: `{"device", "seed", "points": [{"id", "observation",
/// "unit", "reference", "value"}]}`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// What the device was called.
    pub device: String,
    /// What the reader must know about it before any figure.
    #[serde(skip)]
    pub note: Option<&'static str>,
    /// The fingerprint of the model that it is, if it is one.
    #[serde(skip)]
    pub constants: Option<u64>,
    /// Where its and our chance came from.
    pub seed: u64,
    /// How long the runs were, as a multiple of the default.
    #[serde(skip)]
    pub effort: f64,
    /// In the order in which they were measured.
    pub points: Vec<Point>,
    /// Runs that this device has too few zones for, by name.
    #[serde(skip)]
    pub skipped: Vec<String>,
    /// MiB/s of each second under garbage collection, for the plot.
    #[serde(skip)]
    pub series: Vec<Series>,
}

/// One figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// What was measured, such as `write.4KiB.qd1.latency_us.mean`. Unique in a report.
    pub id: String,
    /// Which of the paper's observations it belongs to.
    pub observation: u8,
    /// Of both figures.
    pub unit: &'static str,
    /// What kind of figure it is.
    #[serde(skip)]
    pub statistic: Statistic,
    /// Whether the drive model may have been fitted to it.
    #[serde(skip)]
    pub set: Set,
    /// Measured on the drive.
    #[serde(serialize_with = "rounded_option")]
    pub reference: Option<f64>,
    /// The row of the table that the reference is from.
    #[serde(skip)]
    pub source: String,
    /// Measured here.
    #[serde(serialize_with = "rounded")]
    pub value: f64,
}

/// What kind of figure a point is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statistic {
    /// A mean or a rate: held to the tolerance of means.
    Mean,
    /// A median: shown, not scored.
    Median,
    /// A 99th percentile.
    P99,
    /// A standard deviation of a series: shown, not scored.
    Spread,
}

/// What a point may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    /// A model may be fitted to it.
    Fit,
    /// Never fitted to.
    Test,
    /// Says nothing about a model; shown only.
    Unscored,
}

/// MiB/s, second by second.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// What it is of.
    pub name: String,
    /// Of the writers.
    pub write_mib_s: Vec<f64>,
    /// Of the readers.
    pub read_mib_s: Vec<f64>,
}

/// How many points of a kind are near enough.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Score {
    /// Within the tolerance.
    pub within: usize,
    /// With a reference.
    pub of: usize,
}

/// The summary of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scores {
    /// Means and rates of the fit set.
    pub fit_means: Score,
    /// 99th percentiles of the fit set.
    pub fit_p99: Score,
    /// Means and rates of the test set.
    pub test_means: Score,
}

/// Runs of the default length have 4,000 answers. A 99th percentile wants a thousand, ten of them above it.
const EFFORT_MIN: f64 = 0.25;

/// Goal for means of the fit set: half of what published device models reach, and above the drive's own
/// spread between runs.
const FIT_MEAN: f64 = 0.05;
/// Goal for 99th percentiles of the fit set.
const FIT_P99: f64 = 0.20;
/// Goal for means of the test set.
const TEST_MEAN: f64 = 0.10;

impl Point {
    /// (here - drive) / drive; `None` without a reference.
    #[must_use]
    pub fn deviation(&self) -> Option<f64> {
        self.reference.filter(|drive| *drive != 0.0).map(|drive| (self.value - drive) / drive)
    }

    /// How far it may be off; `None` where nothing is asked of it.
    #[must_use]
    pub const fn tolerance(&self) -> Option<f64> {
        match (self.set, self.statistic) {
            (Set::Fit, Statistic::Mean) => Some(FIT_MEAN),
            (Set::Fit, Statistic::P99) => Some(FIT_P99),
            (Set::Test, Statistic::Mean) => Some(TEST_MEAN),
            _ => None,
        }
    }

    /// Whether it is near enough; `None` where nothing is asked of it.
    #[must_use]
    pub fn is_within(&self) -> Option<bool> {
        Some(self.deviation()?.abs() <= self.tolerance()?)
    }
}

impl Report {
    /// Whether the runs were too short for percentiles, and for a write buffer to fill.
    #[must_use]
    pub fn is_too_short(&self) -> bool {
        self.effort < EFFORT_MIN
    }

    /// How many points are near enough.
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

/// Decimals in JSON: a thousandth of a microsecond is more than any drive repeats.
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
