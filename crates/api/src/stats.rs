//! JSON of `zonal cache stats` and its admin endpoint: counters since start and current values.
//! Readers form ratios.

use serde::{Deserialize, Serialize};

use crate::scrubbing::ScrubStats;
use crate::switching::CachingState;

/// Path on the admin endpoint.
pub const PATH: &str = "/stats";

/// Statistics of the cache at one moment. Names match the metrics; counts omit the unit.
#[derive(Debug, Serialize, Deserialize)]
pub struct Stats {
    /// Whether reads are served from the cache.
    pub cache: CachingState,
    pub answers: Answers,
    pub savings: Savings,
    pub connections: Connections,
    /// Pins set by the operator.
    pub pins: Pins,
    /// Devices in the order of the configuration, each summed over its shards.
    pub devices: Vec<DeviceStats>,
    /// Origins in the order of the configuration.
    pub origins: Vec<OriginStats>,
    pub scrub: ScrubStats,
}

/// What the cache has saved at the origins, compared with the same reads without a cache. Negative
/// if it has cost more.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Savings {
    /// Origin requests.
    pub requests: i64,
    /// Bytes received from origins.
    pub bytes: i64,
    /// Their cost, at the prices of `[price]`.
    pub cost: f64,
    pub currency: String,
}

/// Responses by their `X-Cache` header.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Answers {
    pub hit: u64,
    pub revalidated: u64,
    pub miss: u64,
    pub stale: u64,
    pub updating: u64,
    /// Includes lists, writes and other uncached operations.
    pub bypass: u64,
    /// GetObject and HeadObject requests that bypassed the cache, by reason; only reasons that
    /// occurred.
    pub bypassed_reads: Vec<BypassedReads>,
    /// Origin requests caused by reads: heads, ranges, retries, hedges, and reads that bypassed the
    /// cache.
    pub origin_requests: u64,
}

/// Reads that bypassed the cache for one reason.
#[derive(Debug, Serialize, Deserialize)]
pub struct BypassedReads {
    /// The value of `X-Cache-Reason`.
    pub reason: String,
    /// The reason as a sentence for people.
    pub explanation: String,
    pub reads: u64,
}

impl Answers {
    /// GetObject and HeadObject requests served from the cache or the origin.
    pub fn reads(&self) -> u64 {
        let bypassed: u64 = self.bypassed_reads.iter().map(|bypassed| bypassed.reads).sum();
        self.served_by_cache() + self.miss + bypassed
    }

    /// Reads served from flash or memory.
    pub const fn served_by_cache(&self) -> u64 {
        self.hit + self.revalidated + self.stale + self.updating
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Connections {
    /// Connections open now.
    pub open: u64,
    pub accepted: u64,
    pub refused: u64,
    pub timed_out: u64,
}

/// Number of objects and prefixes in the pins file.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Pins {
    pub objects: u64,
    pub prefixes: u64,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct DeviceStats {
    /// Number in the order of the configuration.
    pub device: usize,
    pub name: String,
    pub state: DeviceState,
    pub kind: DeviceKind,
    pub policy: String,
    pub shards: u64,
    /// Shards that no longer answer and are not isolated.
    pub shards_lost: u64,
    /// Shards that are offline until their device has passed its probe window.
    pub shards_isolated: u64,
    pub zones: u64,
    /// Writable bytes of a zone.
    pub zone_bytes: u64,
    pub wear: Wear,
    /// Isolations since the start.
    pub isolations: u64,
    /// Reads that timed out since the device joined.
    pub reads_timed_out: u64,
    pub reads: Reads,
    pub flash: Flash,
}

/// What wears the drive, and how worn it is.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Wear {
    /// Bytes that the write budget of the policy allows a day; `null` if it sets none by time.
    pub budget_bytes_per_day: Option<u64>,
    /// Share of its rated life that the drive has used, in percent; `null` if it does not tell.
    pub percentage_used: Option<u8>,
    /// Bytes written to the drive in its life, by all hosts; `null` if it does not tell.
    pub data_units_written_bytes: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceState {
    #[default]
    InUse,
    /// Offline until it has passed its probe window: the origin serves its data.
    Isolated,
    /// It does not answer, and is not tried again.
    Lost,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceKind {
    Zoned,
    #[default]
    Conventional,
}

/// Chunk pieces by where readers found them, and bytes.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Reads {
    pub pieces: u64,
    pub dram: u64,
    pub flash: u64,
    pub joined: u64,
    pub missed: u64,
    pub served_bytes: u64,
    pub served_flash_bytes: u64,
    pub fetched_bytes: u64,
}

/// Current contents of flash, and writes since start.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Flash {
    pub capacity_bytes: u64,
    /// Capacity of all zones that are neither empty nor retired, live data or not.
    pub used_bytes: u64,
    pub records: u64,
    pub pinned_bytes: u64,
    /// Limit of `pinned_bytes`.
    pub pinned_max_bytes: u64,
    /// Bytes that should have been pinned when written or read, but exceeded the limit.
    pub unpinned_bytes: u64,
    pub zones: Zones,
    pub admitted_bytes: u64,
    pub refused_bytes: u64,
    pub turned_away_bytes: u64,
    pub rewritten_bytes: u64,
    pub written_bytes: u64,
    /// Failed reads, writes and checksum checks.
    pub errors: u64,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Zones {
    pub empty: u64,
    pub open: u64,
    pub sealed: u64,
    pub reclaiming: u64,
    pub retired: u64,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct OriginStats {
    pub name: String,
    pub state: OriginState,
    /// Includes retries.
    pub requests: u64,
    pub errors: u64,
    pub received_bytes: u64,
    pub sent_bytes: u64,
    /// Times of HEAD and GET until the answer, since the start; `null` without one.
    pub p50_ns: Option<u64>,
    pub p99_ns: Option<u64>,
    /// The current error of the origin; `null` if it is healthy.
    pub trouble: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OriginState {
    #[default]
    Healthy,
    /// Its last answers show an error that concerns all of it.
    Unhealthy,
    /// It answers nothing: requests fail at once, until a probe is answered.
    Silent,
}

impl Reads {
    pub fn add(&mut self, other: &Self) {
        self.pieces += other.pieces;
        self.dram += other.dram;
        self.flash += other.flash;
        self.joined += other.joined;
        self.missed += other.missed;
        self.served_bytes += other.served_bytes;
        self.served_flash_bytes += other.served_flash_bytes;
        self.fetched_bytes += other.fetched_bytes;
    }
}

impl Flash {
    pub fn add(&mut self, other: &Self) {
        self.capacity_bytes += other.capacity_bytes;
        self.used_bytes += other.used_bytes;
        self.records += other.records;
        self.pinned_bytes += other.pinned_bytes;
        self.pinned_max_bytes += other.pinned_max_bytes;
        self.unpinned_bytes += other.unpinned_bytes;
        self.zones.empty += other.zones.empty;
        self.zones.open += other.zones.open;
        self.zones.sealed += other.zones.sealed;
        self.zones.reclaiming += other.zones.reclaiming;
        self.zones.retired += other.zones.retired;
        self.admitted_bytes += other.admitted_bytes;
        self.refused_bytes += other.refused_bytes;
        self.turned_away_bytes += other.turned_away_bytes;
        self.rewritten_bytes += other.rewritten_bytes;
        self.written_bytes += other.written_bytes;
        self.errors += other.errors;
    }
}
