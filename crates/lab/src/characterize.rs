//! What a drive costs: the experiments of a published characterization, on any device.
//!
//! The experiments are those of Doekemeijer et al., "Performance Characterization of NVMe Flash Devices
//! with Zoned Namespaces (ZNS)", IEEE CLUSTER 2023, and of the interference study that followed it
//! (SYSTOR 2024). What is measured is fixed beforehand by the tables under `crates/lab/reference`: each
//! row is one run, each figure in it one [`Point`], and every table opens with the rule of its choice.
//!
//! Read in this order: `clock` (how time passes), `load` (closed loops, limited in rate or not), `tally`,
//! `ground` (which zones are empty or full), `bench` (a run on a device); `reference` (the tables); the
//! experiments, one file each, under `experiments`; `report`, `table`, `plots`.
//!
//! What holds for every number:
//!
//! - A latency is from the moment the host begins a command to the moment it has the answer. What the
//!   host's own software takes is a [`Stack`], stated and added: the drive is not blamed for it.
//! - Every run starts on a quiet drive and is measured after a warm-up, in steady state.
//! - In virtual time equal seeds give equal reports.

mod bench;
mod clock;
mod experiments;
mod ground;
mod load;
mod plots;
mod reference;
mod report;
mod table;
mod tally;

pub use bench::{Error, READS_MAX, memory};
pub use clock::{Clock, RealTime, VirtualTime};
pub use experiments::{CountsPrograms, Experiment, Progress, Settings, conventional, zoned};
pub use load::Stack;
pub use plots::{PlotError, write_plots};
pub use reference::Comparison;
pub use report::{Point, Report, Score, Scores, Set, Statistic};
pub use table::{Detail, Table};

#[cfg(test)]
mod tests;
