//! Runner: plays the lives of a history on one device, and checks the invariants at the end of
//! each.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use zonal_base::{Bytes, Nanos, Rng, mix64};
use zonal_cache::{Cache, ObjectName, PendingInvalidations, StartError};
use zonal_device::ram::Crash;
use zonal_device::{DeadlineDevice, DeviceKind};
use zonal_policy::{Policy, Rules};
use zonal_watch::Watched;
use zonal_zonelog::{Identity, OpenMode};

use crate::actors::{HistoryCounts, Stage};
use crate::assertion;
use crate::drive::Drive;
use crate::history::{History, Keeping, Life, Shutdown};
use crate::oracle::Object;
use crate::origin::{FaultyOrigin, Objects};
use crate::pin_oracle::PinOracle;
use crate::shutdown::FlashedState;
use crate::stress_policy::StressPolicy;
use crate::trace::Trace;
use crate::violation::{Violation, ViolationKind, Wrong};
use crate::world::{Outside, Suffered, World};

/// Report of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Digest of all events: equal for equal seeds, different for others.
    pub history: u64,
    /// Virtual time, in nanoseconds.
    pub lasted: u64,
    /// Reads that were checked.
    pub reads: u64,
    /// Reads whose bytes were all cached when they began.
    pub reads_cached: u64,
    /// Reads that ended before their last byte.
    pub reads_failed: u64,
    /// Writes to objects.
    pub writes: u64,
    /// Process crashes and power cuts.
    pub crashes: u64,
    /// Zone resets.
    pub zones_reset: u64,
    /// Prefetched bytes that were read.
    pub prefetched_read: u64,
}

impl History {
    /// Runs the history.
    ///
    /// # Errors
    /// The oracle found a violation, or an assertion of the engine failed.
    pub fn run(&self) -> Result<Report, Violation> {
        self.play(&Trace::default())
    }

    /// Runs the history with a trace of its events.
    pub fn run_traced(&self) -> (String, Result<Report, Violation>) {
        let trace = Trace::to_text();
        let verdict = self.play(&trace);
        (trace.take(), verdict)
    }

    /// Runs the history before a watcher.
    ///
    /// # Errors
    /// As for [`History::run`].
    pub fn run_watched(&self, watched: Watched) -> Result<Report, Violation> {
        self.play(&Trace::watched(watched))
    }

    fn play(&self, trace: &Trace) -> Result<Report, Violation> {
        let now = Rc::new(Cell::new(BEGINNING));
        let played = assertion::caught(|| Play::new(self, trace.clone(), now.clone()).run());
        let verdict = played.unwrap_or_else(Err).map_err(|Wrong { kind, what }| Violation {
            seed: self.seed,
            at: now.get().0,
            kind,
            what,
        });
        trace.verdict(now.get(), verdict.as_ref().err());
        verdict
    }
}

/// Start of virtual time. Not 0, which the engine takes for "never".
const BEGINNING: Nanos = Nanos::secs(1);

/// Longest wait at the end of a life until all work is done. Longer than the host's command
/// timeout.
pub(crate) const PATIENCE: Nanos = Nanos::secs(60);

/// Rate of scrubs: the device is verified within a life.
const SCRUB_RATE: Bytes = Bytes::mib(8);

/// True for a quarter of all lives: they begin with a scrub.
fn is_scrubbed(life: &Life) -> bool {
    mix64(life.chance ^ 1) & 3 == 0
}

/// Time without requests before a crash at rest: removals are listed by then.
const REST: Nanos = Nanos::secs(4);

/// Read timeout of the host: longer than a healthy drive takes.
const READ_PATIENCE: Nanos = Nanos::millis(100);

/// A history that is being run.
struct Play<'a> {
    history: &'a History,
    trace: Trace,
    names: Rc<[ObjectName]>,
    objects: Objects,
    /// Virtual time, shared with the panic handler.
    now: Rc<Cell<Nanos>>,
    report: Report,
    suffered: Suffered,
    medium_is_whole: bool,
    pin_oracle: Rc<RefCell<PinOracle>>,
    /// Removals that the shard missed in the previous life, if its device is readmitted.
    pending_invalidations: Option<Rc<PendingInvalidations>>,
    /// The device was isolated in the previous life and not readmitted: the next start formats it.
    is_to_be_emptied: bool,
    /// How often the device was formatted after the first time.
    formats: u8,
}

/// The history has ended: the cache cannot start on a device with faults.
struct Over;

