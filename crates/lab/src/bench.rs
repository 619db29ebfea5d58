//! A cache under load in real time: closed loops of gets, and what they cost.
//!
//! Read in this order: `settings` (what the user asks for), `subject` (what a cache must offer), `modes` (the
//! measurements, one file each), `phase` (the loop), `feed` (which key is next), `tally`, `window`, `report`.
//!
//! What holds for every number:
//!
//! - A get ends with its last byte, checked; a wrong byte ends the run.
//! - Every loop of a window has ended when its counters are read, so gets and counters fit each other.
//! - CPU time is that of the whole process, the loops themselves included.

mod feed;
mod modes;
mod phase;
mod process;
mod progress;
mod report;
mod scratch;
mod settings;
mod subject;
mod tally;
mod window;

pub use modes::{Error, run};
pub use process::{KernelBytes, machine_idle, process_cpu, resident, thread_cpu};
pub use progress::Progress;
pub use report::{Detail, Quantiles, Report, Summary};
pub use scratch::write_bandwidth;
pub use settings::{Keys, Mode, Rate, Settings};
pub use subject::{Counters, Source, Subject, Work};
