//! CacheLib simulation in virtual time: its cache of large objects, as paper 002 ran it.
//!
//! Objects that the LRU evicts from memory are gathered into regions. Regions are written and
//! evicted as a whole.
//!
//! 1. Threads run the workload, one request after the other (`serve`). `state` applies a request to
//!    the objects, with `items` (object index) and `regions` (eviction order).
//! 2. Background tasks evict, fill and write regions (`pipeline`).
//! 3. A region has a fixed place on the drive, or is a zone, or is mapped to a slot in a zone by
//!    `layout`. With mapped regions, a collector moves or drops the regions that are left in a
//!    victim zone (`store`, `collect`).
//!
//! A drive's terabyte holds more small objects than a run can request. So an item stands for many
//! objects ([`CacheLibSettings::objects_per_item`]) and takes their room in memory, regions and zones, all
//! of which have their full size. Every request takes its time and reads the drive. One in
//! `objects_per_item` changes the index, and some more update the recency of a region.
//!
//! Warm-up runs without the threads' time, then the cache is timed ([`CacheLibSettings::window`]).

mod collect;
mod items;
mod layout;
mod pipeline;
mod regions;
mod state;
mod store;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use serde::{Deserialize, Serialize};
use zonal_base::{Bytes, Nanos};
use zonal_device::{Geometry, ZonedDevice};
use zonal_emulator::{
    ConventionalDrive, ConventionalProfile, DiscardMedium, OnReset, Profile, ZonedDrive,
};
use zonal_runtime::{Clock, Event, Spawner};

use super::io::{Calls, DevicePort, Failure, Io};
use super::origin::Wanted;
use super::world::{Ground, World};
use super::{Latency, Measures, OriginTimes, Timed, Turns};
use crate::cachebench::CachePool;
use crate::experiment::Run;
use state::{FlashRead, State};

/// Eviction policy for regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Eviction {
    /// FIFO: evicts the region that was written first.
    Fifo,
    /// LRU: evicts the region that was not read for the longest time.
    Lru,
    /// `zLRU`: LRU, but evicts first those old regions whose zone holds mostly old regions.
    ZoneLru,
}

/// Placement of regions on the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placing {
    /// Each region has a fixed place, on a drive without zones.
    InPlace,
    /// Each region is a zone.
    Zones,
    /// Regions fill any zone with a free slot. Garbage collection moves the live regions of a
    /// victim zone.
    Moved,
    /// `zDrop`: as [`Placing::Moved`], but garbage collection drops the live regions.
    Dropped,
    /// `zDrop` with less virtual spare room: drops the oldest regions ([`CacheLibSettings::old_part`]), and
    /// moves the rest.
    OldDropped,
    /// As [`Placing::OldDropped`] while enough zones are free, else drops all.
    DroppedByLoad,
    /// In a file of F2FS: one open zone for new data, another for moved data, and some zones are
    /// always kept free.
    File,
}

/// Drive under the regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Medium {
    /// The ZN540 (ZNS).
    Zoned,
    /// The SN540 (conventional). Where regions lie in zones, the drive is divided into zones of any
    /// size.
    Conventional,
}

/// Parameters of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CacheLibSettings {
    /// Workload of CacheBench.
    pub workload: CachePool,
    /// Scale: the cache and its memory are this many times smaller, and one in so many keys exists.
    pub smaller: u32,
    /// Objects that an item stands for.
    pub objects_per_item: u32,
    /// Requests per changing request that only update the recency of a region. Regions are read so
    /// often that the eviction order depends on it. With `objects_per_item - 1` all requests do.
    pub touches_per_change: u32,
    /// Eviction policy for regions.
    pub eviction: Eviction,
    /// Placement of the regions.
    pub placing: Placing,
    /// Drive that holds the regions.
    pub medium: Medium,
    /// Region size in bytes.
    #[serde(with = "crate::experiment::text")]
    pub region: Bytes,
    /// Number of regions.
    pub regions: u32,
    /// Number of zones that are used.
    pub zones: u32,
    /// Zone size in bytes.
    #[serde(with = "crate::experiment::text")]
    pub zone: Bytes,
    /// Garbage collection starts when fewer zones are free than the first number, and stops at the
    /// second.
    pub free_zones: (u32, u32),
    /// Share of the regions that is the oldest part, and may be evicted out of order.
    pub old_part: f64,
    /// For [`Eviction::ZoneLru`]: above this many old or evicted regions in a zone, its old regions
    /// go first.
    pub old_in_zone: u32,
    /// Memory for objects in bytes, before it is divided by `smaller`.
    #[serde(with = "crate::experiment::text")]
    pub memory: Bytes,
    /// CPU time of a request, without the drive.
    #[serde(with = "crate::experiment::text")]
    pub request_cpu: Nanos,
    /// Bytes of regions that are written as warm-up, before the cache is timed. The write
    /// amplification is that of these bytes.
    #[serde(with = "crate::experiment::text")]
    pub aged: Bytes,
    /// Bytes of regions after which hits are counted: the start of the stable stage.
    #[serde(with = "crate::experiment::text")]
    pub stable: Bytes,
    /// Time that the threads run before the window.
    #[serde(with = "crate::experiment::text")]
    pub settle: Nanos,
    /// Duration of the measurement.
    #[serde(with = "crate::experiment::text")]
    pub window: Nanos,
    /// Seed of the random numbers. Equal seeds give equal histories.
    pub seed: u64,
}

