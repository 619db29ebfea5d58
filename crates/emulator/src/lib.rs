//! Models of real drives in virtual time: what a drive does, and how long it takes to do it.
//!
//! Uses: `base`, `device`. Knows nothing of: real time, files, threads, caches.
//! Read in this order: `profile` (the constants), then the parts of a drive, `controller`, `link`,
//! `buffer`, `nand`; what it keeps, `payload`; then `zoned`, the drive, and `faults`;
//! `ftl`, what a drive without zones does instead, and `conventional`, that drive; `model`, all of them by name.
//!
//! Time is an argument and chance has a seed: equal calls give equal answers at equal times.
#![no_std]

extern crate alloc;

mod buffer;
mod chance;
mod controller;
mod conventional;
mod faults;
pub mod ftl;
mod in_flight;
mod intake;
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
pub use payload::{Forgetful, Medium, Memory, Tags, ZoneImage};
pub use profile::{Basis, Profile};
pub use zoned::ZonedDrive;
