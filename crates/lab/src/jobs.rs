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
mod volume;
mod world;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use serde::{Deserialize, Serialize};
use zonal_base::{Blocks, Bytes, Nanos, Rng, index};

use crate::experiment::{Run, text};
use crate::tagged::tagged;
use draw::Places;
use volume::{Given, Volume};
use world::World;

pub use volume::Device;

/// Jobs, and the device that they run on. Equal settings, equal outcomes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Jobs {
    /// What they run on.
    pub device: Device,
    /// Everything is so many times smaller.
    pub smaller: u64,
    /// Bytes of a write.
    #[serde(with = "text")]
    pub write: Bytes,
    /// How uneven: the exponent of the Zipf distribution of the pieces of a job's partition. `None`: all are written alike.
    pub zipf: Option<f64>,
    /// What each job reads meanwhile, all alike: bytes a second. 0: nothing.
    pub read_rate: u64,
    /// Equal seeds, equal histories.
    pub seed: u64,
}

/// Jobs, each on its own part of the device.
pub const JOBS: u64 = 8;

/// Writes of a job that are under way together, and reads.
pub const DEPTH: u64 = 32;

/// Bytes of a read.
pub const READ: Bytes = Bytes::kib(64);

/// What came of them, once the device was in the state that it stays in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// How long it took, in virtual time.
    pub took_ns: u64,
    /// Bytes that the jobs wrote.
    pub written: u64,
    /// Bytes that they read.
    pub read: u64,
    /// Bytes that the drive was given that keeps the data.
    pub given: u64,
    /// Bytes of flash that it programmed.
    pub programmed: u64,
}

impl Outcome {
    /// What a job wrote, in MiB a second.
    #[must_use]
    pub fn write_rate(&self) -> f64 {
        self.rate(self.written)
    }

    /// What a job read, in MiB a second.
    #[must_use]
    pub fn read_rate(&self) -> f64 {
        self.rate(self.read)
    }

    fn rate(&self, bytes: u64) -> f64 {
        bytes as f64 / f64::from(1 << 20) / (self.took_ns as f64 / 1e9) / JOBS as f64
    }

    /// Bytes that the drive was given for each that was written.
    #[must_use]
    pub fn amplification(&self) -> f64 {
        self.given as f64 / self.written as f64
    }

    /// Bytes of flash for each that was written.
    #[must_use]
    pub fn flash_amplification(&self) -> f64 {
        self.programmed as f64 / self.written as f64
    }
}

/// Until when something goes on, in parts of the device: users wrote so much, and either the drive was given so much or they wrote
/// that much more.
struct Turnover {
    written: f64,
    given: f64,
    written_at_most: f64,
}

/// Then the state is that of these jobs, and not of what was before.
const WARM: Turnover = Turnover { written: 1.0, given: 1.5, written_at_most: 8.0 };

const MEASURED: Turnover = Turnover { written: 0.5, given: 0.5, written_at_most: 3.0 };

impl Turnover {
    fn is_reached(&self, written: u64, given: u64, size: u64) -> bool {
        let part = |bytes: u64| bytes as f64 / size as f64;
        let (written, given) = (part(written), part(given));
        self.written <= written && (self.given <= given || self.written_at_most <= written)
    }

    /// The part that is done.
    fn done(&self, written: u64, given: u64, size: u64) -> f64 {
        let part = |bytes: u64, whole: f64| (bytes as f64 / size as f64 / whole).min(1.0);
        let enough = part(given, self.given).max(part(written, self.written_at_most));
        part(written, self.written).min(enough)
    }
}

/// The jobs run in rounds of this part of the device, and what was reached is looked at between them.
const ROUNDS: u64 = 8;

/// Bytes of a write that fills the device.
const FILL: Bytes = Bytes::kib(256);

impl Run for Jobs {
    type Outcome = Outcome;

    fn run(&self, on_progress: &dyn Fn(f64)) -> Result<Outcome, String> {
        let mut running = Running::start(self)?;
        running.fill()?;
        running.round(running.size, None, 0)?;
        on_progress(0.2);
        let mut at = |(from, part): (f64, f64), until: &Turnover| {
            let before = running.so_far();
            loop {
                let now = running.so_far().since(&before);
                if until.is_reached(now.written, now.given, running.size) {
                    return Ok::<_, String>(now);
                }
                on_progress(from + part * until.done(now.written, now.given, running.size));
                running.round(running.size / ROUNDS, self.zipf, self.read_rate)?;
            }
        };
        at((0.2, 0.5), &WARM)?;
        at((0.7, 0.3), &MEASURED)
    }
}

impl Outcome {
    const fn since(&self, earlier: &Self) -> Self {
        Self {
            took_ns: self.took_ns - earlier.took_ns,
            written: self.written - earlier.written,
            read: self.read - earlier.read,
            given: self.given - earlier.given,
            programmed: self.programmed - earlier.programmed,
        }
    }
}

/// A device under way.
struct Running {
    world: World,
    volume: Volume,
    given: Box<dyn Fn() -> Given>,
    /// What the jobs may write, in bytes: all partitions.
    size: u64,
    write: Blocks,
    /// Ranks that are one block.
    merged: u64,
    rng: Rc<RefCell<Rng>>,
    seed: u64,
    tally: Rc<Tally>,
}

/// What the jobs have done.
#[derive(Default)]
struct Tally {
    written: Cell<u64>,
    read: Cell<u64>,
    /// Writers that have not come to their end.
    writers: Cell<u64>,
    readers: Cell<u64>,
    failure: RefCell<Option<String>>,
}