/// Result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CacheLibOutcome {
    /// Gets in the stable stage.
    pub gets: u64,
    /// Gets that were hits.
    pub hits: u64,
    /// Hits that were found in memory.
    pub memory_hits: u64,
    /// Bytes of regions that the cache had written at the end of the warm-up.
    pub written: u64,
    /// Bytes that garbage collection had moved by then.
    pub moved: u64,
    /// Requests in the window.
    pub requests: u64,
    /// Bytes of regions that were written in the window.
    pub window_written: u64,
    /// Reads of objects from the drive in the window.
    pub window_reads: u64,
    /// Bytes that were moved in the window.
    pub window_moved: u64,
    /// Zones that garbage collection emptied in the window.
    pub emptied: u64,
    /// Time that garbage collection spent on them.
    #[serde(with = "crate::experiment::text")]
    pub emptying: Nanos,
    /// Bytes of objects that gets requested in the stable stage.
    pub got: u64,
    /// Bytes of objects that gets requested in the window.
    pub window_got: u64,
    /// Bytes written to the drive in the stable stage, including moved bytes.
    pub stable_written: u64,
    /// Latency of requests in the window without their CPU time: reads, and waits for writes.
    pub request: Latency,
    /// Duration of the window.
    #[serde(with = "crate::experiment::text")]
    pub window: Nanos,
}

impl CacheLibOutcome {
    /// Hit ratio of gets in the stable stage.
    #[must_use]
    pub fn hit_ratio(&self) -> f64 {
        self.hits as f64 / self.gets.max(1) as f64
    }

    /// Write amplification of the host: bytes written to the drive for each byte that the cache
    /// wrote.
    #[must_use]
    pub fn write_amplification(&self) -> f64 {
        (self.written + self.moved) as f64 / self.written.max(1) as f64
    }

    /// Throughput in millions of requests per minute.
    #[must_use]
    pub fn mopm(&self) -> f64 {
        self.requests as f64 / 1e6 * 60e9 / self.window.0.max(1) as f64
    }

    /// Region writes in the window, in MiB/s.
    #[must_use]
    pub fn written_mib_per_s(&self) -> f64 {
        self.window_written as f64 / MIB * 1e9 / self.window.0.max(1) as f64
    }

    /// Rate of garbage collection in MiB of zones per second, while it runs.
    #[must_use]
    pub fn emptied_mib_per_s(&self, zone: Bytes) -> f64 {
        self.emptied as f64 * zone.0 as f64 / MIB * 1e9 / self.emptying.0.max(1) as f64
    }

    /// Bytes written to the drive for each byte that gets requested.
    #[must_use]
    pub fn written_for_got(&self) -> f64 {
        self.stable_written as f64 / self.got.max(1) as f64
    }
}

const MIB: f64 = (1 << 20) as f64;

impl Placing {
    /// True when regions are mapped to slots in zones, so that zones need garbage collection.
    const fn is_mapped(self) -> bool {
        !matches!(self, Self::InPlace | Self::Zones)
    }
}

/// Requests that a thread runs before it looks at the clock, while none has to wait.
const REQUESTS_AT_ONCE: u32 = 16;

/// Calls to a zoned drive: cut at 256 KiB, CacheLib's largest write there.
const CALLS_ZONED: Calls = Calls { request: Bytes::kib(256), reads: 256, host: Nanos(3_110) };

/// Calls to a conventional drive: cut at the largest request that Linux makes of a larger call.
const CALLS_CONVENTIONAL: Calls =
    Calls { request: Bytes::kib(1280), reads: 256, host: Nanos(1_260) };

