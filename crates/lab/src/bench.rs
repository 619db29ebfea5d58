//! Cache benchmark in real time: closed loops of gets, their latency, throughput and CPU time.
//!
//! Read in this order: `settings` (flags of the user), `subject` (interface of a cache under
//! test), `modes` (the measurements, one file each), `phase` (the loop of gets), `feed` (choice of
//! the next key), `tally`, `window`, `report`.
//!
//! Rules for every number:
//!
//! - A get ends with its last byte, checked; a wrong byte ends the run.
//! - Every loop of a window has ended when its counters are read, so gets and counters agree.
//! - CPU time is that of the whole process, including the loops.

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

pub use modes::{BenchError, run};
pub use process::{KernelBytes, machine_idle, process_cpu, resident, thread_cpu};
pub use progress::Progress;
pub use report::{BenchReport, ModeDetail, Quantiles, Summary};
pub use scratch::write_bandwidth;
pub use settings::{BenchSettings, Keys, Mode, Rate};
pub use subject::{Counters, Source, Subject, Work};
