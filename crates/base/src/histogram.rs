//! Latency histogram: log-linear, with two significant decimal digits, as in OpenHistogram (circllhist).
//!
//! Each power of ten of nanoseconds has 90 buckets, for the mantissas 10 to 99. So a quantile is at most 10 % too
//! long at the start of a decade, and 1 % at its end. Bounds such as 2.5 ms are bounds of buckets, so a coarser
//! histogram made from this one counts exactly.

use alloc::boxed::Box;
use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::Nanos;

/// Mantissas 10 to 99.
const BUCKETS_PER_DECADE: usize = 90;

/// Decades between [`SHORTEST`] and [`LONGEST`].
const DECADES: usize = 10;

/// Shorter times share the first bucket: 100 ns, the time of a cache miss in memory.
const SHORTEST: u64 = 100;

/// This time and longer ones share the last bucket: 1,000 s, beyond every timeout.
const LONGEST: u64 = 1_000_000_000_000;

const BUCKETS: usize = 1 + DECADES * BUCKETS_PER_DECADE + 1;

/// Width of the buckets of each decade, in nanoseconds; and of the one behind, where the last bucket starts.
const STEPS: [u64; DECADES + 1] = {
    let mut steps = [SHORTEST / 10; DECADES + 1];
    let mut decade = 1;
    while decade <= DECADES {
        steps[decade] = steps[decade - 1] * 10;
        decade += 1;
    }
    steps
};

/// Histogram of times. Any thread may read it at any time.
pub struct LatencyHistogram {
    counts: Box<[AtomicU64; BUCKETS]>,
    sum: AtomicU64,
}

impl LatencyHistogram {
    /// Records a time. Requires: only one thread calls this. Then no instruction locks the bus, and none waits.
    pub fn record(&self, took: Nanos) {
        // A store without a read-modify-write: a second thread could lose a count, and nothing else.
        let add = |to: &AtomicU64, n| {
            to.store(to.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed)
        };
        add(&self.counts[bucket_of(took)], 1);
        add(&self.sum, took.0);
    }

    /// Records a time, from any thread.
    pub fn record_shared(&self, took: Nanos) {
        self.counts[bucket_of(took)].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(took.0, Ordering::Relaxed);
    }

    /// The counts so far.
    #[must_use]
    pub fn snapshot(&self) -> LatencySnapshot {
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        LatencySnapshot { counts, sum: Nanos(self.sum.load(Ordering::Relaxed)) }
    }
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        let counts = Box::new([const { AtomicU64::new(0) }; BUCKETS]);
        Self { counts, sum: AtomicU64::new(0) }
    }
}

impl fmt::Debug for LatencyHistogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.snapshot().fmt(f)
    }
}

/// Counts of a histogram at one moment.
#[derive(Clone, PartialEq, Eq)]
pub struct LatencySnapshot {
    counts: Box<[u64]>,
    /// Sum of all recorded times.
    pub sum: Nanos,
}

impl LatencySnapshot {
    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(to, n)| *to += n);
        self.sum += other.sum;
    }

    /// Adds a time that was recorded `count` times.
    pub fn add(&mut self, time: Nanos, count: u64) {
        self.counts[bucket_of(time)] += count;
        self.sum.0 = self.sum.0.wrapping_add(time.0.wrapping_mul(count));
    }

    /// What was recorded after `earlier`, a snapshot of the same histogram. A histogram that has started again since
    /// then counts from its start.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        if self.counts.iter().zip(&earlier.counts).any(|(now, before)| now < before) {
            return self.clone();
        }
        let counts =
            self.counts.iter().zip(&earlier.counts).map(|(now, before)| now - before).collect();
        Self { counts, sum: self.sum.since(earlier.sum) }
    }

    /// Recorded times.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The time below which the share `part` of `whole` of all recorded times lie: at most a bucket too long. `None`
    /// without a recorded time.
    #[must_use]
    pub fn quantile(&self, part: u64, whole: u64) -> Option<Nanos> {
        let rank = (u128::from(self.count()) * u128::from(part)).div_ceil(u128::from(whole)).max(1);
        let mut seen = 0;
        self.buckets().find_map(|bucket| {
            seen += u128::from(bucket.count);
            (rank <= seen).then_some(bucket.end)
        })
    }

    /// Buckets with at least one recorded time, from short to long.
    pub fn buckets(&self) -> impl Iterator<Item = LatencyBucket> {
        let bucket = |(n, count): (usize, &u64)| LatencyBucket {
            start: start_of(n),
            end: start_of(n + 1),
            count: *count,
        };
        self.counts.iter().enumerate().map(bucket).filter(|bucket| bucket.count != 0)
    }
}

