//! ZNCache simulation in virtual time: a cache in which each thread runs a whole get.
//!
//! A thread looks up a key and reads its chunk. On a miss the thread claims a zone, waits for the
//! origin and writes the chunk before it answers.
//!
//! 1. Threads take keys from one list and get them (`get`).
//! 2. A claimed zone has one writer, also while the origin is slow ([`ClaimOrder::BeforeFetch`]). So no
//!    more misses are in progress than zones may be active.
//! 3. Every read promotes its zone as a whole, if the zone is full. One task empties the zone that
//!    was promoted longest ago (`evict`). With [`Lru::Chunks`] single chunks are evicted instead,
//!    and the task moves the live chunks of the emptiest zones.
//!
//! The cache has no memory tier and does not survive a restart.

mod chunks;
mod map;
mod spinning;
mod zones;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use zonal_base::{Blocks, Bytes, Lba, Nanos, Rng, ZoneId, index};
use zonal_device::{DeviceKind, Geometry, ZonedDevice};
use zonal_runtime::{Clock, Event};

use super::feed::{Ask, Feed, Load, What};
use super::io::{Calls, Failure, Io};
use super::measures::{Measures, Timed};
use super::origin::Wanted;
use super::world::{Ground, World};
use super::{OriginTimes, Turns};
use chunks::Chunks;
use map::{ChunkAddress, Map};
use zones::{Cut, Zones};

/// Order of the two steps of a miss: claim a zone, and fetch from the origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimOrder {
    /// Claims the zone before the request to the origin.
    BeforeFetch,
    /// Claims the zone when the bytes have arrived.
    AfterFetch,
}

/// Unit of the LRU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lru {
    /// Evicts a whole zone.
    Zones,
    /// Evicts a chunk. Garbage collection moves the live chunks of a zone before the reset.
    Chunks {
        /// Spare room for garbage collection, in percent of the zones.
        spare_percent: u64,
    },
}

/// Time that a thread spends on fresh memory for a chunk, per MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryCosts {
    /// Time to allocate it and copy a chunk into it before the origin answers. The time varies by
    /// half in both directions.
    pub copying: Nanos,
    /// Time to fault it in while a chunk is read into it.
    pub touching: Nanos,
}

/// Parameters of a run.
#[derive(Clone, Copy, Debug)]
pub struct ThreadedSettings {
    /// Size of every chunk in bytes. A get reads one chunk, which lies within a zone.
    pub chunk: Bytes,
    /// Number of zones that are used, from the first on.
    pub zones: u32,
    /// Limit of active zones, where the drive has none of its own.
    pub active_zones: u32,
    /// Number of threads.
    pub threads: usize,
    /// Latency of the origin, from the request to the last byte.
    pub origin_latency: Nanos,
    /// When a miss claims its zone.
    pub claim: ClaimOrder,
    /// Unit of the LRU.
    pub lru: Lru,
    /// Eviction starts when no more zones are free than the first number, and stops at the second.
    pub free_zones: (u32, u32),
    /// Limits and costs of the threads' system calls.
    pub calls: Calls,
    /// Costs of memory.
    pub memory: MemoryCosts,
    /// Seed of the random numbers. Equal seeds give equal histories.
    pub seed: u64,
}

/// Limit of the keys: a key is an index of a table with four bytes per entry.
const KEYS_MAX: u64 = 1 << 30;

/// Interval at which the task counts the free zones.
const EVICT_INTERVAL: Nanos = Nanos::millis(100);

/// Interval while too few zones are free. The published task spins.
const EVICT_AGAIN: Nanos = Nanos::millis(1);

/// A simulated ZNCache on a drive.
pub(crate) struct Threaded<D> {
    world: World<D>,
    cache: Rc<ThreadedState>,
}

struct ThreadedState {
    settings: ThreadedSettings,
    geometry: Geometry,
    clock: Clock,
    map: Map,
    zones: Zones,
    /// LRU of chunks, for [`Lru::Chunks`].
    chunks: Option<RefCell<Chunks>>,
    io: Io,
    /// Reads in progress per zone.
    readers: RefCell<Vec<u32>>,
    reader_left: Event,
    keys: Feed,
    /// Random generator that draws keys.
    key_chance: RefCell<Rng>,
    begun: Nanos,
    /// Number of first fetches that start as if they were in progress already.
    first_fetches: Cell<u32>,
    chance: RefCell<Rng>,
    running: Cell<usize>,
    /// Time at which the last thread so far finished its work.
    ended: Cell<Nanos>,
    hits: Cell<u64>,
    moved: Cell<u64>,
    measures: RefCell<Measures>,
    failure: RefCell<Option<Failure>>,
}

