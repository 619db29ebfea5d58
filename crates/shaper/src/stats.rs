//! Counters of the block device. They only grow, except the gauge `mapped_blocks`.

/// Counters of one tenant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TenantStats {
    /// Bytes of clients' acknowledged writes. Denominator of write amplification.
    pub user_written_bytes: u64,
    /// Bytes that clients read, zeros included.
    pub user_read_bytes: u64,
    /// Bytes that clients trimmed or wrote as zeros, acknowledged.
    pub user_trimmed_bytes: u64,
    /// Bytes of client data written to the buffer tier.
    pub buffer_written_bytes: u64,
    /// Bytes of frequently overwritten blocks that compaction wrote back to the buffer tier. Not in
    /// `buffer_written_bytes`.
    pub retained_bytes: u64,
    /// Bytes of data that compaction wrote to the capacity tier. The difference to
    /// `buffer_written_bytes` was overwritten or trimmed in time, or is still in the buffer.
    pub compacted_bytes: u64,
    /// Bytes of data that garbage collection moved within the capacity tier.
    pub collected_bytes: u64,
    /// Bytes of trim bitmaps, written or moved, which keep trimmed blocks trimmed.
    pub map_bytes: u64,
    /// Bytes of headers, of the export table and of zone tables.
    pub metadata_bytes: u64,
    /// The part of `metadata_bytes`, `map_bytes` and data that went to the capacity tier. Numerator
    /// of write amplification; on one device add the bytes of the buffer.
    pub capacity_written_bytes: u64,
    /// Gauge: blocks that hold data now.
    pub mapped_blocks: u64,
}

/// Counters of the whole block device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShaperStats {
    /// Bytes written to the buffer tier, including headers.
    pub buffer_device_bytes: u64,
    /// Bytes written to the capacity tier, including headers.
    pub capacity_device_bytes: u64,
    /// Bytes of map pages written. Included in the device bytes of the tier that has the map pages.
    pub map_written_bytes: u64,
    /// Bytes of map pages read, for lookups that missed memory and for merges.
    pub map_read_bytes: u64,
    /// Segments completed on the buffer tier. Divide client writes by it for writes per device
    /// write.
    pub buffer_segments: u64,
    /// Device flushes of both tiers.
    pub flushes: u64,
    /// Writes and trims that waited because compaction was behind.
    pub throttled: u64,
    /// Buffer zones reset, by compaction, by the map or at a start.
    pub buffer_zones_reset: u64,
    /// Capacity zones reset, by garbage collection, by the map or at a start.
    pub capacity_zones_reset: u64,
    /// Blocks that were unreadable or failed their checksum when they were moved. They return
    /// errors now.
    pub blocks_lost: u64,
    /// Blocks of which a client's read or a move found that they do not fit their checksums.
    pub checksum_errors: u64,
    /// Writes that a device refused; they were repeated in another zone.
    pub write_errors: u64,
    /// Device reads that failed or timed out.
    pub read_errors: u64,
    /// Zones that are no longer used.
    pub zones_retired: u64,
}
