//! Block device benchmark in virtual time: fio-like jobs on a drive or on Zonal's block device.
//!
//! 1. Precondition: the whole device is written once in order, then as much again at random, in
//!    pieces of the jobs' size.
//! 2. Warm-up: the jobs run until the capacity drive has been overwritten once more (`Turnover`).
//! 3. Measurement: the jobs go on. The outcome is what they write, and what the drives receive
//!    meanwhile.
//!
//! A device may be `smaller` times smaller than its model: its rates stay, and all durations shrink
//! as much. With a buffer of the same scale, `smaller` neighbouring ranks of a Zipf distribution
//! over the full device are one block. Each block then gets as many writes per byte through the
//! buffer as at full size. So the writes that the buffer absorbs do not depend on the scale. A
//! drive's own memory keeps its size and absorbs as much as at full size: so on a drive alone each
//! rank is one block.

mod draw;
mod sets;
mod shown;
mod tenants;
mod volume;
mod world;
mod writers;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use zonal_base::{Blocks, Bytes, Nanos, Rng, index};
use zonal_emulator::Model;
use zonal_watch::Watched;

use crate::experiment::{Drive, Run, Subject, Watchable, text};
use crate::tagged::tagged;
use draw::Places;
use volume::{BUFFER_HAS_ZONES, IN_PLACE, NEEDS_BUFFER, ZONE_BLOCKS_MIN};
use writers::{FILL, Turnover, Writers};

pub use draw::WriteOrder;
pub use tenants::{Mix, TENANTS, Tenants, TenantsOutcome, TenantsPrecondition};
pub use writers::JobOutcome;

/// Jobs, and the device that they run on. Equal settings give equal outcomes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Jobs {
    /// Number of jobs, each with its own part of the device.
    pub jobs: u64,
    /// Bytes of a write.
    #[serde(with = "text")]
    pub write: Bytes,
    /// Order of a job's writes in its part.
    #[serde(with = "text")]
    pub order: WriteOrder,
    /// Bytes of a read.
    #[serde(with = "text")]
    pub read: Bytes,
    /// Read rate of each job in bytes per second, at random in its part. 0: no reads.
    #[serde(with = "text")]
    pub read_rate: Bytes,
    /// Writes in flight per job, and reads.
    pub depth: u64,
    /// Write buffer in front of the drive.
    #[serde(with = "text")]
    pub buffer: Buffer,
    /// Capacity drive, which keeps the data.
    #[serde(with = "text")]
    pub drive: Drive,
    /// Unused share of the capacity drive, in percent.
    pub spare_percent: u8,
    /// Scale: everything is this many times smaller.
    pub smaller: u64,
    /// Seed of the random numbers. Equal seeds give equal histories.
    pub seed: u64,
}

/// Write buffer in front of the capacity drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffer {
    /// No buffer: the drive alone.
    None,
    /// A log on this drive: Zonal's block device.
    Log(Drive),
    /// A set-associative write-back cache on this drive, for comparison.
    WriteBack(Drive),
}

const WRITE_BACK: &str = "write-back:";

impl Buffer {
    fn drive(self) -> Option<Drive> {
        match self {
            Self::None => None,
            Self::Log(drive) | Self::WriteBack(drive) => Some(drive),
        }
    }
}

impl FromStr for Buffer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix(WRITE_BACK) {
            _ if text == "none" => Ok(Self::None),
            Some(drive) => drive.parse().map(Self::WriteBack),
            None => text.parse().map(Self::Log),
        }
    }
}

impl fmt::Display for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Log(drive) => drive.fmt(f),
            Self::WriteBack(drive) => write!(f, "{WRITE_BACK}{drive}"),
        }
    }
}

/// Allowed sizes of writes and reads.
const PIECES: std::ops::RangeInclusive<Bytes> = Bytes::kib(4)..=Bytes::mib(1);

/// Most writes in flight, of all jobs together.
const WRITES_MAX: u64 = 1024;

/// Smallest superblock of a drive alone, in units. Smaller ones would be emptied at almost no cost.
const SUPERBLOCK_UNITS_MIN: u32 = 16;

/// Zones that a block device needs on the capacity drive. `BUFFER_ZONES_MIN` is for its buffer.
const ZONES_MIN: u64 = 32;
const BUFFER_ZONES_MIN: u64 = 4;

impl Jobs {
    /// False for a zoned drive without a log in front.
    pub(crate) fn can_be_written(&self) -> bool {
        matches!(self.buffer, Buffer::Log(_))
            || matches!(self.drive.model(), Model::Conventional(_))
    }

