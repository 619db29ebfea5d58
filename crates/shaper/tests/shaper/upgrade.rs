//! A volume of version 1 is upgraded to version 2 when it is opened, also if the power is cut
//! meanwhile.

use std::cell::{Cell, RefCell};
use std::io::Read;
use std::rc::Rc;

use zonal_base::{BLOCK_BYTES, Blocks, Checksum, Contents, Lba, Nanos, PoolClass, Rng, ZoneId};
use zonal_device::ram::{Crash, RamDevice, RamOptions};
use zonal_device::{Command, Completion, DeviceKind, Geometry, ZonedDevice};
use zonal_runtime::{Buffers, Executor, Port};
use zonal_shaper::{
    Export, Extent, Identity, Layout, OpenError, OpenMode, Opening, Piece, Ports, Settings, Shaper,
};

use crate::rig::carry;

/// Devices of five and of eighteen zones of 1 MiB, as the last program of version 1 left them when
/// it was killed after 8,600 single-block writes and two trims. Made by `zonal block` of commit
/// 9f30677.
const BUFFER: &[u8] = include_bytes!("version-1/buffer.gz");
const CAPACITY: &[u8] = include_bytes!("version-1/capacity.gz");

/// For the export `disk`: each mapped block, and the number of the write that it holds.
const EXPECTED: &str = include_str!("version-1/expected.txt");

const ZONE: Blocks = Blocks(256);

/// Blocks of the exports `disk` and `log`.
const DISK: Blocks = Blocks(1792);
const LOG: Blocks = Blocks(256);

struct Process {
    executor: Executor,
    ports: Ports,
}

impl Process {
    fn new() -> Self {
        let executor = Executor::new(1024);
        executor.advance(Nanos::secs(1));
        let classes = [
            PoolClass { blocks: Blocks(1), count: 64 },
            PoolClass { blocks: Settings::READ_BLOCKS, count: 16 },
        ];
        let ports = Ports {
            buffer: Port::new(),
            capacity: Port::new(),
            clock: executor.clock().clone(),
            spawner: executor.spawner().clone(),
            buffers: Buffers::holding(Contents::Bytes, executor.spawner(), &classes),
            checksum: Checksum(crc32c::crc32c_append),
        };
        Self { executor, ports }
    }

    /// Event loop: runs until `done`, or until the devices have got `commands_max` commands.
    /// Returns the number of commands.
    fn run(
        &self,
        devices: &mut [RamDevice; 2],
        commands_max: usize,
        done: impl Fn() -> bool,
    ) -> usize {
        let mut commands = 0;
        while !done() && commands < commands_max {
            let mut moved = 0 < self.executor.run(1000);
            for (port, device) in
                [&self.ports.buffer, &self.ports.capacity].into_iter().zip(&mut *devices)
            {
                moved |= one(port, device, &mut commands);
            }
            assert!(moved || done(), "it waits for nothing");
        }
        commands
    }

    fn open(&self, layout: Layout) -> Rc<RefCell<Option<Result<Shaper, OpenError>>>> {
        let export = |name: &str, tenant: &str, blocks| Export {
            name: name.into(),
            tenant: tenant.into(),
            blocks,
        };
        let opening = Opening {
            settings: Settings::default(),
            exports: vec![export("disk", "disk", DISK), export("log", "other", LOG)],
            identity: Identity([7; 16]),
            mode: OpenMode::Recover,
        };
        let opened = Rc::new(RefCell::new(None));
        let (out, ports) = (opened.clone(), self.ports.clone());
        self.executor.spawner().spawn(async move {
            let result = Shaper::open(ports, layout, opening).await;
            *out.borrow_mut() = Some(result);
        });
        opened
    }
}

/// Submits one command to a device, and returns its completions.
fn one(port: &Port<Command, Completion>, device: &mut RamDevice, commands: &mut usize) -> bool {
    let Some((ticket, command)) = port.take() else { return carry(port, device, Nanos::secs(1)) };
    *commands += 1;
    device.submit(Nanos::secs(1), ticket, command).expect("its queue is longer");
    while let Some((ticket, completion)) = device.poll(Nanos::secs(1)) {
        port.complete(ticket, completion);
    }
    true
}

