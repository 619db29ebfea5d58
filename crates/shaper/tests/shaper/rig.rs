//! Test rig: a block device on two drive models, with the host's event loop.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use zonal_base::{
    Blocks, Bytes, Checksum, Contents, Lba, Nanos, PoolClass, Rng, Tag, Ticket, ZoneId,
};
use zonal_device::{Answer, Command, Completion, DeviceError, Geometry, ZoneAction, ZonedDevice};
use zonal_emulator::{
    ConventionalDrive, ConventionalProfile, Medium, OnReset, Profile, Tags, ZonedDrive,
};
use zonal_runtime::{Buffers, Executor, Port};
use zonal_shaper::{
    BlockError, Durability, Export, ExportId, Extent, Identity, Layout, OpenError, OpenMode,
    Opening, Piece, Ports, Scrub, Settings, Shaper, ShaperStats, TenantStats, Tier,
};

use crate::compact::Compact;

/// Zones of both devices.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) zone: Blocks,
    pub(crate) buffer_zones: u32,
    pub(crate) capacity_zones: u32,
}

/// Both devices; they outlive the process.
pub(crate) struct Drives {
    buffer: ConventionalDrive,
    capacity: ZonedDrive,
    contents: Contents,
    now: Nanos,
}

/// A running process with its block device.
pub(crate) struct Rig {
    executor: Executor,
    pub(crate) shaper: Shaper,
    ports: Ports,
    drives: Drives,
}

/// Concurrent clients with one block in flight each (queue depth 64).
const WRITERS: u64 = 64;

const POLLS_MAX: usize = 10_000;

impl Drives {
    /// Models of an Optane drive and of a zoned drive, with zones of this shape. They keep the
    /// bytes of blocks, or their tags.
    pub(crate) fn new(shape: Shape, contents: Contents) -> Self {
        Self::with_buffer_zones_of(shape.zone, shape, contents)
    }

    /// The buffer has the total blocks of the shape, in zones of `zone` blocks.
    pub(crate) fn with_buffer_zones_of(zone: Blocks, shape: Shape, contents: Contents) -> Self {
        let medium = |geometry: &Geometry| -> Box<dyn Medium> {
            match contents {
                Contents::Bytes => Box::new(Compact::new(geometry)),
                Contents::Tags => Box::new(Tags::new(geometry)),
            }
        };
        let user = Blocks(u64::from(shape.buffer_zones) * shape.zone.0).bytes();
        let optane = ConventionalProfile::p5800x_optane().scaled_to(user).with_zones_of(zone);
        let bytes = medium(&optane.drive.geometry);
        let buffer = ConventionalDrive::new(optane, OnReset::Nothing, 1, bytes);
        let zn540 = Profile::zn540();
        let geometry = Geometry {
            zone_count: shape.capacity_zones,
            zone_size: shape.zone,
            zone_capacity: shape.zone,
            ..zn540.geometry
        };
        let profile = Profile { geometry, ..zn540 };
        let capacity = ZonedDrive::new(profile, 2, medium(&geometry));
        Self { buffer, capacity, contents, now: Nanos::secs(1) }
    }

    pub(crate) const fn now(&self) -> Nanos {
        self.now
    }

    /// The drives after the process has ended: submitted commands complete.
    fn abandoned(mut self) -> Self {
        for drive in [&mut self.buffer as &mut dyn ZonedDevice, &mut self.capacity] {
            while let Some(next) = drive.next_event() {
                self.now = self.now.max(next);
                while drive.poll(self.now).is_some() {}
            }
        }
        // Zone states of a conventional device are lost with the process.
        self.buffer.forget_zones();
        self
    }

    /// Cuts the power of the capacity device, when nothing is in flight.
    pub(crate) fn cut_power_of_capacity(&mut self) {
        self.capacity.cut_power(&mut Rng::new(1));
    }

    /// Finishes the partly filled zones of the capacity device. Requires: nothing is in flight.
    pub(crate) fn finish_zones_of_capacity(&mut self) {
        let count = self.capacity.geometry().zone_count;
        let report = self.carry_out(Command::Report { first: ZoneId(0), count });
        let Ok(Answer::Report(zones)) = report else { panic!("{report:?}") };
        let active = (0..).map(ZoneId).zip(zones).filter(|(_, report)| report.state.is_active());
        for (zone, _) in active.collect::<Vec<_>>() {
            let finish = Command::Manage { zone, action: ZoneAction::Finish };
            self.carry_out(finish).expect("it is active");
        }
    }

