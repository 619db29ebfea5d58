//! History: an hour of samples every five seconds, and a day of minutes.
//!
//! Memory: a point has 16 bytes a value, and 8 for each cell of the heat map that has counts. For a
//! cache with all 175 cells in use, the 2,160 points take 3.7 MB.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior};
use zonal_base::{LatencySnapshot, Nanos};
use zonal_host::RealClock;

use zonal_api::history::{self, History, Point};

/// What a history has.
pub struct HistoryKind {
    /// Names of the values that count.
    pub counters: &'static [&'static str],
    /// Names of those that are what they are at the end of an interval.
    pub gauges: &'static [&'static str],
    /// Names of the rows of the heat map.
    pub rows: fn() -> Vec<&'static str>,
    /// The row that `p50_ns` and `p99_ns` are of. `None`: of all.
    pub quantiles_of: Option<usize>,
}

/// Names of the values that come from the rows.
const QUANTILES: [&str; 2] = ["p50_ns", "p99_ns"];

impl HistoryKind {
    fn fields(&self) -> Vec<&'static str> {
        [self.counters, &QUANTILES, self.gauges].concat()
    }

    /// Memory of the points of all spans, if all cells of the heat map have counts.
    #[must_use]
    pub fn bytes_max(&self) -> usize {
        let cells = (self.rows)().len() * (bounds().len() + 1);
        let point = size_of::<Point>()
            + self.fields().len() * size_of::<Option<f64>>()
            + cells * size_of::<(u8, u8, u32)>();
        point * Span::ALL.iter().map(|span| span.points_max).sum::<usize>()
    }
}

/// Interval and number of points.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    interval: Duration,
    points_max: usize,
}

impl Span {
    /// An hour, and a day.
    pub const ALL: [Self; 2] = [
        Self { interval: Duration::from_secs(5), points_max: 720 },
        Self { interval: Duration::from_secs(60), points_max: 1440 },
    ];

    /// The times at which a sample is due.
    pub fn ticks(self) -> Interval {
        let mut ticks = tokio::time::interval(self.interval);
        // After a pause of the machine, points would otherwise follow each other at once.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks
    }
}

/// Times from 10 us to 10 s, in four steps a decade.
const DECADES: u32 = 6;
const STEPS: [u64; 4] = [10_000, 20_000, 30_000, 50_000];

/// Values at one moment, in the order of their names.
pub struct Sample {
    /// Values of the counters, since the start.
    pub counters: Vec<f64>,
    /// Values of the gauges, now.
    pub gauges: Vec<f64>,
    /// Times of the rows of the heat map, since the start.
    pub rows: Vec<LatencySnapshot>,
}

impl Sample {
    /// What happened since an earlier sample.
    fn since(&self, earlier: &Self, kind: &HistoryKind, at: Nanos) -> Point {
        // The counters of a device begin at 0 when it joins again. Savings may fall.
        let counted = self.counters.iter().zip(&earlier.counters).zip(kind.counters);
        let counted = counted.map(|((now, before), field)| {
            let may_fall = field.starts_with("saved");
            Some(if may_fall { now - before } else { (now - before).max(0.0) })
        });
        let both = self.rows.iter().zip(&earlier.rows);
        let rows: Vec<LatencySnapshot> = both.map(|(now, before)| now.since(before)).collect();
        let mut measured = LatencySnapshot::default();
        match kind.quantiles_of {
            Some(row) => measured.merge(&rows[row]),
            None => rows.iter().for_each(|row| measured.merge(row)),
        }
        let quantiles = [50, 99].map(|part| measured.quantile(part, 100).map(|time| time.0 as f64));
        let gauges = self.gauges.iter().map(|value| Some(*value));
        let values = counted.chain(quantiles).chain(gauges).collect();
        Point { at_ns: at.0, values, heat: heat(&rows) }
    }
}

fn heat(rows: &[LatencySnapshot]) -> Vec<(u8, u8, u32)> {
    let bounds = bounds();
    let mut cells = Vec::new();
    for (row, latencies) in (0..).zip(rows) {
        let mut counts = vec![0_u64; bounds.len() + 1];
        for bucket in latencies.buckets() {
            counts[bounds.partition_point(|bound| *bound <= bucket.start.0)] += bucket.count;
        }
        let some = (0..).zip(counts).filter(|(_, count)| *count != 0);
        cells.extend(some.map(|(column, n)| (row, column, u32::try_from(n).unwrap_or(u32::MAX))));
    }
    cells.shrink_to_fit();
    cells
}

fn bounds() -> Vec<u64> {
    let steps = (0..DECADES).flat_map(|decade| STEPS.map(|step| step * 10_u64.pow(decade)));
    steps.chain([STEPS[0] * 10_u64.pow(DECADES)]).collect()
}

/// Points of one span.
struct Series {
    span: Span,
    /// The sample at the end of the last interval. `None` before the first, and after one that could
    /// not be sampled.
    last: Option<Sample>,
    points: VecDeque<Point>,
}

