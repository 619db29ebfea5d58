//! `GET /api/v1/zones`: every zone of the devices, in their order.

use serde::{Deserialize, Serialize};

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

#[derive(Debug, Serialize, Deserialize)]
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