fn volume() -> [RamDevice; 2] {
    [BUFFER, CAPACITY].map(|compressed| {
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(compressed).read_to_end(&mut bytes).expect("whole");
        let zones = bytes.chunks(usize::try_from(ZONE.bytes().0).expect("small"));
        let geometry = Geometry {
            kind: DeviceKind::Conventional,
            zone_count: u32::try_from(zones.len()).expect("few"),
            zone_size: ZONE,
            zone_capacity: ZONE,
            max_open_zones: None,
            max_active_zones: None,
        };
        let mut device = RamDevice::new(geometry, RamOptions::default());
        for (zone, bytes) in (0..).map(ZoneId).zip(zones) {
            device.replace_zone_bytes(zone, bytes.to_vec());
        }
        device
    })
}

fn layout(devices: &[RamDevice; 2]) -> Layout {
    Layout::two_devices(*devices[0].geometry(), *devices[1].geometry())
}

/// Opens the volume, and compares each block with the expected write. Returns the commands of the
/// start.
fn check(devices: &mut [RamDevice; 2]) -> usize {
    let process = Process::new();
    let opened = process.open(layout(devices));
    let commands = process.run(devices, usize::MAX, || opened.borrow().is_some());
    let shaper = opened.take().expect("it is open").expect("nothing is damaged");
    let (is_done, inner) = (Rc::new(Cell::new(false)), shaper.clone());
    let done = is_done.clone();
    process.executor.spawner().spawn(async move {
        let mut disk = vec![None; usize::try_from(DISK.0).expect("small")];
        for line in EXPECTED.lines() {
            let (block, write) = line.split_once(' ').expect("two numbers");
            let block: usize = block.parse().expect("a number");
            disk[block] = Some(write.parse().expect("a number"));
        }
        let log = (0..LOG.0).map(|n| (n % 2 == 0).then_some(1_000_000 + n));
        for (name, expected) in [("disk", disk), ("log", log.collect())] {
            let export = inner.export(name).expect("it was made");
            for (n, write) in (0..).zip(expected) {
                let extent = Extent { export, first: Lba(n), blocks: Blocks(1) };
                let pieces = inner.read(extent).await.expect("nothing is damaged");
                assert_eq!(text(&pieces), contents(n, write), "block {n} of {name}");
            }
        }
        done.set(true);
    });
    process.run(devices, usize::MAX, || is_done.get());
    commands
}

fn text(pieces: &[Piece]) -> Vec<u8> {
    match pieces {
        [Piece::Zeros(Blocks(1))] => vec![0; BLOCK_BYTES],
        [Piece::Data(data)] => data.as_bytes().to_vec(),
        other => panic!("one block, and not {other:?}"),
    }
}

/// Content of a block: its number and the number of the write.
fn contents(block: u64, write: Option<u64>) -> Vec<u8> {
    let Some(write) = write else { return vec![0; BLOCK_BYTES] };
    format!("{:.<64}", format!("{block:08} {write:08}\n")).into_bytes().repeat(64)
}

/// A program of version 1 checks the first block of each zone, and takes a later unknown header for
/// a torn one. So each zone with a header of version 2 must begin with one.
fn is_refused_by_version_1(devices: &[RamDevice; 2]) -> bool {
    let version = |block: &[u8]| block.starts_with(b"ZSHP").then_some(block[4]);
    let mut is_new = false;
    for device in devices {
        for zone in device.geometry().zones() {
            let bytes = device.zone_bytes(zone);
            let mut versions = bytes.chunks(BLOCK_BYTES).map(version);
            let first = versions.next().flatten();
            assert!(first == Some(2) || !versions.any(|version| version == Some(2)), "{zone:?}");
            is_new |= first == Some(2);
        }
    }
    is_new
}

#[test]
fn a_volume_of_version_1_is_upgraded_whenever_the_power_is_cut() {
    let commands = check(&mut volume());
    println!("a start gives {commands} commands");
    let (mut rng, mut upgraded) = (Rng::new(1), 0);
    // Cuts among the last commands matter most: before them a start only reads.
    for cut in (1..commands).filter(|cut| commands < cut + WRITING_MAX || cut % 20 == 0) {
        let mut devices = volume();
        let process = Process::new();
        let opened = process.open(layout(&devices));
        process.run(&mut devices, cut, || opened.borrow().is_some());
        drop(process);
        upgraded += u32::from(is_refused_by_version_1(&devices));
        for device in &mut devices {
            device.crash(&mut rng, Crash::Power);
        }
        check(&mut devices);
    }
    assert!(0 < upgraded, "some are cut after the first write");
}

/// Upper bound of the commands that a start submits from its first write on.
const WRITING_MAX: usize = 80;
