//! How a history of a block device goes, and what must hold.
//!
//! 1. Open the devices; every block holds what it may.
//! 2. Everybody takes its steps; every read sees what it may.
//! 3. The end: at a graceful one nothing is held and nothing is left to move; else the devices crash, and what may be found
//!    then follows from what was acknowledged and flushed.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use zonal_base::{Blocks, Lba, Nanos, Rng};
use zonal_device::ram::{Crash, Image, RamDevice};
use zonal_device::{DeadlineDevice, ZonedDevice};
use zonal_shaper::{ExportId, Extent, Identity, OpenError, OpenMode, Opening, Shaper};

use super::actor::{Actor, read};
use super::history::{History, Life, Rot, Shutdown, Step};
use super::oracle::Oracle;
use super::world::{Device, Suffered, World};
use crate::assertion;
use crate::drive::Drive;
use crate::trace::Trace;
use crate::violation::{Violation, ViolationKind, Wrong};

/// What a run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// All that happened, as one number: equal for equal seeds, different for others.
    pub history: u64,
    /// Nanoseconds of virtual time.
    pub lasted: u64,
    /// Reads that were judged, those after a start included.
    pub reads: u64,
    /// Writes and trims that were acknowledged.
    pub acts: u64,
    /// Ends that were not graceful.
    pub crashes: u64,
    /// Zones of either tier that were emptied.
    pub zones_reset: u64,
    /// Blocks that were found torn.
    pub torn_blocks: u64,
    /// Starts that had to do without a zone which is offline.
    pub salvages: u64,
    /// Devices that were damaged at rest, ...
    pub damages: u64,
    /// ... and starts that were refused for that.
    pub refusals: u64,
}

/// Within this time of a life's end nothing may be left to do. A device that loses a write is given up after half of it.
const PATIENCE: Nanos = Nanos::secs(300);

const BEGINNING: Nanos = Nanos::secs(1);

impl History {
    /// Lets it happen.
    ///
    /// # Errors
    /// When the oracle saw something that must not happen, or the engine fell over an assertion of its own.
    pub fn run(&self) -> Result<Report, Violation> {
        self.play(&Trace::default())
    }

    /// Lets it happen, and writes down what does.
    pub fn run_traced(&self) -> (String, Result<Report, Violation>) {
        let trace = Trace::to_text();
        let verdict = self.play(&trace);
        (trace.take(), verdict)
    }

    fn play(&self, trace: &Trace) -> Result<Report, Violation> {
        let now = Rc::new(Cell::new(BEGINNING));
        let played = assertion::caught(|| Play::new(self, trace.clone(), now.clone()).run());
        played.unwrap_or_else(Err).map_err(|Wrong { kind, what }| Violation {
            seed: self.seed,
            at: now.get().0,
            kind,
            what,
        })
    }
}

struct Play<'a> {
    history: &'a History,
    trace: Trace,
    now: Rc<Cell<Nanos>>,
    report: Report,
    oracle: Rc<RefCell<Oracle>>,
    suffered: Suffered,
    /// By device: what it was at the first graceful end.
    images: Vec<Option<Image>>,
}

/// The devices cannot be opened again, which was to be expected of what happened to them.
struct Over;

impl<'a> Play<'a> {
    fn new(history: &'a History, trace: Trace, now: Rc<Cell<Nanos>>) -> Self {
        let oracle = Oracle::new(&history.setting.exports);
        let report = Report { history: history.seed, ..Report::default() };
        let suffered = Suffered::default();
        let (oracle, images) = (Rc::new(RefCell::new(oracle)), Vec::new());
        Self { history, trace, now, report, oracle, suffered, images }
    }

    fn run(mut self) -> Result<Report, Wrong> {
        let setting = &self.history.setting;
        let mut drives: Vec<Drive> = (0..)
            .zip(&setting.devices)
            .map(|(n, (model, geometry))| Drive::new(*model, *geometry, setting.device_seed ^ n))
            .collect();
        for (number, life) in (1..).zip(&self.history.lives) {
            self.trace.note(self.now.get(), "life", format_args!("{number} begins"));
            if let Err(Over) = self.live(&mut drives, life)? {
                break;
            }
        }
        self.report.lasted = self.now.get().0;
        let oracle = self.oracle.borrow();
        (self.report.reads, self.report.acts) = (oracle.reads, oracle.acts);
        Ok(self.report)
    }

