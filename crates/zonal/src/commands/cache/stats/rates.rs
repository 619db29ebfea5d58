//! Rates: what happened between two samples of the statistics.

use std::time::Instant;

use zonal_base::LatencySnapshot;

use zonal_api::latency::{Latencies, Queue};
use zonal_api::stats::{Flash, Reads, Stats};

/// Statistics at one moment.
#[derive(Debug)]
pub(super) struct Sample {
    pub(super) at: Instant,
    pub(super) stats: Stats,
    pub(super) latencies: Latencies,
}

/// What happened in an interval, for each second of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Rates {
    pub(super) reads: f64,
    /// Share of the reads that asked the cache and were served from it; `None` without one.
    pub(super) hit_ratio: Option<f64>,
    pub(super) served_bytes: f64,
    /// Share of the served bytes that were not fetched for it; `None` if none were served.
    pub(super) byte_hit_ratio: Option<f64>,
    pub(super) origin_requests: f64,
    pub(super) fetched_bytes: f64,
    pub(super) written_bytes: f64,
    /// Bytes written to flash for each admitted byte; `None` if none was admitted.
    pub(super) write_amplification: Option<f64>,
    pub(super) latencies: Vec<LatencyRow>,
}

/// Latencies of one kind in an interval.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LatencyRow {
    pub(super) name: String,
    pub(super) per_second: f64,
    pub(super) latencies: LatencySnapshot,
}

impl Rates {
    pub(super) fn between(before: &Sample, now: &Sample) -> Self {
        let seconds = now.at.duration_since(before.at).as_secs_f64().max(1e-3);
        let [first, last] = [before, now].map(|sample| Sums::of(&sample.stats));
        // Counters that start again at 0 belong to a Zonal that was restarted.
        let difference = |of: fn(&Sums) -> u64| of(&last).saturating_sub(of(&first)) as f64;
        let reads = difference(|of| of.reads);
        let (served, fetched) =
            (difference(|of| of.bytes.served_bytes), difference(|of| of.bytes.fetched_bytes));
        let (admitted, written) =
            (difference(|of| of.flash.admitted_bytes), difference(|of| of.flash.written_bytes));
        let share = |part: f64, whole: f64| (0.0 < whole).then(|| part / whole);
        Self {
            reads: reads / seconds,
            hit_ratio: share(difference(|of| of.hits), difference(|of| of.asked)),
            served_bytes: served / seconds,
            byte_hit_ratio: share((served - fetched).max(0.0), served),
            origin_requests: difference(|of| of.origin_requests) / seconds,
            fetched_bytes: fetched / seconds,
            written_bytes: written / seconds,
            write_amplification: share(written, admitted),
            latencies: rows(&before.latencies, &now.latencies, seconds),
        }
    }
}

/// Counters that are shown as rates.
struct Sums {
    reads: u64,
    hits: u64,
    /// Reads that did not bypass the cache.
    asked: u64,
    origin_requests: u64,
    bytes: Reads,
    flash: Flash,
}

impl Sums {
    fn of(stats: &Stats) -> Self {
        let (mut bytes, mut flash) = (Reads::default(), Flash::default());
        for device in &stats.devices {
            bytes.add(&device.reads);
            flash.add(&device.flash);
        }
        let answers = &stats.answers;
        let (reads, origin_requests) = (answers.reads(), answers.origin_requests);
        let hits = answers.served_by_cache();
        Self { reads, hits, asked: hits + answers.miss, origin_requests, bytes, flash }
    }
}

/// One row for each kind that occurred since the start.
fn rows(before: &Latencies, now: &Latencies, seconds: f64) -> Vec<LatencyRow> {
    let (before, now) = (named(before), named(now));
    let kinds = now.into_iter().filter(|(_, latencies)| 0 < latencies.count());
    let row = |(name, latencies): (String, LatencySnapshot)| {
        let earlier = before.iter().find(|(known, _)| *known == name);
        let latencies = match earlier {
            Some((_, earlier)) => latencies.since(earlier),
            None => latencies,
        };
        LatencyRow { name, per_second: latencies.count() as f64 / seconds, latencies }
    };
    kinds.map(row).collect()
}

