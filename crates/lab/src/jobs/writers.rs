//! Writers on a device: run them until a turnover is reached, and count their bytes.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use serde::{Deserialize, Serialize};
use zonal_base::{Bytes, Nanos, Payload};
use zonal_watch::{Request, Watched};

use super::volume::{Given, Opened, Volume};
use super::world::JobWorld;
use crate::simulated::{Latency, Measures, Timed};
use crate::tagged::tagged;

/// A device with its writers.
pub(super) struct Writers {
    pub(super) world: JobWorld,
    pub(super) volume: Volume,
    given: Box<dyn Fn() -> Given>,
    pub(super) tally: Rc<JobTally>,
}

/// Counters of the writers and readers.
#[derive(Default)]
pub(super) struct JobTally {
    pub(super) written: Cell<u64>,
    pub(super) read: Cell<u64>,
    /// Writers that have not finished.
    pub(super) writers: Cell<u64>,
    pub(super) readers: Cell<u64>,
    measures: RefCell<Option<Measures>>,
    failure: RefCell<Option<String>>,
    watched: RefCell<Watched>,
}

impl JobTally {
    pub(super) fn fail(&self, why: String) {
        self.failure.borrow_mut().get_or_insert(why);
    }

    pub(super) fn note_read(&self, bytes: u64, took: Nanos) {
        self.read.set(self.read.get() + bytes);
        self.watched.borrow().answered(Request::Read(0), Bytes(bytes), took);
    }

    fn note_written(&self, bytes: u64, took: Nanos) {
        self.written.set(self.written.get() + bytes);
        self.watched.borrow().answered(Request::Write(0), Bytes(bytes), took);
        if let Some(measures) = &mut *self.measures.borrow_mut() {
            measures.time(Timed::Write, took);
        }
    }

    fn latency(&self) -> Latency {
        let measures = self.measures.borrow();
        measures.as_ref().map_or(Latency::default(), |measures| measures.latency(Timed::Write))
    }
}

/// End condition of a phase, in multiples of the device size.
///
/// The phase ends when the users wrote `written`, and the drive received `given` or the users wrote
/// `written_at_most`.
pub(super) struct Turnover {
    pub(super) written: f64,
    pub(super) given: f64,
    pub(super) written_at_most: f64,
}

impl Turnover {
    pub(super) fn is_reached(&self, written: u64, given: u64, size: u64) -> bool {
        let part = |bytes: u64| bytes as f64 / size as f64;
        let (written, given) = (part(written), part(given));
        self.written <= written && (self.given <= given || self.written_at_most <= written)
    }

    /// Finished fraction.
    pub(super) fn done(&self, written: u64, given: u64, size: u64) -> f64 {
        let part = |bytes: u64, whole: f64| (bytes as f64 / size as f64 / whole).min(1.0);
        let enough = part(given, self.given).max(part(written, self.written_at_most));
        part(written, self.written).min(enough)
    }
}

/// Result of writers, in a whole run or in a part of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobOutcome {
    /// Duration in nanoseconds of virtual time.
    pub took_ns: u64,
    /// Bytes that the jobs wrote.
    pub written: u64,
    /// Bytes that the jobs read.
    pub read: u64,
    /// Bytes that the capacity drive received.
    pub given: u64,
    /// Bytes that the capacity drive programmed.
    pub programmed: u64,
    /// Latency of writes in steady state.
    pub write: Latency,
}

impl JobOutcome {
    /// Write rate of all jobs in MiB/s.
    #[must_use]
    pub fn write_rate(&self) -> f64 {
        self.rate(self.written)
    }

    /// Read rate of all jobs in MiB/s.
    #[must_use]
    pub fn read_rate(&self) -> f64 {
        self.rate(self.read)
    }

    fn rate(&self, bytes: u64) -> f64 {
        bytes as f64 / f64::from(1 << 20) / (self.took_ns as f64 / 1e9)
    }

    /// Bytes that the drive received for each byte that the jobs wrote.
    #[must_use]
    pub fn amplification(&self) -> f64 {
        self.given as f64 / self.written as f64
    }

    /// Write amplification: bytes programmed for each byte that the jobs wrote.
    #[must_use]
    pub fn flash_amplification(&self) -> f64 {
        self.programmed as f64 / self.written as f64
    }

    pub(super) const fn since(&self, earlier: &Self) -> Self {
        Self {
            took_ns: self.took_ns - earlier.took_ns,
            written: self.written - earlier.written,
            read: self.read - earlier.read,
            given: self.given - earlier.given,
            programmed: self.programmed - earlier.programmed,
            write: self.write,
        }
    }
}

/// Bytes of a write that fills a device.
pub(super) const FILL: Bytes = Bytes::kib(256);

impl Writers {
    pub(super) fn new(opened: Opened) -> Self {
        let Opened { world, volume, given, .. } = opened;
        Self { world, volume, given, tally: Rc::default() }
    }

    /// Shows the block device and its answers to a watcher from now on; a drive alone is not shown.
    pub(super) fn show(&mut self, watched: &Watched) {
        if let Volume::Shaped(shaper, _) = &self.volume {
            self.world.show(shaper, watched);
            *self.tally.watched.borrow_mut() = watched.clone();
        }
    }

    pub(super) fn so_far(&self) -> JobOutcome {
        let Given { given, programmed } = (self.given)();
        JobOutcome {
            took_ns: self.world.now.0,
            written: self.tally.written.get(),
            read: self.tally.read.get(),
            given,
            programmed,
            write: self.tally.latency(),
        }
    }

    /// Starts to time writes.
    pub(super) fn measure(&self) {
        *self.tally.measures.borrow_mut() = Some(Measures::new(self.world.now, Nanos::MAX));
    }

    /// Starts `tasks` tasks that write until `next` returns `None`. `next` returns the first block
    /// and the data.
    pub(super) fn write_from(
        &self,
        tasks: u64,
        next: impl FnMut(u64) -> Option<(u64, Payload)> + 'static,
    ) {
        let next = Rc::new(RefCell::new(next));
        self.tally.writers.set(tasks);
        for task in 0..tasks {
            let (next, volume, tally) = (next.clone(), self.volume.clone(), self.tally.clone());
            let clock = self.world.executor.clock().clone();
            self.world.executor.spawner().spawn(async move {
                loop {
                    let one = next.borrow_mut()(task);
                    let Some((at, data)) = one else { break };
                    let (bytes, begun) = (data.len() as u64, clock.now());
                    if let Err(why) = volume.write(at, data).await {
                        tally.fail(why);
                        break;
                    }
                    tally.note_written(bytes, clock.now().since(begun));
                }
                tally.writers.set(tally.writers.get() - 1);
            });
        }
    }

    /// Writes pieces of [`FILL`] at the blocks that `place` returns, with `tasks` in flight.
    pub(super) fn fill(
        &mut self,
        tasks: u64,
        mut place: impl FnMut() -> Option<u64> + 'static,
    ) -> Result<(), String> {
        let data = tagged(FILL.blocks_ceil());
        self.write_from(tasks, move |_| place().map(|at| (at, data.clone())));
        self.finish()
    }

    /// Runs the simulation until all writers and readers have finished.
    pub(super) fn finish(&mut self) -> Result<(), String> {
        let tally = self.tally.clone();
        let is_done = || tally.writers.get() == 0 && tally.readers.get() == 0;
        self.world.run(is_done);
        if let Some(why) = self.tally.failure.take() {
            return Err(why);
        }
        if !is_done() {
            return Err("the device does not respond".into());
        }
        self.volume.check()
    }
}
