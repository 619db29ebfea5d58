//! Jobs on block devices in virtual time: what fio asks of a drive without zones, or of Zonal's block device on the models
//! of two drives.
//!
//! 1. All that the device offers is written once, in order; then as much again at random, in pieces of the jobs' size.
//! 2. The jobs run until the drive that keeps the data has been written over once more (`Turnover`).
//! 3. They go on, and what they wrote, and what the drives were given meanwhile, is the outcome.
//!
//! A device may be so many times smaller than its model: its rates stay, and everything lasts so much shorter. Before a buffer that is as
//! much smaller, as many neighbouring ranks of a Zipf distribution over the full device are one block here: each is written as often,
//! for each byte that goes through the buffer, as it would be, so what the buffer absorbs does not depend on the scale. A drive's own memory
//! keeps its size, and so does what it absorbs: the most popular blocks of a drive alone are drawn as often as they would be.

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

use crate::experiment::{Drive, Run, text};
use crate::tagged::tagged;
use draw::Places;
use volume::{BUFFER_HAS_ZONES, IN_PLACE, NEEDS_BUFFER, ZONE_BLOCKS_MIN};
use writers::{FILL, Turnover, Writers};

pub use draw::Order;
pub use tenants::{Ground, Mix, TENANTS, Tenants, TenantsOutcome};
pub use writers::Outcome;

/// Jobs, and the device that they run on. Equal settings, equal outcomes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Jobs {
    /// How many there are, each with its own part of the device.
    pub jobs: u64,
    /// Bytes of a write.
    #[serde(with = "text")]
    pub write: Bytes,
    /// Where a job writes in its part.
    #[serde(with = "text")]
    pub order: Order,
    /// Bytes of a read.
    #[serde(with = "text")]
    pub read: Bytes,
    /// What each job reads meanwhile, anywhere in its part: bytes a second. 0: nothing.
    #[serde(with = "text")]
    pub read_rate: Bytes,
    /// Writes of a job that are under way together, and reads.
    pub depth: u64,
    /// What takes writes first.
    #[serde(with = "text")]
    pub buffer: Buffer,
    /// The drive that keeps the data.
    #[serde(with = "text")]
    pub drive: Drive,
    /// Of it so many percent are not used.
    pub spare_percent: u8,
    /// Everything is so many times smaller.
    pub smaller: u64,
    /// Equal seeds, equal histories.
    pub seed: u64,
}

/// What takes writes before the drive that keeps the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffer {
    /// Nothing: the drive as it is.
    None,
    /// A log on this drive: Zonal's block device.
    Log(Drive),
    /// A set-associative write-back cache on this drive: what it is compared with.
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

/// What writes and reads may have.
const PIECES: std::ops::RangeInclusive<Bytes> = Bytes::kib(4)..=Bytes::mib(1);

/// Writes under way of all jobs together.
const WRITES_MAX: u64 = 1024;

/// Superblocks of a drive alone with fewer units would be emptied almost for nothing.
const SUPERBLOCK_UNITS_MIN: u32 = 16;

/// Zones that a block device wants of the drive that keeps the data, and of its buffer.
const ZONES_MIN: u64 = 32;
const BUFFER_ZONES_MIN: u64 = 4;

impl Jobs {
    /// False of a drive with zones before which there is no log.
    pub(crate) fn can_be_written(&self) -> bool {
        matches!(self.buffer, Buffer::Log(_))
            || matches!(self.drive.model(), Model::Conventional(_))
    }

