//! Runner of block-device histories, with the checks.
//!
//! 1. Open the devices: every block has an allowed content.
//! 2. Actors take their steps: every read returns an allowed content.
//! 3. End the life. After a graceful end no resource is held and no block is left to move. After a
//!    crash the acknowledged and flushed writes determine the allowed contents.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use zonal_base::{Blocks, Lba, Nanos, Rng};
use zonal_device::ram::{Crash, Image, RamDevice};
use zonal_device::{DeadlineDevice, ZonedDevice};
use zonal_shaper::{ExportId, Extent, Identity, OpenError, OpenMode, Opening, Shaper};
use zonal_watch::Watched;

use super::actor::{Actor, read};
use super::history::{BlockHistory, Life, Rot, Shutdown, Step};
use super::oracle::Oracle;
use super::world::{HostedDevice, Suffered, World};
use crate::assertion;
use crate::drive::{self, Drive};
use crate::trace::Trace;
use crate::violation::{Violation, ViolationKind, Wrong};

/// Report of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockReport {
    /// Digest of all events: equal for equal seeds, different for others.
    pub history: u64,
    /// Virtual time, in nanoseconds.
    pub lasted: u64,
    /// Reads that were checked, including those after a start.
    pub reads: u64,
    /// Acknowledged writes and trims.
    pub acts: u64,
    /// Scrubs that ended.
    pub scrubs: u64,
    /// Lives that ended without a graceful end.
    pub crashes: u64,
    /// Zone resets of both tiers.
    pub zones_reset: u64,
    /// Torn blocks found.
    pub torn_blocks: u64,
    /// Starts that salvaged around an offline zone.
    pub salvages: u64,
    /// Devices that were damaged at rest.
    pub damages: u64,
    /// Starts that were refused because of such damage.
    pub refusals: u64,
}

/// Longest wait at the end of a life until all work is done. A device that loses a write is
/// isolated after half of it.
const PATIENCE: Nanos = Nanos::secs(300);

const BEGINNING: Nanos = Nanos::secs(1);

impl BlockHistory {
    /// Runs the history.
    ///
    /// # Errors
    /// The oracle found a violation, or an assertion of the engine failed.
    pub fn run(&self) -> Result<BlockReport, Violation> {
        self.play(&Trace::default())
    }

    /// Runs the history with a trace of its events.
    pub fn run_traced(&self) -> (String, Result<BlockReport, Violation>) {
        let trace = Trace::to_text();
        let verdict = self.play(&trace);
        (trace.take(), verdict)
    }

    /// Runs the history before a watcher.
    ///
    /// # Errors
    /// As for [`BlockHistory::run`].
    pub fn run_watched(&self, watched: Watched) -> Result<BlockReport, Violation> {
        self.play(&Trace::watched(watched))
    }

    fn play(&self, trace: &Trace) -> Result<BlockReport, Violation> {
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

struct Play<'a> {
    history: &'a BlockHistory,
    trace: Trace,
    now: Rc<Cell<Nanos>>,
    report: BlockReport,
    oracle: Rc<RefCell<Oracle>>,
    suffered: Suffered,
    /// State of each device at the first graceful end.
    images: Vec<Option<Image>>,
}

/// The history has ended: its faults prevent another open.
struct Over;

impl<'a> Play<'a> {
    fn new(history: &'a BlockHistory, trace: Trace, now: Rc<Cell<Nanos>>) -> Self {
        let oracle = Oracle::new(&history.setting.exports);
        let report = BlockReport { history: history.seed, ..BlockReport::default() };
        let suffered = Suffered::default();
        let (oracle, images) = (Rc::new(RefCell::new(oracle)), Vec::new());
        Self { history, trace, now, report, oracle, suffered, images }
    }

    fn run(mut self) -> Result<BlockReport, Wrong> {
        let setting = &self.history.setting;
        let mut drives: Vec<Drive> = (0..)
            .zip(&setting.devices)
            .map(|(n, (model, geometry))| Drive::new(*model, *geometry, setting.device_seed ^ n))
            .collect();
        for (number, life) in (1..).zip(&self.history.lives) {
            self.trace.tell(self.now.get(), "life", format_args!("{number} begins"));
            if let Err(Over) = self.live(&mut drives, life)? {
                break;
            }
        }
        self.report.lasted = self.now.get().0;
        let oracle = self.oracle.borrow();
        (self.report.reads, self.report.acts) = (oracle.reads, oracle.acts);
        self.report.scrubs = oracle.scrubs;
        Ok(self.report)
    }

