//! What every layer shares: units, payload memory, seeded chance, checksums.
//!
//! Uses: nothing of ours. Knows nothing of: devices, tasks, clocks, threads, sockets.
//! Read in this order: `units`, `buffer`, `payload`, `tag`, `checksum`, `rng`, `foresee`.
#![no_std]

extern crate alloc;

mod buffer;
mod checksum;
mod foresee;
mod payload;
mod rng;
mod tag;
mod units;

pub use buffer::{Buffer, Pool, PoolClass, Region};
pub use checksum::{Checksum, SEED_BYTES, Seed};
pub use foresee::foresee;
pub use payload::{Contents, Payload};
pub use rng::{Rng, mix64};
pub use tag::{TAG_BYTES, Tag};
pub use units::{
    BLOCK_BYTES, Blocks, Bytes, Lba, Nanos, ParseUnitError, Ticket, ZoneId, index, low_u32,
};