/// All latencies with names for people. Those of several shards and queues are summed.
fn named(latencies: &Latencies) -> Vec<(String, LatencySnapshot)> {
    let requests = latencies.requests.iter();
    let requests = requests.map(|of| (format!("{} {}", of.operation, of.path), &of.first_byte));
    let commands = latencies.commands.iter();
    let commands = commands.map(|of| (format!("device {} {}", of.device, of.command), &of.latency));
    let origins = latencies.origins.iter();
    let origins = origins.map(|of| (format!("origin {}", of.request), &of.latency));
    let queues = latencies.queues.iter().map(|of| {
        let name = match of.queue {
            Queue::Shard { .. } => "wait for a shard",
            Queue::Origin(_) => "wait for an origin",
            Queue::Permit => "wait of writes",
        };
        (name.to_owned(), &of.latency)
    });
    let mut sums: Vec<(String, LatencySnapshot)> = Vec::new();
    for (name, latency) in requests.chain(commands).chain(origins).chain(queues) {
        match sums.iter_mut().find(|(known, _)| *known == name) {
            Some((_, sum)) => sum.merge(&latency.0),
            None => sums.push((name, latency.0.clone())),
        }
    }
    sums
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use zonal_base::Nanos;

    use super::*;
    use zonal_api::latency::{Histogram, RequestLatency};
    use zonal_api::scrubbing::ScrubStats;
    use zonal_api::stats::{Answers, DeviceStats};
    use zonal_api::switching::CachingState;

    /// A sample after `reads` hits from flash that took `took` each, `seconds` after `start`.
    pub(in super::super) fn sample(
        start: Instant,
        seconds: u64,
        (reads, took): (u64, Nanos),
    ) -> Sample {
        let mut latencies = LatencySnapshot::default();
        latencies.add(took, reads);
        let request = |path: &str, first_byte: LatencySnapshot| RequestLatency {
            operation: "GetObject".into(),
            path: path.into(),
            first_byte: Histogram(first_byte),
            last_byte: Histogram::default(),
        };
        let mut device = DeviceStats { name: "file:flash".into(), ..DeviceStats::default() };
        device.reads.served_bytes = reads << 20;
        device.flash.zones.empty = 3;
        device.flash.zones.sealed = 9;
        let origin_requests = seconds;
        Sample {
            at: start + Duration::from_secs(seconds),
            stats: Stats {
                cache: CachingState::On,
                answers: Answers { hit: reads, origin_requests, ..Answers::default() },
                savings: zonal_api::stats::Savings { currency: "USD".into(), ..Default::default() },
                connections: Default::default(),
                pins: Default::default(),
                devices: vec![device],
                origins: Vec::new(),
                scrub: ScrubStats::default(),
            },
            latencies: Latencies {
                requests: vec![
                    request("dram", LatencySnapshot::default()),
                    request("flash", latencies),
                ],
                ..Latencies::default()
            },
        }
    }

    #[test]
    fn rates_are_differences_by_time() {
        let start = Instant::now();
        let (before, now) = (
            sample(start, 0, (100, Nanos::micros(150))),
            sample(start, 2, (300, Nanos::micros(150))),
        );
        let rates = Rates::between(&before, &now);
        assert_eq!((rates.reads, rates.hit_ratio), (100.0, Some(1.0)));
        assert_eq!((rates.served_bytes, rates.byte_hit_ratio), (104_857_600.0, Some(1.0)));
        assert_eq!((rates.origin_requests, rates.write_amplification), (1.0, None));
        let [row] = &rates.latencies[..] else { panic!("{:?}", rates.latencies) };
        assert_eq!((row.name.as_str(), row.per_second), ("GetObject flash", 100.0));
        assert_eq!(row.latencies.quantile(1, 2), Some(Nanos::micros(160)));
    }

    #[test]
    fn a_restarted_zonal_shows_no_negative_rate() {
        let start = Instant::now();
        let (before, now) = (
            sample(start, 0, (100, Nanos::micros(150))),
            sample(start, 1, (7, Nanos::micros(150))),
        );
        let rates = Rates::between(&before, &now);
        assert_eq!((rates.reads, rates.latencies[0].per_second), (0.0, 7.0));
    }
}
