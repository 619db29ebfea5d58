//! Tally: counts and latencies of a stream of commands within the window.

use hdrhistogram::Histogram;
use zonal_base::{Blocks, Nanos, index};

/// Significant decimal digits of a latency: quantiles are right to one in a thousand.
const DIGITS: u8 = 3;
/// Longest series, in seconds; later ones are dropped. A run has at most 20 min.
const SECONDS_MAX: usize = 3600;
const SECOND: u64 = 1_000_000_000;
const BLOCKS_PER_MIB: f64 = 256.0;

/// Counts and latencies of one kind of command.
#[derive(Debug)]
pub(super) struct StreamTally {
    latencies: Histogram<u64>,
    latency_sum: Nanos,
    blocks: Blocks,
    first: Nanos,
    last: Nanos,
    /// Blocks per second since the window opened.
    per_second: Vec<u64>,
}

impl StreamTally {
    pub(super) fn new() -> Self {
        let latencies = Histogram::new(DIGITS).expect("three digits are allowed");
        let per_second = Vec::new();
        let (first, last) = (Nanos::MAX, Nanos(0));
        Self { latencies, latency_sum: Nanos(0), blocks: Blocks(0), first, last, per_second }
    }

    /// Counts a completion of this many blocks, `at` after the window opened.
    pub(super) fn add(&mut self, at: Nanos, latency: Nanos, blocks: Blocks) {
        self.latencies.record(latency.0.max(1)).expect("it grows as it needs");
        self.latency_sum += latency;
        self.blocks += blocks;
        self.first = self.first.min(at);
        self.last = self.last.max(at);
        let second = index(at.0 / SECOND).min(SECONDS_MAX - 1);
        if self.per_second.len() <= second {
            self.per_second.resize(second + 1, 0);
        }
        self.per_second[second] += blocks.0;
    }

    /// Adds the tally of another stream.
    pub(super) fn merge(&mut self, other: &Self) {
        self.latencies.add(&other.latencies).expect("both grow as they need");
        self.latency_sum += other.latency_sum;
        self.blocks += other.blocks;
        self.first = self.first.min(other.first);
        self.last = self.last.max(other.last);
        if self.per_second.len() < other.per_second.len() {
            self.per_second.resize(other.per_second.len(), 0);
        }
        for (sum, more) in self.per_second.iter_mut().zip(&other.per_second) {
            *sum += more;
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.latencies.len()
    }

    pub(super) fn mean_us(&self) -> Option<f64> {
        let count = self.count();
        (0 < count).then(|| self.latency_sum.0 as f64 / count as f64 / 1e3)
    }

    pub(super) fn quantile_us(&self, quantile: f64) -> Option<f64> {
        (0 < self.count()).then(|| self.latencies.value_at_quantile(quantile) as f64 / 1e3)
    }

    /// Commands per second, between the first and the last completion, so that the ends of the
    /// window cut no command. This matters for few commands.
    pub(super) fn per_second(&self) -> Option<f64> {
        let span = self.last.since(self.first);
        let intervals = self.count().checked_sub(1)?;
        (0 < span.0).then(|| intervals as f64 / (span.0 as f64 / 1e9))
    }

    pub(super) fn mib_per_second(&self) -> Option<f64> {
        let mib_each = self.blocks.0 as f64 / BLOCKS_PER_MIB / self.count() as f64;
        self.per_second().map(|rate| rate * mib_each)
    }

    /// MiB in each whole second of the first `seconds`.
    pub(super) fn series_mib(&self, seconds: usize) -> Vec<f64> {
        let blocks = |second| self.per_second.get(second).copied().unwrap_or(0);
        (0..seconds).map(|second| blocks(second) as f64 / BLOCKS_PER_MIB).collect()
    }
}
