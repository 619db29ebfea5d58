//! History: samples the counters every five seconds, and keeps an hour of these samples and a day
//! of minutes.
//!
//! Memory: a point has 16 bytes a value, and 8 for each cell of the heat map that has counts. With
//! all 175 cells in use, the 2,160 points take 3.7 MB.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::MissedTickBehavior;
use zonal_base::{LatencySnapshot, Nanos};
use zonal_gateway::{Operation, RequestLatencies, ServedFrom};
use zonal_host::{RealClock, ShardStats};

use super::{Admin, Observed};
use crate::api::history::{History, Point, Span};
use crate::stats::{Answers, Savings};

/// Interval and number of the points of each span: an hour, and a day.
const SPANS: [(Duration, usize); 2] =
    [(Duration::from_secs(5), 720), (Duration::from_secs(60), 1440)];

/// Names of the values that count, and of those that do not.
const FIELDS: [&str; COUNTERS + GAUGES] = [
    "reads",
    "served_by_cache",
    "served_bytes",
    "fetched_bytes",
    "origin_requests",
    "admitted_bytes",
    "rewritten_bytes",
    "written_bytes",
    "saved_requests",
    "saved_bytes",
    "saved_cost",
    "p50_ns",
    "p99_ns",
    "empty_zones",
    "used_bytes",
];
const COUNTERS: usize = 11;
const GAUGES: usize = 4;

/// Times to the first byte from 10 us to 10 s, in four steps a decade.
const DECADES: u32 = 6;
const STEPS: [u64; 4] = [10_000, 20_000, 30_000, 50_000];

/// Counters and gauges at one moment.
pub(super) struct Sample {
    counters: [f64; COUNTERS],
    /// Zones that are empty, and bytes in use.
    flash: [f64; 2],
    /// First bytes of GetObject, by where they came from.
    latencies: Vec<LatencySnapshot>,
}

impl Sample {
    pub(super) fn of(
        (answers, savings): (&Answers, &Savings),
        shards: &[ShardStats],
        latencies: Vec<RequestLatencies>,
    ) -> Self {
        let sum = |of: fn(&ShardStats) -> u64| shards.iter().map(of).sum::<u64>() as f64;
        let capacity = |zones: u32, shard: &ShardStats| u64::from(zones) * shard.zone_capacity.0;
        let used = |shard: &ShardStats| {
            let [_, open, sealed, reclaiming, _] = shard.zones;
            capacity(open + sealed + reclaiming, shard)
        };
        let gets = latencies.into_iter().filter(|of| of.operation == Operation::GetObject);
        Self {
            counters: [
                answers.reads() as f64,
                answers.served_by_cache() as f64,
                sum(|shard| shard.cache.served_bytes),
                sum(|shard| shard.cache.fetched_bytes),
                answers.origin_requests as f64,
                sum(|shard| shard.cache.admitted_bytes),
                sum(|shard| shard.log.rewritten_bytes),
                sum(|shard| shard.log.device_written_bytes),
                savings.requests as f64,
                savings.bytes as f64,
                savings.cost,
            ],
            flash: [
                sum(|shard| u64::from(shard.zones[0])),
                shards.iter().map(used).sum::<u64>() as f64,
            ],
            latencies: gets.map(|of| of.first_byte).collect(),
        }
    }

    /// What happened since an earlier sample.
    fn since(&self, earlier: &Self, at: Nanos) -> Point {
        // The counters of a device begin at 0 when it joins again. Savings may fall.
        let counted = self.counters.iter().zip(&earlier.counters).zip(FIELDS);
        let counted = counted.map(|((now, before), field)| {
            let may_fall = field.starts_with("saved");
            Some(if may_fall { now - before } else { (now - before).max(0.0) })
        });
        let both = self.latencies.iter().zip(&earlier.latencies);
        let rows: Vec<LatencySnapshot> = both.map(|(now, before)| now.since(before)).collect();
        let mut whole = LatencySnapshot::default();
        rows.iter().for_each(|row| whole.merge(row));
        let quantile = |part| whole.quantile(part, 100).map(|time| time.0 as f64);
        let gauges = [quantile(50), quantile(99), Some(self.flash[0]), Some(self.flash[1])];
        Point { at_ns: at.0, values: counted.chain(gauges).collect(), heat: heat(&rows) }
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

/// Points of one interval.
struct Series {
    interval: Duration,
    points_max: usize,
    /// The sample at the end of the last interval. `None` before the first, and after one at which
    /// a shard did not answer.
    last: Option<Sample>,
    points: VecDeque<Point>,
}

impl Series {
    fn note(&mut self, now: Nanos, sample: Option<Sample>) {
        if let (Some(last), Some(sample)) = (&self.last, &sample) {
            if self.points.len() == self.points_max {
                self.points.pop_front();
            }
            self.points.push_back(sample.since(last, now));
        }
        self.last = sample;
    }

    fn span(&self) -> Span {
        Span {
            interval_ns: Nanos::from(self.interval).0,
            points: self.points.iter().cloned().collect(),
        }
    }
}

/// The spans of a node.
pub(super) struct Recorder {
    series: Mutex<[Series; SPANS.len()]>,
}

impl Default for Recorder {
    fn default() -> Self {
        let series = SPANS.map(|(interval, points_max)| Series {
            interval,
            points_max,
            last: None,
            points: VecDeque::new(),
        });
        Self { series: Mutex::new(series) }
    }
}

impl Recorder {
    pub(super) fn history(&self) -> History {
        let series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        History {
            fields: &FIELDS,
            paths: ServedFrom::ALL.iter().map(|from| from.name()).collect(),
            bounds_ns: bounds(),
            spans: series.iter().map(Series::span).collect(),
        }
    }

    fn note(&self, span: usize, sample: Option<Sample>) {
        let mut series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        series[span].note(RealClock::start().now(), sample);
    }
}

impl Admin {
    /// Samples one span until the process ends.
    pub(super) async fn record(self, span: usize) {
        let (interval, _) = SPANS[span];
        let mut ticks = tokio::time::interval(interval);
        // After a pause of the machine, points would otherwise follow each other at once.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let sample = match self.node.get() {
                Some(node) => self.sample(node).await,
                None => None,
            };
            self.history.note(span, sample);
        }
    }