impl<'a> Play<'a> {
    fn new(history: &'a History, trace: Trace, now: Rc<Cell<Nanos>>) -> Self {
        let names: Rc<[ObjectName]> = (0..history.objects.len())
            .map(|id| ObjectName::new("bucket", &format!("object-{id}")))
            .collect();
        let new = names.iter().cloned().zip((0..).zip(&history.objects));
        let objects = new.map(|(name, (id, object))| (name, Object::new(id, object))).collect();
        Self {
            history,
            trace,
            names,
            objects: Rc::new(RefCell::new(objects)),
            now,
            report: Report { history: history.seed, ..Report::default() },
            suffered: Suffered::default(),
            medium_is_whole: true,
            pin_oracle: Rc::default(),
            pending_invalidations: None,
            is_to_be_emptied: false,
            formats: 0,
        }
    }

    fn run(mut self) -> Result<Report, Wrong> {
        let setting = &self.history.setting;
        let mut device = Drive::new(setting.model, setting.geometry, setting.device_seed);
        let mut kept = None;
        for (number, life) in (1..).zip(&self.history.lives) {
            self.trace.tell(self.now.get(), "life", format_args!("{number} begins"));
            kept = match self.live(&mut device, life, kept)? {
                Ok(kept) => kept,
                Err(Over) => break,
            };
        }
        self.report.lasted = self.now.get().0;
        Ok(self.report)
    }

    /// Runs one life. Returns the state on flash after a graceful end.
    fn live(
        &mut self,
        device: &mut Drive,
        life: &Life,
        kept: Option<FlashedState>,
    ) -> Result<Result<Option<FlashedState>, Over>, Wrong> {
        let setting = &self.history.setting;
        let piece = self.history.largest_piece().blocks_ceil();
        let mut rng = Rng::new(life.chance);
        let chance = (self.report.history, rng.next_u64());
        let mut world = World::new(self.now.clone(), piece, chance, self.trace.clone());
        let mut origin =
            FaultyOrigin::new(self.objects.clone(), rng.next_u64(), setting.origin_fault_rate);
        let mut outside =
            Outside { device: DeadlineDevice::new(&mut *device), origin: &mut origin };
        let lived = self.live_in(&mut world, &mut outside, (life, kept));
        if lived.is_ok() {
            self.trace.watched.ended(world.now, world.shown.as_ref());
        }
        self.report.history = world.history;
        let is_isolated = world.is_isolated.get();
        drop((outside, world));
        let kept = match lived? {
            Ok(kept) => kept,
            Err(over) => return Ok(Err(over)),
        };
        let crash = match life.shutdown {
            Shutdown::Graceful | Shutdown::Isolated(..) => Crash::Process,
            Shutdown::Crash(crash, _) | Shutdown::CrashAtRest(crash) => {
                self.report.crashes += 1;
                crash
            }
        };
        // The rest of the node reports that the device was away, unless it was readmitted.
        let is_used_again = matches!(life.shutdown, Shutdown::Isolated(..));
        self.is_to_be_emptied = is_isolated && !is_used_again;
        self.formats = self.formats.wrapping_add(u8::from(self.is_to_be_emptied));
        if !is_used_again {
            self.pending_invalidations = None;
        }
        self.trace.tell(self.now.get(), "life", format_args!("ends: {}", life.shutdown));
        self.now.set(device.crash(self.now.get(), &mut rng, crash));
        // A power cut may take any unflushed blocks from the middle of a conventional device's
        // zones.
        self.medium_is_whole &=
            crash == Crash::Process || setting.geometry.kind == DeviceKind::Zoned;
        if self.suffered.lost_records {
            // A damaged tombstone works until the process ends. A graceful stop and some seconds of
            // rest leave what notices its loss, and the origin confirms the version; it cannot tell
            // of a repair. After a crash in the midst of work, or if the device refuses what a stop
            // writes, the loss may pass unnoticed.
            let was_at_rest =
                matches!(life.shutdown, Shutdown::Graceful | Shutdown::CrashAtRest(_));
            let is_noticed = was_at_rest && !self.suffered.refusals;
            let mut objects = self.objects.borrow_mut();
            for object in objects.values_mut() {
                let (version, _) = object.oldest_allowed;
                object.oldest_allowed = (if is_noticed { version } else { 0 }, 0);
            }
        }
        Ok(Ok(kept))
    }