/// Result of a series of gets.
pub(crate) struct ThreadedOutcome {
    pub(crate) hits: u64,
    pub(crate) took: Nanos,
    pub(crate) measures: Measures,
    /// Zones that were finished.
    pub(crate) finished: u64,
    /// Chunks that garbage collection moved.
    pub(crate) moved: u64,
}

impl<D: ZonedDevice> Threaded<D> {
    /// An empty cache on a drive.
    ///
    /// Requires: each zone of the drive holds at least one chunk.
    pub(crate) fn new(
        ground: Ground<D>,
        settings: ThreadedSettings,
        load: Load,
        stretch: Nanos,
    ) -> Self {
        // The port of the origin is unused: threads sleep instead.
        let nobody = (OriginTimes::each(Nanos(0)), Wanted::default());
        let world = World::new(ground, settings.calls.request, nobody);
        let geometry = *world.geometry();
        let per_zone = geometry.zone_capacity.0 / settings.chunk.blocks_ceil().0;
        assert!(0 < per_zone && settings.zones <= geometry.zone_count);
        let per_zone = zonal_base::low_u32(index(per_zone));
        let mut seeds = Rng::new(settings.seed);
        let (device, clock) = (world.ports.device.clone(), world.executor.clock().clone());
        let limit = geometry.max_active_zones.unwrap_or(settings.active_zones);
        let has_zones = geometry.kind == DeviceKind::Zoned;
        let chunks = match settings.lru {
            Lru::Zones => None,
            Lru::Chunks { spare_percent } => {
                Some(RefCell::new(Chunks::new(settings.zones, per_zone, spare_percent)))
            }
        };
        let has_collector = chunks.is_some();
        let cut = Cut { zones: settings.zones, chunks: per_zone, limit, has_collector };
        let zones = Zones::new(device.clone(), has_zones, cut, seeds.next_u64());
        let io = Io::new(settings.calls, device, clock.clone(), world.executor.spawner());
        let chance = Rng::new(seeds.next_u64());
        let cache = ThreadedState {
            settings,
            geometry,
            clock,
            map: Map::new(u64::from(settings.zones) * u64::from(per_zone)),
            zones,
            chunks,
            io,
            readers: RefCell::new(vec![0; settings.zones as usize]),
            reader_left: Event::default(),
            keys: Feed::new(load),
            key_chance: RefCell::new(chance),
            begun: world.now,
            first_fetches: Cell::new(match settings.claim {
                ClaimOrder::BeforeFetch => limit,
                ClaimOrder::AfterFetch => zonal_base::low_u32(settings.threads),
            }),
            chance: RefCell::new(Rng::new(seeds.next_u64())),
            running: Cell::new(settings.threads),
            ended: Cell::default(),
            hits: Cell::default(),
            moved: Cell::default(),
            measures: RefCell::new(Measures::new(world.now, stretch)),
            failure: RefCell::default(),
        };
        Self { world, cache: Rc::new(cache) }
    }

    /// Runs all gets. `on_progress` receives the finished fraction from time to time.
    ///
    /// # Errors
    /// When the drive refuses a command, or the keys cannot be read.
    pub(crate) fn run(
        mut self,
        on_progress: &dyn Fn(f64),
    ) -> Result<(ThreadedOutcome, Ground<D>), String> {
        let (cache, begun) = (self.cache.clone(), self.world.now);
        for _ in 0..cache.settings.threads {
            self.world.executor.spawner().spawn(cache.clone().serve());
        }
        self.world.executor.spawner().spawn(cache.clone().evict());
        let turns = Turns::default();
        self.world.run(|| {
            if turns.is_due() {
                on_progress(cache.keys.done());
            }
            cache.running.get() == 0 || cache.failure.borrow().is_some()
        });
        if let Some(why) = cache.failure.take().map(|Failure(why)| why).or(cache.keys.failure()) {
            return Err(why);
        }
        if cache.running.get() != 0 {
            return Err(format!("{} threads are stuck", cache.running.get()));
        }
        let took = cache.ended.get().since(begun);
        let measures = cache.measures.replace(Measures::new(begun, Nanos::MAX));
        let (hits, finished) = (cache.hits.get(), cache.zones.finished());
        let moved = cache.moved.get();
        Ok((ThreadedOutcome { hits, took, measures, finished, moved }, self.world.into_ground()))
    }
}