impl Default for LatencySnapshot {
    fn default() -> Self {
        Self { counts: [0; BUCKETS].into(), sum: Nanos(0) }
    }
}

impl fmt::Debug for LatencySnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let buckets = self.buckets().map(|bucket| (bucket.start, bucket.count));
        f.debug_map().entries(buckets).finish()
    }
}

/// Bucket of a histogram: the times from `start` up to `end`, which it does not include.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyBucket {
    /// Shortest time.
    pub start: Nanos,
    /// End of the bucket. The last bucket has none: its `end` is its start.
    pub end: Nanos,
    /// Recorded times.
    pub count: u64,
}

fn bucket_of(took: Nanos) -> usize {
    if took.0 < SHORTEST {
        return 0;
    }
    if LONGEST <= took.0 {
        return BUCKETS - 1;
    }
    let decade = took.0.ilog10() - SHORTEST.ilog10();
    let decade = decade as usize;
    let mantissa = took.0 / STEPS[decade];
    1 + decade * BUCKETS_PER_DECADE + crate::index(mantissa) - 10
}

/// Shortest time of a bucket. That of the last one for any beyond it.
fn start_of(bucket: usize) -> Nanos {
    let Some(from_shortest) = bucket.min(BUCKETS - 1).checked_sub(1) else { return Nanos(0) };
    let (decade, mantissa) =
        (from_shortest / BUCKETS_PER_DECADE, from_shortest % BUCKETS_PER_DECADE + 10);
    // The last bucket starts where the next decade would.
    Nanos(mantissa as u64 * STEPS[decade])
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn every_time_is_in_the_bucket_that_has_it() {
        let mut time = 1;
        while time < 20 * LONGEST {
            for near in [time - 1, time, time + 1] {
                let bucket = bucket_of(Nanos(near));
                assert!(start_of(bucket).0 <= near, "{near} in {bucket}");
                assert!(
                    bucket == BUCKETS - 1 || near < start_of(bucket + 1).0,
                    "{near} in {bucket}"
                );
            }
            time = time * 11 / 10 + 1;
        }
        for time in [10_000, 25_000_000, 5_000_000_000, LONGEST] {
            assert_eq!(
                start_of(bucket_of(Nanos(time))),
                Nanos(time),
                "a bound of a coarser histogram"
            );
        }
    }

    #[test]
    fn quantiles_are_at_most_a_tenth_too_long() {
        let histogram = LatencyHistogram::default();
        assert_eq!(histogram.snapshot().quantile(99, 100), None);
        for micros in 1..=1000 {
            histogram.record(Nanos::micros(micros));
        }
        let snapshot = histogram.snapshot();
        for (part, exact) in [(500, 500), (990, 990), (999, 999), (1000, 1000), (0, 1)] {
            let exact = Nanos::micros(exact);
            let found = snapshot.quantile(part, 1000).unwrap();
            assert!(exact <= found && found.0 <= exact.0 * 11 / 10, "{part}: {found:?}");
        }
        assert_eq!((snapshot.count(), snapshot.sum), (1000, Nanos::micros(500_500)));
        histogram.record(Nanos::secs(1));
        let news = histogram.snapshot().since(&snapshot);
        assert_eq!((news.count(), news.sum), (1, Nanos::secs(1)));
        assert_eq!(snapshot.since(&histogram.snapshot()), snapshot, "it has started again");
    }

    #[test]
    fn histograms_of_several_threads_add_up() {
        let (own, shared) = (LatencyHistogram::default(), LatencyHistogram::default());
        own.record(Nanos(42));
        own.record(Nanos(123_456));
        shared.record_shared(Nanos(129_999));
        shared.record_shared(Nanos(u64::MAX / 2));
        let mut sum = own.snapshot();
        sum.merge(&shared.snapshot());
        let buckets: Vec<_> = sum.buckets().map(|b| (b.start.0, b.end.0, b.count)).collect();
        assert_eq!(buckets, [(0, 100, 1), (120_000, 130_000, 2), (LONGEST, LONGEST, 1)]);
    }
}
