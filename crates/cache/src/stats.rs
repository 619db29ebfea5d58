//! Counters of the cache. They only grow; ratios are for the reader to compute.

/// Counters of one cache shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Head lookups. Denominator of the next five.
    pub opens: u64,
    /// Lookups answered by a fresh cached head.
    pub opens_fresh: u64,
    /// Lookups whose cached head the origin confirmed.
    pub opens_revalidated: u64,
    /// Lookups whose head was not cached or had changed at the origin.
    pub opens_missed: u64,
    /// Lookups answered by a stale head because the origin failed.
    pub opens_stale: u64,
    /// Lookups answered by a stale head while the origin was asked in the background.
    pub opens_updating: u64,
    /// Lookups answered by the negative cache.
    pub opens_absent: u64,
    /// Lookups that joined the origin request of another (single flight).
    pub opens_joined: u64,
    /// Requested pieces, each counted once below. Denominator of the hits.
    pub pieces: u64,
    /// Pieces served from memory: waiting for admission, on their way to flash, or hot.
    pub pieces_dram_hits: u64,
    /// Pieces read from flash.
    pub pieces_flash_hits: u64,
    /// Pieces that joined a fetch that another read had started.
    pub pieces_joined: u64,
    /// Pieces that their reader requested from the origin.
    pub pieces_missed: u64,
    /// Bytes delivered to readers.
    pub served_bytes: u64,
    /// Bytes of `served_bytes` that were read from flash.
    pub served_flash_bytes: u64,
    /// Bytes received from the origin.
    pub fetched_bytes: u64,
    /// GET requests to the origin. `pieces_missed` over it is the gain of coalescing.
    pub fetches: u64,
    /// HEAD requests to the origin.
    pub head_fetches: u64,
    /// Failed origin requests. Answers that there is no such object, or no such version, do not
    /// count. Denominator: `fetches` plus `head_fetches`.
    pub fetch_errors: u64,
    /// Fetches that stopped because no reader was left, or because a prefetch lacked memory.
    pub fetches_abandoned: u64,
    /// Fetches that ended early because their readers stalled. A reader that resumes starts a new
    /// one. Denominator: `fetches`.
    pub fetches_stalled: u64,
    /// Fetches whose body broke off and whose rest was requested anew. Denominator: `fetches`.
    pub fetches_resumed: u64,
    /// Prefetched bytes, in whole pieces. Denominator of the next two; the rest still waits for
    /// readers.
    pub prefetched_bytes: u64,
    /// Prefetched bytes that a reader used.
    pub prefetched_read_bytes: u64,
    /// Prefetched bytes that expired unread.
    pub prefetched_unread_bytes: u64,
    /// Bytes of chunks that went to flash. `device_written_bytes` over it is the write
    /// amplification.
    pub admitted_bytes: u64,
    /// Bytes of chunks refused because fills exceed the flash write bandwidth, or because the write
    /// failed.
    pub refused_bytes: u64,
    /// Bytes of chunks that the policy, the write budget, or the reader's retention class kept off
    /// flash.
    pub turned_away_bytes: u64,
    /// Bytes that a rule pins but that were cached without a pin, because pins had reached their
    /// limit.
    pub unpinned_bytes: u64,
    /// Heads kept in memory only, because too many head writes were in flight.
    pub heads_refused: u64,
    /// Records (chunks and heads) that were unreadable or failed verification; each became a miss.
    /// Timeouts are excluded.
    pub damaged: u64,
    /// Suspect heads that the origin confirmed: a tombstone of the object could be lost.
    pub suspects_confirmed: u64,
    /// Records dropped because their zone was reclaimed.
    pub evicted: u64,
    /// Removals acknowledged.
    pub removals: u64,
}
