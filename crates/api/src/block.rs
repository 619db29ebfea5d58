//! Documents of `zonal block`, where they differ from those of a cache.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::block_stats::{Connections, Export, ScrubStats, Tenant, Zones as ZoneCounts};
use crate::events::{self, Scored};
use crate::latency::Histogram;
use crate::live::{Header, Times};
use crate::stats::{DeviceKind, Wear};

/// `GET /api/v1/live`: the state without the zones, which are compared one by one.
#[derive(Debug, Serialize)]
pub struct State {
    #[serde(flatten)]
    pub header: Header,
    pub connections: Connections,
    /// True if both tiers are zones of one device.
    pub single_device: bool,
    /// Bytes of writes that wait for the buffer.
    pub queued_bytes: u64,
    /// Writes that were delayed because compaction was behind.
    pub throttled: u64,
    pub flushes: u64,
    /// Writes to the buffer device.
    pub buffer_segments: u64,
    pub errors: Errors,
    pub map: Map,
    pub scrub: ScrubStats,
    pub tiers: BTreeMap<&'static str, Tier>,
    pub exports: BTreeMap<String, Export>,
    pub tenants: BTreeMap<String, Tenant>,
    /// By operation and export, such as `write disk`.
    pub requests: BTreeMap<String, Requests>,
}

#[derive(Debug, Serialize)]
pub struct Errors {
    pub blocks_lost: u64,
    pub checksum_errors: u64,
    pub write_errors: u64,
    pub read_errors: u64,
}

/// The L2P map.
#[derive(Debug, Serialize)]
pub struct Map {
    pub memory_bytes: u64,
    /// The tier that has map pages; `null` if the whole map is in memory.
    pub pages_on: Option<&'static str>,
    pub written_bytes: u64,
    pub read_bytes: u64,
}

#[derive(Debug, Serialize)]
pub struct Tier {
    pub tier: &'static str,
    /// The device spec as configured.
    pub device: String,
    pub kind: DeviceKind,
    /// Writable bytes of a zone.
    pub zone_bytes: u64,
    pub zones: ZoneCounts,
    /// Compaction (buffer) or garbage collection (capacity) works while fewer zones are empty.
    pub low_water_zones: u32,
    pub written_bytes: u64,
    pub zones_reset: u64,
    /// True while the device takes no writes.
    pub read_only: bool,
    pub wear: Wear,
}

/// Times of the requests to one export, from their arrival to the reply.
#[derive(Debug, Serialize)]
pub struct Requests {
    /// `read`, `write`, `trim` or `flush`.
    pub operation: &'static str,
    pub export: String,
    #[serde(flatten)]
    pub times: Times,
}

/// `GET /api/v1/latency`: latencies since the start.
#[derive(Debug, Serialize)]
pub struct Latencies {
    pub requests: Vec<RequestLatency>,
    pub commands: Vec<CommandLatency>,
}

#[derive(Debug, Serialize)]
pub struct RequestLatency {
    pub operation: &'static str,
    pub export: String,
    pub latency: Histogram,
}

/// Commands to the device of a tier; a single device counts as the capacity tier.
#[derive(Debug, Serialize)]
pub struct CommandLatency {
    pub tier: &'static str,
    pub command: &'static str,
    pub latency: Histogram,
}

/// `GET /api/v1/zones`: every zone of both tiers.
#[derive(Debug, Serialize)]
pub struct Zones {
    pub tiers: Vec<TierZones>,
}

#[derive(Debug, Serialize)]
pub struct TierZones {
    pub tier: &'static str,
    /// Writable bytes of a zone.
    pub zone_bytes: u64,
    pub zones: Vec<Zone>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Zone {
    /// Number of the zone on its device.
    pub zone: u32,
    pub r#use: Use,
    /// Who writes to an open zone.
    pub stream: Option<Stream>,
    /// Number of its first segment: the lower, the older. 0: none, or it has map pages.
    pub sequence: u64,
    /// Bytes below the write pointer.
    pub written_bytes: u64,
    /// Bytes that the L2P map names.
    pub live_bytes: u64,
    /// Reads in flight.
    pub reads: u32,
}

/// Use of a zone. The names are those of `zonal_block_zones{use}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Use {
    Empty,
    Open,
    Full,
    Emptying,
    Retired,
    Unreadable,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stream {
    User,
    Compaction,
    Collection,
    Map,
}

/// Why a zone is emptied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Cause {
    /// Compaction, of a zone of the buffer.
    Compaction,
    /// Garbage collection, of a zone of the capacity tier.
    Collection,
}

/// `GET /api/v1/zones/N`: all that is known of one zone.
#[derive(Debug, Serialize)]
pub struct ZoneStory {
    pub tier: &'static str,
    pub zone_bytes: u64,
    #[serde(flatten)]
    pub zone: Zone,
    pub cause: Cause,
    /// Its place among the zones that could be emptied: 1 is next. `null`: it is none of them.
    pub rank: Option<u32>,
    pub candidates: u32,
    /// Its figures, and their names.
    pub score: Option<Vec<u64>>,
    pub scored_by: &'static [&'static str],
    /// Recent events of the zone, oldest first.
    pub events: Vec<Event>,
}

/// Event of `GET /api/v1/events`.
pub type Event = events::Event<What>;

/// What happened, and to which zone or device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum What {
    ZoneOpened {
        tier: &'static str,
        zone: u32,
        stream: Stream,
    },
    ZoneSealed {
        tier: &'static str,
        zone: u32,
        written_bytes: u64,
    },
    VictimChosen(VictimChosen),
    VictimMoved(VictimMoved),
    ZoneReset {
        tier: &'static str,
        zone: u32,
    },
    ZoneRetired {
        tier: &'static str,
        zone: u32,
    },
    ZoneUnreadable {
        tier: &'static str,
        zone: u32,
    },
    DeviceReadOnly {
        tier: &'static str,
    },
    DeviceWritable {
        tier: &'static str,
    },
    CompactionStopped {
        why: String,
    },
    WritesFailed {
        why: String,
    },
    /// Of a simulation: something that no engine tells, such as a crash.
    Note {
        text: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VictimChosen {
    pub tier: &'static str,
    pub zone: u32,
    pub cause: Cause,
    /// Its figures, and their names.
    pub score: Vec<u64>,
    pub scored_by: &'static [&'static str],
    /// Zones that could have been emptied.
    pub candidates: u32,
    /// Those that would have been next, seven at most.
    pub beaten: Vec<Scored>,
    pub live_bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VictimMoved {
    pub tier: &'static str,
    pub zone: u32,
    pub cause: Cause,
    /// Bytes that are in the capacity tier now.
    pub bytes: u64,
    /// Its zones that have them.
    pub into: Vec<u32>,
    /// Bytes that stayed in the buffer, because they are overwritten often.
    pub retained_bytes: u64,
}
