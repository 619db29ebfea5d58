//! Deterministic simulation: the production engine over simulated devices and a faulty origin, in
//! virtual time.
//!
//! Uses: `cache`, `shaper`, `zonelog`, `policy`, `device`, `emulator`, `runtime`, `base`.
//! Knows nothing of: real time, files, sockets.
//!
//! Read in this order: `life` and `history` (the events, as data), `generate` (from a seed to a
//! history), `play` (runs a history) with `shutdown`, `world` (the host's loop), `drive` and
//! `origin` (the environment), `actors` and `read_client` (clients), `oracle`, `pin_oracle` and
//! `violation` (the checks), `shrink`. `stress_policy` is a policy that rewrites. `trace` and
//! `text` print histories. `block` has the same for the block device.
//!
//! A seed determines one history: workload, delays, faults and crashes. [`run`] returns a report,
//! or the [`Violation`] that the oracle found. The same seed reproduces either.
//!
//! | fault | must survive | may be lost |
//! | --- | --- | --- |
//! | process crash at any instant | acknowledged removals; data on flash | data not yet on flash |
//! | power cut at any instant | acknowledged removals | data that was not flushed |
//! | flipped bits, unreadable blocks, a zone offline | every answer is right | the affected records, tombstones included |
//! | zones zeroed, exchanged or older after a graceful end | every answer is right | repairs under the same ETag |
//! | a failed write, a zone read-only, limits lower than reported | every answer is right; acknowledged removals | data to be written |
//! | a lost command, the device gone | every answer is right; acknowledged removals | the use of the device, until the next start |
//! | a slow die | all | time |
//! | the device is isolated, then readmitted | every answer is right; removals acknowledged meanwhile | data not yet on flash |
//! | the origin fails, stalls, sends too little, changes an object under a read | every answer is right, or an error | nothing |

mod actors;
mod assertion;
pub mod block;
mod cuts;
mod damage;
mod drive;
mod generate;
mod history;
mod life;
mod oracle;
mod origin;
mod pin_oracle;
mod play;
mod read_client;
mod shrink;
mod shutdown;
mod stress_policy;
mod text;
mod trace;
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
/// The oracle found a violation.
pub fn run(seed: u64, options: &Options) -> Result<Report, Violation> {
    History::of_seed(seed, options).run()
}
