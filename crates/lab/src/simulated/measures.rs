//! Measurements: latency histograms, and bytes and gets per interval of time.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use zonal_base::{Nanos, index};

/// Significant decimal digits of a latency.
const DIGITS: u8 = 3;

/// Longest latency of the histogram: 28 hours. Longer ones count as that, but the mean is exact.
const LATENCY_MAX: Nanos = Nanos::secs(100_000);

/// Operation that is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timed {
    /// A get, from the request to its last byte.
    Get,
    /// A get that sent no request to the origin.
    Hit,
    /// A get that sent a request to the origin.
    Miss,
    /// Read of a chunk from the drive.
    Read,
    /// Write of a chunk to the drive.
    Write,
    /// Finish of a zone that the caller waits for.
    Finish,
}

impl Timed {
    const COUNT: usize = 6;
}

/// Latencies and bytes, while a run collects them.
#[derive(Debug)]
pub(crate) struct Measures {
    begun: Nanos,
    stretch: Nanos,
    spans: Vec<Span>,
    moved: Vec<Moved>,
}

#[derive(Debug)]
struct Span {
    histogram: Histogram<u64>,
    sum_ns: u128,
}

/// Latency of an operation, in virtual time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// Number of operations.
    pub count: u64,
    /// Mean in nanoseconds, exact.
    pub mean_ns: u64,
    /// 50th percentile in nanoseconds, within a thousandth.
    pub p50_ns: u64,
    /// 99th percentile in nanoseconds, within a thousandth.
    pub p99_ns: u64,
    /// 99.9th percentile in nanoseconds, within a thousandth.
    pub p999_ns: u64,
    /// Longest latency in nanoseconds, within a thousandth.
    pub max_ns: u64,
    /// Geometric mean in nanoseconds.
    pub geomean_ns: u64,
    /// Standard deviation in nanoseconds.
    pub sd_ns: u64,
}

/// Throughput of an interval of time.
///
/// A get counts in the interval of its answer. A byte counts when its whole chunk was moved, or in
/// Zonal at the next answered get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Moved {
    /// Bytes of answered gets.
    pub got: u64,
    /// Bytes read from the drive.
    pub read: u64,
    /// Bytes written to the drive.
    pub written: u64,
    /// Gets that were answered.
    pub gets: u64,
    /// Gets that sent no request to the origin.
    pub hits: u64,
    /// Sum of the latencies of the gets, in nanoseconds.
    pub get_ns: u64,
}

impl Latency {
    /// Sum of all latencies, in nanoseconds.
    pub(crate) fn sum_ns(&self) -> f64 {
        self.mean_ns as f64 * self.count as f64
    }
}

impl Measures {
    pub(crate) fn new(begun: Nanos, stretch: Nanos) -> Self {
        let span = || Span {
            histogram: Histogram::new_with_bounds(1, LATENCY_MAX.0, DIGITS)
                .expect("1 ns to 28 hours in three digits is a valid histogram"),
            sum_ns: 0,
        };
        let spans = (0..Timed::COUNT).map(|_| span()).collect();
        Self { begun, stretch, spans, moved: Vec::new() }
    }

    pub(crate) fn time(&mut self, what: Timed, took: Nanos) {
        let span = &mut self.spans[what as usize];
        span.histogram.saturating_record(took.0);
        span.sum_ns += u128::from(took.0);
    }

    /// Records an answered get of so many bytes.
    pub(crate) fn note_get(&mut self, bytes: u64, is_hit: bool, (begun, now): (Nanos, Nanos)) {
        let took = now.since(begun);
        self.time(Timed::Get, took);
        self.time(if is_hit { Timed::Hit } else { Timed::Miss }, took);
        let stretch = self.stretch_at(now);
        stretch.got += bytes;
        stretch.gets += 1;
        stretch.hits += u64::from(is_hit);
        stretch.get_ns += took.0;
    }

