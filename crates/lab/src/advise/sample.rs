//! Sample: reads a trace once, counts everything, and keeps the requests of some objects in memory.
//!
//! Objects are chosen by a hash of their number, with all requests for them (SHARDS). A cache with
//! the same fraction of the space misses as often. The fraction is halved whenever the sample would
//! exceed its memory, so the memory is fixed and the fraction follows from the trace.
//!
//! A large object counts as many: each part of 32 MiB is chosen by itself. Otherwise chance would
//! decide whether the bytes of a few large objects are in the sample.

use std::sync::Arc;

use serde::Serialize;
use zonal_base::{Bytes, mix64};

use super::Question;
use crate::bench::Progress;
use crate::trace::{NumberMap, Op, Request, Skipped, TimeUnit, Trace};

/// Summary of a trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Survey {
    /// Reads.
    pub reads: u64,
    /// Bytes of all reads.
    pub read_bytes: u64,
    /// Writes and deletions.
    pub removals: u64,
    /// Distinct objects that were read; each version counts. Above a million it is an estimate,
    /// within half a percent.
    pub objects: u64,
    /// Size of the largest object.
    pub largest: u64,
    /// Share of the objects that were written or deleted after a read, each version counted; an
    /// estimate if sampled.
    pub overwritten: f64,
    /// Time from the first to the last request; 0 without times in the trace.
    pub seconds: u64,
    /// Unit of the times in the trace.
    pub time_unit: TimeUnit,
    /// Entries of an access log that are not counted above.
    pub skipped: Skipped,
    /// True if reading was interrupted: the rest of the trace is unknown.
    pub is_cut: bool,
}

/// Requests of some of the objects.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Counts of the whole trace.
    pub survey: Survey,
    /// The requests, in order.
    pub(super) requests: Arc<[Request]>,
    /// One object in 2^halvings is in the sample.
    halvings: u32,
    /// First request of the sample that belongs to the second half of the trace.
    pub(super) middle: usize,
    /// Reads and bytes of the second half of the trace.
    pub(super) late_reads: u64,
    pub(super) late_bytes: u64,
}

/// Size that counts as one lookup.
const PIECE: u64 = 256 << 10;

/// Requests that are read at a time.
const BATCH: usize = 16 << 10;

/// Salt of the hash that chooses objects, so that it equals no other.
const SALT: u64 = 0x53_48_41_52_44_53;

/// Reads between two notes of how much was read by then.
const NOTE_EVERY: u64 = 1 << 10;

/// Whether an object is in a sample of one object in 2^halvings.
const fn is_in(id: u64, halvings: u32) -> bool {
    mix64(id ^ SALT).trailing_zeros() >= halvings
}

/// Number of chunk lookups that a request costs.
const fn lookups(request: &Request) -> u64 {
    1 + request.bytes / PIECE
}

/// Size of a part of an object.
const PART: u64 = 32 << 20;

/// Parts that an object has at most.
const PARTS_MAX: u64 = 4096;

/// Marks a request for the rest of a read, whose beginning is a request for another part.
const REST: u32 = 0;

/// Cuts a request into requests for parts, each an object of its own. Only the first of them counts
/// as a read.
fn parts(request: &Request) -> impl Iterator<Item = Request> + use<> {
    let request = *request;
    let part = PART.max((request.size / PARTS_MAX).next_power_of_two());
    let (begin, end) = (request.offset, request.offset + request.bytes);
    let first = begin / part;
    (first..end.div_ceil(part).max(first + 1)).map(move |number| {
        let from = number * part;
        let offset = begin.max(from) - from;
        let id = if number == 0 { request.id } else { mix64(request.id ^ mix64(number)) };
        Request {
            id,
            size: part.min(request.size - from),
            offset,
            bytes: end.min(from + part) - from - offset,
            next: if number == first { request.next } else { REST },
            ..request
        }
    })
}

/// Whether a request of a sample counts as a read.
pub(super) const fn is_read(request: &Request) -> bool {
    request.next != REST
}

/// Sample that is being taken: requests with the number of the read before them.
#[derive(Default)]
struct Taking {
    kept: Vec<(u64, Request)>,
    lookups: u64,
    halvings: u32,
    /// Bytes read after each [`NOTE_EVERY`] reads.
    notes: Vec<u64>,
}

