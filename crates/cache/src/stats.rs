//! Counters of the cache. They only grow; readers form ratios.

/// Counters of one cache shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Heads asked for. Denominator of the next five.
    pub opens: u64,
    /// Heads that were known and fresh.
    pub opens_fresh: u64,
    /// Heads that the origin confirmed.
    pub opens_revalidated: u64,
    /// Heads that were new or had changed.
    pub opens_missed: u64,
    /// Heads that were not fresh, served because the origin failed.
    pub opens_stale: u64,
    /// Heads of objects that the origin did not have when it was asked lately.
    pub opens_absent: u64,
    /// Opens that shared the origin request of another.
    pub opens_joined: u64,
    /// Pieces of chunks asked for, each counted once below. Denominator of the hits.
    pub pieces: u64,
    /// Pieces served from memory: on their way to flash.
    pub pieces_dram_hits: u64,
    /// Pieces read from flash.
    pub pieces_flash_hits: u64,
    /// Pieces that joined a fetch that another read had started.
    pub pieces_joined: u64,
    /// Pieces that their reader had to ask the origin for.
    pub pieces_missed: u64,
    /// Bytes handed to readers.
    pub served_bytes: u64,
    /// Of them, read from flash.
    pub served_flash_bytes: u64,
    /// Bytes received from the origin.
    pub fetched_bytes: u64,
    /// GET requests sent to the origin. `pieces_missed` over it is what coalescing saves.
    pub fetches: u64,
    /// HEAD requests sent to the origin.
    pub head_fetches: u64,
    /// Requests to the origin that failed; that there is no such object, or no such version, is an answer. Divide
    /// by the sum of the last two.
    pub fetch_errors: u64,
    /// Fetches given up because nobody listened any more.
    pub fetches_abandoned: u64,
    /// Fetches ended early because none of their readers moved on; each was asked for again if one did. Divide by
    /// `fetches`.
    pub fetches_stalled: u64,
    /// Bytes fetched ahead of readers, in whole pieces. Denominator of the next two; the difference waits still.
    pub prefetched_bytes: u64,
    /// Of them, those that a reader came for.
    pub prefetched_read_bytes: u64,
    /// Of them, those that nobody came for in time.
    pub prefetched_unread_bytes: u64,
    /// Bytes of chunks that went to flash. `device_written_bytes` over it is the write amplification.
    pub admitted_bytes: u64,
    /// Bytes of chunks that did not go to flash: more was to go there than it takes, or the write failed.
    pub refused_bytes: u64,
    /// Bytes of chunks that were not worth a flash write, that the budget did not pay for, or whose readers did not want
    /// them kept.
    pub turned_away_bytes: u64,
    /// Bytes that came to be written or read while they should have been pinned, but pins had their share: they are
    /// cached as everything else.
    pub unpinned_bytes: u64,
    /// Heads that are known in memory only, because too many were on their way to flash.
    pub heads_refused: u64,
    /// Chunks on flash that turned out to be unreadable or wrong; each became a miss.
    pub damaged: u64,
    /// Records forgotten because their zone was emptied.
    pub evicted: u64,
    /// Removals acknowledged.
    pub removals: u64,
}
