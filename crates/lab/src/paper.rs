//! Published experiments, run again in virtual time at full size, beside what was published.
//!
//! 1. `published`: the figures as they were printed.
//! 2. One file for each paper: its experiments, which cell is which figure of which experiment, and what it claims.
//! 3. `report`: published, here, deviation; verdicts; the same drive under Zonal's own defaults.

mod claims;
mod ours;
mod published;
mod report;
mod zncache;

pub use claims::{Claim, Verdict};
pub use ours::Ours;
pub use published::Published;
pub use report::{Cell, DriveModel, Report};
pub use zncache::{Part, ZnCache};
