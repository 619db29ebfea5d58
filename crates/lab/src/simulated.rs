//! Cache simulation in virtual time: the cache engine of production on a drive model.
//!
//! An origin model answers after configured times, and readers request chunks. Payloads are tags,
//! so that a simulated terabyte needs memory for its tags only.
//!
//! 1. Readers request chunks (`readers`). Every byte range in an answer must carry the tag of its
//!    position.
//! 2. The event loop submits commands to the drive and fetches to the origin, and delivers their
//!    completions (`world`).
//! 3. When no task is ready, the clock advances to the next event.

pub mod cachelib;
mod feed;
mod io;
mod measures;
mod order;
mod origin;
mod readers;
mod sequential;
mod threaded;
mod world;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use zonal_base::{Bytes, Nanos};
use zonal_cache::{Cache, Settings as CacheSettings, StartError};
use zonal_device::ZonedDevice;
use zonal_watch::Watched;
use zonal_zonelog::{Identity, OpenMode};

use crate::Draw;
use crate::bench::thread_cpu;
use origin::Wanted;
use readers::Readers;
use world::World;

pub(crate) use feed::{Load, Pool, Recording};
pub use io::Calls;
pub use measures::{Latency, Moved};
pub(crate) use measures::{Measures, Timed};
pub use origin::OriginTimes;
pub use sequential::{Habit, Habits, HostCosts, SequentialSettings};
pub(crate) use sequential::{Sequential, ZONE_USED, ZONES_LEFT};
pub(crate) use threaded::Threaded;
pub use threaded::{ClaimOrder, Lru, MemoryCosts, ThreadedSettings};
pub use world::Ground;

/// Parameters of a simulation, except those of the drive.
#[derive(Clone, Debug)]
pub struct SimulationSettings {
    /// Chunk size in bytes.
    pub chunk: Bytes,
    /// Bytes of one get: a power of two up to 1 GiB.
    pub get: Bytes,
    /// Admission and eviction policy.
    pub policy: zonal_policy::Spec,
    /// Memory of the policy in bytes, for its small queue and its hot set.
    pub memory: Bytes,
    /// Number of readers that run in parallel.
    pub tasks: usize,
    /// Response times of the origin.
    pub origin: OriginTimes,
    /// Seed of the random numbers. Equal seeds give equal histories.
    pub seed: u64,
}

/// Result of a series of gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimulationOutcome {
    /// Gets that were answered.
    pub gets: u64,
    /// Gets for which the cache sent no request to the origin.
    pub hits: u64,
    /// Bytes that the readers received.
    pub bytes: u64,
    /// Duration in virtual time.
    pub took: Nanos,
    /// CPU time that the simulation used on this machine.
    pub cpu: Duration,
}

/// Counts iterations of the event loop, so that progress is reported every 65,536 iterations. A
/// report in each iteration would take longer than the iteration.
#[derive(Default)]
struct Turns(Cell<u32>);

impl Turns {
    fn is_due(&self) -> bool {
        self.0.set(self.0.get().wrapping_add(1));
        self.0.get().is_multiple_of(1 << 16)
    }
}

/// A simulated cache of one shard, with its drive, its origin and its readers.
pub struct Simulated<D> {
    world: World<D>,
    cache: Cache,
    readers: Rc<Readers>,
}

impl<D: ZonedDevice> Simulated<D> {
    /// Starts a cache on a drive that is empty or was written only by a cache.
    ///
    /// # Errors
    /// When the settings do not fit the drive.
    pub fn start(
        ground: impl Into<Ground<D>>,
        settings: &SimulationSettings,
    ) -> Result<Self, StartError> {
        let ground = ground.into();
        let geometry = *ground.drive.geometry();
        let mut of_cache = CacheSettings::for_device(&geometry);
        of_cache.chunk = settings.chunk;
        let wanted = Wanted::default();
        let mut world = World::new(ground, of_cache.piece(), (settings.origin, wanted.clone()));
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
        let clock = world.ports.clock.clone();
        let readers = Rc::new(Readers::new(settings, wanted, clock));
        Ok(Self { world, cache, readers })
    }

    /// Lets all background work finish, as in a clean shutdown.
    pub fn stop(&mut self) {
        let (cache, stopped) = (self.cache.clone(), Rc::new(Cell::new(false)));
        let done = stopped.clone();
        self.world.executor.spawner().spawn(async move {
            cache.settle().await;
            done.set(true);
        });
        self.world.run(|| stopped.get());
    }

    /// Crash and recovery: drops the cache as `kill -9` does, and starts a new one on the same
    /// drive.
    ///
    /// # Errors
    /// When the new cache does not start.
    pub fn restart(self, settings: &SimulationSettings) -> Result<Self, StartError> {
        Self::start(self.world.into_ground(), settings)
    }

    /// Drops the cache and returns its drive with the current time.
    pub(crate) fn into_ground(self) -> Ground<D> {
        self.world.into_ground()
    }

    /// Starts to record measures, in intervals of `stretch`.
    pub(crate) fn measure(&self, stretch: Nanos) {
        self.readers.measure(self.cache(), Measures::new(self.world.now, stretch));
    }

    /// Shows the cache and its answers to a watcher from now on.
    pub(crate) fn show(&mut self, watched: &Watched) {
        if watched.is_watched() {
            self.world.show(&self.cache, watched);
            self.readers.show(watched);
        }
    }

    /// Returns the measures since [`Simulated::measure`].
    pub(crate) fn take_measures(&self) -> Option<Measures> {
        self.readers.take_measures()
    }

    /// Current virtual time.
    pub(crate) const fn now(&self) -> Nanos {
        self.world.now
    }

    /// The cache under test.
    pub const fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Runs `count` gets whose keys `draw` draws.
    ///
    /// # Errors
    /// When a get fails or returns the bytes of another position.
    pub fn gets(&mut self, count: u64, draw: Draw) -> Result<SimulationOutcome, String> {
        self.run(Load::Drawn(count, draw), &|_| ())
    }

    /// Runs a whole load. `on_progress` receives the finished fraction from time to time.
    ///
    /// # Errors
    /// As for [`Simulated::gets`], and when a trace cannot be read to its end.
    pub(crate) fn run(
        &mut self,
        load: Load,
        on_progress: &dyn Fn(f64),
    ) -> Result<SimulationOutcome, String> {
        let (cpu, begun) = (thread_cpu(), self.world.now);
        let entered = self.readers.enter(&self.world.executor, &self.cache, load);
        let turns = Turns::default();
        self.world.run(|| {
            if turns.is_due() {
                on_progress(entered.feed.done());
            }
            entered.running.get() == 0
        });
        self.world.show_end();
        if let Some(why) = entered.feed.failure() {
            return Err(why);
        }
        let (gets, hits, bytes) = self.readers.take_tally()?;
        match entered.running.get() {
            0 => Ok(SimulationOutcome {
                gets,
                hits,
                bytes,
                took: self.world.now.since(begun),
                cpu: thread_cpu().saturating_sub(cpu),
            }),
            left => Err(format!("{left} readers are stuck")),
        }
    }
}

#[cfg(test)]
mod tests;
