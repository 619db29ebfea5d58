//! How a history of a block device goes, and what must hold.
//!
//! 1. Open the devices; every block holds what it may.
//! 2. Everybody takes its steps; every read sees what it may.
//! 3. The end: at a graceful one nothing is held and nothing is left to move; else the devices crash, and what may be found
//!    then follows from what was acknowledged and flushed.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use zonal_base::{BLOCK_BYTES, Blocks, Lba, Nanos, Payload, Rng, index};
use zonal_device::ram::Crash;
use zonal_runtime::Buffers;
use zonal_shaper::{
    BlockError, Durability, ExportId, Extent, Identity, OpenError, OpenMode, Opening, Piece, Shaper,
};

use super::history::{Deed, Ending, History, Life, Step};
use super::oracle;
use super::world::{Suffered, World};
use crate::assertion;
use crate::drive::Drive;
use crate::trace::Trace;
use crate::violation::{Kind, Violation, Wrong};

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
}

/// Within this time of a life's end nothing may be left to do.
const PATIENCE: Nanos = Nanos::secs(60);

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
}

/// What all actors share.
struct Oracle {
    /// By export and block.
    cells: Vec<Vec<oracle::Cell>>,
    /// Instants are counted, not measured: each begin and end has its own.
    instant: u64,
    reads: u64,
    acts: u64,
    wrong: Option<Wrong>,
    /// Errors that may be answered.
    may_fail: bool,
}

/// The devices cannot be opened again, which was to be expected of what happened to them.
struct Over;

