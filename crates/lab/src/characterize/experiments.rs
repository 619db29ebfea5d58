//! Experiment runner: measures one device by every row of the reference tables.
//!
//! A row of a table is a run. The experiment's file defines its streams, window and points.

mod amplification;
mod garbage;
mod grid;
mod interference;
mod management;
mod mixed;
mod under_writes;

use std::fmt;

use zonal_base::{Blocks, Bytes, Nanos, Pool};
use zonal_device::ZonedDevice;

use super::bench::{Bench, CharacterizeError};
use super::clock::Clock;
use super::load::{Pace, Stack, Stream, StreamOutcome, Window, Work};
use super::reference::Row;
use super::tally::StreamTally;
use super::{Characterization, Point, Reference, Set, Statistic};

/// Group of runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExperimentGroup {
    /// Latency and throughput of writes, appends and reads, by size, queue depth and zones.
    IoGrid,
    /// Reset and finish, by zone occupancy.
    ZoneManagement,
    /// Explicit open, close, and the first I/O to a zone.
    OpenClose,
    /// Reads beside a rate-limited writer.
    ReadUnderWrites,
    /// Mixed reads and writes, by ratio and queue depth.
    MixedRatio,
    /// Reads beside a writer of another zone, at a fixed ratio.
    Placement,
    /// I/O beside resets and finishes.
    Interference,
    /// Throughput per second while old data are overwritten (garbage collection).
    GarbageCollection,
    /// Write amplification of a conventional drive.
    WriteAmplification,
}

impl ExperimentGroup {
    /// Experiments of a zoned drive, in the order of the runs.
    pub const ZONED: [Self; 8] = [
        Self::IoGrid,
        Self::ZoneManagement,
        Self::OpenClose,
        Self::ReadUnderWrites,
        Self::MixedRatio,
        Self::Placement,
        Self::Interference,
        Self::GarbageCollection,
    ];

    /// All experiments.
    pub const ALL: [Self; 9] = [
        Self::IoGrid,
        Self::ZoneManagement,
        Self::OpenClose,
        Self::ReadUnderWrites,
        Self::MixedRatio,
        Self::Placement,
        Self::Interference,
        Self::GarbageCollection,
        Self::WriteAmplification,
    ];

    /// Name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::IoGrid => "io",
            Self::ZoneManagement => "zones",
            Self::OpenClose => "opening",
            Self::ReadUnderWrites => "under-writes",
            Self::MixedRatio => "mixed",
            Self::Placement => "placement",
            Self::Interference => "interference",
            Self::GarbageCollection => "garbage",
            Self::WriteAmplification => "amplification",
        }
    }

    /// Experiments of a conventional drive, except [`Self::WriteAmplification`]. That one fills the
    /// drive repeatedly, so it needs a drive of its own.
    pub const CONVENTIONAL: [Self; 3] =
        [Self::IoGrid, Self::ReadUnderWrites, Self::GarbageCollection];
}

impl fmt::Display for ExperimentGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::IoGrid => "reads, writes and appends",
            Self::ZoneManagement => "reset and finish",
            Self::OpenClose => "open and close",
            Self::ReadUnderWrites => "reads under writes",
            Self::MixedRatio => "mixed ratios",
            Self::Placement => "placement",
            Self::Interference => "interference",
            Self::GarbageCollection => "garbage collection",
            Self::WriteAmplification => "write amplification",
        })
    }
}

/// Options of a characterization.
#[derive(Clone, Debug)]
pub struct CharacterizeSettings {
    /// Label of the device.
    pub device: String,
    /// Note for the reader, above the figures.
    pub note: Option<&'static str>,
    /// Fingerprint of the drive model, if it is one.
    pub constants: Option<u64>,
    /// Name of the model, for published figures about one model only.
    pub model: &'static str,
    /// Seed of the random addresses.
    pub seed: u64,
    /// Reference of the comparison.
    pub comparison: Reference,
    /// Experiments, in order.
    pub experiments: Vec<ExperimentGroup>,
    /// Length of each run, as a multiple of the default. Shorter runs are less exact.
    pub effort: f64,
}

impl CharacterizeSettings {
    /// Runs these experiments, compared with the reference drive.
    #[must_use]
    pub fn new(device: impl Into<String>, seed: u64, experiments: &[ExperimentGroup]) -> Self {
        Self {
            device: device.into(),
            note: None,
            constants: None,
            model: "",
            seed,
            comparison: Reference::Measured,
            experiments: experiments.to_vec(),
            effort: 1.0,
        }
    }
}

