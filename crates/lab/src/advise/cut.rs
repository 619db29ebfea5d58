//! Chunked replay: a sample as the engine sees it, without a drive. Objects are cut into chunks,
//! which use the flash space of their records.

use std::sync::{Arc, Mutex, PoisonError};

use zonal_base::{Bytes, mix64};

use super::freshness::{Confirmations, RULES};
use super::sample::is_read;
use crate::trace::{Contender, FlashBytes, Op, ReplayOutcome, ReplayTally, Request};

/// Groups of objects, by which the error of a sample is estimated.
pub(super) const GROUPS: usize = 16;

/// Counts of a part of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) reads: u64,
    /// Reads of which every chunk was cached.
    pub(super) hits: u64,
    /// Bytes that were asked for, and those of them that were cached.
    pub(super) bytes: u64,
    pub(super) hit_bytes: u64,
    /// Requests for bytes to the origin: adjacent missing chunks share one.
    pub(super) fetches: u64,
    /// Bytes that the origin sends: whole chunks.
    pub(super) fetched_bytes: u64,
    /// Reads of objects of which nothing was cached: each asks for the metadata, too.
    pub(super) heads: u64,
    /// Reads whose cached object must be confirmed, by freshness rule.
    pub(super) confirmations: [u64; RULES],
    /// Bytes written for the first time, and bytes rewritten.
    pub(super) filled: u64,
    pub(super) moved: u64,
    /// Missed reads and missed bytes, by group of objects.
    pub(super) missed: [u64; GROUPS],
    pub(super) missed_bytes: [u64; GROUPS],
}

/// Counts of both halves of the trace.
pub(super) type Halves = [Counts; 2];

/// Counts, shared with the caller.
pub(super) type SharedCounts = Arc<Mutex<Halves>>;

/// A cache of one policy, and its counts.
pub(super) struct Cut {
    inner: Box<dyn Contender>,
    chunk: Bytes,
    /// Requests so far, and the number at which the second half begins.
    position: usize,
    middle: usize,
    /// Flash writes before the current half.
    before: FlashBytes,
    confirmations: Option<Confirmations>,
    halves: Halves,
    shared: SharedCounts,
}

/// Overhead of a record: its descriptors in the segment and in the footer, each 36 bytes plus 4 per
/// 32 KiB (docs/formats/zonelog.md).
const fn descriptors(len: u64) -> u64 {
    2 * (36 + 4 * len.div_ceil(32 << 10))
}

/// Overhead of an object: its packed head, with a name of about 40 bytes, and the head's
/// descriptors.
const HEAD: u64 = 112 + descriptors(112);

/// Bytes of a chunk on flash: whole blocks, or packed with others if it is shorter than one.
const fn stored(len: u64) -> u64 {
    const BLOCK: u64 = zonal_base::BLOCK_BYTES as u64;
    if len < BLOCK { len } else { len.div_ceil(BLOCK) * BLOCK }
}

/// Largest distance of chunks that one request to the origin covers.
const STRIPE: u64 = zonal_cache::STRIPE.0;

/// Chunks that a request touches: their IDs, and the space that each takes on flash. A cached chunk
/// is cached as a whole.
pub(super) fn chunks(request: &Request, chunk: Bytes) -> impl Iterator<Item = (u64, u64)> + use<> {
    let (chunk, id, size) = (chunk.0, request.id, request.size);
    let (first, end) = (request.offset, request.offset + request.bytes);
    (first / chunk..end.div_ceil(chunk)).map(move |number| {
        let len = chunk.min(size - number * chunk);
        let head = if number == 0 { HEAD } else { 0 };
        let id = if number == 0 { id } else { mix64(id ^ number << 32) };
        (id, stored(len) + descriptors(len) + head)
    })
}

impl Cut {
    /// `middle` is the first request of the second half. With `confirms`, the freshness rules are
    /// counted, which takes memory for each object.
    pub(super) fn new(
        inner: Box<dyn Contender>,
        chunk: Bytes,
        middle: usize,
        confirms: bool,
    ) -> (Self, SharedCounts) {
        let shared = SharedCounts::default();
        let cut = Self {
            inner,
            chunk,
            position: 0,
            middle,
            before: FlashBytes::default(),
            confirmations: confirms.then(Confirmations::default),
            halves: Halves::default(),
            shared: shared.clone(),
        };
        (cut, shared)
    }

    fn counts(&mut self) -> &mut Counts {
        &mut self.halves[usize::from(self.middle <= self.position)]
    }

    fn get(&mut self, request: &Request) -> ReplayOutcome {
        let chunk = self.chunk.0;
        let per_fetch = (STRIPE / chunk).max(1);
        let (mut fetches, mut fetched_bytes, mut hit_bytes) = (0, 0, 0);
        let (mut count, mut hits, mut is_missing) = (0_u64, 0_u64, false);
        let (begin, end) = (request.offset, request.offset + request.bytes);
        for (number, (id, space)) in (begin / chunk..).zip(chunks(request, self.chunk)) {
            count += 1;
            let asked = end.min((number + 1) * chunk) - begin.max(number * chunk);
            match self.inner.read(&Request::read(id, space, 0)) {
                ReplayOutcome::Hit => {
                    (hits, is_missing) = (hits + 1, false);
                    hit_bytes += asked;
                }
                ReplayOutcome::Miss => {
                    fetches += u64::from(!is_missing || number.is_multiple_of(per_fetch));
                    fetched_bytes += chunk.min(request.size - number * chunk);
                    is_missing = true;
                }
            }
        }
        let is_hit = hits == count;
        let confirmations = self
            .confirmations
            .as_mut()
            .map_or([0; RULES], |confirmed| confirmed.read(request, is_hit));
        let group = zonal_base::index(mix64(request.id ^ GROUP_SALT) % GROUPS as u64);
        let is_read = is_read(request);
        let counts = self.counts();
        counts.bytes += request.bytes;
        counts.hit_bytes += hit_bytes;
        counts.fetches += fetches;
        counts.fetched_bytes += fetched_bytes;
        counts.missed_bytes[group] += request.bytes - hit_bytes;
        if is_read {
            counts.reads += 1;
            counts.hits += u64::from(is_hit);
            counts.heads += u64::from(hits == 0);
            counts.missed[group] += u64::from(!is_hit);
            for (sum, more) in counts.confirmations.iter_mut().zip(confirmations) {
                *sum += more;
            }
        }
        if is_hit { ReplayOutcome::Hit } else { ReplayOutcome::Miss }
    }

    /// Adds the flash writes since the last call to the half that `position` is in.
    fn note_flash(&mut self) {
        let now = self.inner.flash();
        let before = std::mem::replace(&mut self.before, now);
        let counts = self.counts();
        counts.filled += now.filled - before.filled;
        counts.moved += now.moved - before.moved;
    }
}

/// Salt of the hash that divides objects into groups.
const GROUP_SALT: u64 = 0x47_52_4F_55_50;

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
            match request.op {
                Op::Read => drop(self.get(request)),
                Op::Invalidate => {
                    for (id, _) in chunks(request, self.chunk) {
                        self.inner.invalidate(id);
                    }
                }
            }
            if self.position + 1 == self.middle {
                self.note_flash();
            }
            self.position += 1;
        }
        self.note_flash();
        *self.shared.lock().unwrap_or_else(PoisonError::into_inner) = self.halves;
    }
}