impl ThreadedState {
    async fn serve(self: Rc<Self>) {
        while let Some(ask) = self.next() {
            if let Err(failure) = self.answer(ask).await {
                self.failure.borrow_mut().get_or_insert(failure);
                return;
            }
        }
        self.running.set(self.running.get() - 1);
        self.ended.set(self.clock.now());
    }

    fn next(&self) -> Option<Ask> {
        self.keys.next(&mut self.key_chance.borrow_mut())
    }

    async fn answer(&self, ask: Ask) -> Result<(), Failure> {
        let key = match ask.what {
            What::Key(key) if key < KEYS_MAX => key,
            What::Key(key) => {
                return Err(Failure(format!("key {key}: zncache supports keys below {KEYS_MAX}")));
            }
            What::Object(..) | What::Removal(_) => {
                return Err(Failure("zncache supports only keys, without objects".into()));
            }
        };
        let due = ask.due.map(|due| self.begun + due);
        if let Some(due) = due {
            self.clock.sleep_until(due).await;
        }
        self.get(key, due.unwrap_or_else(|| self.clock.now())).await
    }

    /// Runs one get. `begun` is the time of its request.
    async fn get(&self, key: u64, begun: Nanos) -> Result<(), Failure> {
        let pin = |place| self.readers.borrow_mut()[self.zone_of(place)] += 1;
        let found = self.map.find(key, pin).await;
        match found {
            Some(place) => self.read(place).await?,
            None => self.fill(key).await?,
        }
        let now = self.clock.now();
        let (bytes, is_hit) = (self.settings.chunk.0, found.is_some());
        self.measures.borrow_mut().note_get(bytes, is_hit, (begun, now));
        self.hits.set(self.hits.get() + u64::from(found.is_some()));
        Ok(())
    }

    async fn read(&self, place: ChunkAddress) -> Result<(), Failure> {
        let begun = self.clock.now();
        self.io.read(self.lba(place), self.settings.chunk.blocks_ceil()).await?;
        let touching = self.of_chunk(self.settings.memory.touching);
        self.clock.sleep_until(self.clock.now() + touching).await;
        let (now, zone) = (self.clock.now(), self.zone_of(place));
        let mut measures = self.measures.borrow_mut();
        measures.time(Timed::Read, now.since(begun));
        measures.stretch_at(now).read += self.settings.chunk.0;
        match &self.chunks {
            Some(chunks) => chunks.borrow_mut().was_read(place),
            None => self.zones.was_read(ZoneId(zonal_base::low_u32(zone))),
        }
        self.readers.borrow_mut()[zone] -= 1;
        self.reader_left.notify_all();
        Ok(())
    }

    async fn fill(&self, key: u64) -> Result<(), Failure> {
        let place = match self.settings.claim {
            ClaimOrder::BeforeFetch => {
                let place = self.zones.claim().await?;
                self.fetch().await;
                place
            }
            ClaimOrder::AfterFetch => {
                self.fetch().await;
                self.zones.claim().await?
            }
        };
        let begun = self.clock.now();
        self.io.write(self.lba(place), self.settings.chunk.blocks_ceil()).await?;
        let now = self.clock.now();
        self.measures.borrow_mut().time(Timed::Write, now.since(begun));
        self.measures.borrow_mut().stretch_at(now).written += self.settings.chunk.0;
        self.zones.give_back(place).await?;
        self.map.insert(key, place);
        if let Some(chunks) = &self.chunks {
            chunks.borrow_mut().insert(place);
        }
        Ok(())
    }

    /// Waits as long as a fetch takes: the thread copies the chunk into fresh memory, and the
    /// origin answers.
    ///
    /// The first fetches start at a random point of this time. Threads that start together would
    /// write together for a long time, and wait together.
    async fn fetch(&self) {
        let mean = self.of_chunk(self.settings.memory.copying).0;
        // The time varies by half in both directions: threads in step would stay in step.
        let copying = mean / 2 + self.chance.borrow_mut().below(mean.max(1));
        let mut left = self.settings.origin_latency + Nanos(copying);
        if let Some(rest) = self.first_fetches.get().checked_sub(1) {
            self.first_fetches.set(rest);
            left = Nanos(self.chance.borrow_mut().below(left.0.max(1)));
        }
        self.clock.sleep_until(self.clock.now() + left).await;
    }

