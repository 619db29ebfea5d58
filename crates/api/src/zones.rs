//! `GET /api/v1/zones`: every zone of the devices, in their order. `GET /api/v1/zones/N`: one zone.

use serde::{Deserialize, Serialize};

use crate::events::Event;

/// Path on the admin endpoint.
pub const PATH: &str = "/api/v1/zones";

/// Zones of all shards, in the order of the devices.
#[derive(Debug, Serialize, Deserialize)]
pub struct Zones {
    pub shards: Vec<Shard>,
}

/// Zones of one shard.
#[derive(Debug, Serialize, Deserialize)]
pub struct Shard {
    /// Number of the device, in the order of the configuration.
    pub device: usize,
    /// Number of the shard on its device.
    pub shard: usize,
    /// Writable bytes of a zone.
    pub zone_bytes: u64,
    pub zones: Vec<Zone>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Zone {
    /// Number of the zone on its device.
    pub zone: u32,
    pub r#use: Use,
    /// Which stream writes to an open zone.
    pub stream: Option<Stream>,
    /// Number of the zone's fill: the lowest of a shard is the oldest. 0: it was never filled.
    pub sequence: u64,
    /// Bytes below the write pointer.
    pub written_bytes: u64,
    /// Records written, live or not.
    pub records: u32,
    pub record_bytes: u64,
    /// Records that the index names, also those that no read can reach any more.
    pub live_records: u32,
    pub live_bytes: u64,
    /// Pinned bytes among them.
    pub pinned_bytes: u64,
    /// Reads in flight.
    pub reads: u32,
}

/// Use of a zone. The names are those of `zonal_device_zones{use}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Use {
    Empty,
    Open,
    Sealed,
    Reclaiming,
    Retired,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stream {
    /// New records.
    Fill,
    /// Records that reclaim rewrites.
    Rewrite,
}

/// All that is known of one zone.
#[derive(Debug, Serialize)]
pub struct ZoneStory {
    pub device: usize,
    pub shard: usize,
    pub zone_bytes: u64,
    #[serde(flatten)]
    pub zone: Zone,
    pub contents: ZoneContents,
    /// Its place among the candidates for reclaim: 1 is emptied next. `null`: reclaim does not
    /// consider it now.
    pub rank: Option<u32>,
    /// Its figures, and their names: the lowest goes first.
    pub score: Option<Vec<u64>>,
    pub scored_by: &'static [&'static str],
    /// Zones that reclaim could empty now.
    pub candidates: u32,
    /// Recent events of the zone, oldest first.
    pub events: Vec<Event>,
}

/// Records of a zone that the index names.
#[derive(Debug, Serialize)]
pub struct ZoneContents {
    pub heads: Tally,
    /// Pieces that the policy holds.
    pub pieces: Tally,
    /// Pieces that the policy has evicted.
    pub evicted: Tally,
    /// Heads and pieces that are pinned.
    pub pinned: Tally,
}

#[derive(Debug, Serialize)]
pub struct Tally {
    pub records: u32,
    pub bytes: u64,
}
