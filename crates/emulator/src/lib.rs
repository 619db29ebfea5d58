//! Drive emulator: zoned and conventional SSDs in virtual time, with the latency of each command and the faults.
//!
//! Uses: `base`, `device`. Knows nothing of: real time, files, threads, caches.
//! Read in this order: `profile` (the constants), then the parts of a drive, `controller`, `link`,
//! `buffer`, `nand`; `payload`, the stored data; then `zoned`, the ZNS drive, and `faults`;
//! `ftl`, the flash translation layer of a conventional drive, and `conventional`, that drive; `model`, all drives by
//! name.
//!
//! Time is an argument and every random choice has a seed: equal calls give equal answers at equal times.
#![no_std]

extern crate alloc;

mod arbiter;
mod buffer;
mod chance;
mod controller;
mod conventional;
mod faults;
pub mod ftl;
mod in_flight;
mod link;
mod model;
mod nand;
pub mod payload;
pub mod profile;
#[cfg(test)]
mod testing;
mod zoned;

pub use conventional::{BlockCommand, ConventionalDrive, ConventionalProfile, OnReset};
pub use model::Model;
pub use payload::{DiscardMedium, Medium, Memory, Tags, ZoneImage};
pub use profile::{Basis, Profile};
pub use zoned::ZonedDrive;
