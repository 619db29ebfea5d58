//! One history: some lives of one cache on one device, with crashes between them.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use zonal_base::{Blocks, Bytes, Nanos, Rng};
use zonal_cache::{Cache, Found, Freshness, Head, ObjectName, Opened, StartError};
use zonal_device::ram::{Crash, RamDevice, RamOptions};
use zonal_device::{Geometry, Kind};
use zonal_policy::Policy;
use zonal_zonelog::{Identity, OpenMode};

use crate::actors::{Stage, Tally, draw_size, reader, saboteur, writer};
use crate::hoarder::Hoarder;
use crate::oracle::{Object, Tag, Violation};
use crate::origin::{Objects, Origin, names};
use crate::world::World;

/// What a run is given besides its seed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// A bug to plant in the cache.
    #[cfg(feature = "planted-bugs")]
    pub cache_bug: Option<zonal_cache::Planted>,
    /// A bug to plant in the log.
    #[cfg(feature = "planted-bugs")]
    pub log_bug: Option<zonal_zonelog::Planted>,
}

/// What a run did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// All that happened, as one number: equal for equal seeds, different for others.
    pub history: u64,
    /// Nanoseconds of virtual time.
    pub lasted: u64,
    /// Reads that were judged.
    pub reads: u64,
    /// Of them, those whose bytes were all cached when they began.
    pub reads_cached: u64,
    /// Of them, those that ended before their last byte.
    pub reads_failed: u64,
    /// Writes to objects.
    pub writes: u64,
    /// Times that the process or the power went away.
    pub crashes: u64,
    /// Zones that were emptied.
    pub zones_reset: u64,
}

/// What stays the same over all lives of a history.
struct Setting {
    geometry: Geometry,
    settings: zonal_cache::Settings,
    policy: &'static str,
    /// The medium itself is damaged: what was on it may be lost, a tombstone included.
    damages: bool,
    origin_fault_rate: u64,
    largest: u64,
}

/// Runs the history of `seed`.
///
/// # Errors
/// When the oracle saw something that must not happen.
pub fn run(seed: u64, options: &Options) -> Result<Report, Violation> {
    History::new(seed, options).run()
}

/// Lives of a history at most.
const LIVES_MAX: u64 = 4;

/// Within this time of a life's end nothing may be left to do.
const PATIENCE: Nanos = Nanos::secs(60);

struct History {
    seed: u64,
    rng: Rng,
    setting: Setting,
    device: RamDevice,
    objects: Objects,
    now: Nanos,
    report: Report,
    medium_is_whole: bool,
    is_over: bool,
}

/// What a graceful end left on flash.
struct Kept {
    records: u64,
    /// Heads that were known, and of which all chunks were there.
    whole: Vec<(ObjectName, Arc<Head>)>,
}

/// How a life ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Graceful,
    Crash(Crash),
}

impl History {
    fn new(seed: u64, options: &Options) -> Self {
        let mut rng = Rng::new(seed);
        let setting = Setting::draw(&mut rng, options);
        let latency = Nanos(rng.below(100_000));
        let spread = [400_000, 400_000, 5_000_000][draw(&mut rng, 3)];
        let ram = RamOptions {
            seed: rng.next_u64(),
            queue_depth: 32,
            latency,
            latency_spread: Nanos(rng.below(spread) + 1),
        };
        let objects = (0..rng.below(30) + 3).map(|id| {
            let size = draw_size(&mut rng, setting.largest);
            let tag = [Tag::Weak, Tag::Missing].get(draw(&mut rng, 30)).copied();
            let metadata = [0, 0, 0, 3000, 6000][draw(&mut rng, 5)];
            let object = Object::new(id, size, (tag.unwrap_or(Tag::Strong), metadata));
            (ObjectName::new("bucket", &format!("object-{id}")), object)
        });
        let objects = Rc::new(RefCell::new(objects.collect()));
        let device = RamDevice::new(setting.geometry, ram);
        let report = Report {
            history: seed,
            lasted: 0,
            reads: 0,
            reads_cached: 0,
            reads_failed: 0,
            writes: 0,
            crashes: 0,
            zones_reset: 0,
        };
        let now = Nanos::secs(1);
        Self {
            seed,
            rng,
            setting,
            device,
            objects,
            now,
            report,
            medium_is_whole: true,
            is_over: false,
        }
    }

