//! Command-line support shared by `zonal` and `zonal-lab`: exit codes, printing, and inspection of
//! device contents.
//!
//! Uses: `host` and `hostdev` for devices; `zonelog`, `runtime` and `device` to look at one without a node.
//! Knows nothing of: which commands there are.
//! Read in this order: `program`, `failure`, `print`; then `survey` (what is on a device),
//! `contents` (its description for people and programs), `loss` (consent before data is
//! overwritten).

mod advice;
mod contents;
mod failure;
mod loss;
pub mod print;
mod program;
mod survey;

pub use contents::{Contents, LogContents, state_name, totals};
pub use failure::Failure;
pub use loss::agree_to_loss;
pub use program::{COMMIT, EXIT_CODES, run};
pub use survey::{Access, Survey, Zone, refuse_foreign};