    /// Checks that the jobs can run.
    ///
    /// # Errors
    /// When they cannot. The text is the key to change, a colon, and the values to write.
    pub fn check(&self) -> Result<(), String> {
        for (key, size) in [("write", self.write), ("read", self.read)] {
            if !size.0.is_power_of_two() || !PIECES.contains(&size) {
                return Err(format!("{key}: write a power of two from 4KiB to 1MiB"));
            }
        }
        let most = WRITES_MAX / self.jobs.max(1);
        if self.jobs == 0 || most == 0 {
            return Err(format!("jobs: write 1 to {WRITES_MAX}"));
        }
        if self.depth == 0 || most < self.depth {
            return Err(format!("depth: write 1 to {most} for {} jobs", self.jobs));
        }
        if !(1..=90).contains(&self.spare_percent) {
            return Err("spare-percent: write 1 to 90".into());
        }
        match (self.buffer.drive().map(Drive::model), self.drive.model()) {
            (Some(Model::Zoned(_)), _) => return Err(BUFFER_HAS_ZONES.into()),
            (None, Model::Zoned(_)) => return Err(NEEDS_BUFFER.into()),
            (_, Model::Zoned(_)) if !self.can_be_written() => return Err(IN_PLACE.into()),
            (_, Model::Conventional(profile)) if profile.ftl.is_none() => {
                return Err(format!(
                    "drive: {} has no garbage collection: use it as a buffer",
                    self.drive
                ));
            }
            _ => {}
        }
        match self.smaller_max() {
            0 => Err(format!("jobs: {} is too small for {} jobs", self.drive, self.jobs)),
            most if !(1..=most).contains(&self.smaller) => {
                Err(format!("smaller: write 1 (the whole drive) to {most}"))
            }
            _ => Ok(()),
        }
    }

    /// Largest scale: how many times smaller everything can be.
    fn smaller_max(&self) -> u64 {
        let blocks = |drive: Drive| {
            let model = drive.model();
            let geometry = model.geometry();
            u64::from(geometry.zone_count) * geometry.zone_capacity.0
        };
        // A block device on few zones reserves some. Half of the drive covers them and the spare
        // room.
        let used = 2 * self.jobs * self.piece().0 * 100 / u64::from(100 - self.spare_percent);
        let most = blocks(self.drive) / used.max(ZONES_MIN * ZONE_BLOCKS_MIN);
        match (self.buffer.drive(), self.drive.model()) {
            (Some(buffer), _) => most.min(blocks(buffer) / (BUFFER_ZONES_MIN * ZONE_BLOCKS_MIN)),
            (None, Model::Conventional(profile)) => {
                let units = profile.ftl.map_or(0, |ftl| ftl.superblock_units);
                most.min(u64::from(units / SUPERBLOCK_UNITS_MIN))
            }
            (None, Model::Zoned(_)) => 0,
        }
    }

    /// Alignment of the jobs' parts: a whole number of fills, reads and writes.
    fn piece(&self) -> Blocks {
        FILL.max(self.read).max(self.write).blocks_ceil()
    }
}

/// Warm-up. After it the state is that of these jobs, and not of the writes before.
const WARM: Turnover = Turnover { written: 1.0, given: 1.5, written_at_most: 8.0 };

const MEASURED: Turnover = Turnover { written: 0.5, given: 0.5, written_at_most: 3.0 };

/// The jobs run in rounds of this fraction of the device, and the turnover is checked after each.
const ROUNDS: u64 = 8;

impl Run for Jobs {
    type Outcome = JobOutcome;

    fn run(&self, on_progress: &dyn Fn(f64)) -> Result<JobOutcome, String> {
        self.run_watched(on_progress, &Watched::default())
    }
}

impl Watchable for Jobs {
    fn check_watchable(&self) -> Result<(), String> {
        match self.buffer {
            Buffer::Log(_) => Ok(()),
            buffer => Err(format!("buffer: {buffer} has no zones to watch: name a drive")),
        }
    }

    /// A smaller device is as much faster: in slow motion it takes the time of the whole one.
    fn subject(&self) -> Subject {
        Subject {
            device: format!("{}, {} times smaller", self.drive, self.smaller),
            buffer: Some(format!("{}, {} times smaller", self.buffer, self.smaller)),
            policy: String::new(),
            slow_motion: self.smaller,
        }
    }

    fn run_watched(
        &self,
        on_progress: &dyn Fn(f64),
        watched: &Watched,
    ) -> Result<JobOutcome, String> {
        let mut running = Running::start(self)?;
        running.on.show(watched);
        running.on.world.note("the device is filled");
        running.fill()?;
        running.round(running.size, Bytes(0))?;
        running.begin(self);
        on_progress(0.2);
        let at = |running: &mut Running, (from, part): (f64, f64), until: &Turnover| {
            let before = running.on.so_far();
            loop {
                let now = running.on.so_far().since(&before);
                if until.is_reached(now.written, now.given, running.size) {
                    return Ok::<_, String>(now);
                }
                on_progress(from + part * until.done(now.written, now.given, running.size));
                running.round(running.size / ROUNDS, self.read_rate)?;
            }
        };
        running.on.world.note("the warm-up begins");
        at(&mut running, (0.2, 0.5), &WARM)?;
        running.on.measure();
        running.on.world.note("the measurement begins");
        let outcome = at(&mut running, (0.7, 0.3), &MEASURED);
        running.on.world.show_end();
        outcome
    }
}