    async fn sample(&self, node: &Observed) -> Option<Sample> {
        let gateway = node.front.gateway()?;
        let shards = node.shards().await?;
        let answers = super::summary::answers(node, gateway);
        let savings = super::savings::savings(&answers, &shards, &self.prices.load());
        Some(Sample::of((&answers, &savings), &shards, gateway.latencies()))
    }
}

/// Number of spans.
pub(super) const SPAN_COUNT: usize = SPANS.len();

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(reads: f64, saved: f64, times: &[Nanos]) -> Sample {
        let mut latencies = vec![LatencySnapshot::default(); 2];
        times.iter().for_each(|time| latencies[1].add(*time, 1));
        let mut counters = [0.0; COUNTERS];
        (counters[0], counters[8]) = (reads, saved);
        Sample { counters, flash: [3.0, 4096.0], latencies }
    }

    fn series() -> Series {
        let (interval, last) = (Duration::from_secs(5), None);
        Series { interval, points_max: 2, last, points: VecDeque::new() }
    }

    #[test]
    fn a_point_has_what_its_interval_added_and_the_gauges_at_its_end() {
        let mut series = series();
        series.note(Nanos::secs(5), Some(sample(10.0, 4.0, &[Nanos::micros(25)])));
        assert!(series.points.is_empty(), "the first sample begins the first interval");
        let times = [Nanos::micros(25), Nanos::micros(25), Nanos::micros(480), Nanos::secs(60)];
        series.note(Nanos::secs(10), Some(sample(25.0, 1.0, &times)));
        let point = &series.points[0];
        let value = |field| {
            let at = FIELDS.iter().position(|name| *name == field).unwrap();
            point.values[at]
        };
        assert_eq!((value("reads"), value("saved_requests")), (Some(15.0), Some(-3.0)));
        assert_eq!((value("empty_zones"), value("used_bytes")), (Some(3.0), Some(4096.0)));
        assert_eq!((value("p50_ns"), value("p99_ns")), (Some(490e3), Some(61e9)));
        let columns = bounds();
        let column = |us: u64| columns.iter().position(|bound| us * 1000 < *bound).unwrap();
        let column = |us| u8::try_from(column(us)).unwrap();
        assert_eq!(point.heat, [(1, column(25), 1), (1, column(480), 1), (1, 25, 1)]);
    }

    #[test]
    fn an_interval_without_an_answer_leaves_a_gap_and_the_oldest_points_go() {
        let mut series = series();
        let reads = [Some(0.0), Some(1.0), None, Some(7.0), Some(9.0), Some(10.0)];
        for (at, reads) in (0..).zip(reads) {
            series.note(Nanos::secs(at), reads.map(|reads| sample(reads, 0.0, &[])));
        }
        let points: Vec<_> = series.points.iter().map(|of| (of.at_ns, of.values[0])).collect();
        assert_eq!(points, [(4_000_000_000, Some(2.0)), (5_000_000_000, Some(1.0))]);
    }

    #[test]
    fn counters_that_start_again_do_not_fall() {
        let mut series = series();
        series.note(Nanos(0), Some(sample(10.0, 0.0, &[])));
        series.note(Nanos(1), Some(sample(2.0, 0.0, &[])));
        assert_eq!(series.points[0].values[0], Some(0.0));
    }

    #[test]
    fn the_points_of_all_spans_fit_into_4_mb() {
        let cells = ServedFrom::ALL.len() * (bounds().len() + 1);
        let point = size_of::<Point>()
            + FIELDS.len() * size_of::<Option<f64>>()
            + cells * size_of::<(u8, u8, u32)>();
        let points: usize = SPANS.iter().map(|(_, points)| points).sum();
        assert!(points * point <= 4_000_000, "{}", points * point);
    }
}