impl Taking {
    fn take(&mut self, request: &Request, survey: &Survey, most: u64) {
        for part in parts(request) {
            if is_in(part.id, self.halvings) {
                self.kept.push((survey.reads, part));
                self.lookups += lookups(&part);
                self.thin_out(most);
            }
        }
    }

    fn thin_out(&mut self, most: u64) {
        while most < self.lookups {
            self.halvings += 1;
            self.kept.retain(|(_, request)| is_in(request.id, self.halvings));
            self.lookups = self.kept.iter().map(|(_, request)| lookups(request)).sum();
        }
    }
}

impl Sample {
    /// Reads the trace, up to the number of requests that the question limits it to.
    pub(super) fn take(question: &Question, progress: &Progress) -> Result<Self, String> {
        progress.begin("reading");
        let most = question.lookups.unwrap_or(u64::MAX);
        let mut reader = question.trace.open().map_err(|error| error.to_string())?;
        let (mut survey, mut taking) = (Survey::default(), Taking::default());
        let mut objects = Objects::default();
        let (mut batch, mut times_s) = (Vec::with_capacity(BATCH), None);
        let mut left = question.requests.unwrap_or(u64::MAX);
        let size_of_all = (!question.trace.format().has_sizes()).then_some(question.size.0);
        while !progress.is_stopped() {
            reader.batch(&mut batch, BATCH).map_err(|error| error.to_string())?;
            batch.truncate(usize::try_from(left).unwrap_or(usize::MAX));
            left -= batch.len() as u64;
            if batch.is_empty() {
                break;
            }
            for read in &batch {
                let request = sized(read, size_of_all);
                let (first, last) = times_s.unwrap_or((request.time_s, request.time_s));
                times_s = Some((request.time_s.min(first), request.time_s.max(last)));
                taking.take(&request, &survey, most);
                match request.op {
                    Op::Invalidate => survey.removals += 1,
                    Op::Read => {
                        objects.add(request.id);
                        if survey.reads.is_multiple_of(NOTE_EVERY) {
                            taking.notes.push(survey.read_bytes);
                        }
                        survey.reads += 1;
                        survey.read_bytes += size_of_all.unwrap_or(read.bytes);
                        survey.largest = survey.largest.max(request.size);
                    }
                }
            }
            progress.show_share(reader.done());
        }
        // What was read is still replayed; another Ctrl-C ends that, too.
        survey.is_cut = progress.take_stop();
        if survey.reads == 0 && survey.is_cut {
            return Err(format!("{}: interrupted before anything was read", question.trace));
        }
        if survey.reads == 0 {
            return Err(reader.without_reads(zonal_base::index(survey.removals)).to_string());
        }
        (survey.time_unit, survey.skipped) = (reader.time_unit(), reader.skipped());
        survey.objects = objects.estimate();
        survey.seconds = times_s.map_or(0, |(first, last)| u64::from(last - first));
        Ok(Self::of(survey, taking))
    }

    fn of(mut survey: Survey, taking: Taking) -> Self {
        let Taking { mut kept, halvings, notes, .. } = taking;
        let half = survey.reads / 2;
        let middle = kept.partition_point(|(before, _)| *before < half);
        let note = notes.get(zonal_base::index(half.div_ceil(NOTE_EVERY)));
        let late_bytes = survey.read_bytes - note.copied().unwrap_or(survey.read_bytes / 2);
        let (mut seen, mut overwritten) = (NumberMap::<u64, bool>::default(), 0_u64);
        for (_, request) in &kept {
            match request.op {
                Op::Read => drop(seen.entry(request.id).or_default()),
                Op::Invalidate => {
                    if let Some(is_known) = seen.get_mut(&request.id)
                        && !std::mem::replace(is_known, true)
                    {
                        overwritten += 1;
                    }
                }
            }
        }
        survey.overwritten = overwritten as f64 / seen.len().max(1) as f64;
        let requests = kept.drain(..).map(|(_, request)| request).collect();
        let late_reads = survey.reads - half;
        Self { survey, requests, halvings, middle, late_reads, late_bytes: late_bytes.max(1) }
    }