    fn live(&mut self, drives: &mut [Drive], life: &Life) -> Result<Result<(), Over>, Wrong> {
        let mut rng = Rng::new(life.chance);
        let history = (self.report.history, self.trace.clone());
        let mut world = World::new(self.now.clone(), drives.len(), history);
        world.suffered = Suffered { gone: false, full: [false; 2], ..self.suffered };
        for drive in drives.iter_mut() {
            drive.inflict(drive::Fault::TakesNoWrites(false), true);
        }
        let mut devices: Vec<HostedDevice<'_>> =
            drives.iter_mut().map(DeadlineDevice::new).collect();
        let lived = self.live_in(&mut world, &mut devices, life);
        if lived.is_ok() {
            self.trace.watched.ended(self.now.get(), world.shown.as_ref());
        }
        drop(devices);
        self.report.history = world.history;
        self.suffered = world.suffered;
        drop(world);
        if let Err(over) = lived? {
            return Ok(Err(over));
        }
        let crashes = match life.shutdown {
            Shutdown::Graceful | Shutdown::Damaged(..) => [Crash::Process; 2],
            Shutdown::Crash(crashes, _) => {
                self.report.crashes += 1;
                crashes
            }
        };
        self.trace.tell(self.now.get(), "life", format_args!("ends: {}", life.shutdown));
        // Writes in flight to a device that was gone are as after a power cut.
        let crashes = if self.suffered.gone { [Crash::Power; 2] } else { crashes };
        for (drive, crash) in drives.iter_mut().zip(crashes) {
            let at_rest = drive.crash(self.now.get(), &mut rng, crash);
            self.now.set(at_rest.max(self.now.get()));
        }
        // A device that takes no writes cannot be closed: the end is as after a crash.
        let is_closed = !self.suffered.gone && self.suffered.full == [false; 2];
        if life.shutdown.is_graceful() && is_closed {
            self.rest(drives, life.shutdown);
        }
        let worst = match crashes[..drives.len()].contains(&Crash::Power) {
            true => Crash::Power,
            false => Crash::Process,
        };
        let mut oracle = self.oracle.borrow_mut();
        oracle.cells.iter_mut().flatten().for_each(|cell| cell.crash(worst));
        Ok(Ok(()))
    }

    /// Device at rest between two lives: it may be damaged.
    fn rest(&mut self, drives: &mut [Drive], shutdown: Shutdown) {
        if let Shutdown::Damaged(device, rot) = shutdown {
            let image = self.images.get(device).and_then(Option::as_ref);
            let flips = rotten(drives[device].ram(), rot, image);
            self.report.damages += u64::from(flips.is_some());
            self.suffered.damaged |= flips.is_some();
            self.suffered.flips += flips.unwrap_or(0);
        }
        if self.images.is_empty() {
            self.images =
                drives.iter_mut().map(|drive| drive.ram().map(|ram| ram.image())).collect();
        }
    }