impl Series {
    const fn new(span: Span) -> Self {
        Self { span, last: None, points: VecDeque::new() }
    }

    fn note(&mut self, kind: &HistoryKind, now: Nanos, sample: Option<Sample>) {
        if let (Some(last), Some(sample)) = (&self.last, &sample) {
            if self.points.len() == self.span.points_max {
                self.points.pop_front();
            }
            self.points.push_back(sample.since(last, kind, now));
        }
        self.last = sample;
    }

    fn span(&self) -> history::Span {
        history::Span {
            interval_ns: Nanos::from(self.span.interval).0,
            points: self.points.iter().cloned().collect(),
        }
    }
}

/// The history of an endpoint.
pub struct Recorder {
    kind: &'static HistoryKind,
    series: Mutex<[Series; Span::ALL.len()]>,
}

impl Recorder {
    /// A history without points.
    pub fn new(kind: &'static HistoryKind) -> Self {
        Self { kind, series: Mutex::new(Span::ALL.map(Series::new)) }
    }

    /// All points.
    pub fn history(&self) -> History {
        let series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        History {
            fields: self.kind.fields(),
            paths: (self.kind.rows)(),
            bounds_ns: bounds(),
            spans: series.iter().map(Series::span).collect(),
        }
    }

    /// Adds a sample to one of the spans; `None` if it could not be taken.
    pub fn note(&self, span: usize, sample: Option<Sample>) {
        let mut series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        series[span].note(self.kind, RealClock::start().now(), sample);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: HistoryKind = HistoryKind {
        counters: &["reads", "saved_requests"],
        gauges: &["empty_zones"],
        rows: || vec!["dram", "flash"],
        quantiles_of: None,
    };

    fn sample(reads: f64, saved: f64, times: &[Nanos]) -> Sample {
        let mut rows = vec![LatencySnapshot::default(); 2];
        times.iter().for_each(|time| rows[1].add(*time, 1));
        Sample { counters: vec![reads, saved], gauges: vec![3.0], rows }
    }

    fn series() -> Series {
        Series::new(Span { interval: Duration::from_secs(5), points_max: 2 })
    }

    #[test]
    fn a_point_has_what_its_interval_added_and_the_gauges_at_its_end() {
        let mut series = series();
        series.note(&KIND, Nanos::secs(5), Some(sample(10.0, 4.0, &[Nanos::micros(25)])));
        assert!(series.points.is_empty(), "the first sample begins the first interval");
        let times = [Nanos::micros(25), Nanos::micros(25), Nanos::micros(480), Nanos::secs(60)];
        series.note(&KIND, Nanos::secs(10), Some(sample(25.0, 1.0, &times)));
        let point = &series.points[0];
        let named: Vec<_> = KIND.fields().into_iter().zip(point.values.clone()).collect();
        let expected = [15.0, -3.0, 490e3, 61e9, 3.0].map(Some);
        let names = ["reads", "saved_requests", "p50_ns", "p99_ns", "empty_zones"];
        assert_eq!(named, names.into_iter().zip(expected).collect::<Vec<_>>());
        let columns = bounds();
        let column = |us: u64| columns.iter().position(|bound| us * 1000 < *bound).unwrap();
        let column = |us| u8::try_from(column(us)).unwrap();
        assert_eq!(point.heat, [(1, column(25), 1), (1, column(480), 1), (1, 25, 1)]);
    }

    #[test]
    fn quantiles_may_be_of_one_row() {
        let mut series = series();
        let kind = HistoryKind { quantiles_of: Some(0), ..KIND };
        series.note(&kind, Nanos(0), Some(sample(0.0, 0.0, &[])));
        series.note(&kind, Nanos(1), Some(sample(1.0, 0.0, &[Nanos::secs(1)])));
        assert_eq!(series.points[0].values[2..4], [None, None], "all times are in row 1");
    }

    #[test]
    fn an_interval_without_an_answer_leaves_a_gap_and_the_oldest_points_go() {
        let mut series = series();
        let reads = [Some(0.0), Some(1.0), None, Some(7.0), Some(9.0), Some(10.0)];
        for (at, reads) in (0..).zip(reads) {
            series.note(&KIND, Nanos::secs(at), reads.map(|reads| sample(reads, 0.0, &[])));
        }
        let points: Vec<_> = series.points.iter().map(|of| (of.at_ns, of.values[0])).collect();
        assert_eq!(points, [(4_000_000_000, Some(2.0)), (5_000_000_000, Some(1.0))]);
    }

    #[test]
    fn counters_that_start_again_do_not_fall() {
        let mut series = series();
        series.note(&KIND, Nanos(0), Some(sample(10.0, 0.0, &[])));
        series.note(&KIND, Nanos(1), Some(sample(2.0, 0.0, &[])));
        assert_eq!(series.points[0].values[0], Some(0.0));
    }
}
