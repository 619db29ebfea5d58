//! Counters of the block device. They only grow.

/// What one tenant did and caused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TenantStats {
    /// Bytes that users wrote. Denominator of write amplification.
    pub user_written_bytes: u64,
    /// Bytes that users read, zeros included.
    pub user_read_bytes: u64,
    /// Bytes that users trimmed or wrote as zeros.
    pub user_trimmed_bytes: u64,
    /// Data that the buffer tier was given.
    pub buffer_written_bytes: u64,
    /// Data that compaction wrote to the buffer tier again, not in `buffer_written_bytes`: it had been written often.
    pub second_round_bytes: u64,
    /// Data that compaction wrote to the capacity tier. What is missing to `buffer_written_bytes` was overwritten or trimmed
    /// in time, or is still in the buffer.
    pub compacted_bytes: u64,
    /// Data that collection moved within the capacity tier.
    pub collected_bytes: u64,
    /// What is written so that trims stay trimmed, and its moves.
    pub map_bytes: u64,
    /// Headers, and the table of exports.
    pub metadata_bytes: u64,
    /// Of `metadata_bytes`, `map_bytes` and data, what went to the capacity tier. Numerator of write amplification; over one
    /// device the bytes of the buffer count, too.
    pub capacity_written_bytes: u64,
    /// Blocks that hold data now.
    pub mapped_blocks: u64,
}

/// What the whole did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShaperStats {
    /// All that was written to the buffer tier.
    pub buffer_device_bytes: u64,
    /// All that was written to the capacity tier.
    pub capacity_device_bytes: u64,
    /// Pages of the map that were written, of the device bytes of the tier in which they lie.
    pub map_written_bytes: u64,
    /// Pages of the map that were read: by reads that did not find their place in memory, and to be merged.
    pub map_read_bytes: u64,
    /// Device writes of the buffer tier: how many user writes share one.
    pub buffer_segments: u64,
    /// Flushes of both tiers.
    pub flushes: u64,
    /// Writes that waited because compaction was behind.
    pub throttled: u64,
    /// Zones of the buffer tier that were emptied.
    pub buffer_zones_reset: u64,
    /// Zones of the capacity tier that were emptied.
    pub capacity_zones_reset: u64,
    /// Blocks that could not be read, or were not what had been written, when they were to be moved: they are errors now.
    pub blocks_lost: u64,
    /// Writes that a device refused; they were done again elsewhere.
    pub write_errors: u64,
    /// Reads that a device refused.
    pub read_errors: u64,
    /// Zones that are used no more.
    pub zones_retired: u64,
}
