//! Shared basics of every layer: units, the buffer pool, checksums, and a seeded random number generator.
//!
//! Uses: nothing of ours. Knows nothing of: devices, tasks, clocks, threads, sockets.
//! Read in this order: `units`, `range_spec`, `buffer`, `payload`, `tag`, `checksum`, `rng`, `prefetch`, `histogram`.
#![no_std]

extern crate alloc;

mod buffer;
mod checksum;
mod histogram;
mod payload;
mod prefetch;
mod range_spec;
mod rng;
mod tag;
mod units;

pub use buffer::{Buffer, Pool, PoolClass, Region};
pub use checksum::{Checksum, SEED_BYTES, Seed};
pub use histogram::{LatencyBucket, LatencyHistogram, LatencySnapshot};
pub use payload::{Contents, Payload};
pub use prefetch::prefetch_cacheline;
pub use range_spec::RangeSpec;
pub use rng::{Rng, mix64};
pub use tag::{TAG_BYTES, Tag};
pub use units::{
    BLOCK_BYTES, Blocks, Bytes, Lba, Nanos, ParseUnitError, Ticket, ZoneId, index, low_u32,
};
