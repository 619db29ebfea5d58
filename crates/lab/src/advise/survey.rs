//! Survey: volume and kind of a trace's requests, in one pass and bounded memory.

use serde::Serialize;
use zonal_base::Bytes;

use super::Question;
use crate::bench::Progress;
use crate::simulated::{blocks_read, whole_blocks};
use crate::trace::{NumberMap, Op, Skipped, TimeUnit, spread};

/// Summary of a trace, over all copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Survey {
    /// Requests: lines or records of the file, expanded.
    pub requests: u64,
    /// Reads.
    pub reads: u64,
    /// Writes and deletions.
    pub removals: u64,
    /// Bytes read, in whole blocks.
    pub read_bytes: u64,
    /// Distinct objects read. Above a million it is an estimate, within half a percent.
    pub objects: u64,
    /// Bytes of these objects, each in its last size: a cache of this size holds everything.
    pub footprint: u64,
    /// Size of the largest object.
    pub largest: u64,
    /// Time from the first to the last request; 0 without times in the trace.
    pub seconds: u64,
    /// Unit of the times in the trace.
    pub time_unit: TimeUnit,
    /// Entries of an access log that are not counted above.
    pub skipped: Skipped,
}

/// Number of requests read from the file at a time.
const BATCH: usize = 32 << 10;

impl Survey {
    pub(super) fn of(question: &Question, progress: &Progress) -> Result<Self, String> {
        progress.begin("reading");
        let recorded = &question.recorded;
        let size_of_all = recorded.size_of_all(question.size);
        let mut reader = recorded.file().open().map_err(|error| error.to_string())?;
        let (mut survey, mut objects) = (Self::default(), Objects::default());
        let (mut batch, mut times_s) = (Vec::with_capacity(BATCH), None);
        loop {
            reader.batch(&mut batch, BATCH).map_err(|error| error.to_string())?;
            let left = recorded.requests.unwrap_or(u64::MAX) - survey.requests;
            batch.truncate(usize::try_from(left).unwrap_or(usize::MAX));
            if batch.is_empty() {
                break;
            }
            for request in &batch {
                let (first, last) = times_s.unwrap_or((request.time_s, request.time_s));
                times_s = Some((request.time_s.min(first), request.time_s.max(last)));
                if request.op == Op::Invalidate {
                    survey.removals += 1;
                    continue;
                }
                let bytes = whole_blocks(size_of_all, request.size);
                survey.reads += 1;
                survey.read_bytes += blocks_read(size_of_all, request).1;
                survey.largest = survey.largest.max(bytes.0);
                objects.add(request.id, bytes);
            }
            survey.requests += batch.len() as u64;
            progress.show_share(reader.done());
        }
        if survey.reads == 0 {
            let requests = zonal_base::index(survey.requests);
            return Err(reader.without_reads(requests).to_string());
        }
        (survey.time_unit, survey.skipped) = (reader.time_unit(), reader.skipped());
        survey.seconds = times_s.map_or(0, |(first, last)| u64::from(last - first));
        (survey.objects, survey.footprint) = objects.estimate();
        Ok(survey.times(u64::from(recorded.copies)))
    }

    const fn times(self, copies: u64) -> Self {
        Self {
            reads: self.reads * copies,
            removals: self.removals * copies,
            read_bytes: self.read_bytes * copies,
            objects: self.objects * copies,
            footprint: self.footprint * copies,
            ..self
        }
    }

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

/// Largest number of objects to track. Beyond it, objects are sampled by the zeros at the end of
/// their hash.
const TOLD_APART: usize = 1 << 20;

#[derive(Default)]
struct Objects {
    zeros: u32,
    sizes: NumberMap<u64, Bytes>,
}

impl Objects {
    fn add(&mut self, id: u64, bytes: Bytes) {
        if spread(id).trailing_zeros() < self.zeros {
            return;
        }
        self.sizes.insert(id, bytes);
        if TOLD_APART < self.sizes.len() {
            self.zeros += 1;
            let zeros = self.zeros;
            self.sizes.retain(|id, _| zeros <= spread(*id).trailing_zeros());
        }
    }

    /// Number of objects, and their bytes.
    fn estimate(&self) -> (u64, u64) {
        let bytes: u64 = self.sizes.values().map(|bytes| bytes.0).sum();
        ((self.sizes.len() as u64) << self.zeros, bytes << self.zeros)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_counted_exactly_up_to_a_million_and_nearly_beyond() {
        for count in [1000, 5_000_000_u64] {
            let mut objects = Objects::default();
            (0..count).chain(0..1000).for_each(|id| objects.add(id * 8, Bytes(4096)));
            let (seen, bytes) = objects.estimate();
            let most = if count == 1000 { 0 } else { count / 200 };
            assert!(seen.abs_diff(count) <= most, "{seen} of {count}");
            assert_eq!(bytes, seen * 4096);
        }
    }
}