    fn live_in(
        &mut self,
        world: &mut World,
        outside: &mut Outside<'_>,
        (life, kept): (&Life, Option<FlashedState>),
    ) -> Result<Result<Option<FlashedState>, Over>, Wrong> {
        let cache = match self.start(world, outside)? {
            Ok(cache) => cache,
            // A device that lost a first block for good may refuse to start.
            Err(_) if self.suffered.and(world.suffered).anything => return Ok(Err(Over)),
            Err(error) => {
                let why = format!("the cache did not start: {error}");
                return Err(ViolationKind::Unreadable.wrong(why));
            }
        };
        cache.set_chunks(self.history.chunk_rules(life, &self.names));
        if is_scrubbed(life) {
            let cache = cache.clone();
            world.executor.spawner().spawn(async move { cache.scrub(SCRUB_RATE).await });
        }
        let stage = self.stage(world, &cache);
        if let Some(kept) = kept.filter(|_| !self.suffered.anything) {
            kept.check(world, outside, &stage)?;
        }
        self.check_pins(&cache)?;
        if let Err(over) = self.replay_invalidations(world, outside, &cache)? {
            return Ok(Err(over));
        }
        self.pending_invalidations = Some(stage.pending_invalidations.clone());
        stage.enter_all(&life.steps);
        let patience = match life.shutdown {
            Shutdown::Graceful | Shutdown::CrashAtRest(_) => PATIENCE,
            Shutdown::Crash(_, after) | Shutdown::Isolated(after, _) => after,
        };
        let (acting, wrong) = (stage.acting.clone(), stage.wrong.clone());
        outside.device.set_read_timeout(world.now, READ_PATIENCE);
        let (is_isolated, pending_invalidations) =
            (world.is_isolated.clone(), stage.pending_invalidations.clone());
        let is_over = || {
            if is_isolated.get() && !cache.log().is_gone() {
                cache.log().give_up();
            }
            if is_isolated.get() {
                pending_invalidations.open();
            }
            acting.get() == 0 || wrong.borrow().is_some()
        };
        let mut is_done = world.run(outside, patience, is_over)?;
        if let Shutdown::Isolated(_, away) = life.shutdown
            && !is_done
        {
            world.isolate(&mut outside.device);
            is_done = world.run(outside, away, is_over)?;
        }
        if let Some(wrong) = wrong.take() {
            return Err(wrong);
        }
        let is_graceful = life.shutdown == Shutdown::Graceful;
        let is_at_rest = matches!(life.shutdown, Shutdown::CrashAtRest(_));
        if (is_graceful || is_at_rest) && !is_done {
            return Err(ViolationKind::Stuck.wrong("somebody waits for ever".into()));
        }
        if is_at_rest {
            world.run(outside, REST, || false)?;
        }
        let at_end = is_graceful.then(|| FlashedState::at_end(world, outside, &stage));
        let kept = at_end.transpose()?;
        self.suffered = self.suffered.and(world.suffered);
        if world.is_isolated.get() {
            // Data that could not be read was dropped. The next life may find it on flash again.
            self.pin_oracle.borrow_mut().drop_all();
        } else {
            self.check_health(&cache)?;
            self.check_pins(&cache)?;
        }
        self.pin_oracle.borrow_mut().outlive(life.shutdown);
        self.note(&stage);
        Ok(Ok(kept))
    }

    /// Shows a cache that has started to the watcher.
    fn show(&self, world: &mut World, cache: &Cache) {
        if self.trace.watched.is_watched() {
            self.trace.watched.started(world.now, cache.into());
            world.shown = Some(cache.clone());
        }
    }

    fn start(
        &self,
        world: &mut World,
        outside: &mut Outside<'_>,
    ) -> Result<Result<Cache, StartError>, Wrong> {
        let setting = &self.history.setting;
        let rules = match &setting.policy {
            Keeping::By(spec) => {
                spec.rules(&setting.engine.layout(&setting.geometry), setting.memory)
            }
            Keeping::Thirds => Rules::from(Box::<StressPolicy>::default() as Box<dyn Policy>),
        };
        // As in the real host, a formatted device gets a new identity: old records in a zone that
        // cannot be reset are never taken for its own.
        let mut log = *b"simulated device";
        log[0] = log[0].wrapping_add(self.formats);
        let identity = Identity { log, shard: 0, shard_count: 1 };
        let started = Rc::new(RefCell::new(None));
        let start = Cache::start(
            world.ports.clone(),
            setting.geometry,
            setting.engine,
            identity,
            (rules, if self.is_to_be_emptied { OpenMode::Format } else { OpenMode::Recover }),
        );
        let slot = started.clone();
        world.executor.spawner().spawn(async move {
            let cache = start.await;
            *slot.borrow_mut() = Some(cache);
        });
        let has_started = world.run(outside, PATIENCE, || started.borrow().is_some())?;
        if !has_started {
            return Err(ViolationKind::Stuck.wrong("the cache does not come up".into()));
        }
        let started = started.take().expect("looked at just now");
        if let Ok(cache) = &started {
            self.show(world, cache);
        }
        Ok(started)
    }