impl<'a> Play<'a> {
    fn new(history: &'a History, trace: Trace, now: Rc<Cell<Nanos>>) -> Self {
        let blank = |blocks: Blocks| vec![oracle::Cell::blank(); index(blocks.0)];
        let cells = history.setting.exports.iter().map(|export| blank(export.blocks)).collect();
        let oracle = Oracle { cells, instant: 0, reads: 0, acts: 0, wrong: None, may_fail: false };
        let report = Report { history: history.seed, ..Report::default() };
        let suffered = Suffered::default();
        Self { history, trace, now, report, oracle: Rc::new(RefCell::new(oracle)), suffered }
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
        let lived = self.live_in(&mut world, drives, life);
        self.report.history = world.history;
        self.suffered = world.suffered;
        drop(world);
        if let Err(over) = lived? {
            return Ok(Err(over));
        }
        let crashes = match life.ending {
            Ending::Graceful => [Crash::Process; 2],
            Ending::Crash(crashes, _) => {
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
        let worst = match crashes[..drives.len()].contains(&Crash::Power) {
            true => Crash::Power,
            false => Crash::Process,
        };
        let mut oracle = self.oracle.borrow_mut();
        oracle.cells.iter_mut().flatten().for_each(|cell| cell.crash(worst));
        Ok(Ok(()))
    }

    fn live_in(
        &mut self,
        world: &mut World,
        drives: &mut [Drive],
        life: &Life,
    ) -> Result<Result<(), Over>, Wrong> {
        let shaper = match self.open(world, drives)? {
            Ok(shaper) => shaper,
            Err(OpenError::Unreadable(_)) if self.suffered.unreadable => return Ok(Err(Over)),
            Err(_) if self.suffered.worn => return Ok(Err(Over)),
            Err(error) => {
                return Err(Kind::Unreadable.wrong(format!("it did not open: {error}")));
            }
        };
        self.report.torn_blocks += shaper.recovery().torn_blocks;
        self.read_all(world, drives, &shaper)?;
        let acting = Rc::new(Cell::new(0));
        self.enter_all(world, &shaper, (life, &acting));
        let patience = match life.ending {
            Ending::Graceful => PATIENCE,
            Ending::Crash(_, after) => after,
        };
        let is_over = || acting.get() == 0 || self.oracle.borrow().wrong.is_some();
        let is_done = world.run(drives, patience, is_over)?;
        self.look(world)?;
        if life.ending == Ending::Graceful {
            if !is_done {
                let (waiting, stats) = (shaper.waiting(), shaper.stats());
                let what = format!("{} wait for ever: {waiting:?}, {stats:?}", acting.get());
                return Err(Kind::Stuck.wrong(what));
            }
            self.end(world, drives, &shaper)?;
        }
        let stats = shaper.stats();
        self.report.zones_reset += stats.buffer_zones_reset + stats.capacity_zones_reset;
        Ok(Ok(()))
    }

    fn open(
        &self,
        world: &mut World,
        drives: &mut [Drive],
    ) -> Result<Result<Shaper, OpenError>, Wrong> {
        let setting = &self.history.setting;
        let opening = Opening {
            settings: setting.engine,
            exports: setting.exports.clone(),
            identity: Identity(u128::from(self.history.seed).to_le_bytes()),
            mode: OpenMode::Recover,
        };
        let opened = Rc::new(RefCell::new(None));
        let (ports, layout, out) = (world.ports.clone(), setting.layout, opened.clone());
        world.executor.spawner().spawn(async move {
            let result = Shaper::open(ports, layout, opening).await;
            *out.borrow_mut() = Some(result);
        });
        world.run(drives, PATIENCE, || opened.borrow().is_some())?;
        let in_use = world.ports.buffers.pool().in_use();
        let what = format!("it is never open, {in_use} buffers are in use");
        opened.take().ok_or_else(|| Kind::Stuck.wrong(what))
    }

    /// Every block holds what it may.
    fn read_all(
        &self,
        world: &mut World,
        drives: &mut [Drive],
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
            return Err(Kind::Stuck.wrong(what));
        }
        self.look(world)
    }

    /// What may fail now.
    fn permit(&self, world: &World) {
        let Suffered { unreadable, worn, gone, .. } = world.suffered;
        self.oracle.borrow_mut().may_fail |= unreadable || worn || gone;
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

    fn end(&self, world: &mut World, drives: &mut [Drive], shaper: &Shaper) -> Result<(), Wrong> {
        let settled = Rc::new(RefCell::new(None));
        let (inner, out) = (shaper.clone(), settled.clone());
        world.executor.spawner().spawn(async move {
            let result = inner.settle().await;
            *out.borrow_mut() = Some(result);
        });
        if !world.run(drives, PATIENCE, || settled.borrow().is_some())? {
            return Err(Kind::Stuck.wrong("it never settles".into()));
        }
        self.read_all(world, drives, shaper)?;
        let is_whole = settled.borrow().is_some_and(|settled| settled.is_ok());
        let held = shaper.waiting().held;
        // Whoever moves keeps what it has gathered when its device fails.
        if is_whole && !self.oracle.borrow().may_fail && 0 < held {
            return Err(Kind::Leak.wrong(format!("{held} pins and buffers are held at rest")));
        }
        Ok(())
    }
}

/// Blocks that are read at once after a start.
const STRIDE: u64 = 64;

struct Actor {
    shaper: Shaper,
    oracle: Rc<RefCell<Oracle>>,
    buffers: Buffers,
    faults: Rc<RefCell<Vec<(usize, super::history::Fault)>>>,
}

impl Actor {
    async fn act(&self, deed: Deed) {
        match deed {
            Deed::Read(extent) => read(&self.shaper, &self.oracle, extent).await,
            Deed::Write(extent, durability) => self.write(extent, durability).await,
            Deed::Trim(extent, durability) => {
                let begun = self.oracle.borrow_mut().begin(extent, |_| 0);
                let outcome = self.shaper.trim(extent, durability).await;
                self.oracle.borrow_mut().end(extent, begun, (durability, outcome));
            }
            Deed::Flush => {
                let begun = self.oracle.borrow_mut().tick();
                let outcome = self.shaper.flush().await;
                self.oracle.borrow_mut().flushed(begun, outcome);
            }
            Deed::Fault(device, fault) => {
                self.oracle.borrow_mut().may_fail |=
                    !matches!(fault, super::history::Fault::FailNextWrite(_));
                self.faults.borrow_mut().push((device, fault));
            }
        }
    }

    async fn write(&self, extent: Extent, durability: Durability) {
        let mut memory = self.buffers.take(extent.blocks).await;
        let begun = self.oracle.borrow_mut().begin(extent, |begun| begun);
        let bytes = index(extent.blocks.bytes().0);
        for (n, block) in
            (extent.first.0..).zip(memory.bytes_mut()[..bytes].chunks_mut(BLOCK_BYTES))
        {
            block.fill(0);
            fill(block, (begun, extent.export, n));
        }
        let data = pieces(memory.freeze(bytes));
        let outcome = self.shaper.write(extent.export, extent.first, data, durability).await;
        self.oracle.borrow_mut().end(extent, begun, (durability, outcome));
    }
}

/// Two pieces, if there are two blocks.
fn pieces(data: Payload) -> Vec<Payload> {
    let middle = data.len() / BLOCK_BYTES / 2 * BLOCK_BYTES;
    match middle {
        0 => vec![data],
        _ => vec![data.slice(0..middle), data.slice(middle..data.len())],
    }
}

/// Says at the front and at the end of a block who wrote it, and where.
fn fill(block: &mut [u8], (content, export, number): (u64, ExportId, u64)) {
    let mut mark = [0; 24];
    mark[..8].copy_from_slice(&content.to_le_bytes());
    mark[8..16].copy_from_slice(&number.to_le_bytes());
    mark[16..18].copy_from_slice(&export.0.to_le_bytes());
    block[..24].copy_from_slice(&mark);
    block[BLOCK_BYTES - 24..].copy_from_slice(&mark);
}

/// Who wrote a block; `None`: nobody did.
fn content(block: &[u8], export: ExportId, number: u64) -> Option<u64> {
    let content = u64::from_le_bytes(*block.first_chunk()?);
    let mut expected = vec![0; BLOCK_BYTES];
    if content != 0 {
        fill(&mut expected, (content, export, number));
    }
    (block == expected).then_some(content)
}

async fn read(shaper: &Shaper, oracle: &Rc<RefCell<Oracle>>, extent: Extent) {
    let begun = oracle.borrow_mut().tick();
    let outcome = shaper.read(extent).await;
    let mut oracle = oracle.borrow_mut();
    oracle.reads += 1;
    let pieces = match outcome {
        Ok(pieces) => pieces,
        Err(error) => return oracle.failed("read", error),
    };
    let mut number = extent.first.0;
    for piece in pieces {
        match piece {
            Piece::Zeros(blocks) => {
                for n in 0..blocks.0 {
                    oracle.judge((extent.export, number + n), Some(0), begun);
                }
                number += blocks.0;
            }
            Piece::Data(payload) => {
                for block in payload.as_bytes().chunks(BLOCK_BYTES) {
                    let found = content(block, extent.export, number);
                    oracle.judge((extent.export, number), found, begun);
                    number += 1;
                }
            }
        }
    }
    if number != (extent.first + extent.blocks).0 {
        oracle.go_wrong(Kind::WrongBytes, format!("{extent:?} was read up to {number}"));
    }
}

impl Oracle {
    fn tick(&mut self) -> u64 {
        self.instant += 1;
        self.instant
    }

    fn cells(&mut self, extent: Extent) -> &mut [oracle::Cell] {
        let first = index(extent.first.0);
        let end = first + index(extent.blocks.0);
        &mut self.cells[usize::from(extent.export.0)][first..end]
    }

    fn begin(&mut self, extent: Extent, content: impl Fn(u64) -> u64) -> u64 {
        let begun = self.tick();
        self.cells(extent).iter_mut().for_each(|cell| cell.begin(content(begun), begun));
        begun
    }

    fn end(
        &mut self,
        extent: Extent,
        begun: u64,
        (durability, outcome): (Durability, Result<(), BlockError>),
    ) {
        if let Err(error) = outcome {
            return self.failed("write", error);
        }
        let now = self.tick();
        self.acts += 1;
        let is_durable = durability == Durability::Durable;
        self.cells(extent).iter_mut().for_each(|cell| cell.end(begun, now, is_durable));
    }

    fn flushed(&mut self, begun: u64, outcome: Result<(), BlockError>) {
        match outcome {
            Ok(()) => self.cells.iter_mut().flatten().for_each(|cell| cell.flushed(begun)),
            Err(error) => self.failed("flush", error),
        }
    }

    fn judge(&mut self, (export, number): (ExportId, u64), found: Option<u64>, begun: u64) {
        let cell = &mut self.cells[usize::from(export.0)][index(number)];
        match found {
            None => {
                let what = format!("block {number} of export {} has bytes of nobody", export.0);
                self.go_wrong(Kind::WrongBytes, what);
            }
            Some(content) if !cell.allows(content, begun) => {
                let what = format!(
                    "block {number} of export {} holds act {content}, read at {begun}: {cell:?}",
                    export.0
                );
                self.go_wrong(Kind::OldVersion, what);
            }
            Some(content) => cell.saw(content),
        }
    }

    fn failed(&mut self, what: &str, error: BlockError) {
        if !self.may_fail {
            self.go_wrong(Kind::Unreadable, format!("a {what} failed: {error}"));
        }
    }

    fn go_wrong(&mut self, kind: Kind, what: String) {
        self.wrong.get_or_insert(kind.wrong(what));
    }
}