    fn live(&mut self, drives: &mut [Drive], life: &Life) -> Result<Result<(), Over>, Wrong> {
        let mut rng = Rng::new(life.chance);
        let history = (self.report.history, self.trace.clone());
        let mut world = World::new(self.now.clone(), drives.len(), history);
        world.suffered = Suffered { gone: false, ..self.suffered };
        let mut devices: Vec<Device<'_>> = drives.iter_mut().map(DeadlineDevice::new).collect();
        let lived = self.live_in(&mut world, &mut devices, life);
        drop(devices);
        self.report.history = world.history;
        self.suffered = world.suffered;
        drop(world);
        if let Err(over) = lived? {
            return Ok(Err(over));
        }
        let crashes = match life.ending {
            Shutdown::Graceful | Shutdown::Damaged(..) => [Crash::Process; 2],
            Shutdown::Crash(crashes, _) => {
                self.report.crashes += 1;
                crashes
            }
        };
        self.trace.note(self.now.get(), "life", format_args!("ends: {:?}", life.ending));
        // What was on its way to a device that was gone is as if its power had been cut.
        let crashes = if self.suffered.gone { [Crash::Power; 2] } else { crashes };
        for (drive, crash) in drives.iter_mut().zip(crashes) {
            let at_rest = drive.crash(self.now.get(), &mut rng, crash);
            self.now.set(at_rest.max(self.now.get()));
        }
        if life.ending.is_graceful() && !self.suffered.gone {
            self.rest(drives, life.ending);
        }
        let worst = match crashes[..drives.len()].contains(&Crash::Power) {
            true => Crash::Power,
            false => Crash::Process,
        };
        let mut oracle = self.oracle.borrow_mut();
        oracle.cells.iter_mut().flatten().for_each(|cell| cell.crash(worst));
        Ok(Ok(()))
    }

    /// Nobody uses the devices: one of them may be damaged.
    fn rest(&mut self, drives: &mut [Drive], ending: Shutdown) {
        if let Shutdown::Damaged(device, rot) = ending {
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
        drives: &mut [Device<'_>],
        life: &Life,
    ) -> Result<Result<(), Over>, Wrong> {
        let Suffered { flips, flipped, offline, unreadable, worn, .. } = self.suffered;
        let Some(mut opened) = self.open(world, drives, OpenMode::Recover)? else {
            // A command was lost: the host resets the device, and the next start is another one.
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
                self.trace.note(self.now.get(), "life", format_args!("is refused: {error}"));
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
        // From now on it is done without that zone.
        (world.suffered.offline, world.suffered.flipped) = (false, false);
        world.serve(drives);
        self.report.torn_blocks += shaper.recovery().torn_blocks;
        self.read_all(world, drives, &shaper)?;
        let acting = Rc::new(Cell::new(0));
        self.enter_all(world, &shaper, (life, &acting));
        let patience = match life.ending {
            Shutdown::Graceful | Shutdown::Damaged(..) => PATIENCE,
            Shutdown::Crash(_, after) => after,
        };
        let is_over = || acting.get() == 0 || self.oracle.borrow().wrong.is_some();
        let is_done = world.run(drives, patience, is_over)?;
        self.look(world)?;
        if life.ending.is_graceful() {
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
        drives: &mut [Device<'_>],
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

    /// Every block holds what it may.
    fn read_all(
        &self,
        world: &mut World,
        drives: &mut [Device<'_>],
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

    /// What may fail now.
    fn permit(&self, world: &World) {
        let Suffered { unreadable, worn, gone, flips, .. } = world.suffered;
        let mut oracle = self.oracle.borrow_mut();
        oracle.may_fail |= unreadable || worn || gone || 0 < flips;
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
        drives: &mut [Device<'_>],
        shaper: &Shaper,
    ) -> Result<(), Wrong> {
        settle(world, drives, shaper)?;
        self.read_all(world, drives, shaper)?;
        // Reads change a map that is paged.
        let is_whole = settle(world, drives, shaper)?;
        let held = shaper.waiting().held;
        // Whoever moves keeps what it has gathered when its device fails.
        if is_whole && !self.oracle.borrow().may_fail && 0 < held {
            return Err(
                ViolationKind::Leak.wrong(format!("{held} pins and buffers are held at rest"))
            );
        }
        close(world, drives, shaper)
    }
}

/// Damages a device, and tells how many bits of data may have turned over. `None`: it cannot be damaged so.
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

/// Blocks that are read at once after a start.
const STRIDE: u64 = 64;

/// Ends in good order, or as far as the devices let it.
fn close(world: &mut World, drives: &mut [Device<'_>], shaper: &Shaper) -> Result<(), Wrong> {
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

/// Waits until nothing is to be done any more. True when no device failed.
fn settle(world: &mut World, drives: &mut [Device<'_>], shaper: &Shaper) -> Result<bool, Wrong> {
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
