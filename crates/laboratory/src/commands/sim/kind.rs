//! Kinds of histories: the cache, or a block device.

use std::fmt::Display;

use serde::Serialize;
use zonal_cache::Cache;
use zonal_shaper::Shaper;
use zonal_sim::{History, Options, Report, Shrink, Violation, block};
use zonal_watch::Watched;

use crate::recording::Recorded;

/// Histories of one kind.
pub(super) trait Kind: Shrink + Display {
    /// Options of a history besides its seed.
    type Options: Sync;
    type Report: HistorySummary + Send;

    /// Engine that runs.
    type Engine: Recorded;

    /// Command-line switch of this kind.
    const SWITCH: &str;

    fn of_seed(seed: u64, options: &Self::Options) -> Self;

    fn play(&self) -> Result<Self::Report, Violation>;

    /// Runs the history with a trace of its events, one per line.
    fn play_traced(&self) -> (String, Result<Self::Report, Violation>);

    /// Runs the history before a watcher.
    fn play_watched(&self, watched: Watched) -> Result<Self::Report, Violation>;
}

/// Report of a history without a violation.
pub(super) trait HistorySummary {
    /// Totals of many histories.
    type Sums: Serialize;

    /// Digest of all events.
    fn fingerprint(&self) -> u64;

    /// Virtual time, in nanoseconds.
    fn lasted(&self) -> u64;

    fn sums(reports: &[Self]) -> Self::Sums
    where
        Self: Sized;

    /// One line for people.
    fn to_text(sums: &Self::Sums) -> String;
}

impl Kind for History {
    type Options = Options;
    type Report = Report;
    type Engine = Cache;

    const SWITCH: &str = "";

    fn of_seed(seed: u64, options: &Options) -> Self {
        Self::of_seed(seed, options)
    }

    fn play(&self) -> Result<Report, Violation> {
        self.run()
    }

    fn play_traced(&self) -> (String, Result<Report, Violation>) {
        self.run_traced()
    }

    fn play_watched(&self, watched: Watched) -> Result<Report, Violation> {
        self.run_watched(watched)
    }
}

impl Kind for block::BlockHistory {
    type Options = block::BlockOptions;
    type Report = block::BlockReport;
    type Engine = Shaper;

    const SWITCH: &str = "--block ";

    fn of_seed(seed: u64, options: &block::BlockOptions) -> Self {
        Self::of_seed(seed, options)
    }

    fn play(&self) -> Result<block::BlockReport, Violation> {
        self.run()
    }

    fn play_traced(&self) -> (String, Result<block::BlockReport, Violation>) {
        self.run_traced()
    }

    fn play_watched(&self, watched: Watched) -> Result<block::BlockReport, Violation> {
        self.run_watched(watched)
    }
}

/// Totals of cache histories.
#[derive(Debug, Serialize)]
pub(super) struct OfCache {
    reads: u64,
    reads_cached: u64,
    reads_failed: u64,
    writes: u64,
    crashes: u64,
    zones_reset: u64,
}

/// Totals of block-device histories.
#[derive(Debug, Serialize)]
pub(super) struct OfBlock {
    reads: u64,
    /// Writes and trims.
    writes: u64,
    crashes: u64,
    zones_reset: u64,
    blocks_torn: u64,
    salvages: u64,
    scrubs: u64,
}

impl HistorySummary for Report {
    type Sums = OfCache;

    fn fingerprint(&self) -> u64 {
        self.history
    }

    fn lasted(&self) -> u64 {
        self.lasted
    }

    fn sums(reports: &[Self]) -> OfCache {
        let sum = |of: fn(&Self) -> u64| reports.iter().map(of).sum();
        OfCache {
            reads: sum(|report| report.reads),
            reads_cached: sum(|report| report.reads_cached),
            reads_failed: sum(|report| report.reads_failed),
            writes: sum(|report| report.writes),
            crashes: sum(|report| report.crashes),
            zones_reset: sum(|report| report.zones_reset),
        }
    }

    fn to_text(sums: &OfCache) -> String {
        let OfCache { reads, reads_cached, reads_failed, writes, crashes, zones_reset } = sums;
        format!(
            "{reads} reads ({reads_cached} cached, {reads_failed} cut short), {writes} writes, \
             {crashes} crashes, {zones_reset} zones reset"
        )
    }
}

impl HistorySummary for block::BlockReport {
    type Sums = OfBlock;

    fn fingerprint(&self) -> u64 {
        self.history
    }

    fn lasted(&self) -> u64 {
        self.lasted
    }

    fn sums(reports: &[Self]) -> OfBlock {
        let sum = |of: fn(&Self) -> u64| reports.iter().map(of).sum();
        OfBlock {
            reads: sum(|report| report.reads),
            writes: sum(|report| report.acts),
            crashes: sum(|report| report.crashes),
            zones_reset: sum(|report| report.zones_reset),
            blocks_torn: sum(|report| report.torn_blocks),
            salvages: sum(|report| report.salvages),
            scrubs: sum(|report| report.scrubs),
        }
    }

    fn to_text(sums: &OfBlock) -> String {
        let OfBlock { reads, writes, crashes, zones_reset, blocks_torn, salvages, scrubs } = sums;
        format!(
            "{reads} reads, {writes} writes and trims, {crashes} crashes, {zones_reset} zones \
             reset, {blocks_torn} torn blocks, {salvages} salvage starts, {scrubs} scrubs"
        )
    }
}