    /// Converts a time per MiB to the time of a chunk.
    const fn of_chunk(&self, for_each_mib: Nanos) -> Nanos {
        Nanos((for_each_mib.0 * self.settings.chunk.0) >> 20)
    }

    /// Background task that empties zones.
    async fn evict(self: Rc<Self>) {
        let (high, low) = self.settings.free_zones;
        while self.running.get() != 0 {
            let free = self.zones.free_count();
            let mut interval = EVICT_INTERVAL;
            if free <= high {
                let emptied = match &self.chunks {
                    Some(chunks) => self.collect(chunks, low).await,
                    None => self.empty_oldest(low - free).await,
                };
                if let Err(failure) = emptied {
                    self.failure.borrow_mut().get_or_insert(failure);
                    return;
                }
                interval = EVICT_AGAIN;
            }
            self.clock.sleep_until(self.clock.now() + interval).await;
        }
    }

    async fn empty_oldest(&self, count: u32) -> Result<(), Failure> {
        for _ in 0..count {
            let Some(zone) = self.zones.take_victim() else { break };
            self.map.clear(self.zones.places(zone));
            self.empty(zone).await?;
        }
        Ok(())
    }

    /// Evicts surplus chunks. Then empties the zones with the fewest live chunks until `until_free`
    /// zones are free.
    async fn collect(&self, chunks: &RefCell<Chunks>, until_free: u32) -> Result<(), Failure> {
        while let Some(surplus) = self.take(chunks, Chunks::take_surplus) {
            self.map.clear(surplus..surplus + 1);
        }
        while self.zones.free_count() < until_free {
            let left_in = |zone| chunks.borrow().left_in(zone);
            let Some(zone) = self.zones.take_victim_by(left_in) else { break };
            // Moving every chunk of a zone would free no room.
            while u64::from(left_in(zone)) == self.chunks() {
                let Some(oldest) = self.take(chunks, Chunks::take_oldest) else { break };
                self.map.clear(oldest..oldest + 1);
            }
            for place in self.zones.places(zone) {
                self.relocate(chunks, place).await?;
            }
            self.empty(zone).await?;
        }
        Ok(())
    }

    fn take(
        &self,
        chunks: &RefCell<Chunks>,
        which: fn(&mut Chunks) -> Option<ChunkAddress>,
    ) -> Option<ChunkAddress> {
        which(&mut chunks.borrow_mut())
    }

    /// Moves a live chunk to another zone.
    async fn relocate(&self, chunks: &RefCell<Chunks>, from: ChunkAddress) -> Result<(), Failure> {
        let Some(key) = self.map.key_at(from) else { return Ok(()) };
        let blocks = self.settings.chunk.blocks_ceil();
        self.io.read(self.lba(from), blocks).await?;
        let to = self.zones.claim_to_move().await?.expect("a zone is kept free for this");
        self.io.write(self.lba(to), blocks).await?;
        self.zones.was_moved(to).await?;
        self.map.moved(key, from, to);
        chunks.borrow_mut().moved(from, to);
        self.moved.set(self.moved.get() + 1);
        Ok(())
    }

    /// Resets a zone after its last read. Requires: no lookup finds a chunk of the zone.
    async fn empty(&self, zone: ZoneId) -> Result<(), Failure> {
        while self.readers.borrow()[zone.0 as usize] != 0 {
            self.reader_left.wait().await;
        }
        self.zones.empty(zone).await
    }

    fn zone_of(&self, place: ChunkAddress) -> usize {
        index(u64::from(place) / self.chunks())
    }

    fn chunks(&self) -> u64 {
        self.geometry.zone_capacity.0 / self.settings.chunk.blocks_ceil().0
    }

    fn lba(&self, place: ChunkAddress) -> Lba {
        let zone = ZoneId(zonal_base::low_u32(self.zone_of(place)));
        let offset = u64::from(place) % self.chunks() * self.settings.chunk.blocks_ceil().0;
        self.geometry.zone_start(zone) + Blocks(offset)
    }
}

#[cfg(test)]
mod tests;