/// A simulated CacheLib on a drive.
struct CacheState {
    settings: CacheLibSettings,
    geometry: Geometry,
    clock: Clock,
    spawner: Spawner,
    device: DevicePort,
    io: Io,
    state: RefCell<State>,
    /// True once requests take time and read from the drive: after the warm-up.
    is_timed: Cell<bool>,
    is_over: Cell<bool>,
    requests: Cell<u64>,
    reads: Cell<u64>,
    /// Latencies of the window.
    measures: RefCell<Measures>,
    emptied: Cell<u64>,
    emptying: Cell<Nanos>,
    /// The queue of objects became shorter.
    room: Event,
    /// A region may have to be evicted.
    few_clean: Event,
    /// A region waits to be written.
    filled: Event,
    gathered: Event,
    /// A zone can be written.
    zone: Event,
    /// A region was evicted.
    evicted: Event,
    /// Reads in progress, per zone of the drive.
    readers: RefCell<Vec<u32>>,
    reader_left: Event,
    outcome: Cell<Option<CacheLibOutcome>>,
    failure: RefCell<Option<Failure>>,
}

impl Run for CacheLibSettings {
    type Outcome = CacheLibOutcome;

    /// Runs on a new drive of `medium`, which is `smaller` times smaller than the real one.
    fn run(&self, on_progress: &dyn Fn(f64)) -> Result<CacheLibOutcome, String> {
        let medium = Box::new(DiscardMedium);
        if self.medium == Medium::Conventional {
            let mut profile = ConventionalProfile::sn540();
            if 1 < self.smaller {
                let bytes = profile.user_blocks().bytes().0 / u64::from(self.smaller);
                profile = profile.scaled_to(Bytes(bytes));
            }
            // A region in place is overwritten as a whole, so it is a zone of the conventional
            // drive.
            let place = if self.placing == Placing::InPlace { self.region } else { self.zone };
            let profile = profile.with_zones_of(place.blocks_ceil());
            let drive = ConventionalDrive::new(profile, OnReset::Nothing, self.seed, medium);
            return run(drive, self, on_progress);
        }
        let mut profile = Profile::zn540();
        profile.geometry.zone_count = profile.geometry.zone_count.div_ceil(self.smaller);
        run(ZonedDrive::new(profile, self.seed, medium), self, on_progress)
    }
}

/// Runs a cache on a drive.
///
/// # Errors
/// When the drive refuses a command, or the cache deadlocks.
fn run<D: ZonedDevice>(
    ground: impl Into<Ground<D>>,
    settings: &CacheLibSettings,
    on_progress: &dyn Fn(f64),
) -> Result<CacheLibOutcome, String> {
    let calls = match settings.placing {
        Placing::InPlace => CALLS_CONVENTIONAL,
        _ => CALLS_ZONED,
    };
    // The run has no origin: a miss is written at once, as in the benchmark.
    let nobody = (OriginTimes::each(Nanos(0)), Wanted::default());
    let mut world = World::new(ground.into(), calls.request, nobody);
    let geometry = *world.geometry();
    let zones = if settings.placing.is_mapped() { settings.zones } else { settings.regions };
    if geometry.zone_count < zones {
        return Err(format!("the drive has {} of {zones} zones, or places", geometry.zone_count));
    }
    let (clock, spawner) = (world.executor.clock().clone(), world.executor.spawner().clone());
    let device = world.ports.device.clone();
    let io = Io::new(calls, device.clone(), clock.clone(), &spawner);
    let cache = Rc::new(CacheState {
        settings: *settings,
        geometry,
        clock,
        spawner,
        device,
        io,
        state: RefCell::new(State::new(settings)),
        is_timed: Cell::default(),
        is_over: Cell::default(),
        requests: Cell::default(),
        reads: Cell::default(),
        measures: RefCell::new(Measures::new(Nanos(0), Nanos::MAX)),
        emptied: Cell::default(),
        emptying: Cell::new(Nanos(0)),
        room: Event::default(),
        few_clean: Event::default(),
        filled: Event::default(),
        gathered: Event::default(),
        zone: Event::default(),
        evicted: Event::default(),
        readers: RefCell::new(vec![0; geometry.zone_count as usize]),
        reader_left: Event::default(),
        outcome: Cell::default(),
        failure: RefCell::default(),
    });
    cache.start();
    let turns = Turns::default();
    world.run(|| {
        if turns.is_due() {
            on_progress(cache.done());
        }
        cache.is_over.get() || cache.failure.borrow().is_some()
    });
    if let Some(Failure(why)) = cache.failure.take() {
        return Err(why);
    }
    cache.outcome.get().ok_or_else(|| "the cache is stuck: no thread can continue".into())
}

