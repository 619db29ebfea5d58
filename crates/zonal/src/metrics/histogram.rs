//! Latency histograms for Prometheus: a classic one with fixed buckets, and a native one.

use std::fmt;

use prometheus_client::encoding::{
    MetricEncoder, NativeHistogram, NativeHistogramBuckets, NoLabelSet,
};
use zonal_base::{LatencyBucket, LatencySnapshot, Nanos};

/// Upper bounds of the classic buckets: 1, 2.5 and 5 of each decade, from 10 µs to 100 s. They are
/// bounds of [`LatencySnapshot`]'s buckets, so the counts are exact.
const BOUNDS: [Nanos; 22] = {
    let mut bounds = [Nanos(100_000_000_000); 22];
    let (mut decade, mut n) = (10_000, 0);
    while n < 21 {
        bounds[n] = Nanos(decade);
        bounds[n + 1] = Nanos(decade / 2 * 5);
        bounds[n + 2] = Nanos(decade * 5);
        (decade, n) = (decade * 10, n + 3);
    }
    bounds
};

/// Resolution of the native histogram: 2^3 buckets for each power of two, so each is 9 % wide. Finer
/// ones would show the resolution of [`LatencySnapshot`].
const SCHEMA: i32 = 3;

/// Width of the zero bucket, which stays empty: the default of Prometheus' Go client, 2^-128.
const ZERO_THRESHOLD: f64 = 2.938_735_877_055_719e-39;

pub(super) fn encode(
    sample: &mut MetricEncoder<'_>,
    latencies: &LatencySnapshot,
) -> Result<(), fmt::Error> {
    let (spans, deltas) = native(latencies);
    let positive = NativeHistogramBuckets { spans: &spans, deltas: &deltas };
    let negative = NativeHistogramBuckets { spans: &[], deltas: &[] };
    let native = NativeHistogram {
        schema: SCHEMA,
        zero_threshold: ZERO_THRESHOLD,
        zero_count: 0,
        negative,
        positive,
        created: None,
    };
    let (sum, count) = (seconds(latencies.sum), latencies.count());
    let classic = classic(latencies);
    sample.encode_histogram_with_native::<NoLabelSet>(sum, count, &classic, None, native)
}

fn seconds(time: Nanos) -> f64 {
    time.0 as f64 / 1e9
}

/// Upper bound in seconds and count of each bucket, the last without a bound.
fn classic(latencies: &LatencySnapshot) -> Vec<(f64, u64)> {
    let bounds = BOUNDS.iter().map(|bound| seconds(*bound)).chain([f64::INFINITY]);
    let mut buckets: Vec<(f64, u64)> = bounds.map(|bound| (bound, 0)).collect();
    for LatencyBucket { start, count, .. } in latencies.buckets() {
        let fits = BOUNDS.partition_point(|bound| *bound <= start);
        buckets[fits].1 += count;
    }
    buckets
}

/// Spans (empty buckets before, and length) and differences of the counts of neighbours. A bucket
/// of [`LatencySnapshot`] counts where its middle lies.
fn native(latencies: &LatencySnapshot) -> (Vec<(i32, u32)>, Vec<i64>) {
    let mut buckets: Vec<(i32, i64)> = Vec::new();
    for LatencyBucket { start, end, count } in latencies.buckets() {
        let index = native_index(Nanos(start.0.midpoint(end.0)));
        match buckets.last_mut() {
            Some((last, counted)) if *last == index => *counted += signed(count),
            _ => buckets.push((index, signed(count))),
        }
    }
    let (mut spans, mut deltas): (Vec<(i32, u32)>, Vec<i64>) = (Vec::new(), Vec::new());
    let (mut next, mut before) = (0, 0);
    for (index, count) in buckets {
        match spans.last_mut() {
            Some((_, len)) if index == next => *len += 1,
            _ => spans.push((index - next, 1)),
        }
        deltas.push(count - before);
        (next, before) = (index + 1, count);
    }
    (spans, deltas)
}

/// Counts are far below 2^63.
fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Index of the native bucket: its upper bound is 2^(index / 8) seconds.
fn native_index(time: Nanos) -> i32 {
    let eighths = seconds(time).log2() * f64::from(1 << SCHEMA);
    #[expect(clippy::cast_possible_truncation, reason = "between -240 and 80")]
    let index = eighths.ceil() as i32;
    index
}

#[cfg(test)]
mod tests {
    use zonal_base::LatencyHistogram;

    use super::*;

    fn of(times: &[Nanos]) -> LatencySnapshot {
        let histogram = LatencyHistogram::default();
        times.iter().for_each(|time| histogram.record(*time));
        histogram.snapshot()
    }

    #[test]
    fn classic_buckets_end_at_one_two_and_a_half_and_five() {
        let bounds: Vec<f64> = BOUNDS.iter().map(|bound| seconds(*bound)).collect();
        assert_eq!(bounds[..4], [1e-5, 2.5e-5, 5e-5, 1e-4]);
        assert_eq!(bounds[18..], [10.0, 25.0, 50.0, 100.0]);
        let times =
            [Nanos(1), Nanos::micros(9), Nanos::micros(11), Nanos::millis(2), Nanos::secs(999)];
        let counted: Vec<_> =
            classic(&of(&times)).into_iter().filter(|(_, count)| *count != 0).collect();
        assert_eq!(counted, [(1e-5, 2), (2.5e-5, 1), (2.5e-3, 1), (f64::INFINITY, 1)]);
    }

    #[test]
    fn native_buckets_hold_every_time_once_and_within_their_bounds() {
        assert_eq!(native(&of(&[])), (vec![], vec![]));
        let times: Vec<Nanos> = (1..400).map(|n| Nanos(n * n * n * 100)).collect();
        let (spans, deltas) = native(&of(&times));
        let (mut index, mut count, mut sum, mut deltas) = (0, 0, 0, deltas.into_iter());
        for (skipped, len) in spans {
            index += skipped;
            for _ in 0..len {
                count += deltas.next().unwrap();
                let [low, high] = [index - 1, index].map(|n| 2f64.powf(f64::from(n) / 8.0) * 1e9);
                let inside = times.iter().filter(|t| (low..high).contains(&(t.0 as f64))).count();
                // A bucket of two digits may lie across a bound.
                assert!(inside.abs_diff(usize::try_from(count).unwrap()) <= 3, "bucket {index}");
                (index, sum) = (index + 1, sum + count);
            }
        }
        assert_eq!((sum, deltas.next()), (399, None));
    }
}
