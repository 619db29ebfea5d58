//! Drive characterization: the experiments of a published study, on any device.
//!
//! The experiments are those of Doekemeijer et al., "Performance Characterization of NVMe Flash
//! Devices with Zoned Namespaces (ZNS)", IEEE CLUSTER 2023, and of the interference study that
//! followed (SYSTOR 2024). The tables under `crates/lab/reference` define the measurements: each
//! row is one run, each figure in it one [`Point`]. Every table begins with the rule by which its
//! rows were chosen.
//!
//! Read in this order: `clock` (virtual or real time), `load` (closed loops, with or without a rate
//! limit), `tally`, `ground` (empty and full zones), `bench` (a run on a device); `reference` (the
//! tables); the experiments, one file each, under `experiments`; `report`, `table`, `plots`.
//!
//! Properties of every number:
//!
//! - A latency is the time from the start of a command on the host to its completion on the host.
//!   The time of the host's own software is a [`Stack`], stated separately and added.
//! - Every run starts on an idle drive, and is measured in steady state after a warm-up.
//! - In virtual time, equal seeds give equal reports.

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

pub use bench::{CharacterizeError, READS_MAX, memory};
pub use clock::{Clock, RealTime, VirtualTime};
pub use experiments::{
    CharacterizeSettings, CountsPrograms, ExperimentGroup, RunProgress, conventional, zoned,
};
pub use load::Stack;
pub use plots::{PlotError, write_plots};
pub use reference::Reference;
pub use report::{Characterization, Point, Score, Scores, Set, Statistic};
pub use table::{Table, TableDetail};

#[cfg(test)]
mod tests;