/// Progress: a run is about to begin.
#[derive(Clone, Debug)]
pub struct RunProgress {
    /// Experiment of the run.
    pub experiment: ExperimentGroup,
    /// Number of the run in the experiment, from 1.
    pub run: usize,
    /// Number of runs of the experiment.
    pub of: usize,
}

/// A device that may count its NAND writes.
pub trait CountsPrograms {
    /// Blocks written by the host and blocks programmed to flash, so far. `None`: not reported.
    fn written_and_programmed(&self) -> Option<(u64, u64)>;
}

/// Measures a zoned device that reads into `memory` (see [`memory`](super::memory)). Requires: all
/// its zones are empty; they are written. Experiments for conventional drives are left out.
///
/// # Errors
/// The device refuses a command that a zoned device must accept, or has too few zones.
pub fn zoned<D: ZonedDevice, C: Clock<D>>(
    (device, memory): (&mut D, Pool),
    clock: &mut C,
    settings: &CharacterizeSettings,
    on_progress: &mut dyn FnMut(&RunProgress),
) -> Result<Characterization, CharacterizeError> {
    let mut lab = Lab::new((device, memory), clock, settings, on_progress)?;
    for experiment in &settings.experiments {
        lab.experiment = *experiment;
        match experiment {
            ExperimentGroup::IoGrid => grid::run(&mut lab)?,
            ExperimentGroup::ZoneManagement => management::by_occupancy(&mut lab)?,
            ExperimentGroup::OpenClose => management::open_close(&mut lab)?,
            ExperimentGroup::ReadUnderWrites => under_writes::run(&mut lab)?,
            ExperimentGroup::MixedRatio => mixed::ratios(&mut lab)?,
            ExperimentGroup::Placement => mixed::placement(&mut lab)?,
            ExperimentGroup::Interference => interference::run(&mut lab)?,
            ExperimentGroup::GarbageCollection => garbage::zoned(&mut lab)?,
            ExperimentGroup::WriteAmplification => (),
        }
    }
    Ok(lab.report)
}

/// Measures a conventional drive. Experiments for zoned drives are left out.
///
/// `device` accepts writes at any block (its zones are ignored), and is empty.
///
/// # Errors
/// The device refuses such a write.
pub fn conventional<D: ZonedDevice + CountsPrograms, C: Clock<D>>(
    (device, memory): (&mut D, Pool),
    clock: &mut C,
    settings: &CharacterizeSettings,
    on_progress: &mut dyn FnMut(&RunProgress),
) -> Result<Characterization, CharacterizeError> {
    let mut lab = Lab::new((device, memory), clock, settings, on_progress)?;
    for experiment in &settings.experiments {
        lab.experiment = *experiment;
        match experiment {
            ExperimentGroup::IoGrid => grid::conventional(&mut lab)?,
            ExperimentGroup::ReadUnderWrites => under_writes::conventional(&mut lab)?,
            ExperimentGroup::GarbageCollection => garbage::conventional(&mut lab)?,
            ExperimentGroup::WriteAmplification => amplification::run(&mut lab)?,
            _ => (),
        }
    }
    Ok(lab.report)
}

/// Characterization in progress: the test bench and the report so far.
struct Lab<'a, D, C> {
    bench: Bench<'a, D, C>,
    settings: &'a CharacterizeSettings,
    report: Characterization,
    experiment: ExperimentGroup,
    on_progress: &'a mut dyn FnMut(&RunProgress),
}