    fn run(mut self) -> Result<Report, Violation> {
        let lives = self.rng.below(LIVES_MAX) + 1;
        let mut kept = None;
        for _ in 0..lives {
            let ending = match self.rng.below(3) {
                0 => Ending::Graceful,
                1 => Ending::Crash(Crash::Process),
                _ => Ending::Crash(Crash::Power),
            };
            kept = match self.live(ending, kept) {
                Ok(kept) => kept,
                Err(what) => return Err(Violation { seed: self.seed, at: self.now.0, what }),
            };
            if self.is_over {
                break;
            }
        }
        self.report.lasted = self.now.0;
        Ok(self.report)
    }

    /// One life. Returns what its graceful end left on flash.
    fn live(&mut self, ending: Ending, kept: Option<Kept>) -> Result<Option<Kept>, String> {
        let piece = self.setting.settings.piece().blocks_ceil();
        let mut world = World::new(self.now, piece, self.report.history);
        let origin_seed = self.rng.next_u64();
        let mut origin =
            Origin::new(self.objects.clone(), origin_seed, self.setting.origin_fault_rate);
        let cache = match self.start(&mut world, &mut origin)? {
            Ok(cache) => cache,
            Err(error) if self.setting.damages => {
                // A device that went away, or lost a first block for good, may refuse to start.
                self.is_over = true;
                let _ = error;
                return Ok(None);
            }
            Err(error) => return Err(format!("the cache did not start: {error}")),
        };
        let stage = self.stage(&world, &cache);
        if let Some(kept) = kept.filter(|_| !self.setting.damages) {
            self.check_kept(&mut world, &mut origin, &stage, &kept)?;
        }
        self.populate(&stage, &world);
        let until = match ending {
            Ending::Graceful => self.now + PATIENCE,
            Ending::Crash(_) => self.now + Nanos(self.rng.below(600_000_000)),
        };
        let (acting, violation) = (stage.acting.clone(), stage.violation.clone());
        let is_done = world.run(&mut self.device, &mut origin, until, || {
            acting.get() == 0 || violation.borrow().is_some()
        })?;
        if let Some(what) = violation.take() {
            self.now = world.now;
            return Err(what);
        }
        let is_graceful = ending == Ending::Graceful;
        if is_graceful && !is_done {
            return Err("somebody waits for ever".into());
        }
        let kept =
            if is_graceful { Some(self.end(&mut world, &mut origin, &stage)?) } else { None };
        self.check_health(&cache)?;
        self.note(&world, &stage, &cache);
        drop((stage, cache, world));
        let crash = match ending {
            Ending::Graceful => Crash::Process,
            Ending::Crash(crash) => {
                self.report.crashes += 1;
                crash
            }
        };
        self.device.crash(&mut self.rng, crash);
        // A power cut takes any blocks from the middle of a conventional device's zones.
        self.medium_is_whole &=
            crash == Crash::Process || self.setting.geometry.kind == Kind::Zoned;
        if self.setting.damages {
            // A damaged tombstone works until the process ends; then it may be gone.
            let mut objects = self.objects.borrow_mut();
            objects.values_mut().for_each(|object| object.oldest_allowed = (0, 0));
        }
        Ok(kept)
    }

    fn start(
        &mut self,
        world: &mut World,
        origin: &mut Origin,
    ) -> Result<Result<Cache, StartError>, String> {
        let policy: Box<dyn Policy> =
            zonal_policy::by_name(self.setting.policy).unwrap_or_else(|| Box::<Hoarder>::default());
        let identity = Identity { log: *b"simulated device", shard: 0, shard_count: 1 };
        let started = Rc::new(RefCell::new(None));
        let start = Cache::start(
            world.ports.clone(),
            self.setting.geometry,
            self.setting.settings,
            identity,
            (policy, OpenMode::Recover),
        );
        let slot = started.clone();
        world.executor.spawner().spawn(async move {
            let cache = start.await;
            *slot.borrow_mut() = Some(cache);
        });
        let until = self.now + PATIENCE;
        let has_started =
            world.run(&mut self.device, origin, until, || started.borrow().is_some())?;
        if !has_started {
            return Err("the cache does not come up".into());
        }
        Ok(started.take().expect("looked at just now"))
    }

