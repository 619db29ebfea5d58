//! JSON of `zonal block stats` and its admin endpoint: counts since start. Readers form ratios.

use serde::{Deserialize, Serialize};

/// Where they are.
pub(crate) const PATH: &str = "/stats";

/// All of it, at one moment.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct BlockStats {
    pub(crate) capacity: Device,
    /// `null`: the first zones of the capacity device.
    pub(crate) buffer: Option<Device>,
    pub(crate) connections: Connections,
    pub(crate) exports: Vec<Export>,
    /// In the order of their first exports.
    pub(crate) tenants: Vec<Tenant>,
    pub(crate) devices: Devices,
    pub(crate) now: Now,
    pub(crate) recovery: Recovery,
    /// Why nothing can be written any more, if so.
    pub(crate) failure: Option<String>,
    /// Why nothing goes from the buffer to the capacity device any more, if so: writes go on until the buffer is full.
    pub(crate) halted: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Device {
    /// As it was named.
    pub(crate) spec: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Connections {
    /// Now.
    pub(crate) open: u64,
    pub(crate) refused: u64,
    /// Ended without leave.
    pub(crate) failed: u64,
}

/// What clients asked of an export.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Export {
    pub(crate) name: String,
    pub(crate) tenant: String,
    pub(crate) size_bytes: u64,
    /// Now.
    pub(crate) connections_open: u64,
    pub(crate) reads: u64,
    pub(crate) read_bytes: u64,
    pub(crate) writes: u64,
    pub(crate) written_bytes: u64,
    pub(crate) trims: u64,
    pub(crate) trimmed_bytes: u64,
    pub(crate) flushes: u64,
    /// Not what the protocol allows, or beyond the end.
    pub(crate) refusals: u64,
    /// Not carried out.
    pub(crate) failures: u64,
}

/// What exports of one tenant caused.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Tenant {
    pub(crate) name: String,
    pub(crate) user_written_bytes: u64,
    pub(crate) user_read_bytes: u64,
    pub(crate) user_trimmed_bytes: u64,
    pub(crate) buffer_written_bytes: u64,
    /// Data that went round in the buffer in place of being moved on.
    pub(crate) second_round_bytes: u64,
    pub(crate) compacted_bytes: u64,
    pub(crate) collected_bytes: u64,
    pub(crate) map_bytes: u64,
    pub(crate) metadata_bytes: u64,
    pub(crate) capacity_written_bytes: u64,
    /// Now.
    pub(crate) stored_bytes: u64,
}

/// What both devices were asked to do.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Devices {
    pub(crate) buffer_written_bytes: u64,
    pub(crate) capacity_written_bytes: u64,
    /// Pages of the map, of the bytes of the device that `map_pages_on` names; none if all of it is in memory.
    pub(crate) map_written_bytes: u64,
    pub(crate) map_read_bytes: u64,
    /// Device writes of the buffer: how many writes of users share one.
    pub(crate) buffer_segments: u64,
    pub(crate) flushes: u64,
    /// Writes that waited because compaction was behind.
    pub(crate) throttled: u64,
    pub(crate) buffer_zones_reset: u64,
    pub(crate) capacity_zones_reset: u64,
    pub(crate) blocks_lost: u64,
    pub(crate) write_errors: u64,
    pub(crate) read_errors: u64,
    pub(crate) zones_retired: u64,
}

/// What is under way.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Now {
    /// Writes that wait for the buffer device.
    pub(crate) queued_bytes: u64,
    pub(crate) buffer_zones: Zones,
    pub(crate) capacity_zones: Zones,
    pub(crate) map_memory_bytes: u64,
    /// The device on which pages of the map lie: `buffer` or `capacity`; nothing if all of it is in memory.
    pub(crate) map_pages_on: Option<String>,
}

/// Zones of a tier, by what they are used for.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Zones {
    pub(crate) empty: u32,
    pub(crate) open: u32,
    pub(crate) full: u32,
    /// Being emptied.
    pub(crate) emptying: u32,
    pub(crate) retired: u32,
}

/// What the start took.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Recovery {
    pub(crate) segments: u64,
    pub(crate) read_bytes: u64,
    /// Given up for what they were before: torn when the power went.
    pub(crate) torn_blocks: u64,
}

impl BlockStats {
    /// Bytes that went to the capacity device for each byte that users wrote; over one device also those of the buffer.
    /// `None`: nobody wrote anything.
    pub(crate) fn write_amplification(&self) -> Option<f64> {
        let user: u64 = self.tenants.iter().map(|tenant| tenant.user_written_bytes).sum();
        let buffer = match self.buffer {
            None => self.devices.buffer_written_bytes,
            Some(_) => 0,
        };
        let written = self.devices.capacity_written_bytes + buffer;
        (user != 0).then(|| written as f64 / user as f64)
    }
}
