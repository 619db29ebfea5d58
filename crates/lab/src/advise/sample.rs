//! Sample: reads a trace once, counts everything, and keeps the requests of some objects in memory.
//!
//! Objects are chosen by a hash of their number, with all requests for them (SHARDS). A cache with
//! the same fraction of the space misses as often. The fraction is halved whenever the sample would
//! exceed its memory, so the memory is fixed and the fraction follows from the trace.

use std::sync::Arc;

use serde::Serialize;
use zonal_base::{BLOCK_BYTES, Bytes, mix64};

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
    /// Distinct objects that were read; an estimate if the trace was sampled.
    pub objects: u64,
    /// Size of the largest object.
    pub largest: u64,
    /// Share of the objects that were written or deleted after a read; an estimate if sampled.
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
        if !is_in(request.id, self.halvings) {
            return;
        }
        self.kept.push((survey.reads, *request));
        self.lookups += lookups(request);
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
            for request in &batch {
                let request = in_blocks(request, size_of_all);
                let (first, last) = times_s.unwrap_or((request.time_s, request.time_s));
                times_s = Some((request.time_s.min(first), request.time_s.max(last)));
                taking.take(&request, &survey, most);
                match request.op {
                    Op::Invalidate => survey.removals += 1,
                    Op::Read => {
                        if survey.reads.is_multiple_of(NOTE_EVERY) {
                            taking.notes.push(survey.read_bytes);
                        }
                        survey.reads += 1;
                        survey.read_bytes += request.bytes;
                        survey.largest = survey.largest.max(request.size);
                    }
                }
            }
            progress.show_share(reader.done());
        }
        survey.is_cut = progress.is_stopped();
        if survey.reads == 0 {
            return Err(reader.without_reads(zonal_base::index(survey.removals)).to_string());
        }
        (survey.time_unit, survey.skipped) = (reader.time_unit(), reader.skipped());
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
        survey.objects = (seen.len() as u64) << halvings;
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

    /// Bytes that the whole trace reads, each counted once, in chunks of a size: a cache of this
    /// size needs no eviction.
    pub(super) fn footprint(&self, chunk: Bytes) -> Bytes {
        let mut chunks = NumberMap::<u64, u64>::default();
        for request in self.requests.iter().filter(|request| request.op == Op::Read) {
            for (id, bytes) in super::cut::chunks(request, chunk) {
                chunks.insert(id, bytes);
            }
        }
        Bytes(chunks.values().sum::<u64>() << self.halvings)
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

/// A request in whole blocks, as the cache stores it.
fn in_blocks(request: &Request, size_of_all: Option<u64>) -> Request {
    let block = BLOCK_BYTES as u64;
    if let Some(size) = size_of_all {
        return Request { size, bytes: size, offset: 0, ..*request };
    }
    let size = request.size.div_ceil(block).max(1) * block;
    if request.bytes == request.size {
        return Request { size, bytes: size, ..*request };
    }
    let offset = (request.offset / block * block).min(size - block);
    let end = request.offset.saturating_add(request.bytes).div_ceil(block) * block;
    Request { size, offset, bytes: end.clamp(offset + block, size) - offset, ..*request }
}
