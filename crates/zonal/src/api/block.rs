//! Documents of `zonal block`, where they differ from those of a cache.

use std::collections::BTreeMap;

use serde::Serialize;

use super::events::{self, Scored};
use super::latency::Histogram;
use super::live::{Times, Trouble};
use crate::block_stats::{Connections, Export, ScrubStats, Tenant, Zones as ZoneCounts};
use crate::stats::{DeviceKind, Wear};

/// `GET /api/v1/live`: the state without the zones, which are compared one by one.
#[derive(Debug, Serialize)]
pub(crate) struct State {
    pub(crate) kind: &'static str,
    pub(crate) version: &'static str,
    /// Nanoseconds since 1970.
    pub(crate) at_ns: u64,
    pub(crate) started_at_ns: u64,
    /// True while writes are served.
    pub(crate) ready: bool,
    /// What is wrong; empty if all is well.
    pub(crate) trouble: Vec<Trouble>,
    pub(crate) connections: Connections,
    /// True if both tiers are zones of one device.
    pub(crate) single_device: bool,
    /// Bytes of writes that wait for the buffer.
    pub(crate) queued_bytes: u64,
    /// Writes that were delayed because compaction was behind.
    pub(crate) throttled: u64,
    pub(crate) flushes: u64,
    /// Writes to the buffer device.
    pub(crate) buffer_segments: u64,
    pub(crate) errors: Errors,
    pub(crate) map: Map,
    pub(crate) scrub: ScrubStats,
    pub(crate) tiers: BTreeMap<&'static str, Tier>,
    pub(crate) exports: BTreeMap<String, Export>,
    pub(crate) tenants: BTreeMap<String, Tenant>,
    /// By operation and export, such as `write disk`.
    pub(crate) requests: BTreeMap<String, Requests>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Errors {
    pub(crate) blocks_lost: u64,
    pub(crate) checksum_errors: u64,
    pub(crate) write_errors: u64,
    pub(crate) read_errors: u64,
}

/// The L2P map.
#[derive(Debug, Serialize)]
pub(crate) struct Map {
    pub(crate) memory_bytes: u64,
    /// The tier that has map pages; `null` if the whole map is in memory.
    pub(crate) pages_on: Option<&'static str>,
    pub(crate) written_bytes: u64,
    pub(crate) read_bytes: u64,
}

#[derive(Debug, Serialize)]
pub(crate) struct Tier {
    pub(crate) tier: &'static str,
    /// The device spec as configured.
    pub(crate) device: String,
    pub(crate) kind: DeviceKind,
    /// Writable bytes of a zone.
    pub(crate) zone_bytes: u64,
    pub(crate) zones: ZoneCounts,
    /// Compaction (buffer) or garbage collection (capacity) works while fewer zones are empty.
    pub(crate) low_water_zones: u32,
    pub(crate) written_bytes: u64,
    pub(crate) zones_reset: u64,
    /// True while the device takes no writes.
    pub(crate) read_only: bool,
    pub(crate) wear: Wear,
}

/// Times of the requests to one export, from their arrival to the reply.
#[derive(Debug, Serialize)]
pub(crate) struct Requests {
    /// `read`, `write`, `trim` or `flush`.
    pub(crate) operation: &'static str,
    pub(crate) export: String,
    #[serde(flatten)]
    pub(crate) times: Times,
}

/// `GET /api/v1/latency`: latencies since the start.
#[derive(Debug, Serialize)]
pub(crate) struct Latencies {
    pub(crate) requests: Vec<RequestLatency>,
    pub(crate) commands: Vec<CommandLatency>,
}

#[derive(Debug, Serialize)]
pub(crate) struct RequestLatency {
    pub(crate) operation: &'static str,
    pub(crate) export: String,
    pub(crate) latency: Histogram,
}

/// Commands to the device of a tier; a single device counts as the capacity tier.
#[derive(Debug, Serialize)]
pub(crate) struct CommandLatency {
    pub(crate) tier: &'static str,
    pub(crate) command: &'static str,
    pub(crate) latency: Histogram,
}

/// `GET /api/v1/zones`: every zone of both tiers.
#[derive(Debug, Serialize)]
pub(crate) struct Zones {
    pub(crate) tiers: Vec<TierZones>,
}

#[derive(Debug, Serialize)]
pub(crate) struct TierZones {
    pub(crate) tier: &'static str,
    /// Writable bytes of a zone.
    pub(crate) zone_bytes: u64,
    pub(crate) zones: Vec<Zone>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Zone {
    /// Number of the zone on its device.
    pub(crate) zone: u32,
    pub(crate) r#use: Use,
    /// Who writes to an open zone.
    pub(crate) stream: Option<Stream>,
    /// Number of its first segment: the lower, the older. 0: none, or it has map pages.
    pub(crate) sequence: u64,
    /// Bytes below the write pointer.
    pub(crate) written_bytes: u64,
    /// Bytes that the L2P map names.
    pub(crate) live_bytes: u64,
    /// Reads in flight.
    pub(crate) reads: u32,
}

/// Use of a zone. The names are those of `zonal_block_zones{use}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Use {
    Empty,
    Open,
    Full,
    Emptying,
    Retired,
    Unreadable,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Stream {
    User,
    Compaction,
    Collection,
    Map,
}

/// Why a zone is emptied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Cause {
    /// Compaction, of a zone of the buffer.
    Compaction,
    /// Garbage collection, of a zone of the capacity tier.
    Collection,
}

/// `GET /api/v1/zones/N`: all that is known of one zone.
#[derive(Debug, Serialize)]
pub(crate) struct ZoneStory {
    pub(crate) tier: &'static str,
    pub(crate) zone_bytes: u64,
    #[serde(flatten)]
    pub(crate) zone: Zone,
    pub(crate) cause: Cause,
    /// Its place among the zones that could be emptied: 1 is next. `null`: it is none of them.
    pub(crate) rank: Option<u32>,
    pub(crate) candidates: u32,
    /// Its figures, and their names.
    pub(crate) score: Option<Vec<u64>>,
    pub(crate) scored_by: &'static [&'static str],
    /// Recent events of the zone, oldest first.
    pub(crate) events: Vec<Event>,
}

