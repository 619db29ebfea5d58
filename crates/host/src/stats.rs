//! Statistics and zones of one shard.

use std::sync::Arc;

use zonal_base::{Bytes, LatencyHistogram, ZoneId};
use zonal_cache::{Cache, NextVictim, ZoneContents, ZoneDetails};
use zonal_device::{CommandLatencies, DeviceKind};

/// Contents of the zones of one shard.
#[derive(Clone, Debug)]
pub struct ShardZones {
    /// Number of its device, from 0.
    pub device: usize,
    /// Number of the shard on its device, from 0.
    pub shard: usize,
    /// Number of its first zone on the device; the others follow.
    pub first_zone: ZoneId,
    /// Writable bytes of a zone.
    pub zone_capacity: Bytes,
    /// Contents of each zone, in the order of the device.
    pub zones: Vec<ZoneContents>,
    /// The zone that reclaim would empty next; its number counts from `first_zone`.
    pub next_victim: Option<NextVictim>,
}

impl ShardZones {
    /// Zones of a cache, from this zone of its device on.
    #[must_use]
    pub fn of_cache((device, shard): (usize, usize), first_zone: ZoneId, cache: &Cache) -> Self {
        Self {
            device,
            shard,
            first_zone,
            zone_capacity: cache.log().geometry().zone_capacity.bytes(),
            zones: cache.zones(),
            next_victim: cache.next_victim(),
        }
    }
}

/// What is known of one zone.
#[derive(Clone, Debug)]
pub struct ZoneInspection {
    /// Number of the shard on the device, from 0.
    pub shard: usize,
    /// Number of the shard's first zone on the device: zones in `details` count from it.
    pub first_zone: ZoneId,
    /// Writable bytes of a zone.
    pub zone_capacity: Bytes,
    /// The shard's knowledge of the zone.
    pub details: ZoneDetails,
}

/// Counters and gauges of one shard at one moment.
#[derive(Clone, Debug)]
pub struct ShardStats {
    /// Number of its device, from 0.
    pub device: usize,
    /// Number of the shard on its device, from 0.
    pub shard: usize,
    /// Counters of the cache.
    pub cache: zonal_cache::CacheStats,
    /// Counters of the log.
    pub log: zonal_zonelog::LogStats,
    /// Zones: empty, open, sealed, being reclaimed, retired.
    pub zones: [u32; 5],
    /// Whether the device has zones, or takes overwrites.
    pub kind: DeviceKind,
    /// Writable bytes of a zone.
    pub zone_capacity: Bytes,
    /// Bytes that the policy's write budget allows a day. `None`: it sets none by time.
    pub write_budget: Option<Bytes>,
    /// Bytes admitted and not yet on flash.
    pub backlog: Bytes,
    /// Pinned bytes.
    pub pinned: Bytes,
    /// Limit of pinned bytes.
    pub pinned_max: Bytes,
    /// Records in the index.
    pub records: u64,
    /// Memory of the index.
    pub index_memory: Bytes,
    /// Memory of the DRAM tier in use: chunks that wait for admission, and frequently read chunks.
    pub held_memory: Bytes,
    /// Prefetched bytes that were not read yet.
    pub unread: Bytes,
    /// Sequential readers with prefetch.
    pub open_scans: u64,
    /// Buffers in use.
    pub buffers_in_use: u64,
    /// True when the log cannot be used any more: requests go to the origin.
    pub is_gone: bool,
    /// True while the device is isolated; it may join again.
    pub is_isolated: bool,
    /// The scrub that is running, or the last one.
    pub scrub: zonal_cache::Scrub,
    /// Isolations of the device since the start; 0 in all its shards but the first.
    pub isolations: u64,
    /// Reads of the device that timed out.
    pub reads_timed_out: u64,
    /// Recorded removals that the shard will replay when its device joins again.
    pub removals_missed: u64,
    /// Latencies of device commands since the device joined. `None` while it is closed.
    pub commands: Option<Arc<CommandLatencies>>,
    /// Times that GETs waited in the shard's request queue.
    pub queue: Arc<LatencyHistogram>,
}

impl ShardStats {
    /// What a cache tells of itself. The rest is as of a device that was never in trouble.
    #[must_use]
    pub fn of_cache((device, shard): (usize, usize), cache: &Cache) -> Self {
        Self {
            device,
            shard,
            cache: cache.stats(),
            log: cache.log().stats(),
            zones: cache.log().zone_counts(),
            kind: cache.log().geometry().kind,
            zone_capacity: cache.log().geometry().zone_capacity.bytes(),
            write_budget: cache.write_budget(),
            backlog: cache.log().backlog(),
            pinned: cache.pinned(),
            pinned_max: cache.pinned_max(),
            records: cache.record_count(),
            index_memory: cache.index_memory(),
            held_memory: cache.held_memory(),
            unread: cache.unread(),
            open_scans: cache.open_scans(),
            buffers_in_use: 0,
            is_gone: cache.log().is_gone(),
            is_isolated: false,
            scrub: cache.scrub_progress(),
            isolations: 0,
            reads_timed_out: 0,
            removals_missed: 0,
            commands: None,
            queue: Arc::default(),
        }
    }
}