    /// Applies the removals that the shard missed in the previous life.
    fn replay_invalidations(
        &mut self,
        world: &mut World,
        outside: &mut Outside<'_>,
        cache: &Cache,
    ) -> Result<Result<(), Over>, Wrong> {
        let Some(pending_invalidations) = self.pending_invalidations.take() else {
            return Ok(Ok(()));
        };
        let made_up = Rc::new(Cell::new(None));
        let (outcome, cache) = (made_up.clone(), cache.clone());
        world.executor.spawner().spawn(async move {
            outcome.set(Some(cache.replay_invalidations(&pending_invalidations).await));
        });
        world.run(outside, PATIENCE, || made_up.get().is_some())?;
        match made_up.get() {
            Some(Ok(())) => Ok(Ok(())),
            // The device stays isolated.
            _ if self.suffered.and(world.suffered).anything => Ok(Err(Over)),
            _ => Err(ViolationKind::Stuck.wrong("what was missed cannot be made up for".into())),
        }
    }

    fn stage(&self, world: &World, cache: &Cache) -> Stage {
        Stage {
            cache: cache.clone(),
            pending_invalidations: Rc::default(),
            clock: world.ports.clock.clone(),
            spawner: world.ports.spawner.clone(),
            names: self.names.clone(),
            objects: self.objects.clone(),
            faults: world.faults.clone(),
            wrong: Rc::default(),
            acting: Rc::new(Cell::new(0)),
            tally: Rc::default(),
            pin_oracle: self.pin_oracle.clone(),
            trace: self.trace.clone(),
        }
    }

    /// Checks that all pinned data is cached, unless faults or a lack of space excuse a loss.
    fn check_pins(&self, cache: &Cache) -> Result<(), Wrong> {
        let mut pin_oracle = self.pin_oracle.borrow_mut();
        let is_promised = !self.suffered.anything
            && self.medium_is_whole
            && cache.unpinned() == Bytes(0)
            && cache.log().stats().rewrites_refused == 0;
        if !is_promised {
            pin_oracle.drop_all();
        }
        pin_oracle.check(cache, &self.objects)
    }

    /// Checks that no device is given up and no data unreadable without a fault.
    fn check_health(&self, cache: &Cache) -> Result<(), Wrong> {
        if self.suffered.anything {
            return Ok(());
        }
        if cache.log().is_gone() {
            let what = "the log gave up on a healthy device";
            return Err(ViolationKind::Unreadable.wrong(what.into()));
        }
        if 0 < cache.log().suspect_below() {
            let what = format!("a crash was taken for a loss: {:?}", cache.log().damage());
            return Err(ViolationKind::Unreadable.wrong(what));
        }
        let (damaged, torn) = (cache.stats().damaged, cache.log().stats().check_errors);
        if self.medium_is_whole && 0 < damaged + torn {
            let what = format!("{damaged} records of a healthy device could not be read");
            return Err(ViolationKind::Unreadable.wrong(what));
        }
        let scrub = cache.scrub_progress();
        if self.medium_is_whole && 0 < scrub.damaged_records + scrub.damaged_metadata {
            let what = format!("a scrub found damage on a healthy device: {scrub:?}");
            return Err(ViolationKind::Unreadable.wrong(what));
        }
        Ok(())
    }

    fn note(&mut self, stage: &Stage) {
        let HistoryCounts { reads, reads_cached, reads_failed, writes } = *stage.tally.borrow();
        self.report.reads += reads;
        self.report.reads_cached += reads_cached;
        self.report.reads_failed += reads_failed;
        self.report.writes += writes;
        self.report.prefetched_read += stage.cache.stats().prefetched_read_bytes;
        self.report.zones_reset += stage.cache.log().stats().zones_reset;
    }
}
