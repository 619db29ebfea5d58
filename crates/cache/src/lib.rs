//! Chunk cache engine: serves ranges of S3 objects from DRAM, flash or the origin. Async code
//! without I/O of its own.
//!
//! Uses: `zonelog`, `policy`, `runtime`, `device`, `base`. Knows nothing of: sockets, threads,
//! files, HTTP, real time.
//! Read in this order: `object`, `ports`, `cache`, `chunks`, `freshness`, then the paths: `open`,
//! `question`, `lookup`, `first_read`, `pass_through`, `publish`, `read`, `fetch`, `fill`,
//! `prefetch`, `admit`, `dram_tier`, `evict`, `events`, `remove`, `purge`, `pending_invalidations`,
//! `placement_epochs`, `roster`, `recover`, `checkpoint`, `scrub`,
//! `listing`, `sample`.
//!
//! Invariants:
//!
//! - A cache may always miss: any failure on the way to cached bytes is a miss and a counter.
//! - A chunk is served only while a head names its version; one read serves one version.
//! - A removed object is never served again, not even after a crash.
//! - No reader waits for a flash write, and no zone is held while the origin is slow.
#![no_std]

extern crate alloc;

mod admit;
mod cache;
mod checkpoint;
mod checkpoint_format;
mod chunk_store;
mod chunks;
mod dram_tier;
mod events;
mod evict;
mod fetch;
mod fill;
mod first_read;
mod freshness;
mod head;
mod heads;
mod index;
mod listing;
mod lookup;
mod mutation;
mod negative_cache;
mod no_etag_cache;
mod object;
mod open;
mod origin_backoff;
mod pass_through;
mod pending_invalidations;
mod pins;
mod placement_epochs;
mod ports;
mod prefetch;
mod prefetch_slots;
mod prefix;
mod prehashed_map;
mod publish;
mod purge;
mod question;
mod read;
mod records;
mod recover;
mod remove;
mod residency;
mod roster;
mod sample;
mod scrub;
mod stats;
mod version_keys;
mod zones;

pub use cache::{Cache, STRIPE, Settings, StartError};
pub use chunks::{Chunk, ChunkRules};
pub use events::{CacheEvent, Change, Rewritten, VictimChoice};
pub use first_read::UnreadBody;
pub use freshness::{Freshness, FreshnessPolicy, OriginUse};
pub use head::Head;
pub use listing::{CachedObject, CachedRange, ListingEnded};
#[cfg(feature = "planted-bugs")]
pub use mutation::Mutation;
pub use object::{ObjectName, bucket, route, spread};
pub use open::{HeadSource, LookupError, Opened, OpenedRead};
pub use pending_invalidations::{MISSED_MAX, PendingInvalidations};
pub use pins::{ReadHints, RetentionClass};
pub use placement_epochs::{BUCKETS, PlacementEpochs};
pub use ports::{Fetch, Fetched, OriginFault, OriginHead, Ports, StreamId};
pub use prefetch::prefetch_window;
pub use prefetch_slots::PrefetchSlots;
pub use prefix::PrefixRules;
pub use purge::PREFIX_BYTES_MAX;
pub use question::{FirstMissing, OtherStripes, Reader};
pub use read::{Consumer, Gone, InitialFetch, Piece, PieceSource, ReadError};
pub use recover::RecoveryStats;
pub use remove::{InvalidationTarget, RemoveError};
pub use residency::Residency;
pub use roster::{ROSTER_BYTES_MAX, RosterLost};
pub use sample::{SampleSize, SampledObject};
pub use scrub::Scrub;
pub use stats::CacheStats;
pub use zones::{NextVictim, Tally, ZoneContents, ZoneDetails, ZoneRank, ZoneTally};
