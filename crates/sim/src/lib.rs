//! The simulated host: the same engine, devices and an origin that misbehave, virtual time.
//!
//! Uses: `cache`, `shaper`, `zonelog`, `policy`, `device`, `emulator`, `runtime`, `base`. Knows nothing of: real time, files, sockets.
//! Read in this order: `life` and `history` (what can happen, as data), `generate` (from a seed to a history), `play` (how it
//! goes) with `ending`, `world` (the host's loop), `drive` and `origin` (what is outside), `actors` and `ear` (who reads
//! and writes), `oracle`, `vigil` and `violation` (what must hold), `shrink`; `hoarder` is a policy that rewrites, `trace` and `text`
//! are for people. `block` is the same for the block device.
//!
//! One seed is one history: workload, delays, faults and crashes all come from it. [`run`] returns what
//! happened, or the [`Violation`] that the oracle saw; either is found again with the same seed.
//!
//! | fault | must survive | may be lost |
//! | --- | --- | --- |
//! | process crash at any instant | removals acknowledged; what was on flash | what was not on flash |
//! | power cut at any instant | removals acknowledged | anything not flushed |
//! | flipped bits, unreadable blocks, a zone offline | every answer is right | the records that they hit, a tombstone included |
//! | a failed write, a zone read-only, limits lower than reported | every answer is right; removals acknowledged | what was to be written |
//! | a lost command, the device gone | every answer is right; removals acknowledged | the use of the device, until the next start |
//! | a slow die | all | time |
//! | the device is isolated, and used again | every answer is right; removals acknowledged meanwhile | what was not on flash |
//! | the origin fails, stalls, sends too little, changes an object under a read | every answer is right, or an error | nothing |

mod actors;
mod assertion;
pub mod block;
mod cuts;
mod drive;
mod ear;
mod ending;
mod generate;
mod history;
mod hoarder;
mod life;
mod oracle;
mod origin;
mod play;
mod shrink;
mod text;
mod trace;
mod vigil;
mod violation;
mod world;

pub use generate::Options;
pub use history::History;
pub use play::Report;
pub use shrink::{SHRINK_RUNS_MAX, Shrink, Shrunk};
pub use violation::{Violation, ViolationKind};

/// CRC-32C.
pub(crate) const CHECKSUM: zonal_base::Checksum = zonal_base::Checksum(crc32c::crc32c_append);

/// Runs the history of `seed`.
///
/// # Errors
/// When the oracle saw something that must not happen.
pub fn run(seed: u64, options: &Options) -> Result<Report, Violation> {
    History::of_seed(seed, options).run()
}
