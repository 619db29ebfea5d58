//! `GET /api/v1/zones`: every zone of the devices, in their order. `GET /api/v1/zones/N`: one zone.

use serde::{Deserialize, Serialize};

use super::events::Event;

/// Path on the admin endpoint.
pub(crate) const PATH: &str = "/api/v1/zones";

/// Zones of all shards, in the order of the devices.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Zones {
    pub(crate) shards: Vec<Shard>,
}

/// Zones of one shard.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Shard {
    /// Number of the device, in the order of the configuration.
    pub(crate) device: usize,
    /// Number of the shard on its device.
    pub(crate) shard: usize,
    /// Writable bytes of a zone.
    pub(crate) zone_bytes: u64,
    pub(crate) zones: Vec<Zone>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Zone {
    /// Number of the zone on its device.
    pub(crate) zone: u32,
    pub(crate) r#use: Use,
    /// Which stream writes to an open zone.
    pub(crate) stream: Option<Stream>,
    /// Number of the zone's fill: the lowest of a shard is the oldest. 0: it was never filled.
    pub(crate) sequence: u64,
    /// Bytes below the write pointer.
    pub(crate) written_bytes: u64,
    /// Records written, live or not.
    pub(crate) records: u32,
    pub(crate) record_bytes: u64,
    /// Records that the index names, also those that no read can reach any more.
    pub(crate) live_records: u32,
    pub(crate) live_bytes: u64,
    /// Pinned bytes among them.
    pub(crate) pinned_bytes: u64,
    /// Reads in flight.
    pub(crate) reads: u32,
}

/// Use of a zone. The names are those of `zonal_device_zones{use}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Use {
    Empty,
    Open,
    Sealed,
    Reclaiming,
    Retired,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Stream {
    /// New records.
    Fill,
    /// Records that reclaim rewrites.
    Rewrite,
}

/// All that is known of one zone.
#[derive(Debug, Serialize)]
pub(crate) struct ZoneStory {
    pub(crate) device: usize,
    pub(crate) shard: usize,
    pub(crate) zone_bytes: u64,
    #[serde(flatten)]
    pub(crate) zone: Zone,
    pub(crate) contents: ZoneContents,
    /// Its place among the candidates for reclaim: 1 is emptied next. `null`: reclaim does not
    /// consider it now.
    pub(crate) rank: Option<u32>,
    /// Its figures, and their names: the lowest goes first.
    pub(crate) score: Option<Vec<u64>>,
    pub(crate) scored_by: &'static [&'static str],
    /// Zones that reclaim could empty now.
    pub(crate) candidates: u32,
    /// Recent events of the zone, oldest first.
    pub(crate) events: Vec<Event>,
}

/// Records of a zone that the index names.
#[derive(Debug, Serialize)]
pub(crate) struct ZoneContents {
    pub(crate) heads: Tally,
    /// Pieces that the policy holds.
    pub(crate) pieces: Tally,
    /// Pieces that the policy has evicted.
    pub(crate) evicted: Tally,
    /// Heads and pieces that are pinned.
    pub(crate) pinned: Tally,
}

#[derive(Debug, Serialize)]
pub(crate) struct Tally {
    pub(crate) records: u32,
    pub(crate) bytes: u64,
}
