//! The log through its own interface, on a RAM device in virtual time.
//!
//! Read in this order: `rig` (the host), then one file per subject; `history` is all of them at random.

mod append;
mod faults;
mod history;
mod open;
mod reclaim;
mod recover;
mod rig;
mod tombstones;
mod unreadable;
