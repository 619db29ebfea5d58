//! Statistics of one shard.

use zonal_base::Bytes;

/// Counters and gauges of one shard at one moment.
#[derive(Clone, Debug)]
pub struct ShardStats {
    /// The device that it lives on, from 0.
    pub device: usize,
    /// The share of it, from 0.
    pub shard: usize,
    /// The cache's counters.
    pub cache: zonal_cache::CacheStats,
    /// The log's counters.
    pub log: zonal_zonelog::LogStats,
    /// Zones that are empty, open, sealed, being reclaimed, retired.
    pub zones: [u32; 5],
    /// What a zone takes.
    pub zone_capacity: Bytes,
    /// Bytes admitted and not yet on flash.
    pub backlog: Bytes,
    /// Bytes that are pinned.
    pub pinned: Bytes,
    /// Bytes that may be.
    pub pinned_max: Bytes,
    /// Records in the index.
    pub records: u64,
    /// Memory of the index.
    pub index_memory: Bytes,
    /// Memory of chunks that wait before flash or are read often.
    pub held_memory: Bytes,
    /// Bytes that were fetched ahead of readers and wait for them.
    pub unread: Bytes,
    /// Readers that go front to back and are fetched ahead of.
    pub open_scans: u64,
    /// Buffers in use.
    pub buffers_in_use: u64,
    /// The device no longer answers: requests go to the origin.
    pub is_gone: bool,
    /// The device is isolated: it may come back.
    pub is_isolated: bool,
    /// How often it was; 0 in all its shards but the first.
    pub isolations: u64,
    /// Reads that it did not answer in time.
    pub reads_timed_out: u64,
    /// Removals that the share has missed, and will make up for.
    pub removals_missed: u64,
}
