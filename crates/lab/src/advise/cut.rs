//! Chunked replay: a trace as the engine sees it, without a drive. Objects are cut into chunks,
//! copied and sampled as in a run, and use the flash space of their records.

use std::sync::{Arc, Mutex, PoisonError};

use zonal_base::Bytes;

use crate::Recorded;
use crate::simulated::{blocks_read, whole_blocks};
use crate::trace::{Contender, FlashBytes, Op, ReplayOutcome, ReplayTally, Request};

/// Counts of both halves of the trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) halves: [Half; 2],
}

/// Counts of a part of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Half {
    pub(super) reads: u64,
    /// Reads of which every chunk was cached.
    pub(super) hits: u64,
    pub(super) bytes: u64,
    /// Bytes of cached chunks.
    pub(super) hit_bytes: u64,
    /// Origin requests: adjacent missing chunks share one.
    pub(super) fetches: u64,
    /// Bytes written for the first time, and bytes rewritten.
    pub(super) filled: u64,
    pub(super) moved: u64,
}

impl Counts {
    /// Counts of the whole trace.
    pub(super) const fn whole(&self) -> Half {
        let [first, second] = self.halves;
        Half {
            reads: first.reads + second.reads,
            hits: first.hits + second.hits,
            bytes: first.bytes + second.bytes,
            hit_bytes: first.hit_bytes + second.hit_bytes,
            fetches: first.fetches + second.fetches,
            filled: first.filled + second.filled,
            moved: first.moved + second.moved,
        }
    }
}

/// A cache of one policy, and its requests.
pub(super) struct Cut {
    inner: Box<dyn Contender>,
    recorded: Recorded,
    size_of_all: Option<Bytes>,
    chunk: Bytes,
    /// Requests so far, and the number in half the trace.
    position: u64,
    middle: u64,
    /// Flash writes before the current half.
    before: FlashBytes,
    counts: Counts,
    shared: SharedCounts,
}

/// Counts, shared with the caller.
pub(super) type SharedCounts = Arc<Mutex<Counts>>;

/// Overhead of a record: its descriptors in the segment and in the footer, each 36 bytes plus 4 per
/// 32 KiB (docs/formats/zonelog.md).
const fn descriptors(len: u64) -> u64 {
    2 * (36 + 4 * len.div_ceil(32 << 10))
}

/// Overhead of an object: its packed head, with a name of about 40 bytes, and the head's
/// descriptors.
const HEAD: u64 = 112 + descriptors(112);

impl Cut {
    pub(super) fn new(
        inner: Box<dyn Contender>,
        recorded: Recorded,
        (size, chunk): (Bytes, Bytes),
        requests: u64,
    ) -> (Self, SharedCounts) {
        let shared = SharedCounts::default();
        let cut = Self {
            inner,
            size_of_all: recorded.size_of_all(size),
            recorded,
            chunk,
            position: 0,
            middle: requests / 2,
            before: FlashBytes::default(),
            counts: Counts::default(),
            shared: shared.clone(),
        };
        (cut, shared)
    }

    /// Chunks that a request touches, with their numbers. A cached chunk is cached as a whole.
    fn chunks(&self, request: &Request) -> impl Iterator<Item = (u64, Request)> + use<> {
        let (chunk, id) = (self.chunk.0, request.id);
        let all = whole_blocks(self.size_of_all, request.size).0;
        let (first, bytes) = blocks_read(self.size_of_all, request);
        (first / chunk..(first + bytes).div_ceil(chunk)).map(move |number| {
            let len = chunk.min(all - number * chunk);
            let head = if number == 0 { HEAD } else { 0 };
            let id = if number == 0 { id } else { zonal_base::mix64(id ^ number << 32) };
            (number, Request::read(id, len + descriptors(len) + head, 0))
        })
    }

    fn get(&mut self, request: &Request) -> ReplayOutcome {
        let per_fetch = (zonal_cache::STRIPE.0 / self.chunk.0).max(1);
        let mut half = Half { reads: 1, ..Half::default() };
        let (mut all, mut missing) = (true, false);
        for (number, chunk) in self.chunks(request) {
            half.bytes += chunk.size;
            match self.inner.read(&chunk) {
                ReplayOutcome::Hit => {
                    half.hit_bytes += chunk.size;
                    missing = false;
                }
                ReplayOutcome::Miss => {
                    let begins = !missing || u64::is_multiple_of(number, per_fetch);
                    half.fetches += u64::from(begins);
                    (all, missing) = (false, true);
                }
            }
        }
        half.hits = u64::from(all);
        let counted = &mut self.counts.halves[usize::from(self.middle <= self.position)];
        counted.reads += half.reads;
        counted.hits += half.hits;
        counted.bytes += half.bytes;
        counted.hit_bytes += half.hit_bytes;
        counted.fetches += half.fetches;
        if all { ReplayOutcome::Hit } else { ReplayOutcome::Miss }
    }

    /// Adds the flash writes since the last call to the half that `position` is in.
    fn note_flash(&mut self) {
        let now = self.inner.flash();
        let half = &mut self.counts.halves[usize::from(self.middle <= self.position)];
        half.filled += now.filled - self.before.filled;
        half.moved += now.moved - self.before.moved;
        self.before = now;
    }
}

impl Contender for Cut {
    fn read(&mut self, request: &Request) -> ReplayOutcome {
        self.get(request)
    }

    fn invalidate(&mut self, id: u64) {
        self.inner.invalidate(id);
    }

    fn flash(&self) -> FlashBytes {
        self.inner.flash()
    }

    fn run(&mut self, requests: &[Request], _: &mut ReplayTally) {
        for request in requests {
            if self.recorded.requests.is_some_and(|most| most <= self.position) {
                break;
            }
            for copy in 0..self.recorded.copies {
                let Some(id) = self.recorded.id_of(request.id, copy) else { continue };
                let of_copy = Request { id, ..*request };
                match request.op {
                    Op::Read => {
                        self.get(&of_copy);
                    }
                    Op::Invalidate => {
                        let chunks: Vec<u64> =
                            self.chunks(&of_copy).map(|(_, chunk)| chunk.id).collect();
                        chunks.into_iter().for_each(|id| self.inner.invalidate(id));
                    }
                }
            }
            if self.position + 1 == self.middle {
                self.note_flash();
            }
            self.position += 1;
        }
        self.note_flash();
        *self.shared.lock().unwrap_or_else(PoisonError::into_inner) = self.counts;
    }
}
