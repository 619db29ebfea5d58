//! JSON of `zonal cache stats` and its admin endpoint: counters since start and current values.
//! Readers form ratios.

use serde::{Deserialize, Serialize};

use crate::scrubbing::ScrubStats;
use crate::switching::CachingState;

/// Path on the admin endpoint.
pub(crate) const PATH: &str = "/stats";

/// Statistics of the cache at one moment. Names match the metrics; counts omit the unit.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Stats {
    /// Whether reads are served from the cache.
    pub(crate) cache: CachingState,
    pub(crate) answers: Answers,
    pub(crate) savings: Savings,
    pub(crate) connections: Connections,
    /// Pins set by the operator.
    pub(crate) pins: Pins,
    /// Devices in the order of the configuration, each summed over its shards.
    pub(crate) devices: Vec<DeviceStats>,
    /// Origins in the order of the configuration.
    pub(crate) origins: Vec<OriginStats>,
    pub(crate) scrub: ScrubStats,
}

/// What the cache has saved at the origins, compared with the same reads without a cache. Negative
/// if it has cost more.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Savings {
    /// Origin requests.
    pub(crate) requests: i64,
    /// Bytes received from origins.
    pub(crate) bytes: i64,
    /// Their cost, at the prices of `[price]`.
    pub(crate) cost: f64,
    pub(crate) currency: String,
}

/// Responses by their `X-Cache` header.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Answers {
    pub(crate) hit: u64,
    pub(crate) revalidated: u64,
    pub(crate) miss: u64,
    pub(crate) stale: u64,
    pub(crate) updating: u64,
    /// Includes lists, writes and other uncached operations.
    pub(crate) bypass: u64,
    /// GetObject and HeadObject requests that bypassed the cache, by reason; only reasons that
    /// occurred.
    pub(crate) bypassed_reads: Vec<BypassedReads>,
    /// Origin requests caused by reads: heads, ranges, retries, hedges, and reads that bypassed the
    /// cache.
    pub(crate) origin_requests: u64,
}

/// Reads that bypassed the cache for one reason.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct BypassedReads {
    /// The value of `X-Cache-Reason`.
    pub(crate) reason: String,
    /// The reason as a sentence for people.
    pub(crate) explanation: String,
    pub(crate) reads: u64,
}

impl Answers {
    /// GetObject and HeadObject requests served from the cache or the origin.
    pub(crate) fn reads(&self) -> u64 {
        let bypassed: u64 = self.bypassed_reads.iter().map(|bypassed| bypassed.reads).sum();
        self.served_by_cache() + self.miss + bypassed
    }

    /// Reads served from flash or memory.
    pub(crate) const fn served_by_cache(&self) -> u64 {
        self.hit + self.revalidated + self.stale + self.updating
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Connections {
    /// Connections open now.
    pub(crate) open: u64,
    pub(crate) accepted: u64,
    pub(crate) refused: u64,
    pub(crate) timed_out: u64,
}

/// Number of objects and prefixes in the pins file.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Pins {
    pub(crate) objects: u64,
    pub(crate) prefixes: u64,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct DeviceStats {
    /// Number in the order of the configuration.
    pub(crate) device: usize,
    pub(crate) name: String,
    pub(crate) state: DeviceState,
    pub(crate) kind: DeviceKind,
    pub(crate) policy: String,
    pub(crate) shards: u64,
    /// Shards that no longer answer and are not isolated.
    pub(crate) shards_lost: u64,
    /// Shards that are offline until their device has passed its probe window.
    pub(crate) shards_isolated: u64,
    pub(crate) zones: u64,
    /// Writable bytes of a zone.
    pub(crate) zone_bytes: u64,
    pub(crate) wear: Wear,
    /// Isolations since the start.
    pub(crate) isolations: u64,
    /// Reads that timed out since the device joined.
    pub(crate) reads_timed_out: u64,
    pub(crate) reads: Reads,
    pub(crate) flash: Flash,
}

/// What wears the drive, and how worn it is.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Wear {
    /// Bytes that the write budget of the policy allows a day; `null` if it sets none by time.
    pub(crate) budget_bytes_per_day: Option<u64>,
    /// Share of its rated life that the drive has used, in percent; `null` if it does not tell.
    pub(crate) percentage_used: Option<u8>,
    /// Bytes written to the drive in its life, by all hosts; `null` if it does not tell.
    pub(crate) data_units_written_bytes: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum DeviceState {
    #[default]
    InUse,
    /// Offline until it has passed its probe window: the origin serves its data.
    Isolated,
    /// It does not answer, and is not tried again.
    Lost,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum DeviceKind {
    Zoned,
    #[default]
    Conventional,
}

/// Chunk pieces by where readers found them, and bytes.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Reads {
    pub(crate) pieces: u64,
    pub(crate) dram: u64,
    pub(crate) flash: u64,
    pub(crate) joined: u64,
    pub(crate) missed: u64,
    pub(crate) served_bytes: u64,
    pub(crate) served_flash_bytes: u64,
    pub(crate) fetched_bytes: u64,
}

/// Current contents of flash, and writes since start.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Flash {
    pub(crate) capacity_bytes: u64,
    /// Capacity of all zones that are neither empty nor retired, live data or not.
    pub(crate) used_bytes: u64,
    pub(crate) records: u64,
    pub(crate) pinned_bytes: u64,
    /// Limit of `pinned_bytes`.
    pub(crate) pinned_max_bytes: u64,
    /// Bytes that should have been pinned when written or read, but exceeded the limit.
    pub(crate) unpinned_bytes: u64,
    pub(crate) zones: Zones,
    pub(crate) admitted_bytes: u64,
    pub(crate) refused_bytes: u64,
    pub(crate) turned_away_bytes: u64,
    pub(crate) rewritten_bytes: u64,
    pub(crate) written_bytes: u64,
    /// Failed reads, writes and checksum checks.
    pub(crate) errors: u64,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Zones {
    pub(crate) empty: u64,
    pub(crate) open: u64,
    pub(crate) sealed: u64,
    pub(crate) reclaiming: u64,
    pub(crate) retired: u64,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct OriginStats {
    pub(crate) name: String,
    pub(crate) state: OriginState,
    /// Includes retries.
    pub(crate) requests: u64,
    pub(crate) errors: u64,
    pub(crate) received_bytes: u64,
    pub(crate) sent_bytes: u64,
    /// Times of HEAD and GET until the answer, since the start; `null` without one.
    pub(crate) p50_ns: Option<u64>,
    pub(crate) p99_ns: Option<u64>,
    /// The current error of the origin; `null` if it is healthy.
    pub(crate) trouble: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum OriginState {
    #[default]
    Healthy,
    /// Its last answers show an error that concerns all of it.
    Unhealthy,
    /// It answers nothing: requests fail at once, until a probe is answered.
    Silent,
}

impl Reads {
    pub(crate) fn add(&mut self, other: &Self) {
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
    pub(crate) fn add(&mut self, other: &Self) {
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