impl Tally {
    fn fail(&self, why: String) {
        self.failure.borrow_mut().get_or_insert(why);
    }
}

impl Running {
    fn start(jobs: &Jobs) -> Result<Self, String> {
        let write = jobs.write.blocks_ceil();
        let (world, volume, offered, given) = jobs.device.open(jobs.smaller, jobs.seed)?;
        // Whole pieces of everything that is written or read.
        let piece = FILL.max(READ).max(jobs.write).blocks_ceil().0;
        let partition = offered.0 / JOBS / piece * piece;
        if partition == 0 {
            return Err(format!("the device is too small: {} times is too much", jobs.smaller));
        }
        Ok(Self {
            world,
            volume,
            given,
            size: Blocks(partition * JOBS).bytes().0,
            write,
            merged: jobs.device.merged(jobs.smaller),
            rng: Rc::new(RefCell::new(Rng::new(jobs.seed))),
            seed: jobs.seed,
            tally: Rc::default(),
        })
    }

    fn partition(&self) -> u64 {
        Bytes(self.size / JOBS).blocks_ceil().0
    }

    fn so_far(&self) -> Outcome {
        let Given { given, programmed } = (self.given)();
        Outcome {
            took_ns: self.world.now.0,
            written: self.tally.written.get(),
            read: self.tally.read.get(),
            given,
            programmed,
        }
    }

    /// Writes everything once, in order.
    fn fill(&mut self) -> Result<(), String> {
        let piece = FILL.blocks_ceil();
        let pieces = Bytes(self.size).blocks_ceil().0 / piece.0;
        let next = Rc::new(Cell::new(0));
        let place = move || {
            let at = next.replace(next.get() + 1);
            (at < pieces).then_some(at * piece.0)
        };
        self.write_from(JOBS, piece, move |_| place());
        self.finish()
    }

    /// The jobs write so many bytes together, and read as much as they may meanwhile.
    fn round(&mut self, bytes: u64, zipf: Option<f64>, read_rate: u64) -> Result<(), String> {
        let (write, partition) = (self.write, self.partition());
        let left = Rc::new(Cell::new(bytes / write.bytes().0));
        let units = partition / write.0;
        let places: Vec<Places> =
            (0..JOBS).map(|job| Places::new(zipf, (units, self.merged), self.seed ^ job)).collect();
        let rng = self.rng.clone();
        self.write_from(JOBS * DEPTH, write, move |task| {
            left.set(left.get().checked_sub(1)?);
            let job = task % JOBS;
            let unit = places[index(job)].draw(&mut rng.borrow_mut());
            Some(job * partition + unit * write.0)
        });
        if 0 < read_rate {
            self.read_beside(read_rate);
        }
        self.finish()
    }

    /// So many tasks write where `place` says until it says no more.
    fn write_from(
        &self,
        tasks: u64,
        blocks: Blocks,
        place: impl FnMut(u64) -> Option<u64> + 'static,
    ) {
        let place = Rc::new(RefCell::new(place));
        let data = tagged(blocks);
        self.tally.writers.set(tasks);
        for task in 0..tasks {
            let (place, data) = (place.clone(), data.clone());
            let (volume, tally) = (self.volume.clone(), self.tally.clone());
            self.world.executor.spawner().spawn(async move {
                loop {
                    let at = place.borrow_mut()(task);
                    let Some(at) = at else { break };
                    if let Err(why) = volume.write(at, data.clone()).await {
                        tally.fail(why);
                        break;
                    }
                    tally.written.set(tally.written.get() + blocks.bytes().0);
                }
                tally.writers.set(tally.writers.get() - 1);
            });
        }
    }

    /// Each job reads at random for as long as there are writers, so many bytes a second: one that is late reads on at once, and
    /// what was missed is not made up for.
    fn read_beside(&self, rate: u64) {
        let (partition, blocks) = (self.partition(), READ.blocks_ceil());
        let pause = Nanos(READ.0 * 1_000_000_000 / rate * DEPTH);
        self.tally.readers.set(JOBS * DEPTH);
        for task in 0..JOBS * DEPTH {
            let (volume, tally) = (self.volume.clone(), self.tally.clone());
            let (clock, rng) = (self.world.executor.clock().clone(), self.rng.clone());
            self.world.executor.spawner().spawn(async move {
                // Not all of them at one instant.
                let mut due = clock.now() + Nanos(pause.0 / DEPTH * (task / JOBS));
                while 0 < tally.writers.get() {
                    clock.sleep_until(due).await;
                    due = clock.now() + pause;
                    let unit = rng.borrow_mut().below(partition / blocks.0);
                    let at = task % JOBS * partition + unit * blocks.0;
                    if let Err(why) = volume.read(at, blocks).await {
                        tally.fail(why);
                        break;
                    }
                    tally.read.set(tally.read.get() + READ.0);
                }
                tally.readers.set(tally.readers.get() - 1);
            });
        }
    }

    fn finish(&mut self) -> Result<(), String> {
        let tally = self.tally.clone();
        let is_done = || tally.writers.get() == 0 && tally.readers.get() == 0;
        self.world.run(is_done);
        if let Some(why) = self.tally.failure.take() {
            return Err(why);
        }
        if !is_done() {
            return Err("the device does not answer".into());
        }
        self.volume.check()
    }
}

#[cfg(test)]
mod tests;