    /// Carries out a command on the capacity device.
    fn carry_out(&mut self, command: Command) -> Completion {
        self.capacity.submit(self.now, Ticket(0), command).expect("the queue is empty");
        loop {
            self.now = self.capacity.next_event().expect("a command is in flight");
            if let Some((_, answer)) = self.capacity.poll(self.now) {
                return answer;
            }
        }
    }

    pub(crate) fn layout(&self) -> Layout {
        Layout::two_devices(*self.buffer.geometry(), *self.capacity.geometry())
    }
}

/// One export of this size.
pub(crate) fn export(blocks: Blocks) -> Export {
    Export { name: "disk".into(), tenant: "disk".into(), blocks, is_verified: true }
}

/// Blocks in ascending order from 0.
pub(crate) fn in_order() -> impl FnMut() -> u64 {
    let mut next = 0;
    move || {
        next += 1;
        next - 1
    }
}

impl Rig {
    pub(crate) fn open(drives: Drives, settings: Settings, export: Export) -> Self {
        let opened = Self::try_open(drives, settings, export);
        opened.unwrap_or_else(|(error, _)| panic!("it is not opened: {error}"))
    }

    /// Like `open`, but a refusal returns the drives for another attempt.
    pub(crate) fn try_open(
        drives: Drives,
        settings: Settings,
        export: Export,
    ) -> Result<Self, (OpenError, Box<Drives>)> {
        let executor = Executor::new(1024);
        executor.advance(drives.now);
        let classes = [
            PoolClass { blocks: Blocks(1), count: 256 },
            PoolClass { blocks: Settings::READ_BLOCKS, count: 32 },
        ];
        let ports = Ports {
            buffer: Port::new(),
            capacity: Port::new(),
            clock: executor.clock().clone(),
            spawner: executor.spawner().clone(),
            buffers: Buffers::holding(drives.contents, executor.spawner(), &classes),
            checksum: Checksum(crc32c::crc32c_append),
        };
        let opening = Opening {
            settings: Settings { contents: drives.contents, ..settings },
            exports: vec![export],
            identity: Identity(*b"sixteen bytes..."),
            mode: OpenMode::Recover,
        };
        let opened = Rc::new(RefCell::new(None));
        let (out, layout, inner) = (opened.clone(), drives.layout(), ports.clone());
        executor.spawner().spawn(async move {
            let result = Shaper::open(inner, layout, opening).await;
            *out.borrow_mut() = Some(result);
        });
        let mut drives = drives;
        run(&executor, (&ports, &mut drives), || opened.borrow().is_some());
        match opened.take().expect("it opens or fails") {
            Ok(shaper) => Ok(Self { executor, shaper, ports, drives }),
            Err(error) => Err((error, Box::new(drives.abandoned()))),
        }
    }

    /// Writes `count` blocks chosen by `draw`.
    pub(crate) fn write(&mut self, count: u64, draw: impl FnMut() -> u64 + 'static) {
        let (draw, left) = (Rc::new(RefCell::new(draw)), Rc::new(Cell::new(count)));
        let (running, contents) = (Rc::new(Cell::new(WRITERS)), self.drives.contents);
        for _ in 0..WRITERS {
            let (shaper, buffers) = (self.shaper.clone(), self.ports.buffers.clone());
            let (draw, left, running) = (draw.clone(), left.clone(), running.clone());
            self.executor.spawner().spawn(async move {
                while 0 < left.get() {
                    left.set(left.get() - 1);
                    let block = draw.borrow_mut()();
                    let mut buffer = buffers.take(Blocks(1)).await;
                    let tag = Tag { source: left.get(), block: Blocks(block) };
                    match contents {
                        Contents::Tags => buffer.set_tags(0..1, tag),
                        Contents::Bytes => buffer.bytes_mut()[..16].copy_from_slice(&tag.encode()),
                    }
                    let data = vec![buffer.freeze(zonal_base::BLOCK_BYTES)];
                    let written = shaper.write(ExportId(0), Lba(block), data, Durability::Answered);
                    written.await.expect("nothing is broken");
                }
                running.set(running.get() - 1);
            });
        }
        run(&self.executor, (&self.ports, &mut self.drives), || running.get() == 0);
        assert_eq!(running.get(), 0, "{:?} {:?}", self.shaper.waiting(), self.shaper.stats());
    }

