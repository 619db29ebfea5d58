//! Tests of the log through its public interface, on a RAM device in virtual time.
//!
//! Read in this order: `rig` (the host), then one file per subject. `history` combines all subjects
//! at random.

mod append;
mod faults;
mod history;
mod manifests;
mod open;
mod reclaim;
mod recover;
mod rig;
mod tombstones;
mod unreadable;
