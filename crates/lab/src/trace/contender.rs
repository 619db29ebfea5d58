//! Contender: the interface of a cache policy under trace replay, and its counters.

use super::{Op, Request, Unit};

/// Result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayOutcome {
    /// The object was cached.
    Hit,
    /// The object was not cached.
    Miss,
}

/// Flash writes so far, in the unit of the capacity: bytes, or objects where each counts as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlashBytes {
    /// First writes after a miss. Denominator of write amplification.
    pub filled: u64,
    /// Rewrites by reclaim or reinsertion. With `filled`, the numerator of write amplification.
    pub moved: u64,
}

/// A cache policy with a capacity, on which a trace is replayed.
///
/// To add a policy, implement `read`, `invalidate` and `flash` (the rest is provided), and name the
/// policy in [`make()`](super::make()). [`replay()`](super::replay()) counts requests, hits and
/// bytes from the results of `read`; a contender keeps no such counters. One thread at a time calls
/// a contender, with the requests in order. A contender must be deterministic.
pub trait Contender: Send {
    /// Serves one read. After a miss the policy decides whether to cache the object.
    ///
    /// The size of an object may differ between requests and may exceed the capacity.
    fn read(&mut self, request: &Request) -> ReplayOutcome;

    /// Invalidates an object that was written or deleted at the origin: its next read must miss.
    fn invalidate(&mut self, id: u64);

    /// Flash writes so far.
    fn flash(&self) -> FlashBytes;

    /// Whether the policy reads [`Request::next`]. The positions cost one more pass over the trace
    /// and four bytes per request.
    fn needs_future(&self) -> bool {
        false
    }

    /// Runs requests in order. A range counts as an object of its own. The default method is compiled per policy, so one dynamic call
    /// covers thousands of requests.
    fn run(&mut self, requests: &[Request], tally: &mut ReplayTally) {
        for request in requests {
            let request = request.as_object();
            match request.op {
                Op::Read => tally.count(&request, self.read(&request)),
                Op::Invalidate => self.invalidate(request.id),
            }
        }
    }
}

/// Counters of one contender over a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayTally {
    /// Number of reads.
    pub requests: u64,
    /// Reads that hit.
    pub hits: u64,
    /// Bytes requested by all reads.
    pub bytes: u64,
    /// Bytes of the reads that hit.
    pub hit_bytes: u64,
    /// Flash writes.
    pub flash: FlashBytes,
}

impl ReplayTally {
    fn count(&mut self, request: &Request, outcome: ReplayOutcome) {
        self.requests += 1;
        self.bytes += request.size;
        if outcome == ReplayOutcome::Hit {
            self.hits += 1;
            self.hit_bytes += request.size;
        }
    }

    /// Missed reads as a share of all reads; 0 without reads.
    #[must_use]
    pub fn miss_ratio(&self) -> f64 {
        ratio(self.requests - self.hits, self.requests)
    }

    /// Missed bytes as a share of all bytes read; 0 without reads.
    #[must_use]
    pub fn byte_miss_ratio(&self) -> f64 {
        ratio(self.bytes - self.hit_bytes, self.bytes)
    }

    /// Bytes written to flash per read; 0 without reads. Where objects count as one, each is taken
    /// as the mean size of all reads.
    #[must_use]
    pub fn flash_bytes_per_request(&self, unit: Unit) -> f64 {
        let each = match unit {
            Unit::Bytes => 1.0,
            Unit::Objects => ratio(self.bytes, self.requests),
        };
        ratio(self.flash.filled + self.flash.moved, self.requests) * each
    }

    /// Write amplification: all flash writes over first writes; 1 without writes.
    #[must_use]
    pub fn write_amplification(&self) -> f64 {
        match self.flash.filled {
            0 => 1.0,
            filled => ratio(filled + self.flash.moved, filled),
        }
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
