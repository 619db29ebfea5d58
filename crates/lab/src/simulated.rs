//! A whole cache on the model of a drive, in virtual time: the engine that serves users, an origin that is as far
//! away as it is told to be, and readers in closed loops. Payloads are tags, so that terabytes cost their names.
//!
//! 1. Readers ask the cache for chunks (`readers`); every byte range that they get must carry the tag of its
//!    place.
//! 2. The loop hands commands to the drive and questions to the origin, and their answers back (`world`).
//! 3. When nothing is left to do now, now becomes the next thing that happens.

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
use zonal_zonelog::{Identity, OpenMode};

use crate::Draw;
use crate::bench::thread_cpu;
use origin::Wanted;
use readers::Readers;
use world::World;

pub(crate) use feed::{Load, Pool, Recording, whole_blocks};
pub use io::Calls;
pub use measures::{Latency, Moved};
pub(crate) use measures::{Measures, Timed};
pub use origin::OriginTimes;
pub use sequential::{Habit, Habits, HostCosts, SequentialSettings};
pub(crate) use sequential::{Sequential, ZONE_USED, ZONES_LEFT};
pub(crate) use threaded::Threaded;
pub use threaded::{Claim, Lru, MemoryCosts, ThreadedSettings};
pub use world::Ground;

/// What is simulated besides the drive.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Chunk size.
    pub chunk: Bytes,
    /// What readers ask for at a time: a power of two up to 1 GiB.
    pub get: Bytes,
    /// What is kept.
    pub policy: zonal_policy::Spec,
    /// For chunks that wait before flash or are read often.
    pub memory: Bytes,
    /// Readers.
    pub tasks: usize,
    /// How long the origin takes.
    pub origin: OriginTimes,
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
    /// Bytes that came.
    pub bytes: u64,
    /// How long it took, in virtual time.
    pub took: Nanos,
    /// And in CPU time of this machine.
    pub cpu: Duration,
}

/// Counts turns of a world: looking at the progress in each would take longer than the turn.
#[derive(Default)]
struct Turns(Cell<u32>);

impl Turns {
    fn is_due(&self) -> bool {
        self.0.set(self.0.get().wrapping_add(1));
        self.0.get().is_multiple_of(1 << 16)
    }
}

/// A cache of one shard on a drive, and everything around it.
pub struct Simulated<D> {
    world: World<D>,
    cache: Cache,
    readers: Rc<Readers>,
}

impl<D: ZonedDevice> Simulated<D> {
    /// Starts a cache on a drive that was never written, or by a cache only.
    ///
    /// # Errors
    /// When the settings do not fit the drive.
    pub fn start(ground: impl Into<Ground<D>>, settings: &Settings) -> Result<Self, StartError> {
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
        let readers = Rc::new(Readers::new(settings, wanted));
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
        Self::start(self.world.into_ground(), settings)
    }

    /// The drive as it is, when nobody uses it any more.
    pub(crate) fn into_ground(self) -> Ground<D> {
        self.world.into_ground()
    }

    /// What gets show from now on is kept, in stretches of so long.
    pub(crate) fn measure(&self, stretch: Nanos) {
        self.readers.measure(self.cache(), Measures::new(self.world.now, stretch));
    }

    /// What they have shown since.
    pub(crate) fn take_measures(&self) -> Option<Measures> {
        self.readers.take_measures()
    }

    /// The moment that it has come to.
    pub(crate) const fn now(&self) -> Nanos {
        self.world.now
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
        self.run(Load::Drawn(count, draw), &|_| ())
    }

    /// Runs all of a load; `on_progress` hears the part that is done, now and then.
    ///
    /// # Errors
    /// As [`Simulated::gets`], and when a trace cannot be read to its end.
    pub(crate) fn run(&mut self, load: Load, on_progress: &dyn Fn(f64)) -> Result<Outcome, String> {
        let (cpu, begun) = (thread_cpu(), self.world.now);
        let entered = self.readers.enter(&self.world.executor, &self.cache, load);
        let turns = Turns::default();
        self.world.run(|| {
            if turns.is_due() {
                on_progress(entered.feed.done());
            }
            entered.running.get() == 0
        });
        if let Some(why) = entered.feed.failure() {
            return Err(why);
        }
        let (gets, hits, bytes) = self.readers.take_tally()?;
        match entered.running.get() {
            0 => Ok(Outcome {
                gets,
                hits,
                bytes,
                took: self.world.now.since(begun),
                cpu: thread_cpu().saturating_sub(cpu),
            }),
            left => Err(format!("{left} readers wait for ever")),
        }
    }
}

#[cfg(test)]
mod tests;
