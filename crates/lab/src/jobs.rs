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
mod tenants;
mod volume;
mod world;
mod writers;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use serde::{Deserialize, Serialize};
use zonal_base::{Blocks, Bytes, Nanos, Rng, index};

use crate::experiment::{Run, text};
use crate::tagged::tagged;
use draw::Places;
use writers::{FILL, Turnover, Writers};

pub use tenants::{Ground, Mix, TENANTS, Tenants, TenantsOutcome};
pub use volume::Device;
pub use writers::Outcome;

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
        running.round(running.size, None, 0)?;
        on_progress(0.2);
        let mut at = |(from, part): (f64, f64), until: &Turnover| {
            let before = running.on.so_far();
            loop {
                let now = running.on.so_far().since(&before);
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

/// A device under way.
struct Running {
    on: Writers,
    /// What the jobs may write, in bytes: all partitions.
    size: u64,
    write: Blocks,
    /// Ranks that are one block.
    merged: u64,
    rng: Rc<RefCell<Rng>>,
    seed: u64,
}

impl Running {
    fn start(jobs: &Jobs) -> Result<Self, String> {
        let write = jobs.write.blocks_ceil();
        let opened = jobs.device.open(jobs.smaller, jobs.seed)?;
        // Whole pieces of everything that is written or read.
        let piece = FILL.max(READ).max(jobs.write).blocks_ceil().0;
        let partition = opened.offered.0 / JOBS / piece * piece;
        if partition == 0 {
            return Err(format!("the device is too small: {} times is too much", jobs.smaller));
        }
        Ok(Self {
            on: Writers::new(opened),
            size: Blocks(partition * JOBS).bytes().0,
            write,
            merged: jobs.device.merged(jobs.smaller),
            rng: Rc::new(RefCell::new(Rng::new(jobs.seed))),
            seed: jobs.seed,
        })
    }

    fn partition(&self) -> u64 {
        Bytes(self.size / JOBS).blocks_ceil().0
    }

    /// Writes everything once, in order.
    fn fill(&mut self) -> Result<(), String> {
        let piece = FILL.blocks_ceil().0;
        let mut pieces = 0..Bytes(self.size).blocks_ceil().0 / piece;
        self.on.fill(JOBS, move || pieces.next().map(|at| at * piece))
    }

    /// The jobs write so many bytes together, and read as much as they may meanwhile.
    fn round(&mut self, bytes: u64, zipf: Option<f64>, read_rate: u64) -> Result<(), String> {
        let (write, partition) = (self.write, self.partition());
        let left = Rc::new(Cell::new(bytes / write.bytes().0));
        let units = partition / write.0;
        let places: Vec<Places> =
            (0..JOBS).map(|job| Places::new(zipf, (units, self.merged), self.seed ^ job)).collect();
        let (rng, data) = (self.rng.clone(), tagged(write));
        self.on.write_from(JOBS * DEPTH, move |task| {
            left.set(left.get().checked_sub(1)?);
            let job = task % JOBS;
            let unit = places[index(job)].draw(&mut rng.borrow_mut());
            Some((job * partition + unit * write.0, data.clone()))
        });
        if 0 < read_rate {
            self.read_beside(read_rate);
        }
        self.on.finish()
    }

    /// Each job reads at random for as long as there are writers, so many bytes a second: one that is late reads on at once, and
    /// what was missed is not made up for.
    fn read_beside(&self, rate: u64) {
        let (partition, blocks) = (self.partition(), READ.blocks_ceil());
        let pause = Nanos(READ.0 * 1_000_000_000 / rate * DEPTH);
        self.on.tally.readers.set(JOBS * DEPTH);
        for task in 0..JOBS * DEPTH {
            let (volume, tally) = (self.on.volume.clone(), self.on.tally.clone());
            let (clock, rng) = (self.on.world.executor.clock().clone(), self.rng.clone());
            self.on.world.executor.spawner().spawn(async move {
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
}

#[cfg(test)]
mod tests;
