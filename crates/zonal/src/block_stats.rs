//! JSON of `zonal block stats` and its admin endpoint: counters since start and current values.
//! Readers form ratios.

use serde::{Deserialize, Serialize};

/// Path on the admin endpoint.
pub(crate) const PATH: &str = "/stats";

/// Path of the command that starts a scrub.
pub(crate) const SCRUB_PATH: &str = "/scrub";

/// Statistics of the block device at one moment.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct BlockStats {
    pub(crate) capacity: BlockDeviceStats,
    /// The write-buffer device; `null` if the buffer is the first zones of the capacity device.
    pub(crate) buffer: Option<BlockDeviceStats>,
    pub(crate) connections: Connections,
    pub(crate) exports: Vec<Export>,
    /// Tenants in the order of their first exports.
    pub(crate) tenants: Vec<Tenant>,
    pub(crate) devices: Devices,
    pub(crate) now: CurrentValues,
    pub(crate) recovery: Recovery,
    pub(crate) scrub: ScrubStats,
    /// Why the device accepts no more writes; `null` while it does.
    pub(crate) failure: Option<String>,
    /// Why compaction to the capacity device has stopped; `null` while it runs. Writes continue
    /// until the buffer is full.
    pub(crate) halted: Option<String>,
    /// The tiers whose devices take no writes now: `buffer`, `capacity`. They are tried again every
    /// second.
    pub(crate) read_only: Vec<String>,
}

/// The scrub that is running, or the last one.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ScrubStats {
    pub(crate) running: bool,
    /// Zones of both devices, and those that are verified.
    pub(crate) zones: u32,
    pub(crate) zones_done: u32,
    pub(crate) read_bytes: u64,
    /// Live blocks that were verified.
    pub(crate) blocks: u64,
    /// Blocks of exports that do not fit their checksums.
    pub(crate) corrupt_blocks: u64,
    /// Blocks of exports that the device could not read.
    pub(crate) unreadable_blocks: u64,
    /// Damaged headers, tables and lists of trims.
    pub(crate) damaged_metadata: u64,
    /// The first damaged blocks of exports, a thousand at most.
    pub(crate) damaged_blocks: Vec<DamagedBlock>,
    /// Bytes that all scrubs read since the start.
    pub(crate) total_read_bytes: u64,
    /// When the last scrub ended, in seconds since 1970; `null` if none has.
    pub(crate) ended_seconds: Option<u64>,
    /// Why the last scrub broke off; `null` if it verified everything.
    pub(crate) failure: Option<String>,
}

/// A damaged block of an export, and where it lies. Blocks have 4 KiB.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct DamagedBlock {
    pub(crate) export: String,
    /// Block of the export.
    pub(crate) block: u64,
    /// `buffer` or `capacity`.
    pub(crate) device: String,
    /// Block of the device.
    pub(crate) lba: u64,
}

impl ScrubStats {
    pub(crate) const fn damaged(&self) -> u64 {
        self.corrupt_blocks + self.unreadable_blocks + self.damaged_metadata
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct BlockDeviceStats {
    /// The device spec as configured.
    pub(crate) spec: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Connections {
    /// Connections open now.
    pub(crate) open: u64,
    pub(crate) refused: u64,
    /// Connections that ended with an error: broken off after an export was chosen, a protocol
    /// violation, an I/O error, a timeout, or a panic.
    pub(crate) failed: u64,
}

/// Client requests to one export.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Export {
    pub(crate) name: String,
    pub(crate) tenant: String,
    pub(crate) size_bytes: u64,
    /// True if reads verify checksums.
    pub(crate) verify: bool,
    /// Connections open now.
    pub(crate) connections_open: u64,
    pub(crate) reads: u64,
    pub(crate) read_bytes: u64,
    pub(crate) writes: u64,
    pub(crate) written_bytes: u64,
    pub(crate) trims: u64,
    pub(crate) trimmed_bytes: u64,
    pub(crate) flushes: u64,
    /// Requests that violate the protocol or exceed the export's size.
    pub(crate) refusals: u64,
    /// Valid requests that failed.
    pub(crate) failures: u64,
}

/// Traffic caused by all exports of one tenant.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Tenant {
    pub(crate) name: String,
    pub(crate) user_written_bytes: u64,
    pub(crate) user_read_bytes: u64,
    pub(crate) user_trimmed_bytes: u64,
    pub(crate) buffer_written_bytes: u64,
    /// Bytes that compaction kept in the write buffer (hot retention) instead of moving them to the
    /// capacity device.
    pub(crate) retained_bytes: u64,
    pub(crate) compacted_bytes: u64,
    pub(crate) collected_bytes: u64,
    pub(crate) map_bytes: u64,
    pub(crate) metadata_bytes: u64,
    pub(crate) capacity_written_bytes: u64,
    /// Bytes stored now.
    pub(crate) stored_bytes: u64,
}

/// Commands to the buffer and capacity devices.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Devices {
    pub(crate) buffer_written_bytes: u64,
    pub(crate) capacity_written_bytes: u64,
    /// Bytes of L2P map pages, on the device that `map_pages_on` names; 0 if the whole map is in
    /// memory.
    pub(crate) map_written_bytes: u64,
    pub(crate) map_read_bytes: u64,
    /// Writes to the buffer device. User writes divided by this number is the batching factor.
    pub(crate) buffer_segments: u64,
    pub(crate) flushes: u64,
    /// Writes that were delayed because compaction was behind.
    pub(crate) throttled: u64,
    pub(crate) buffer_zones_reset: u64,
    pub(crate) capacity_zones_reset: u64,
    pub(crate) blocks_lost: u64,
    pub(crate) checksum_errors: u64,
    pub(crate) write_errors: u64,
    pub(crate) read_errors: u64,
    pub(crate) zones_retired: u64,
}

/// Current values.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CurrentValues {
    /// Bytes of writes that wait for the buffer device.
    pub(crate) queued_bytes: u64,
    pub(crate) buffer_zones: Zones,
    pub(crate) capacity_zones: Zones,
    pub(crate) map_memory_bytes: u64,
    /// The device that stores L2P map pages: `buffer` or `capacity`; `null` if the whole map is in
    /// memory.
    pub(crate) map_pages_on: Option<String>,
}

/// Number of zones of a tier in each state.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Zones {
    pub(crate) empty: u32,
    pub(crate) open: u32,
    pub(crate) full: u32,
    /// Zones whose live data is being moved out.
    pub(crate) emptying: u32,
    pub(crate) retired: u32,
    /// Zones kept because of blocks that could not be read.
    pub(crate) unreadable: u32,
}

/// Cost of the last recovery.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Recovery {
    pub(crate) segments: u64,
    pub(crate) read_bytes: u64,
    /// Blocks that a power failure left torn; recovery restored their previous version.
    pub(crate) torn_blocks: u64,
}

impl BlockStats {
    /// Write amplification: bytes written to the capacity device for each byte that users wrote. On
    /// a single device the bytes of the buffer count too. `None` if users wrote nothing.
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
