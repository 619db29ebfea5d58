//! JSON of `zonal block stats` and its admin endpoint: counters since start and current values.
//! Readers form ratios.

use serde::{Deserialize, Serialize};

/// Path on the admin endpoint.
pub const PATH: &str = "/stats";

/// Path of the command that starts a scrub.
pub const SCRUB_PATH: &str = "/scrub";

/// Statistics of the block device at one moment.
#[derive(Debug, Serialize, Deserialize)]
pub struct BlockStats {
    pub capacity: BlockDeviceStats,
    /// The write-buffer device; `null` if the buffer is the first zones of the capacity device.
    pub buffer: Option<BlockDeviceStats>,
    pub connections: Connections,
    pub exports: Vec<Export>,
    /// Tenants in the order of their first exports.
    pub tenants: Vec<Tenant>,
    pub devices: Devices,
    pub now: CurrentValues,
    pub recovery: Recovery,
    pub scrub: ScrubStats,
    /// Why the device accepts no more writes; `null` while it does.
    pub failure: Option<String>,
    /// Why compaction to the capacity device has stopped; `null` while it runs. Writes continue
    /// until the buffer is full.
    pub halted: Option<String>,
    /// The tiers whose devices take no writes now: `buffer`, `capacity`. They are tried again every
    /// second.
    pub read_only: Vec<String>,
}

/// The scrub that is running, or the last one.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ScrubStats {
    pub running: bool,
    /// Zones of both devices, and those that are verified.
    pub zones: u32,
    pub zones_done: u32,
    pub read_bytes: u64,
    /// Live blocks that were verified.
    pub blocks: u64,
    /// Blocks of exports that do not fit their checksums.
    pub corrupt_blocks: u64,
    /// Blocks of exports that the device could not read.
    pub unreadable_blocks: u64,
    /// Damaged headers, tables and lists of trims.
    pub damaged_metadata: u64,
    /// The first damaged blocks of exports, a thousand at most.
    pub damaged_blocks: Vec<DamagedBlock>,
    /// Bytes that all scrubs read since the start.
    pub total_read_bytes: u64,
    /// When the last scrub ended, in seconds since 1970; `null` if none has.
    pub ended_seconds: Option<u64>,
    /// Why the last scrub broke off; `null` if it verified everything.
    pub failure: Option<String>,
}

/// A damaged block of an export, and where it lies. Blocks have 4 KiB.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DamagedBlock {
    pub export: String,
    /// Block of the export.
    pub block: u64,
    /// `buffer` or `capacity`.
    pub device: String,
    /// Block of the device.
    pub lba: u64,
}

impl ScrubStats {
    pub const fn damaged(&self) -> u64 {
        self.corrupt_blocks + self.unreadable_blocks + self.damaged_metadata
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub struct BlockDeviceStats {
    /// The device spec as configured.
    pub spec: String,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Connections {
    /// Connections open now.
    pub open: u64,
    pub refused: u64,
    /// Connections that ended with an error: broken off after an export was chosen, a protocol
    /// violation, an I/O error, a timeout, or a panic.
    pub failed: u64,
}

/// Client requests to one export.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Export {
    pub name: String,
    pub tenant: String,
    pub size_bytes: u64,
    /// True if reads verify checksums.
    pub verify: bool,
    /// Connections open now.
    pub connections_open: u64,
    pub reads: u64,
    pub read_bytes: u64,
    pub writes: u64,
    pub written_bytes: u64,
    pub trims: u64,
    pub trimmed_bytes: u64,
    pub flushes: u64,
    /// Requests that violate the protocol or exceed the export's size.
    pub refusals: u64,
    /// Valid requests that failed.
    pub failures: u64,
}

/// Traffic caused by all exports of one tenant.
#[derive(Debug, Serialize, Deserialize)]
pub struct Tenant {
    pub name: String,
    pub user_written_bytes: u64,
    pub user_read_bytes: u64,
    pub user_trimmed_bytes: u64,
    pub buffer_written_bytes: u64,
    /// Bytes that compaction kept in the write buffer (hot retention) instead of moving them to the
    /// capacity device.
    pub retained_bytes: u64,
    pub compacted_bytes: u64,
    pub collected_bytes: u64,
    pub map_bytes: u64,
    pub metadata_bytes: u64,
    pub capacity_written_bytes: u64,
    /// Bytes stored now.
    pub stored_bytes: u64,
}

/// Commands to the buffer and capacity devices.
#[derive(Debug, Serialize, Deserialize)]
pub struct Devices {
    pub buffer_written_bytes: u64,
    pub capacity_written_bytes: u64,
    /// Bytes of L2P map pages, on the device that `map_pages_on` names; 0 if the whole map is in
    /// memory.
    pub map_written_bytes: u64,
    pub map_read_bytes: u64,
    /// Writes to the buffer device. User writes divided by this number is the batching factor.
    pub buffer_segments: u64,
    pub flushes: u64,
    /// Writes that were delayed because compaction was behind.
    pub throttled: u64,
    pub buffer_zones_reset: u64,
    pub capacity_zones_reset: u64,
    pub blocks_lost: u64,
    pub checksum_errors: u64,
    pub write_errors: u64,
    pub read_errors: u64,
    pub zones_retired: u64,
}

/// Current values.
#[derive(Debug, Serialize, Deserialize)]
pub struct CurrentValues {
    /// Bytes of writes that wait for the buffer device.
    pub queued_bytes: u64,
    pub buffer_zones: Zones,
    pub capacity_zones: Zones,
    pub map_memory_bytes: u64,
    /// The device that stores L2P map pages: `buffer` or `capacity`; `null` if the whole map is in
    /// memory.
    pub map_pages_on: Option<String>,
}

/// Number of zones of a tier in each state.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Zones {
    pub empty: u32,
    pub open: u32,
    pub full: u32,
    /// Zones whose live data is being moved out.
    pub emptying: u32,
    pub retired: u32,
    /// Zones kept because of blocks that could not be read.
    pub unreadable: u32,
}

/// Cost of the last recovery.
#[derive(Debug, Serialize, Deserialize)]
pub struct Recovery {
    pub segments: u64,
    pub read_bytes: u64,
    /// Blocks that a power failure left torn; recovery restored their previous version.
    pub torn_blocks: u64,
}

impl BlockStats {
    /// Write amplification: bytes written to the capacity device for each byte that users wrote. On
    /// a single device the bytes of the buffer count too. `None` if users wrote nothing.
    pub fn write_amplification(&self) -> Option<f64> {
        let user: u64 = self.tenants.iter().map(|tenant| tenant.user_written_bytes).sum();
        let buffer = match self.buffer {
            None => self.devices.buffer_written_bytes,
            Some(_) => 0,
        };
        let written = self.devices.capacity_written_bytes + buffer;
        (user != 0).then(|| written as f64 / user as f64)
    }
}
