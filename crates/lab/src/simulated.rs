//! A whole cache on the model of a drive, in virtual time: the engine that serves users, an origin that is as far
//! away as it is told to be, and readers in closed loops. Payloads are tags, so that terabytes cost their names.
//!
//! 1. Readers ask the cache for chunks (`readers`); every byte range that they get must carry the tag of its
//!    place.
//! 2. The loop hands commands to the drive and questions to the origin, and their answers back (`world`).
//! 3. When nothing is left to do now, now becomes the next thing that happens.

mod origin;
mod readers;
mod world;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use zonal_base::{Bytes, Nanos};
use zonal_cache::{Cache, Settings as CacheSettings, StartError};
use zonal_device::ZonedDevice;
use zonal_zonelog::{Identity, OpenMode};

use crate::Draw;
use crate::bench::thread_cpu;
use readers::Readers;
use world::World;

/// What is simulated besides the drive.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Chunk size; readers ask for one chunk at a time.
    pub chunk: Bytes,
    /// What is kept.
    pub policy: zonal_policy::Spec,
    /// For chunks that wait before flash or are read often.
    pub memory: Bytes,
    /// Readers.
    pub tasks: usize,
    /// From each question to the origin to its answer.
    pub origin_latency: Nanos,
    /// Equal seeds, equal histories.
    pub seed: u64,
}

/// What came of some gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Chunks that were asked for and came.
    pub gets: u64,
    /// Those that asked nothing of the origin.
    pub hits: u64,
    /// How long it took, in virtual time.
    pub took: Nanos,
    /// And in CPU time of this machine.
    pub cpu: Duration,
}

/// A cache of one shard on a drive, and everything around it.
pub struct Simulated<D> {
    world: World<D>,
    cache: Cache,
    readers: Rc<Readers>,
}

impl<D: ZonedDevice> Simulated<D> {
    /// Starts a cache on a drive that was never written, or by a cache.
    ///
    /// # Errors
    /// When the settings do not fit the drive.
    pub fn start(drive: D, settings: &Settings) -> Result<Self, StartError> {
        let geometry = *drive.geometry();
        let mut of_cache = CacheSettings::for_device(&geometry);
        of_cache.chunk = settings.chunk;
        let mut world = World::new(drive, of_cache.piece(), settings.origin_latency);
        let rules = settings.policy.rules(&of_cache.layout(&geometry), settings.memory);
        let identity = Identity { log: *b"simulated drive\0", shard: 0, shard_count: 1 };
        let mode = (rules, OpenMode::Recover);
        let start = Cache::start(world.ports.clone(), geometry, of_cache, identity, mode);
        let started = Rc::new(RefCell::new(None));
        let slot = started.clone();
        world.executor.spawner().spawn(async move {
            let cache = start.await;
            *slot.borrow_mut() = Some(cache);
        });
        world.run(|| started.borrow().is_some());
        let cache = started.take().expect("a start has an end")?;
        let readers = Rc::new(Readers::new(settings));
        Ok(Self { world, cache, readers })
    }

    /// Everything comes to rest, as it does before the process ends when it is told to.
    pub fn stop(&mut self) {
        let (cache, stopped) = (self.cache.clone(), Rc::new(Cell::new(false)));
        let done = stopped.clone();
        self.world.executor.spawner().spawn(async move {
            cache.settle().await;
            done.set(true);
        });
        self.world.run(|| stopped.get());
    }

    /// The process is gone, as by `kill -9`, and comes up again on the same drive.
    ///
    /// # Errors
    /// When the cache does not come up.
    pub fn restart(self, settings: &Settings) -> Result<Self, StartError> {
        Self::start(self.world.into_drive(), settings)
    }

    /// The cache.
    pub const fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Runs `count` gets of chunks that `draw` names.
    ///
    /// # Errors
    /// When a get failed, or its bytes were those of another place.
    pub fn gets(&mut self, count: u64, draw: Draw) -> Result<Outcome, String> {
        let (cpu, begun) = (thread_cpu(), self.world.now);
        let running = self.readers.enter(&self.world.executor, &self.cache, (count, draw));
        self.world.run(|| running.get() == 0);
        let (gets, hits) = self.readers.take_tally()?;
        match running.get() {
            0 => Ok(Outcome {
                gets,
                hits,
                took: self.world.now.since(begun),
                cpu: thread_cpu().saturating_sub(cpu),
            }),
            left => Err(format!("{left} readers wait for ever")),
        }
    }
}

#[cfg(test)]
mod tests;
