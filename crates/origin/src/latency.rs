//! Latency percentile estimate, for hedged requests: the time within which a given percentage of
//! answers has begun.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Answers per window. The estimate is that of the last complete window, so a change of the
/// origin's latency shows after at most two windows.
const WINDOW: u32 = 500;

/// Answers in the first window before there is an estimate.
const FIRST: u32 = 100;

/// Histogram buckets: four per power of two, from 1 µs to beyond an hour. The estimate is at most
/// 19 % too long.
const BUCKETS: usize = 128;

/// Estimates the time within which `percent` of an origin's answers have begun.
#[derive(Debug)]
pub(crate) struct LatencyEstimate {
    percent: u32,
    window: Mutex<Window>,
}

#[derive(Debug)]
struct Window {
    counts: [u32; BUCKETS],
    sum: u32,
    known: Option<Duration>,
    is_first: bool,
}

impl LatencyEstimate {
    pub(crate) fn new(percent: u8) -> Self {
        let window = Window { counts: [0; BUCKETS], sum: 0, known: None, is_first: true };
        Self { percent: percent.into(), window: Mutex::new(window) }
    }

    /// The estimate. `None` until there are enough answers.
    pub(crate) fn get(&self) -> Option<Duration> {
        self.window.lock().unwrap_or_else(PoisonError::into_inner).known
    }

    /// Records the time until an answer began, or the time after which the request was cancelled.
    pub(crate) fn note(&self, took: Duration) {
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        window.counts[bucket(took)] += 1;
        window.sum += 1;
        if window.is_first && window.sum == FIRST {
            window.known = Some(window.by_when(self.percent));
        }
        if window.sum == WINDOW {
            let known = Some(window.by_when(self.percent));
            *window = Window { counts: [0; BUCKETS], sum: 0, known, is_first: false };
        }
    }
}

impl Window {
    fn by_when(&self, percent: u32) -> Duration {
        let wanted = (self.sum * percent).div_ceil(100);
        let mut seen = 0;
        let reached = self.counts.iter().position(|count| {
            seen += count;
            wanted <= seen
        });
        end_of(reached.unwrap_or(BUCKETS - 1))
    }
}

/// The histogram bucket of a time. Bucket bounds grow by a factor of 2^(1/4).
fn bucket(took: Duration) -> usize {
    (0..BUCKETS - 1).find(|n| took <= end_of(*n)).unwrap_or(BUCKETS - 1)
}

fn end_of(bucket: usize) -> Duration {
    let quarters = u32::try_from(bucket).expect("few");
    Duration::from_secs_f64(1e-6 * 2f64.powf(f64::from(quarters) / 4.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_that_of_the_share_and_at_most_a_fifth_too_long() {
        let latency = LatencyEstimate::new(95);
        for n in 0..99 {
            latency.note(Duration::from_millis(if n % 50 == 49 { 1000 } else { 10 }));
            assert_eq!(latency.get(), None, "too few are known");
        }
        latency.note(Duration::from_millis(1000));
        let known = latency.get().unwrap();
        let (least, most) = (Duration::from_millis(10), Duration::from_millis(12));
        assert!((least..most).contains(&known), "{known:?}");
    }

    #[test]
    fn what_an_origin_does_now_counts_soon() {
        let latency = LatencyEstimate::new(50);
        for _ in 0..600 {
            latency.note(Duration::from_millis(1));
        }
        for _ in 0..900 {
            latency.note(Duration::from_millis(100));
        }
        assert!(Duration::from_millis(100) <= latency.get().unwrap());
        latency.note(Duration::from_secs(1 << 40));
        latency.note(Duration::ZERO);
    }
}
