//! The simulated host: the same engine, a device in memory, an origin that misbehaves, virtual time.
//!
//! Uses: `cache`, `zonelog`, `policy`, `device`, `runtime`, `base`. Knows nothing of: real time, files, sockets.
//! Read in this order: `history` (what happens in one run), `world` (the host's loop), `origin`, `actors` (who
//! reads and writes), `oracle` (what must hold), `hoarder` (a policy that rewrites).
//!
//! One seed is one history: workload, delays, faults and crashes all come from it. [`run`] returns what
//! happened, or the [`Violation`] that the oracle saw; either is found again with the same seed.
//!
//! | fault | must survive | may be lost |
//! | --- | --- | --- |
//! | process crash at any instant | removals acknowledged; what was on flash | what was not on flash |
//! | power cut at any instant | removals acknowledged | anything not flushed |
//! | flipped bits, unreadable blocks | every answer is right | the records that they hit |
//! | a failed write, a zone gone | every answer is right; removals acknowledged | what was to be written, what was there |
//! | the device gone | every answer is right | everything on it, until it is back |
//! | the origin fails, stalls, sends too little, changes an object under a read | every answer is right, or an error | nothing |

mod actors;
mod history;
mod hoarder;
mod oracle;
mod origin;
mod world;

pub use history::{Options, Report, run};
pub use oracle::Violation;

/// CRC-32C.
pub(crate) const CHECKSUM: zonal_base::Checksum = zonal_base::Checksum(crc32c::crc32c_append);