    fn stage(&self, world: &World, cache: &Cache) -> Stage {
        Stage {
            cache: cache.clone(),
            clock: world.ports.clock.clone(),
            spawner: world.ports.spawner.clone(),
            objects: self.objects.clone(),
            violation: Rc::default(),
            acting: Rc::new(Cell::new(0)),
            tally: Rc::default(),
            largest: self.setting.largest,
        }
    }

    fn populate(&mut self, stage: &Stage, world: &World) {
        for _ in 0..self.rng.below(4) + 2 {
            let (rng, reads) = (Rng::new(self.rng.next_u64()), self.rng.below(50) + 5);
            stage.enter(reader(stage.clone(), rng, reads));
        }
        for _ in 0..self.rng.below(3) {
            let (rng, writes) = (Rng::new(self.rng.next_u64()), self.rng.below(8) + 1);
            stage.enter(writer(stage.clone(), rng, writes));
        }
        if self.setting.damages {
            let (rng, count) = (Rng::new(self.rng.next_u64()), self.rng.below(6) + 1);
            let (geometry, faults) = (self.setting.geometry, world.faults.clone());
            stage.enter(saboteur(stage.clone(), rng, geometry, faults, count));
        }
    }

    /// A graceful end: everything is put on flash, and nothing is left over.
    fn end(
        &mut self,
        world: &mut World,
        origin: &mut Origin,
        stage: &Stage,
    ) -> Result<Kept, String> {
        let cache = &stage.cache;
        let evicted = cache.stats().evicted;
        let known = self.roll_call(world, origin, stage)?;
        let until = world.now + PATIENCE;
        // Fetches that nobody listens to any more come to their end first.
        let (quiet, buffers) = (cache.clone(), world.ports.buffers.clone());
        let is_quiet = world.run(&mut self.device, origin, until, || {
            quiet.under_way() == 0 && buffers.pool().in_use() == 0
        })?;
        if !is_quiet {
            let (under_way, in_use) = (cache.under_way(), world.ports.buffers.pool().in_use());
            return Err(format!(
                "{under_way} things under way and {in_use} buffers in use for ever"
            ));
        }
        let settled = Rc::new(Cell::new(false));
        let (settling, done) = (cache.clone(), settled.clone());
        world.executor.spawner().spawn(async move {
            settling.settle().await;
            done.set(true);
        });
        let until = world.now + PATIENCE;
        if !world.run(&mut self.device, origin, until, || settled.get())? {
            return Err("a graceful stop does not end".into());
        }
        let log = cache.log().clone();
        let until = world.now + PATIENCE;
        let is_balanced = world.run(&mut self.device, origin, until, || log.held() == 0)?;
        if !is_balanced {
            return Err(format!("{} pins or buffers are held at rest", log.held()));
        }
        if !log.slots_balance() {
            return Err("active slots do not balance".into());
        }
        if origin.open_streams() != 0 {
            return Err(format!("{} bodies of the origin were left open", origin.open_streams()));
        }
        let is_whole =
            |(name, head): &(ObjectName, Arc<Head>)| cache.is_cached(name, head, &(0..head.size));
        // Which of the heads were evicted since the roll call, or are in memory only because reclaim had no room
        // for them, nobody knows.
        let is_complete = cache.stats().evicted == evicted && log.stats().rewrites_refused == 0;
        let whole = known.into_iter().filter(|_| is_complete).filter(is_whole).collect();
        Ok(Kept { records: cache.record_count(), whole })
    }

    /// The heads that the cache has without asking for them.
    fn roll_call(
        &mut self,
        world: &mut World,
        origin: &mut Origin,
        stage: &Stage,
    ) -> Result<Vec<(ObjectName, Arc<Head>)>, String> {
        let known = Rc::new(RefCell::new(Vec::new()));
        let (cache, notes) = (stage.cache.clone(), known.clone());
        let names = names(&stage.objects);
        stage.enter(async move {
            for name in names {
                match cache.open(&name, Freshness::Immutable).await {
                    Ok(Opened { head, found: Found::Hit }) => notes.borrow_mut().push((name, head)),
                    _ => continue,
                }
            }
        });
        let (acting, until) = (stage.acting.clone(), world.now + PATIENCE);
        if !world.run(&mut self.device, origin, until, || acting.get() == 0)? {
            return Err("somebody waits for ever for a head".into());
        }
        Ok(known.take())
    }

