//! Outcome of an experiment: counts, latencies and bytes.

use serde::{Deserialize, Serialize};
use zonal_base::Nanos;

use crate::simulated::{Latency, Moved};

/// Interval of [`Outcome::moved`].
pub(crate) const STRETCH: Nanos = Nanos::secs(60);

/// Outcome of an experiment: whole numbers, all in virtual time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// Gets that were answered.
    pub gets: u64,
    /// Gets that sent no request to the origin.
    pub hits: u64,
    /// Requests to the origin, for heads and for bytes of objects.
    pub origin_requests: u64,
    /// Bytes of answered gets.
    pub bytes: u64,
    /// Duration of the run in nanoseconds.
    pub took_ns: u64,
    /// Latency of all gets.
    pub get: Latency,
    /// Latency of hits.
    pub hit: Latency,
    /// Latency of misses.
    pub miss: Latency,
    /// Time to read a chunk from the drive, in a cache of threads. Zonal reads pieces, and counts
    /// 0.
    pub read: Latency,
    /// Time to write a chunk to the drive, in a cache of threads. Zonal counts 0.
    pub write: Latency,
    /// Time to finish a zone, in a cache that waits for it. Others count 0.
    pub finish: Latency,
    /// When ZNSCCache emptied the first zone with data, since the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_emptied_ns: Option<u64>,
    /// Bytes and gets per minute.
    pub moved: Vec<Moved>,
    /// Bytes written and programmed by the drive.
    pub drive: DriveBytes,
}

/// Bytes at the drive while the cache ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriveBytes {
    /// Bytes that the cache wrote to the drive.
    pub written: u64,
    /// Bytes that the drive programmed for them, with its own copies and the fill of zones that
    /// were finished early.
    pub programmed: u64,
}

impl Outcome {
    /// Hit ratio of gets.
    #[must_use]
    pub fn hit_ratio(&self) -> f64 {
        ratio(self.hits, self.gets)
    }

    /// Throughput of gets in GiB/s.
    #[must_use]
    pub fn get_gib_per_s(&self) -> f64 {
        ratio(self.bytes, self.took_ns) * 1e9 / GIB
    }

    /// Write amplification of the drive: bytes programmed for each byte that the cache wrote.
    #[must_use]
    pub fn write_amplification(&self) -> f64 {
        ratio(self.drive.programmed, self.drive.written)
    }

    /// Bytes written to the drive for each byte that was got.
    #[must_use]
    pub fn written_for_got(&self) -> f64 {
        ratio(self.drive.written, self.bytes)
    }

    /// GiB/s per minute, of the bytes that `of` selects.
    pub(crate) fn by_minutes(&self, of: fn(&Moved) -> u64) -> Vec<f64> {
        let seconds = (STRETCH.0 as f64 / 1e9).min(self.took_ns as f64 / 1e9);
        self.moved.iter().map(|moved| of(moved) as f64 / GIB / seconds).collect()
    }

    /// Hit ratio of each minute. 0 without gets.
    pub(crate) fn hits_by_minutes(&self) -> Vec<f64> {
        self.moved.iter().map(|moved| ratio(moved.hits, moved.gets)).collect()
    }

    /// Mean get latency of each minute in milliseconds. 0 without gets.
    pub(crate) fn latency_by_minutes(&self) -> Vec<f64> {
        self.moved.iter().map(|moved| ratio(moved.get_ns, moved.gets) / 1e6).collect()
    }
}

pub(crate) const GIB: f64 = (1_u64 << 30) as f64;

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