    /// Fraction of the objects that are in the sample.
    #[must_use]
    pub fn rate(&self) -> f64 {
        0.5_f64.powi(self.halvings.cast_signed())
    }

    /// One object in two to the power of this is in the sample.
    pub(super) const fn halvings(&self) -> u32 {
        self.halvings
    }

    /// Space of a cache of the sample that stands for a space for everything.
    pub(super) const fn scaled(&self, bytes: Bytes) -> Bytes {
        Bytes(bytes.0 >> self.halvings)
    }

    /// The sample as a trace.
    pub(super) fn trace(&self, name: &str) -> Trace {
        Trace::of_requests(name, self.requests.clone())
    }

    /// What the whole trace reads, each byte counted once, in chunks of a size: the number of chunks
    /// and the space that they take. A cache of that space needs no eviction.
    pub(super) fn footprint(&self, chunk: Bytes) -> (u64, Bytes) {
        let mut chunks = NumberMap::<u64, u64>::default();
        for request in self.requests.iter().filter(|request| request.op == Op::Read) {
            chunks.extend(super::cut::chunks(request, chunk));
        }
        let bytes = chunks.values().sum::<u64>();
        ((chunks.len() as u64) << self.halvings, Bytes(bytes << self.halvings))
    }
}

impl Survey {
    /// Mean size of a read.
    #[must_use]
    pub const fn mean(&self) -> Bytes {
        Bytes(self.read_bytes / self.reads)
    }

    /// Reads per second; `None` without times in the trace.
    #[must_use]
    pub fn reads_per_s(&self) -> Option<f64> {
        (self.seconds != 0).then(|| self.reads as f64 / self.seconds as f64)
    }
}

/// A request with the size of its object, where the format has none. An object without bytes takes
/// a byte, so that a cache has something to hold.
fn sized(request: &Request, size_of_all: Option<u64>) -> Request {
    let size = size_of_all.unwrap_or(request.size).max(1);
    if request.bytes == request.size {
        return Request { size, bytes: size, offset: 0, ..*request };
    }
    let offset = request.offset.min(size - 1);
    Request { size, offset, bytes: request.bytes.clamp(1, size - offset), ..*request }
}

/// Largest number of objects that are told apart. Beyond it, objects are sampled by their hash.
const TOLD_APART: usize = 1 << 20;

/// Number of distinct objects.
#[derive(Default)]
struct Objects {
    halvings: u32,
    seen: NumberMap<u64, ()>,
}

impl Objects {
    fn add(&mut self, id: u64) {
        if !is_in(id, self.halvings) {
            return;
        }
        self.seen.insert(id, ());
        if TOLD_APART < self.seen.len() {
            self.halvings += 1;
            let halvings = self.halvings;
            self.seen.retain(|id, ()| is_in(*id, halvings));
        }
    }

    fn estimate(&self) -> u64 {
        (self.seen.len() as u64) << self.halvings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_counted_exactly_up_to_a_million_and_nearly_beyond() {
        for count in [1000, 5_000_000_u64] {
            let mut objects = Objects::default();
            (0..count).chain(0..1000).for_each(|id| objects.add(id * 8));
            let most = if count == 1000 { 0 } else { count / 200 };
            assert!(objects.estimate().abs_diff(count) <= most, "{}", objects.estimate());
        }
    }

    #[test]
    fn a_read_is_cut_at_parts_and_counts_once() {
        let read = Request { offset: PART - 10, bytes: PART + 20, ..Request::read(7, 3 * PART, 5) };
        let all: Vec<Request> = parts(&read).collect();
        let ranges: Vec<(u64, u64)> = all.iter().map(|one| (one.offset, one.bytes)).collect();
        assert_eq!(ranges, [(PART - 10, 10), (0, PART), (0, 10)]);
        assert_eq!(all.iter().filter(|one| is_read(one)).count(), 1);
        assert!(all[0].id == 7 && all[1].id != 7 && all[1].id != all[2].id);
        let again = Request { offset: PART, bytes: 1, ..read };
        assert_eq!(parts(&again).next().map(|one| one.id), Some(all[1].id));
        // The largest objects have larger parts.
        assert_eq!(parts(&Request::read(7, 1 << 50, 5)).count() as u64, PARTS_MAX);
    }
}