/// A benchmark in progress.
struct Running {
    on: Writers,
    jobs: u64,
    depth: u64,
    /// Bytes that the jobs may write: all parts together.
    size: u64,
    write: Blocks,
    read: Bytes,
    /// Write positions of each job.
    places: Rc<RefCell<Vec<Places>>>,
    rng: Rc<RefCell<Rng>>,
}

impl Running {
    fn start(jobs: &Jobs) -> Result<Self, String> {
        let opened = jobs.open()?;
        let piece = jobs.piece().0;
        let partition = opened.offered.0 / jobs.jobs / piece * piece;
        if partition == 0 {
            return Err(format!("the device is too small: reduce smaller, now {}", jobs.smaller));
        }
        let running = Self {
            on: Writers::new(opened),
            jobs: jobs.jobs,
            depth: jobs.depth,
            size: Blocks(partition * jobs.jobs).bytes().0,
            write: jobs.write.blocks_ceil(),
            read: jobs.read,
            places: Rc::default(),
            rng: Rc::new(RefCell::new(Rng::new(jobs.seed))),
        };
        running.write_by(WriteOrder::Uniform, 1, jobs.seed);
        Ok(running)
    }

    /// Switches the jobs from random writes to their own order.
    fn begin(&self, jobs: &Jobs) {
        self.write_by(jobs.order, jobs.merged(), jobs.seed);
    }

    fn write_by(&self, order: WriteOrder, merged: u64, seed: u64) {
        let units = self.partition() / self.write.0;
        let of_job = |job| Places::new(order, (units, merged), seed ^ job);
        *self.places.borrow_mut() = (0..self.jobs).map(of_job).collect();
    }

    fn partition(&self) -> u64 {
        Bytes(self.size / self.jobs).blocks_ceil().0
    }

    /// Writes everything once, in order.
    fn fill(&mut self) -> Result<(), String> {
        let piece = FILL.blocks_ceil().0;
        let mut pieces = 0..Bytes(self.size).blocks_ceil().0 / piece;
        self.on.fill(self.jobs, move || pieces.next().map(|at| at * piece))
    }

    /// Runs one round: the jobs write `bytes` together, and read at their rate meanwhile.
    fn round(&mut self, bytes: u64, read_rate: Bytes) -> Result<(), String> {
        let (write, partition, jobs) = (self.write, self.partition(), self.jobs);
        let left = Rc::new(Cell::new(bytes / write.bytes().0));
        let (places, rng, data) = (self.places.clone(), self.rng.clone(), tagged(write));
        self.on.write_from(jobs * self.depth, move |task| {
            left.set(left.get().checked_sub(1)?);
            let job = task % jobs;
            let unit = places.borrow_mut()[index(job)].draw(&mut rng.borrow_mut());
            Some((job * partition + unit * write.0, data.clone()))
        });
        if Bytes(0) < read_rate {
            self.read_beside(read_rate);
        }
        self.on.finish()
    }

    /// Starts the reads of a round: each job reads at random, at `rate` bytes per second, while
    /// writers run. A late read is followed by the next at once, and lost time is not made up.
    fn read_beside(&self, rate: Bytes) {
        let (partition, read) = (self.partition(), self.read);
        let (jobs, depth, blocks) = (self.jobs, self.depth, read.blocks_ceil());
        let pause = Nanos(read.0 * 1_000_000_000 / rate.0 * depth);
        self.on.tally.readers.set(jobs * depth);
        for task in 0..jobs * depth {
            let (volume, tally) = (self.on.volume.clone(), self.on.tally.clone());
            let (clock, rng) = (self.on.world.executor.clock().clone(), self.rng.clone());
            self.on.world.executor.spawner().spawn(async move {
                // The tasks start at different times.
                let mut due = clock.now() + Nanos(pause.0 / depth * (task / jobs));
                while 0 < tally.writers.get() {
                    clock.sleep_until(due).await;
                    due = clock.now() + pause;
                    let unit = rng.borrow_mut().below(partition / blocks.0);
                    let at = task % jobs * partition + unit * blocks.0;
                    let begun = clock.now();
                    if let Err(why) = volume.read(at, blocks).await {
                        tally.fail(why);
                        break;
                    }
                    tally.note_read(read.0, clock.now().since(begun));
                }
                tally.readers.set(tally.readers.get() - 1);
            });
        }
    }
}

#[cfg(test)]
mod tests;
