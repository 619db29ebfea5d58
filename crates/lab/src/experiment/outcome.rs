//! What an experiment gave.

use serde::{Deserialize, Serialize};
use zonal_base::Nanos;

use crate::simulated::{Latency, Moved};

/// The length of the stretches of time in [`Outcome::moved`].
pub(crate) const STRETCH: Nanos = Nanos::secs(60);

/// What an experiment gave: whole numbers, all of them in virtual time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// Gets that were answered.
    pub gets: u64,
    /// Those that asked nothing of the origin.
    pub hits: u64,
    /// Questions to the origin: what an object is, and for bytes of it.
    pub origin_requests: u64,
    /// Bytes that were got.
    pub bytes: u64,
    /// How long all of it took.
    pub took_ns: u64,
    /// All gets.
    pub get: Latency,
    /// Hits.
    pub hit: Latency,
    /// Misses.
    pub miss: Latency,
    /// Chunks read from the drive by a cache of threads; counts 0 in Zonal, which reads pieces.
    pub read: Latency,
    /// Chunks written to the drive by a cache of threads, likewise.
    pub write: Latency,
    /// Zones finished by a cache that waits for it; counts 0 in others.
    pub finish: Latency,
    /// When the first zone that held something was emptied, in a cache that does one thing after the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_emptied_ns: Option<u64>,
    /// Bytes and gets by minutes.
    pub moved: Vec<Moved>,
    /// What the drive did.
    pub drive: DriveBytes,
}

/// What the drive did while the cache ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriveBytes {
    /// Bytes that the cache wrote to it.
    pub written: u64,
    /// Bytes that it programmed for that: copies of its own, and what fills zones that were finished early, included.
    pub programmed: u64,
}

impl Outcome {
    /// Hits of all gets.
    #[must_use]
    pub fn hit_ratio(&self) -> f64 {
        ratio(self.hits, self.gets)
    }

    /// Bytes got in a second, in GiB.
    #[must_use]
    pub fn get_gib_per_s(&self) -> f64 {
        ratio(self.bytes, self.took_ns) * 1e9 / GIB
    }

    /// Bytes programmed for each that the cache wrote.
    #[must_use]
    pub fn write_amplification(&self) -> f64 {
        ratio(self.drive.programmed, self.drive.written)
    }

    /// Bytes written to the drive for each that was got.
    #[must_use]
    pub fn written_for_got(&self) -> f64 {
        ratio(self.drive.written, self.bytes)
    }

    /// GiB per second by minutes, of whatever `of` picks.
    pub(crate) fn by_minutes(&self, of: fn(&Moved) -> u64) -> Vec<f64> {
        let seconds = (STRETCH.0 as f64 / 1e9).min(self.took_ns as f64 / 1e9);
        self.moved.iter().map(|moved| of(moved) as f64 / GIB / seconds).collect()
    }

    /// Hits of the gets of each minute; 0 of none.
    pub(crate) fn hits_by_minutes(&self) -> Vec<f64> {
        self.moved.iter().map(|moved| ratio(moved.hits, moved.gets)).collect()
    }

    /// The mean latency of the gets of each minute, in milliseconds; 0 of none.
    pub(crate) fn latency_by_minutes(&self) -> Vec<f64> {
        self.moved.iter().map(|moved| ratio(moved.get_ns, moved.gets) / 1e6).collect()
    }
}

pub(crate) const GIB: f64 = (1_u64 << 30) as f64;

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