impl CacheState {
    fn start(self: &Rc<Self>) {
        self.start_pipeline();
        if self.settings.placing.is_mapped() {
            self.spawn(|cache| async move { cache.collect().await });
        }
        self.spawn(|cache| async move {
            cache.clone().age().await;
            cache.is_timed.set(true);
            for _ in 0..cache.settings.workload.threads() {
                cache.spawn(|cache| async move { cache.serve().await });
            }
            cache.time().await
        });
    }

    /// Spawns a task. Its failure ends the run.
    fn spawn<F, R>(self: &Rc<Self>, task: F)
    where
        F: FnOnce(Rc<Self>) -> R,
        R: Future<Output = Result<(), Failure>> + 'static,
    {
        let (cache, task) = (self.clone(), task(self.clone()));
        self.spawner.spawn(async move {
            if let Err(failure) = task.await {
                cache.failure.borrow_mut().get_or_insert(failure);
            }
        });
    }

    /// Finished fraction of the warm-up.
    fn done(&self) -> f64 {
        self.state.borrow().written as f64 / self.settings.aged.0.max(1) as f64
    }

    /// Warm-up: runs only requests that change the cache's state, without their time.
    async fn age(self: Rc<Self>) {
        while self.state.borrow().written < self.settings.aged.0 {
            self.state.borrow_mut().untimed_requests();
            self.after_request();
            self.wait_for_room().await;
        }
    }

    async fn time(self: Rc<Self>) -> Result<(), Failure> {
        let (written, moved) = self.state.borrow().written_and_moved();
        self.clock.sleep_until(self.clock.now() + self.settings.settle).await;
        let (begun, requests, reads) = (self.clock.now(), self.requests.get(), self.reads.get());
        let before = {
            let state = self.state.borrow();
            (state.written, state.moved, state.got)
        };
        *self.measures.borrow_mut() = Measures::new(begun, Nanos::MAX);
        self.emptied.set(0);
        self.emptying.set(Nanos(0));
        self.clock.sleep_until(begun + self.settings.window).await;
        let state = self.state.borrow();
        self.outcome.set(Some(CacheLibOutcome {
            gets: state.gets,
            hits: state.hits,
            memory_hits: state.memory_hits,
            written,
            moved,
            requests: self.requests.get() - requests,
            window_written: state.written - before.0,
            window_reads: self.reads.get() - reads,
            window_moved: state.moved - before.1,
            emptied: self.emptied.get(),
            emptying: self.emptying.get(),
            got: state.got,
            window_got: state.got - before.2,
            stable_written: state.stable_written(),
            request: self.measures.borrow().latency(Timed::Get),
            window: self.clock.now().since(begun),
        }));
        self.is_over.set(true);
        Ok(())
    }

    /// One thread of the workload. Requests that need not wait run in batches.
    async fn serve(self: Rc<Self>) -> Result<(), Failure> {
        while !self.is_over.get() {
            let (mut cost, mut read, mut count) = (0, None, 0);
            while count < REQUESTS_AT_ONCE && read.is_none() && !self.state.borrow().is_full() {
                read = self.state.borrow_mut().timed_request();
                self.after_request();
                cost += self.settings.request_cpu.0;
                count += 1;
            }
            self.clock.sleep_until(self.clock.now() + Nanos(cost)).await;
            let begun = self.clock.now();
            if let Some(read) = read {
                self.read_object(read).await?;
            }
            self.requests.set(self.requests.get() + u64::from(count));
            self.wait_for_room().await;
            self.time_requests(count, self.clock.now().since(begun));
        }
        Ok(())
    }

    /// Times a batch: only its last request had to wait.
    fn time_requests(&self, count: u32, waited: Nanos) {
        let mut measures = self.measures.borrow_mut();
        for _ in 1..count {
            measures.time(Timed::Get, Nanos(0));
        }
        measures.time(Timed::Get, waited);
    }

    async fn wait_for_room(&self) {
        while self.state.borrow().is_full() && !self.is_over.get() {
            self.room.wait().await;
        }
    }

    async fn read_object(&self, read: FlashRead) -> Result<(), Failure> {
        // A region that is not written yet is read from memory.
        let Some(place) = self.place_of(read.region) else { return Ok(()) };
        self.reads.set(self.reads.get() + 1);
        self.read(place, read.offset, read.blocks).await
    }
}

#[cfg(test)]
mod tests;