    fn live_in(
        &mut self,
        world: &mut World,
        drives: &mut [HostedDevice<'_>],
        life: &Life,
    ) -> Result<Result<(), Over>, Wrong> {
        let Suffered { flips, flipped, offline, unreadable, worn, .. } = self.suffered;
        let Some(mut opened) = self.open(world, drives, OpenMode::Recover)? else {
            // A command was lost: the host resets the device, and the next start is a new life.
            world.suffered.gone = true;
            return Ok(Ok(()));
        };
        if flipped {
            self.oracle.borrow_mut().forget();
        }
        if matches!(opened, Err(OpenError::Unreadable(_))) && offline {
            self.report.salvages += 1;
            self.oracle.borrow_mut().forget();
            opened = self.open(world, drives, OpenMode::Salvage)?.unwrap_or(opened);
        }
        let shaper = match opened {
            Ok(shaper) => shaper,
            Err(error) if self.suffered.damaged => {
                self.report.refusals += 1;
                self.trace.tell(self.now.get(), "life", format_args!("is refused: {error}"));
                return Ok(Err(Over));
            }
            Err(OpenError::Unreadable(_) | OpenError::Damaged(..))
                if unreadable || offline || 0 < flips =>
            {
                return Ok(Err(Over));
            }
            Err(error @ OpenError::Unreadable(_)) => {
                return Err(ViolationKind::Unreadable.wrong(format!("it did not open: {error}")));
            }
            Err(_) if worn => return Ok(Err(Over)),
            Err(error) => {
                return Err(ViolationKind::Unreadable.wrong(format!("it did not open: {error}")));
            }
        };
        if self.trace.watched.is_watched() {
            self.trace.watched.started(self.now.get(), (&shaper).into());
            world.shown = Some(shaper.clone());
        }
        // Nothing repeats the last header of a tier, nor says that its segment was flushed.
        if (unreadable || 0 < flips) && 0 < shaper.recovery().headers_lost {
            self.oracle.borrow_mut().forget();
        }
        // Later starts do without that zone.
        (world.suffered.offline, world.suffered.flipped) = (false, false);
        world.serve(drives);
        self.report.torn_blocks += shaper.recovery().torn_blocks;
        self.read_all(world, drives, &shaper)?;
        let acting = Rc::new(Cell::new(0));
        self.enter_all(world, &shaper, (life, &acting));
        let patience = match life.shutdown {
            Shutdown::Graceful | Shutdown::Damaged(..) => PATIENCE,
            Shutdown::Crash(_, after) => after,
        };
        let is_over = || acting.get() == 0 || self.oracle.borrow().wrong.is_some();
        let is_done = world.run(drives, patience, is_over)?;
        self.look(world)?;
        if life.shutdown.is_graceful() {
            if !is_done {
                let (waiting, stats) = (shaper.waiting(), shaper.stats());
                let what = format!("{} wait for ever: {waiting:?}, {stats:?}", acting.get());
                return Err(ViolationKind::Stuck.wrong(what));
            }
            self.end(world, drives, &shaper)?;
        }
        let stats = shaper.stats();
        self.report.zones_reset += stats.buffer_zones_reset + stats.capacity_zones_reset;
        Ok(Ok(()))
    }

    /// `None`: a device never answers.
    fn open(
        &self,
        world: &mut World,
        drives: &mut [HostedDevice<'_>],
        mode: OpenMode,
    ) -> Result<Option<Result<Shaper, OpenError>>, Wrong> {
        let setting = &self.history.setting;
        let opening = Opening {
            settings: setting.engine,
            exports: setting.exports.clone(),
            identity: Identity(u128::from(self.history.seed).to_le_bytes()),
            mode,
        };
        let opened = Rc::new(RefCell::new(None));
        let (ports, layout, out) = (world.ports.clone(), setting.layout, opened.clone());
        world.executor.spawner().spawn(async move {
            let result = Shaper::open(ports, layout, opening).await;
            *out.borrow_mut() = Some(result);
        });
        world.run(drives, PATIENCE, || opened.borrow().is_some())?;
        let opened = opened.take();
        if opened.is_none() && !drives.iter().any(|drive| drive.device().has_lost) {
            let in_use = world.ports.buffers.pool().in_use();
            let what = format!("it is never open, {in_use} buffers are in use");
            return Err(ViolationKind::Stuck.wrong(what));
        }
        Ok(opened)
    }

    /// Reads all blocks, and checks them against the oracle.
    fn read_all(
        &self,
        world: &mut World,
        drives: &mut [HostedDevice<'_>],
        shaper: &Shaper,
    ) -> Result<(), Wrong> {
        self.permit(world);
        let is_done = Rc::new(Cell::new(false));
        let (waiting, done) = (shaper.clone(), is_done.clone());
        let (shaper, oracle) = (shaper.clone(), self.oracle.clone());
        world.executor.spawner().spawn(async move {
            for (export, blocks) in (0..).zip(shaper.exports().iter().map(|export| export.blocks)) {
                let mut first = 0;
                while first < blocks.0 {
                    let count = (blocks.0 - first).min(STRIDE);
                    let (export, first_block) = (ExportId(export), Lba(first));
                    let extent = Extent { export, first: first_block, blocks: Blocks(count) };
                    read(&shaper, &oracle, extent).await;
                    first += count;
                }
            }
            done.set(true);
        });
        if !world.run(drives, PATIENCE, || is_done.get())? {
            let in_use = world.ports.buffers.pool().in_use();
            let what = format!("a read waits for ever: {:?}, {in_use} buffers", waiting.waiting());
            return Err(ViolationKind::Stuck.wrong(what));
        }
        self.look(world)
    }

    /// Tells the oracle which errors the faults allow.
    fn permit(&self, world: &World) {
        let Suffered { unreadable, worn, gone, flips, damaged, .. } = world.suffered;
        let mut oracle = self.oracle.borrow_mut();
        oracle.may_fail |= unreadable || worn || gone || damaged || 0 < flips;
        oracle.flips = flips;
    }

    fn look(&self, _: &World) -> Result<(), Wrong> {
        self.oracle.borrow_mut().wrong.take().map_or(Ok(()), Err)
    }

    fn enter_all(&self, world: &World, shaper: &Shaper, (life, acting): (&Life, &Rc<Cell<u32>>)) {
        let begun = self.now.get();
        for steps in life.steps.chunk_by(|a, b| a.actor == b.actor) {
            acting.set(acting.get() + 1);
            let actor = Actor {
                shaper: shaper.clone(),
                oracle: self.oracle.clone(),
                buffers: world.ports.buffers.clone(),
                faults: world.faults.clone(),
                clock: world.ports.clock.clone(),
                watched: self.trace.watched.clone(),
            };
            let (clock, acting) = (world.ports.clock.clone(), acting.clone());
            let steps: Vec<Step> = steps.to_vec();
            world.executor.spawner().spawn(async move {
                for step in steps {
                    clock.sleep_until(begun + step.at).await;
                    actor.act(step.deed).await;
                }
                acting.set(acting.get() - 1);
            });
        }
    }

    fn end(
        &self,
        world: &mut World,
        drives: &mut [HostedDevice<'_>],
        shaper: &Shaper,
    ) -> Result<(), Wrong> {
        if world.suffered.full != [false; 2] {
            self.read_all(world, drives, shaper)?;
            return close(world, drives, shaper);
        }
        settle(world, drives, shaper)?;
        self.read_all(world, drives, shaper)?;
        // Reads change a paged map.
        let is_whole = settle(world, drives, shaper)?;
        let held = shaper.waiting().held;
        // When a device fails, relocation keeps the segments that it has gathered.
        if is_whole && !self.oracle.borrow().may_fail && 0 < held {
            return Err(
                ViolationKind::Leak.wrong(format!("{held} pins and buffers are held at rest"))
            );
        }
        close(world, drives, shaper)
    }
}

/// Damages a device. Returns the number of data bits that may be flipped; `None`: this damage does
/// not apply.
fn rotten(ram: Option<&mut RamDevice>, rot: Rot, image: Option<&Image>) -> Option<u32> {
    let ram = ram?;
    match rot {
        Rot::Bit(zone, block, bit) => {
            let lba = ram.geometry().zone_start(zone) + Blocks(block);
            ram.flip_bit(lba, bit);
            return Some(1);
        }
        Rot::Zone(zone) => ram.replace_zone_bytes(zone, Vec::new()),
        Rot::Exchanged(one, other) => {
            let (of_one, of_other) = (ram.zone_bytes(one), ram.zone_bytes(other));
            ram.replace_zone_bytes(one, of_other);
            ram.replace_zone_bytes(other, of_one);
        }
        Rot::OldZone(zone) => ram.replace_zone_bytes(zone, image?.zone_bytes(zone).to_vec()),
        Rot::OldDevice => ram.revert(image?),
    }
    Some(0)
}

/// Blocks per read after a start.
const STRIDE: u64 = 64;

/// Closes the block device gracefully, as far as the devices allow.
fn close(world: &mut World, drives: &mut [HostedDevice<'_>], shaper: &Shaper) -> Result<(), Wrong> {
    let is_closed = Rc::new(Cell::new(false));
    let (inner, out) = (shaper.clone(), is_closed.clone());
    world.executor.spawner().spawn(async move {
        let _ = inner.close().await;
        out.set(true);
    });
    if !world.run(drives, PATIENCE, || is_closed.get())? {
        return Err(ViolationKind::Stuck.wrong(format!("it never closes: {:?}", shaper.waiting())));
    }
    Ok(())
}

/// Waits until all background work is done. True if no device failed.
fn settle(
    world: &mut World,
    drives: &mut [HostedDevice<'_>],
    shaper: &Shaper,
) -> Result<bool, Wrong> {
    let settled = Rc::new(RefCell::new(None));
    let (inner, out) = (shaper.clone(), settled.clone());
    world.executor.spawner().spawn(async move {
        let result = inner.settle().await;
        *out.borrow_mut() = Some(result);
    });
    if !world.run(drives, PATIENCE, || settled.borrow().is_some())? {
        return Err(ViolationKind::Stuck.wrong("it never settles".into()));
    }
    let settled = settled.borrow();
    Ok(settled.is_some_and(|settled| settled.is_ok()))
}