    /// Interval that contains `now`.
    pub(crate) fn stretch_at(&mut self, now: Nanos) -> &mut Moved {
        let at = index(now.since(self.begun).0 / self.stretch.0);
        if self.moved.len() <= at {
            self.moved.resize(at + 1, Moved::default());
        }
        &mut self.moved[at]
    }

    pub(crate) fn latency(&self, what: Timed) -> Latency {
        let Span { histogram, sum_ns } = &self.spans[what as usize];
        let count = histogram.len();
        let mean = sum_ns.checked_div(u128::from(count)).unwrap_or(0);
        Latency {
            count,
            mean_ns: u64::try_from(mean).unwrap_or(u64::MAX),
            p50_ns: histogram.value_at_quantile(0.5),
            p99_ns: histogram.value_at_quantile(0.99),
            p999_ns: histogram.value_at_quantile(0.999),
            max_ns: histogram.max(),
            geomean_ns: geomean(histogram),
            sd_ns: whole(histogram.stdev()),
        }
    }

    /// Every full interval. The last one was cut short, so it is left out unless it is the only
    /// one.
    pub(crate) fn moved(mut self) -> Vec<Moved> {
        if 1 < self.moved.len() {
            self.moved.pop();
        }
        self.moved
    }
}

fn geomean(histogram: &Histogram<u64>) -> u64 {
    if histogram.is_empty() {
        return 0;
    }
    let of_value = |value: u64, count: u64| {
        (histogram.median_equivalent(value).max(1) as f64).ln() * count as f64
    };
    let values = histogram.iter_recorded();
    let sum: f64 =
        values.map(|value| of_value(value.value_iterated_to(), value.count_at_value())).sum();
    whole((sum / histogram.len() as f64).exp())
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "nanoseconds, not negative"
)]
fn whole(nanos: f64) -> u64 {
    nanos.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_exact_percentiles_near_and_stretches_whole() {
        let mut measures = Measures::new(Nanos::secs(5), Nanos::secs(60));
        for took in 1..=1000 {
            measures.time(Timed::Get, Nanos::millis(took));
        }
        let latency = measures.latency(Timed::Get);
        assert_eq!((latency.count, latency.mean_ns), (1000, 500_500_000));
        assert!(latency.p99_ns.abs_diff(990_000_000) < 1_000_000, "{latency:?}");
        let near = |value: u64, millis: f64| (value as f64 / 1e6 / millis - 1.0).abs() < 0.002;
        // The expected values are the thousandth root of 1000!, and the root of (1000^2 - 1) / 12.
        assert!(near(latency.geomean_ns, 369.49) && near(latency.sd_ns, 288.67), "{latency:?}");
        assert!(near(latency.max_ns, 1000.0), "{latency:?}");
        assert_eq!(measures.latency(Timed::Read), Latency::default());
        for (at, bytes) in [(5, 1), (64, 2), (65, 4), (125, 8)] {
            measures.stretch_at(Nanos::secs(at)).got += bytes;
        }
        assert_eq!(measures.moved().iter().map(|moved| moved.got).collect::<Vec<_>>(), [3, 4]);
    }

    #[test]
    fn a_get_counts_in_the_stretch_in_which_it_was_answered() {
        let mut measures = Measures::new(Nanos::secs(0), Nanos::secs(60));
        for (is_hit, begun, now) in
            [(true, 1, 2), (false, 50, 70), (true, 60, 61), (true, 119, 121)]
        {
            measures.note_get(7, is_hit, (Nanos::secs(begun), Nanos::secs(now)));
        }
        let counts = [Timed::Get, Timed::Hit, Timed::Miss].map(|what| measures.latency(what).count);
        assert_eq!(counts, [4, 3, 1]);
        let of = |moved: &Moved| (moved.got, moved.gets, moved.hits, moved.get_ns / 1_000_000_000);
        assert_eq!(
            measures.moved().iter().map(of).collect::<Vec<_>>(),
            [(7, 1, 1, 1), (14, 2, 1, 21)]
        );
    }
}