    /// Reads `count` blocks chosen by `draw`, with one read in flight for each client.
    pub(crate) fn read(&mut self, count: u64, draw: impl FnMut() -> u64 + 'static) {
        let (draw, left) = (Rc::new(RefCell::new(draw)), Rc::new(Cell::new(count)));
        let running = Rc::new(Cell::new(WRITERS));
        for _ in 0..WRITERS {
            let (shaper, draw) = (self.shaper.clone(), draw.clone());
            let (left, running) = (left.clone(), running.clone());
            self.executor.spawner().spawn(async move {
                while 0 < left.get() {
                    left.set(left.get() - 1);
                    let first = Lba(draw.borrow_mut()());
                    let extent = Extent { export: ExportId(0), first, blocks: Blocks(1) };
                    let pieces = shaper.read(extent).await.expect("nothing is broken");
                    let [Piece::Data(data)] = &pieces[..] else { panic!("{first:?} is a hole") };
                    let is_it = |bytes: &[u8]| {
                        let tag = Tag::decode(*bytes.first_chunk().expect("a block"));
                        tag.block.0 == first.0
                    };
                    assert!(is_it(data.as_bytes()), "another block in place of {first:?}");
                }
                running.set(running.get() - 1);
            });
        }
        run(&self.executor, (&self.ports, &mut self.drives), || running.get() == 0);
        assert_eq!(running.get(), 0, "{:?} {:?}", self.shaper.waiting(), self.shaper.stats());
    }

    /// Result of a write that is in flight when a flush of the buffer fails, and then fails itself.
    pub(crate) fn write_beside_failed_flush(&mut self) -> Option<Result<(), BlockError>> {
        let result = Rc::new(Cell::new(None));
        let (shaper, buffers, out) =
            (self.shaper.clone(), self.ports.buffers.clone(), result.clone());
        self.executor.spawner().spawn(async move {
            let data = vec![buffers.take(Blocks(1)).await.freeze(zonal_base::BLOCK_BYTES)];
            out.set(Some(shaper.write(ExportId(0), Lba(0), data, Durability::Answered).await));
        });
        self.executor.run(POLLS_MAX);
        let (write, _) = self.ports.buffer.take().expect("the segment of the write");
        let shaper = self.shaper.clone();
        self.executor.spawner().spawn(async move {
            let _ = shaper.flush().await;
        });
        self.executor.run(POLLS_MAX);
        let (flush, command) = self.ports.buffer.take().expect("the flush");
        assert!(matches!(command, Command::Flush), "{command:?}");
        self.ports.buffer.complete(flush, Err(DeviceError::Media));
        self.executor.run(POLLS_MAX);
        self.ports.buffer.complete(write, Err(DeviceError::Media));
        run(&self.executor, (&self.ports, &mut self.drives), || result.get().is_some());
        result.get()
    }

    pub(crate) fn stats(&self) -> (ShaperStats, TenantStats) {
        (self.shaper.stats(), self.shaper.tenant_stats()[0].1)
    }

    pub(crate) fn now(&self) -> Nanos {
        self.drives.now
    }

    /// The next write to every thirtieth zone of the capacity device fails.
    pub(crate) fn fail_some_writes_of_capacity(&mut self) {
        for zone in (0..self.drives.capacity.geometry().zone_count).step_by(30) {
            self.drives.capacity.fail_next_write(ZoneId(zone));
        }
    }

    /// The device takes no writes from now on, or takes them again.
    pub(crate) fn take_no_writes(&mut self, tier: Tier, is_on: bool) {
        match tier {
            Tier::Buffer => self.drives.buffer.take_no_writes(is_on),
            Tier::Capacity => self.drives.capacity.take_no_writes(is_on),
        }
    }

