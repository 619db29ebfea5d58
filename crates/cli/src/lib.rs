//! Command-line support shared by `zonal` and `zonal-lab`: exit codes, printing, and inspection of
//! device contents.
//!
//! Uses: `host` and `hostdev` for devices; `zonelog`, `runtime` and `device` to look at one without a node.
//! Knows nothing of: which commands there are.
//! Read in this order: `program`, `failure`, `print`; then `inspect` (what is on a device),
//! `contents` (its description for people and programs), `confirm` (consent before data is
//! overwritten); `generated` (completions and man pages).

mod advice;
mod confirm;
mod contents;
mod failure;
mod generated;
mod inspect;
pub mod print;
mod program;

pub use confirm::confirm_data_loss;
pub use contents::{Contents, LogContents, state_name, totals};
pub use failure::{Failure, exit_code};
pub use generated::GenerateCommand;
pub use inspect::{DeviceInspector, IoPath, Zone, refuse_foreign};
pub use program::{COMMIT, EXIT_CODES, run};
