//! What a trace is replayed on.

use super::{Op, Request, Unit};

/// What became of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was cached.
    Hit,
    /// It was not.
    Miss,
}

/// What went to flash so far, in what the capacity is counted in: bytes, or objects where each counts as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlashBytes {
    /// Written for the first time, after a miss. Denominator of write amplification.
    pub filled: u64,
    /// Written again to keep them, by reclaim or reinsertion. With `filled` the numerator of write amplification.
    pub moved: u64,
}

/// A policy with room for so much, on which a trace is replayed.
///
/// To plug one in: implement `read`, `invalidate` and `flash` (the rest is provided), and give it a name in
/// [`make()`](super::make()). [`replay()`](super::replay()) counts requests, hits and bytes from what `read` returns; a contender
/// keeps no such counters of its own. It is called by one thread at a time, with the requests in their order, and must
/// be deterministic.
pub trait Contender: Send {
    /// One read, and what follows from it: after a miss the object is cached, or is not, as the policy has it.
    ///
    /// The size of an object may differ from one request to the next, and may be larger than the whole room.
    fn read(&mut self, request: &Request) -> Outcome;

    /// The object was written or deleted elsewhere: it must not be a hit at its next read.
    fn invalidate(&mut self, id: u64);

    /// What went to flash so far.
    fn flash(&self) -> FlashBytes;

    /// Whether [`Request::next`] must be there. It costs a pass over the trace and four bytes for each request.
    fn needs_future(&self) -> bool {
        false
    }

    /// A run of requests, in their order. It is here so that the loop is compiled for each policy: one call through a
    /// table for thousands of requests.
    fn run(&mut self, requests: &[Request], tally: &mut Tally) {
        for request in requests {
            match request.op {
                Op::Read => tally.count(request, self.read(request)),
                Op::Invalidate => self.invalidate(request.id),
            }
        }
    }
}

/// What was counted while a trace was replayed on one contender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Reads.
    pub requests: u64,
    /// Reads that were hits.
    pub hits: u64,
    /// Bytes of all reads.
    pub bytes: u64,
    /// Bytes of the reads that were hits.
    pub hit_bytes: u64,
    /// What went to flash.
    pub flash: FlashBytes,
}

impl Tally {
    fn count(&mut self, request: &Request, outcome: Outcome) {
        self.requests += 1;
        self.bytes += u64::from(request.size);
        if outcome == Outcome::Hit {
            self.hits += 1;
            self.hit_bytes += u64::from(request.size);
        }
    }

    /// Reads that were misses, of all reads; 0 of none.
    #[must_use]
    pub fn miss_ratio(&self) -> f64 {
        ratio(self.requests - self.hits, self.requests)
    }

    /// Bytes of reads that were misses, of the bytes of all reads; 0 of none.
    #[must_use]
    pub fn byte_miss_ratio(&self) -> f64 {
        ratio(self.bytes - self.hit_bytes, self.bytes)
    }

    /// Bytes that went to flash for each read; 0 of none. Where objects count as one, each is taken for the mean size
    /// of all reads.
    #[must_use]
    pub fn flash_bytes_per_request(&self, unit: Unit) -> f64 {
        let each = match unit {
            Unit::Bytes => 1.0,
            Unit::Objects => ratio(self.bytes, self.requests),
        };
        ratio(self.flash.filled + self.flash.moved, self.requests) * each
    }

    /// What went to flash, for all that was written for the first time; 1 if nothing was.
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