impl<'a, D: ZonedDevice, C: Clock<D>> Lab<'a, D, C> {
    fn new(
        (device, memory): (&'a mut D, Pool),
        clock: &'a mut C,
        settings: &'a CharacterizeSettings,
        on_progress: &'a mut dyn FnMut(&RunProgress),
    ) -> Result<Self, CharacterizeError> {
        let bench = Bench::new((device, memory), clock, settings.seed)?;
        let report = Characterization {
            device: settings.device.clone(),
            note: settings.note,
            constants: settings.constants,
            seed: settings.seed,
            effort: settings.effort,
            points: Vec::new(),
            skipped: Vec::new(),
            series: Vec::new(),
        };
        Ok(Self { bench, settings, report, experiment: ExperimentGroup::IoGrid, on_progress })
    }

    fn begin(&mut self, run: usize, of: usize) {
        let experiment = self.experiment;
        (self.on_progress)(&RunProgress { experiment, run: run + 1, of });
    }

    /// Scales a time or count by the requested effort.
    fn scaled(&self, n: u64) -> u64 {
        super::load::whole(n as f64 * self.settings.effort).max(1)
    }

    fn steady(&self, at_least: Nanos, count: u64) -> Window {
        let at_least = Nanos(self.scaled(at_least.0));
        let count = self.scaled(count);
        // A slower stream shows by its small number of samples.
        let at_most = Nanos(at_least.0 * 40);
        Window {
            warm_up: Nanos(at_least.0 / 2),
            warm_up_count: count / 2,
            at_least,
            count,
            at_most,
        }
    }

    /// True if a run may keep `active` zones active, and use `more` zones besides.
    fn has_zones(&self, active: usize, more: u64) -> bool {
        let limit = self.bench.device.geometry().max_active_zones;
        let is_allowed = limit.is_none_or(|limit| active <= limit as usize);
        is_allowed && active + zonal_base::index(more) < self.bench.ground.empty.len()
    }

    /// Write amplification since the counters were `before`.
    fn amplified_since(&self, before: Option<(u64, u64)>) -> Option<f64>
    where
        D: CountsPrograms,
    {
        let (written_before, programmed_before) = before?;
        let (written, programmed) = self.bench.device.written_and_programmed()?;
        let written = (written - written_before) as f64;
        Some((programmed - programmed_before) as f64 / written)
    }

    fn skip(&mut self, run: String) {
        self.report.skipped.push(run);
    }

    /// Adds a point, unless the run has no value for it.
    fn add(&mut self, of: Figure<'_>, value: Option<f64>) {
        let Some(value) = value else { return };
        let reference = match self.settings.comparison {
            Reference::Measured => of.reference,
            Reference::Nothing => None,
        };
        let source = of.row.source();
        let Figure { id, observation, unit, statistic, set, .. } = of;
        let point = Point { id, observation, unit, statistic, set, reference, source, value };
        self.report.points.push(point);
    }
}

/// A point without its value.
struct Figure<'a> {
    row: Row<'a>,
    id: String,
    observation: u8,
    unit: &'static str,
    statistic: Statistic,
    set: Set,
    reference: Option<f64>,
}

/// Several figures of one row, with a common name.
struct Figures<'a> {
    row: Row<'a>,
    /// Prefix of the ids.
    name: String,
    observation: u8,
    set: Set,
}

impl<'a> Figures<'a> {
    /// Figure without a reference, because the row has no column for it.
    fn shown(&self, what: &str, unit: &'static str) -> Figure<'a> {
        Figure {
            row: self.row,
            id: format!("{}.{what}", self.name),
            observation: self.observation,
            unit,
            statistic: Statistic::Mean,
            set: Set::Unscored,
            reference: None,
        }
    }

    fn figure(&self, what: &str, unit: &'static str, column: &str) -> Figure<'a> {
        let statistic = match what.rsplit('.').next() {
            Some("p99") => Statistic::P99,
            Some("p50") => Statistic::Median,
            Some("sd") => Statistic::Spread,
            _ => Statistic::Mean,
        };
        Figure {
            row: self.row,
            id: format!("{}.{what}", self.name),
            observation: self.observation,
            unit,
            statistic,
            set: self.set,
            reference: self.row.figure(column),
        }
    }
}

/// Host time under SPDK beyond the latency that fio counts. For the runs at depth 1 in
/// `io_grid.csv`, 1 / IOPS - latency is 0.34 us (reads) to 0.39 us (writes, appends). Measured.
const SPDK: Stack = Stack { latency: Nanos(0), turnaround: Nanos(380) };
/// Host time with io_uring passthrough. The latency is that of the 8 KiB runs at depth 1 without
/// other load in the interference study (writes 14.1 to 15.7 us, appends 16.8 to 18.4, reads 87.5
/// to 89.3), less the same under SPDK (11.2, 14.0, 84.1). Between two commands: 0.6 us. Measured,
/// on another host. The runs are from the study of the test set, but are not rows of it.
const PASSTHROUGH: Stack = Stack { latency: Nanos(3_800), turnaround: Nanos(600) };

/// Zones for reads: enough that no run reads one block twice in a row.
const READABLE_ZONES: usize = 8;

fn stream(work: Work, bytes: u64, depth: usize) -> Stream {
    let blocks = Bytes(bytes).blocks_ceil();
    Stream { work, blocks, depth, pace: Pace::Free, stack: SPDK }
}

/// Merges the tallies of streams of the same kind.
fn merged<'o>(outcomes: impl IntoIterator<Item = &'o StreamTally>) -> StreamTally {
    let mut sum = StreamTally::new();
    outcomes.into_iter().for_each(|tally| sum.merge(tally));
    sum
}

/// Formats a size: `4KiB`.
fn size(bytes: u64) -> String {
    Bytes(bytes).to_string()
}

const BLOCK: Blocks = Blocks(1);