    /// After a graceful end all that was on flash is there again.
    fn check_kept(
        &mut self,
        world: &mut World,
        origin: &mut Origin,
        stage: &Stage,
        kept: &Kept,
    ) -> Result<(), String> {
        let cache = &stage.cache;
        let found = cache.record_count() + cache.stats().evicted;
        if found < kept.records {
            return Err(format!("{found} of {} records survived a graceful stop", kept.records));
        }
        let known = self.roll_call(world, origin, stage)?;
        for (name, head) in &kept.whole {
            let is_here = known.iter().any(|(other, known)| other == name && known == head)
                && cache.is_cached(name, head, &(0..head.size));
            // Reclaim may have begun in the instant in which the cache came up.
            if !is_here && cache.stats().evicted == 0 {
                return Err(format!("{name} was cached, and is not after a graceful stop"));
            }
        }
        Ok(())
    }

    /// Nothing gives up, and nothing is unreadable, without a reason.
    fn check_health(&self, cache: &Cache) -> Result<(), String> {
        if self.setting.damages {
            return Ok(());
        }
        if cache.log().is_gone() {
            return Err("the log gave up on a healthy device".into());
        }
        let (damaged, torn) = (cache.stats().damaged, cache.log().stats().check_errors);
        if self.medium_is_whole && 0 < damaged + torn {
            return Err(format!("{damaged} records of a healthy device could not be read"));
        }
        Ok(())
    }

    fn note(&mut self, world: &World, stage: &Stage, cache: &Cache) {
        let Tally { reads, reads_cached, reads_failed, writes } = *stage.tally.borrow();
        self.now = world.now;
        self.report.history = world.history;
        self.report.reads += reads;
        self.report.reads_cached += reads_cached;
        self.report.reads_failed += reads_failed;
        self.report.writes += writes;
        self.report.zones_reset += cache.log().stats().zones_reset;
    }
}

impl Setting {
    fn draw(rng: &mut Rng, _options: &Options) -> Self {
        let zone_capacity = Blocks(40 + rng.below(30));
        let geometry = Geometry {
            kind: if rng.one_in(2) { Kind::Zoned } else { Kind::Conventional },
            zone_count: zonal_base::low_u32(zonal_base::index(6 + rng.below(6))),
            zone_size: zone_capacity + Blocks(rng.below(3) * 8),
            zone_capacity,
            max_open_zones: [None, Some(2), Some(3), Some(14)][draw(rng, 4)],
            max_active_zones: [None, Some(2), Some(3), Some(14)][draw(rng, 4)],
        };
        // Only drives have limits, and no more zones are open than active.
        let geometry = match (geometry.max_open_zones, geometry.max_active_zones) {
            _ if geometry.kind == Kind::Conventional => {
                Geometry { max_open_zones: None, max_active_zones: None, ..geometry }
            }
            (Some(open), Some(active)) if active < open => {
                Geometry { max_open_zones: Some(active), ..geometry }
            }
            (None, Some(active)) => Geometry { max_open_zones: Some(active), ..geometry },
            _ => geometry,
        };
        let mut settings = zonal_cache::Settings::for_device(&geometry);
        settings.chunk = Bytes::kib(4 << rng.below(6));
        settings.heads = [2, 1000][draw(rng, 2)];
        settings.log.segment_bytes = Bytes::kib(64);
        settings.log.linger = Nanos(rng.below(20_000_000) + 500_000);
        settings.log.fill_zones = zonal_base::low_u32(draw(rng, 3) + 1);
        settings.log.backlog_max = Bytes::kib(64 << rng.below(3));
        settings.log.low_zones = 2;
        settings.log.high_zones = 3;
        #[cfg(feature = "planted-bugs")]
        {
            settings.planted = _options.cache_bug;
            settings.log.planted = _options.log_bug;
        }
        Self {
            geometry,
            settings,
            policy: zonal_policy::NAMES.get(draw(rng, 3)).copied().unwrap_or("hoarder"),
            damages: rng.one_in(4),
            origin_fault_rate: [0, 0, 40, 8][draw(rng, 4)],
            largest: 30_000 + rng.below(200_000),
        }
    }
}

fn draw(rng: &mut Rng, count: usize) -> usize {
    zonal_base::index(rng.below(count as u64))
}