    /// # Errors
    /// When they cannot be run: the key that is to blame, a colon, and what to write.
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
            return Err(format!("depth: {} jobs have 1 to {most}", self.jobs));
        }
        if !(1..=90).contains(&self.spare_percent) {
            return Err("spare-percent: write 1 to 90".into());
        }
        match (self.buffer.drive().map(Drive::model), self.drive.model()) {
            (Some(Model::Zoned(_)), _) => return Err(BUFFER_HAS_ZONES.into()),
            (None, Model::Zoned(_)) => return Err(NEEDS_BUFFER.into()),
            (_, Model::Zoned(_)) if !self.can_be_written() => return Err(IN_PLACE.into()),
            (_, Model::Conventional(profile)) if profile.ftl.is_none() => {
                return Err(format!("drive: {} moves nothing: use it as a buffer", self.drive));
            }
            _ => {}
        }
        match self.smaller_max() {
            0 => Err(format!("jobs: {} is too small for {} of them", self.drive, self.jobs)),
            most if !(1..=most).contains(&self.smaller) => {
                Err(format!("smaller: write 1, which is the drive as it is, to {most}"))
            }
            _ => Ok(()),
        }
    }

    /// How many times smaller everything can be.
    fn smaller_max(&self) -> u64 {
        let blocks = |drive: Drive| {
            let model = drive.model();
            let geometry = model.geometry();
            u64::from(geometry.zone_count) * geometry.zone_capacity.0
        };
        // A block device on few zones keeps some for itself: half of it is more than what it offers lacks.
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

    /// Parts of jobs are whole pieces of everything that is written or read.
    fn piece(&self) -> Blocks {
        FILL.max(self.read).max(self.write).blocks_ceil()
    }
}

/// Then the state is that of these jobs, and not of what was before.
const WARM: Turnover = Turnover { written: 1.0, given: 1.5, written_at_most: 8.0 };

const MEASURED: Turnover = Turnover { written: 0.5, given: 0.5, written_at_most: 3.0 };

/// The jobs run in rounds of this part of the device, and what was reached is looked at between them.
const ROUNDS: u64 = 8;

impl Run for Jobs {
    type Outcome = Outcome;

    fn run(&self, on_progress: &dyn Fn(f64)) -> Result<Outcome, String> {
        let mut running = Running::start(self)?;
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
        at(&mut running, (0.2, 0.5), &WARM)?;
        running.on.measure();
        at(&mut running, (0.7, 0.3), &MEASURED)
    }
}

/// A device under way.
struct Running {
    on: Writers,
    jobs: u64,
    depth: u64,
    /// What the jobs may write, in bytes: all partitions.
    size: u64,
    write: Blocks,
    read: Bytes,
    /// Where each job writes.
    places: Rc<RefCell<Vec<Places>>>,
    rng: Rc<RefCell<Rng>>,
}

impl Running {
    fn start(jobs: &Jobs) -> Result<Self, String> {
        let opened = jobs.open()?;
        let piece = jobs.piece().0;
        let partition = opened.offered.0 / jobs.jobs / piece * piece;
        if partition == 0 {
            return Err(format!("the device is too small: {} times is too much", jobs.smaller));
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
        running.write_by(Order::Uniform, 1, jobs.seed);
        Ok(running)
    }

    /// From now on the jobs write where they are to.
    fn begin(&self, jobs: &Jobs) {
        self.write_by(jobs.order, jobs.merged(), jobs.seed);
    }

    fn write_by(&self, order: Order, merged: u64, seed: u64) {
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

    /// The jobs write so many bytes together, and read as much as they may meanwhile.
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

    /// Each job reads at random for as long as there are writers, so many bytes a second: one that is late reads on at once, and
    /// what was missed is not made up for.
    fn read_beside(&self, rate: Bytes) {
        let (partition, read) = (self.partition(), self.read);
        let (jobs, depth, blocks) = (self.jobs, self.depth, read.blocks_ceil());
        let pause = Nanos(read.0 * 1_000_000_000 / rate.0 * depth);
        self.on.tally.readers.set(jobs * depth);
        for task in 0..jobs * depth {
            let (volume, tally) = (self.on.volume.clone(), self.on.tally.clone());
            let (clock, rng) = (self.on.world.executor.clock().clone(), self.rng.clone());
            self.on.world.executor.spawner().spawn(async move {
                // Not all of them at one instant.
                let mut due = clock.now() + Nanos(pause.0 / depth * (task / jobs));
                while 0 < tally.writers.get() {
                    clock.sleep_until(due).await;
                    due = clock.now() + pause;
                    let unit = rng.borrow_mut().below(partition / blocks.0);
                    let at = task % jobs * partition + unit * blocks.0;
                    if let Err(why) = volume.read(at, blocks).await {
                        tally.fail(why);
                        break;
                    }
                    tally.read.set(tally.read.get() + read.0);
                }
                tally.readers.set(tally.readers.get() - 1);
            });
        }
    }
}

#[cfg(test)]
mod tests;
