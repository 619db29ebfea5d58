//! JSON of `zonal cache scrub` and its admin endpoint.

use serde::{Deserialize, Serialize};

/// Path on the admin endpoint that starts a scrub (POST). Its progress is in the statistics.
pub const PATH: &str = "/cache/scrub";

/// The scrub that is running, or the last one: the sum over all devices.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct ScrubStats {
    pub running: bool,
    /// Zones of all devices, and those that are verified. Both are 0 before the first scrub.
    pub zones: u64,
    pub zones_done: u64,
    pub read_bytes: u64,
    /// Cached records that were verified: heads and pieces of objects.
    pub records: u64,
    /// Records that are damaged or could not be read. They are not cached any more.
    pub damaged_records: u64,
    /// Zones with damaged headers or a damaged footer.
    pub damaged_metadata: u64,
    /// The first damaged zones: a thousand of each shard at most.
    pub damaged_zones: Vec<DamagedZone>,
    /// When the last scrub ended, in seconds since 1970; `null` if none has.
    pub ended_seconds: Option<u64>,
    /// Devices, as configured, of which the scrub has not verified everything: a device failed, was
    /// late, or the process stopped.
    pub broken_off: Vec<String>,
}

/// A zone with damage.
#[derive(Debug, Serialize, Deserialize)]
pub struct DamagedZone {
    /// The device spec as configured.
    pub device: String,
    /// Zone of the device, as `zonal inspect` numbers it.
    pub zone: u64,
}

impl ScrubStats {
    pub const fn damaged(&self) -> u64 {
        self.damaged_records + self.damaged_metadata
    }
}