    /// Lets virtual time pass.
    pub(crate) fn wait(&mut self, time: Nanos) {
        let (clock, is_over) = (self.ports.clock.clone(), Rc::new(Cell::new(false)));
        let (until, over) = (self.drives.now + time, is_over.clone());
        self.executor.spawner().spawn(async move {
            clock.sleep_until(until).await;
            over.set(true);
        });
        run(&self.executor, (&self.ports, &mut self.drives), || is_over.get());
    }

    /// Result of a write of one block.
    pub(crate) fn write_one(&mut self, block: u64) -> Result<(), BlockError> {
        let result = Rc::new(Cell::new(None));
        let (shaper, buffers, out) =
            (self.shaper.clone(), self.ports.buffers.clone(), result.clone());
        self.executor.spawner().spawn(async move {
            let mut buffer = buffers.take(Blocks(1)).await;
            let tag = Tag { source: block, block: Blocks(block) };
            buffer.bytes_mut()[..16].copy_from_slice(&tag.encode());
            let data = vec![buffer.freeze(zonal_base::BLOCK_BYTES)];
            out.set(Some(shaper.write(ExportId(0), Lba(block), data, Durability::Durable).await));
        });
        run(&self.executor, (&self.ports, &mut self.drives), || result.get().is_some());
        result.get().expect("every write is answered")
    }

    /// Reads of some blocks in the middle of these zones of the capacity device fail until its power
    /// is cut.
    pub(crate) fn make_unreadable(&mut self, zones: core::ops::Range<u32>) {
        let geometry = *self.drives.capacity.geometry();
        for zone in zones.map(ZoneId) {
            let middle = geometry.zone_start(zone).0 + geometry.zone_capacity.0 / 2;
            for at in 0..10 {
                self.drives.capacity.make_unreadable_while_on(Lba(middle + at));
            }
        }
    }

    /// Flips a bit of the capacity device, in this block of a zone.
    pub(crate) fn flip_bit(&mut self, zone: ZoneId, block: u64) {
        let lba = self.drives.capacity.geometry().zone_start(zone).0 + block;
        self.drives.capacity.flip_bit(Lba(lba), 77);
    }

    pub(crate) fn scrub(&mut self, rate: Bytes) -> Result<Scrub, BlockError> {
        let result = Rc::new(Cell::new(None));
        let (shaper, out) = (self.shaper.clone(), result.clone());
        self.executor.spawner().spawn(async move { out.set(Some(shaper.scrub(rate).await)) });
        run(&self.executor, (&self.ports, &mut self.drives), || result.get().is_some());
        result.get().expect("it ends")
    }

    /// Ends the process.
    pub(crate) fn kill(self) -> Drives {
        self.drives.abandoned()
    }
}

/// Event loop: runs until `done`, or until no event is pending.
fn run(executor: &Executor, (ports, drives): (&Ports, &mut Drives), done: impl Fn() -> bool) {
    loop {
        let mut moved = 0 < executor.run(POLLS_MAX);
        moved |= carry(&ports.buffer, &mut drives.buffer, drives.now);
        moved |= carry(&ports.capacity, &mut drives.capacity, drives.now);
        if done() {
            return;
        }
        if moved {
            continue;
        }
        let events =
            [drives.buffer.next_event(), drives.capacity.next_event(), executor.next_deadline()];
        let Some(next) = events.into_iter().flatten().min() else { return };
        drives.now = drives.now.max(next);
        executor.advance(drives.now);
    }
}

pub(crate) fn carry(
    port: &Port<Command, Completion>,
    drive: &mut dyn ZonedDevice,
    now: Nanos,
) -> bool {
    let mut moved = false;
    while let Some((ticket, command)) = port.take() {
        moved = true;
        if let Err(command) = drive.submit(now, ticket, command) {
            port.put_back(ticket, command);
            break;
        }
    }
    while let Some((ticket, completion)) = drive.poll(now) {
        moved = true;
        port.complete(ticket, completion);
    }
    moved
}

/// Whole mebibytes.
pub(crate) fn mib(bytes: u64) -> u64 {
    bytes / Bytes::mib(1).0
}

/// True with `SLOW_TESTS=1`: there is time for devices of real size.
pub(crate) fn is_slow() -> bool {
    std::env::var("SLOW_TESTS").is_ok_and(|slow| slow == "1")
}
