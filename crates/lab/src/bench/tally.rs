//! Counts and latency histograms of one loop of gets.

use std::collections::VecDeque;
use std::time::Duration;

use hdrhistogram::Histogram;

use super::Source;

/// Significant decimal digits of a latency: two, which is 1 %. Three digits would take 13 MiB for
/// 64 tasks, in a process whose memory is measured.
const DIGITS: u8 = 2;

/// Longest recorded latency: 100 s. Longer latencies count as 100 s.
const LATENCY_MAX_NANOS: u64 = 100_000_000_000;

/// Recent misses kept per loop: 4096 with 64 loops, enough to tell 99 % from 98 %.
pub(crate) const RECENT_MAX: usize = 64;

#[derive(Debug)]
pub(crate) struct LoopTally {
    /// Latency histograms by [`Source`], in nanoseconds.
    latencies: [Histogram<u32>; 3],
    pub(crate) bytes: u64,
    /// Keys of the most recent misses, oldest first.
    pub(crate) recent_misses: VecDeque<u64>,
    /// First failure of the loop.
    pub(crate) failure: Option<String>,
}

impl Default for LoopTally {
    fn default() -> Self {
        let histogram = || {
            Histogram::new_with_bounds(1, LATENCY_MAX_NANOS, DIGITS)
                .expect("1 ns to 100 s in two digits is a valid histogram")
        };
        Self {
            latencies: [histogram(), histogram(), histogram()],
            bytes: 0,
            recent_misses: VecDeque::new(),
            failure: None,
        }
    }
}

impl LoopTally {
    pub(crate) fn add(&mut self, key: u64, source: Source, latency: Duration, bytes: u64) {
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(LATENCY_MAX_NANOS);
        self.latencies[source as usize].saturating_record(nanos);
        self.bytes += bytes;
        if source == Source::Miss {
            if self.recent_misses.len() == RECENT_MAX {
                self.recent_misses.pop_front();
            }
            self.recent_misses.push_back(key);
        }
    }

    pub(crate) fn merge(&mut self, other: Self) {
        for (mine, theirs) in self.latencies.iter_mut().zip(&other.latencies) {
            mine.add(theirs).expect("all histograms have the same bounds");
        }
        self.bytes += other.bytes;
        self.recent_misses.extend(other.recent_misses);
        self.failure = self.failure.take().or(other.failure);
    }

    pub(crate) const fn latencies(&self, source: Source) -> &Histogram<u32> {
        &self.latencies[source as usize]
    }

    pub(crate) fn count(&self, source: Source) -> u64 {
        self.latencies(source).len()
    }

    pub(crate) fn gets(&self) -> u64 {
        self.latencies.iter().map(Histogram::len).sum()
    }

    pub(crate) fn hits(&self) -> u64 {
        self.count(Source::Dram) + self.count(Source::Flash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tallies_add_up_and_remember_the_last_misses() {
        let mut tally = LoopTally::default();
        for key in 0..100 {
            tally.add(key, Source::Miss, Duration::from_micros(key), 10);
        }
        let mut other = LoopTally::default();
        other.add(7, Source::Flash, Duration::from_millis(3), 10);
        tally.merge(other);
        assert_eq!((tally.gets(), tally.hits(), tally.bytes), (101, 1, 1010));
        assert_eq!(tally.recent_misses.front(), Some(&36));
        assert_eq!(tally.recent_misses.len(), RECENT_MAX);
        let median = tally.latencies(Source::Flash).value_at_quantile(0.5);
        assert!((2_970_000..3_030_000).contains(&median), "{median}");
    }
}