/// Event of `GET /api/v1/events`.
pub(crate) type Event = events::Event<What>;

/// What happened, and to which zone or device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(crate) enum What {
    ZoneOpened { tier: &'static str, zone: u32, stream: Stream },
    ZoneSealed { tier: &'static str, zone: u32, written_bytes: u64 },
    VictimChosen(VictimChosen),
    VictimMoved(VictimMoved),
    ZoneReset { tier: &'static str, zone: u32 },
    ZoneRetired { tier: &'static str, zone: u32 },
    ZoneUnreadable { tier: &'static str, zone: u32 },
    DeviceReadOnly { tier: &'static str },
    DeviceWritable { tier: &'static str },
    CompactionStopped { why: String },
    WritesFailed { why: String },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct VictimChosen {
    pub(crate) tier: &'static str,
    pub(crate) zone: u32,
    pub(crate) cause: Cause,
    /// Its figures, and their names.
    pub(crate) score: Vec<u64>,
    pub(crate) scored_by: &'static [&'static str],
    /// Zones that could have been emptied.
    pub(crate) candidates: u32,
    /// Those that would have been next, seven at most.
    pub(crate) beaten: Vec<Scored>,
    pub(crate) live_bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct VictimMoved {
    pub(crate) tier: &'static str,
    pub(crate) zone: u32,
    pub(crate) cause: Cause,
    /// Bytes that are in the capacity tier now.
    pub(crate) bytes: u64,
    /// Its zones that have them.
    pub(crate) into: Vec<u32>,
    /// Bytes that stayed in the buffer, because they are overwritten often.
    pub(crate) retained_bytes: u64,
}
