//! CacheLib's cache of large objects on a drive, as paper 002 ran it, in virtual time: objects lie in memory until they are
//! pushed out, are then gathered into regions, and regions are written and evicted as a whole.
//!
//! 1. Threads do what a workload asks for, one request after the other (`serve`): what it does to the objects is
//!    in `state`, with `items` (which objects are where) and `regions` (which goes next).
//! 2. Regions become clean, are filled, and are written, by tasks of their own (`pipeline`).
//! 3. A region has a place of its own on the drive, or a zone, or is mapped to room in a zone by `layout`; then
//!    a task moves or drops what is left in the emptiest zones (`store`, `collect`).
//!
//! A drive's terabyte holds more small objects than a run can ask for. So an item stands for many objects
//! ([`Settings::objects_per_item`]): it takes their room in memory, regions and zones, all of which have their full size. Of the requests,
//! all take their time and read the drive as they are; one in so many changes what is where, and some more say which regions
//! are used.
//!
//! The cache comes to be as old as the paper's without waiting for its threads, then it is timed ([`Settings::window`]).

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
    ConventionalDrive, ConventionalProfile, Forgetful, OnReset, Profile, ZonedDrive,
};
use zonal_runtime::{Clock, Event, Spawner};

use super::io::{Calls, DevicePort, Failure, Io};
use super::origin::Wanted;
use super::world::{Ground, World};
use super::{Latency, Measures, OriginTimes, Timed, Turns};
use crate::cachebench::CachePool;
use crate::experiment::Run;
use state::{FlashRead, State};

/// Which region is evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Eviction {
    /// The one that was written longest ago.
    Fifo,
    /// The one of which nothing was read for the longest time.
    Lru,
    /// Likewise, but of the oldest part those go first in whose zones most regions are old: `zLRU`.
    ZoneLru,
}

/// Where regions lie on the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placing {
    /// Each where it always was, on a drive without zones.
    InPlace,
    /// Each is a zone.
    Zones,
    /// In any zone that has room; what is left of the emptiest zones is moved.
    Moved,
    /// Likewise, but dropped: `zDrop`.
    Dropped,
    /// Likewise, but only the oldest part is dropped ([`Settings::old_part`]), and the rest is moved: `zDrop` with less virtual
    /// spare room.
    OldDropped,
    /// Likewise while zones are free, and everything is dropped when few are: `zDrop` that goes by the load.
    DroppedByLoad,
    /// In a file of F2FS: one zone after the other is written, so is another with what is moved, and some are always kept free.
    File,
}

/// What drive regions lie on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Medium {
    /// The ZN540.
    Zoned,
    /// The SN540. Where regions lie in zones, these are zones by agreement, of any size.
    Conventional,
}

/// What is simulated besides the drive.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// What is asked for.
    pub workload: CachePool,
    /// One in so many of its keys exists, for a cache of which everything is so many times smaller.
    pub smaller: u32,
    /// Objects that an item stands for.
    pub objects_per_item: u32,
    /// Requests for each that changes something which only say that a region was read: a region is read so often that the
    /// order in which regions go depends on it. With one for every object of an item but the first all requests do.
    pub touches_per_change: u32,
    /// Which region goes.
    pub eviction: Eviction,
    /// Where regions lie.
    pub placing: Placing,
    /// On what.
    pub medium: Medium,
    /// Bytes of a region.
    #[serde(with = "crate::experiment::text")]
    pub region: Bytes,
    /// Regions.
    pub regions: u32,
    /// Zones that are used.
    pub zones: u32,
    /// Bytes of a zone.
    #[serde(with = "crate::experiment::text")]
    pub zone: Bytes,
    /// Zones are emptied once fewer than the first are free, until the second are.
    pub free_zones: (u32, u32),
    /// The oldest part, of all regions: that may be evicted out of turn.
    pub old_part: f64,
    /// With [`Eviction::ZoneLru`] regions of the oldest part go first in whose zone more are of it, or evicted.
    pub old_in_zone: u32,
    /// Memory for objects, before it is divided by `smaller`.
    #[serde(with = "crate::experiment::text")]
    pub memory: Bytes,
    /// What a request costs a thread, beyond the drive.
    #[serde(with = "crate::experiment::text")]
    pub request_cpu: Nanos,
    /// How many bytes of regions are written before the cache is timed; write amplification is that of these.
    #[serde(with = "crate::experiment::text")]
    pub aged: Bytes,
    /// From which on hits are counted.
    #[serde(with = "crate::experiment::text")]
    pub stable: Bytes,
    /// How long threads run before they are timed.
    #[serde(with = "crate::experiment::text")]
    pub settle: Nanos,
    /// How long they are timed.
    #[serde(with = "crate::experiment::text")]
    pub window: Nanos,
    /// Equal seeds, equal histories.
    pub seed: u64,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Gets in the stable stage.
    pub gets: u64,
    /// Those that were hits.
    pub hits: u64,
    /// Those of them that were found in memory.
    pub memory_hits: u64,
    /// Bytes of regions that the cache had written when it was aged.
    pub written: u64,
    /// Bytes that were moved from zone to zone by then.
    pub moved: u64,
    /// Requests in the window.
    pub requests: u64,
    /// Bytes of regions written in the window.
    pub window_written: u64,
    /// Reads of objects from the drive in the window.
    pub window_reads: u64,
    /// Bytes that were moved in it.
    pub window_moved: u64,
    /// Zones that were emptied in it, and for how long that went on in all.
    pub emptied: u64,
    /// See there.
    #[serde(with = "crate::experiment::text")]
    pub emptying: Nanos,
    /// Bytes of objects that were asked for in the stable stage, and in the window.
    pub got: u64,
    /// See there.
    pub window_got: u64,
    /// Bytes written to the drive in it, with what was moved.
    pub stable_written: u64,
    /// How long requests in the window took beyond their time on the processor: reading, and waiting for writes.
    pub request: Latency,
    /// How long the window was.
    #[serde(with = "crate::experiment::text")]
    pub window: Nanos,
}

impl Outcome {
    /// Hits of all gets.
    #[must_use]
    pub fn hit_ratio(&self) -> f64 {
        self.hits as f64 / self.gets.max(1) as f64
    }

    /// Bytes that the host wrote to the drive for each that the cache wrote.
    #[must_use]
    pub fn write_amplification(&self) -> f64 {
        (self.written + self.moved) as f64 / self.written.max(1) as f64
    }

    /// Millions of requests in a minute.
    #[must_use]
    pub fn mopm(&self) -> f64 {
        self.requests as f64 / 1e6 * 60e9 / self.window.0.max(1) as f64
    }

    /// MiB of regions written in a second of the window.
    #[must_use]
    pub fn written_mib_per_s(&self) -> f64 {
        self.window_written as f64 / MIB * 1e9 / self.window.0.max(1) as f64
    }

    /// MiB of zones that are emptied in a second, while any is.
    #[must_use]
    pub fn emptied_mib_per_s(&self, zone: Bytes) -> f64 {
        self.emptied as f64 * zone.0 as f64 / MIB * 1e9 / self.emptying.0.max(1) as f64
    }

    /// Bytes written to the drive for each that was asked for.
    #[must_use]
    pub fn written_for_got(&self) -> f64 {
        self.stable_written as f64 / self.got.max(1) as f64
    }
}

const MIB: f64 = (1 << 20) as f64;

impl Placing {
    /// Whether regions are mapped to room in zones, which then have to be emptied.
    const fn is_mapped(self) -> bool {
        !matches!(self, Self::InPlace | Self::Zones)
    }
}

/// Requests that a thread does before it looks at the time, when none of them has to wait.
const REQUESTS_AT_ONCE: u32 = 16;

/// How calls come to a drive with zones: what is longer than CacheLib's largest write there is cut.
const CALLS_ZONED: Calls = Calls { request: Bytes::kib(256), reads: 256, host: Nanos(3_110) };

/// And to one without: the largest request that Linux makes of a larger call.
const CALLS_CONVENTIONAL: Calls =
    Calls { request: Bytes::kib(1280), reads: 256, host: Nanos(1_260) };

/// A cache on a drive, and everything around it.
struct CacheState {
    settings: Settings,
    geometry: Geometry,
    clock: Clock,
    spawner: Spawner,
    device: DevicePort,
    io: Io,
    state: RefCell<State>,
    /// Requests take time, and what is read is read from the drive.
    is_timed: Cell<bool>,
    is_over: Cell<bool>,
    requests: Cell<u64>,
    reads: Cell<u64>,
    /// Of the window.
    measures: RefCell<Measures>,
    emptied: Cell<u64>,
    emptying: Cell<Nanos>,
    /// The queue of objects became shorter.
    room: Event,
    /// A region may have to be evicted.
    few_clean: Event,
    /// There is a region to be filled, or written.
    filled: Event,
    gathered: Event,
    /// A zone can be written to.
    zone: Event,
    /// A region was evicted.
    evicted: Event,
    /// Reads under way, of each zone of the drive.
    readers: RefCell<Vec<u32>>,
    reader_left: Event,
    outcome: Cell<Option<Outcome>>,
    failure: RefCell<Option<Failure>>,
}

impl Run for Settings {
    type Outcome = Outcome;

    /// On the whole drive, or on one that is so many times smaller: the ZN540, or the SN540 for regions in place, both as they
    /// come from the factory.
    fn run(&self, on_progress: &dyn Fn(f64)) -> Result<Outcome, String> {
        let medium = Box::new(Forgetful);
        if self.medium == Medium::Conventional {
            let mut profile = ConventionalProfile::sn540();
            if 1 < self.smaller {
                let bytes = profile.user_blocks().bytes().0 / u64::from(self.smaller);
                profile = profile.scaled_to(Bytes(bytes));
            }
            // A region is written over as a whole, where it is: that is a zone by agreement.
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
/// When the drive refuses something, or the cache comes to a standstill.
fn run<D: ZonedDevice>(
    ground: impl Into<Ground<D>>,
    settings: &Settings,
    on_progress: &dyn Fn(f64),
) -> Result<Outcome, String> {
    let calls = match settings.placing {
        Placing::InPlace => CALLS_CONVENTIONAL,
        _ => CALLS_ZONED,
    };
    // Nobody asks an origin: what is missed is written at once, as the benchmark does.
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
    cache.outcome.get().ok_or_else(|| "the cache stands still: nobody can go on".into())
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

    /// What goes wrong there ends the run.
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

    /// Of all that is written before the cache is timed.
    fn done(&self) -> f64 {
        self.state.borrow().written as f64 / self.settings.aged.0.max(1) as f64
    }

    /// Only requests that change something, without their time.
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
        self.outcome.set(Some(Outcome {
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

    /// A thread. Requests that need not wait are done some at a time.
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

    /// Only the last of some requests had to wait.
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
