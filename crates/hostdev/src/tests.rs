//! Device contract tests on files: both engines, with and without the page cache, and with failures
//! of an engine or a disk.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use rustix::event::{Timespec, epoll};
use tempfile::TempDir;
use zonal_base::{
    BLOCK_BYTES, Blocks, Lba, Nanos, Payload, Pool, PoolClass, Rng, Ticket, ZoneId, index,
};
use zonal_device::ram::{RamDevice, RamOptions};
use zonal_device::{
    Answer, Command, Completion, DeviceError, ZoneAction, ZoneState, ZonedDevice, conformance,
};

use crate::drive::Caching;
use crate::engine::Engine;
use crate::{DeviceSpec, Drive, EngineKind, HostDevice, OpenError, QUEUE_DEPTH, ShardOptions};

const ENGINES: [EngineKind; 2] = [EngineKind::Uring, EngineKind::Psync];
const CACHINGS: [Caching; 2] = [Caching::Direct, Caching::Buffered];

/// Timeout of a test: longer than a loaded disk takes for any command of the tests.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Bench {
    pub(crate) folder: TempDir,
    pub(crate) pool: Pool,
}

impl Bench {
    pub(crate) fn new() -> Self {
        // The build directory lies on a disk; a temporary directory often does not.
        let folder = TempDir::new_in(std::env::current_exe().unwrap().parent().unwrap()).unwrap();
        let classes = [
            PoolClass { blocks: Blocks(64), count: 64 },
            PoolClass { blocks: Blocks(256), count: 16 },
        ];
        Self { folder, pool: Pool::new(&classes, Box::new(|| ())) }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("device")
    }

    pub(crate) fn spec(&self, options: &str) -> DeviceSpec {
        format!("file:{}?{options}", self.path().display()).parse().unwrap()
    }

    pub(crate) fn drive(&self, options: &str) -> Drive {
        claimed(&self.spec(options))
    }

    pub(crate) fn options(&self) -> ShardOptions<'_> {
        ShardOptions { shard: 0, shard_count: 1, queue_depth: QUEUE_DEPTH, pool: &self.pool }
    }

    fn device(&self, engine: EngineKind) -> HostDevice {
        let drive = self.drive(&format!("size=8MiB&zone=2MiB&engine={engine}"));
        drive.shard(&self.options()).unwrap()
    }

    fn blocks(&self, count: u64, byte: u8) -> Payload {
        let mut buffer = self.pool.take(Blocks(count)).unwrap();
        buffer.bytes_mut().fill(byte);
        buffer.freeze(index(Blocks(count).bytes().0))
    }

    pub(crate) fn write(&self, lba: Lba, count: u64, byte: u8) -> Command {
        Command::Write { lba, data: vec![self.blocks(count, byte)] }
    }

    pub(crate) fn read(&self, lba: Lba, count: u64) -> Command {
        let buffer = self.pool.take(Blocks(count)).unwrap();
        Command::Read { lba, blocks: Blocks(count), buffer }
    }
}

/// Opens and claims a drive, and keeps its new file.
pub(crate) fn claimed(spec: &DeviceSpec) -> Drive {
    let drive = Drive::open(spec).and_then(Drive::claim).unwrap();
    drive.keep();
    drive
}

pub(crate) fn submit(device: &mut HostDevice, ticket: u64, command: Command) {
    device.submit(Nanos(0), Ticket(ticket), command).unwrap();
}

pub(crate) fn next(device: &mut HostDevice) -> (Ticket, Completion) {
    loop {
        if let Some(answer) = device.poll(Nanos(0)) {
            return answer;
        }
        device.wait(PATIENCE);
    }
}

pub(crate) fn call(device: &mut HostDevice, command: Command) -> Completion {
    submit(device, 0, command);
    next(device).1
}

/// The first byte of each block.
pub(crate) fn first_bytes(answer: Answer, count: usize) -> Vec<u8> {
    match answer {
        Answer::Read(buffer) => {
            buffer.bytes().chunks(BLOCK_BYTES).take(count).map(|block| block[0]).collect()
        }
        other => panic!("{other:?}"),
    }
}

fn read(bench: &Bench, device: &mut HostDevice, at: u64, count: u64) -> Vec<u8> {
    let answer = call(device, bench.read(Lba(at), count)).unwrap();
    first_bytes(answer, index(count))
}

#[test]
fn a_file_keeps_the_device_contract() {
    for caching in CACHINGS {
        for engine in ENGINES {
            let bench = Bench::new();
            let spec = bench.spec(&format!("size=8MiB&zone=1MiB&engine={engine}"));
            let make = || {
                let drive = Drive::open_cached(&spec, caching).and_then(Drive::claim).unwrap();
                drive.keep();
                let device = drive.shard(&bench.options()).unwrap();
                assert_eq!(
                    (drive.is_direct(), device.engine()),
                    (caching == Caching::Direct, engine)
                );
                device
            };
            conformance::run_all(make, |device| device.wait(PATIENCE));
        }
    }
}

#[test]
fn each_shard_keeps_the_contract_in_zones_of_its_own() {
    let bench = Bench::new();
    let drive = bench.drive("size=11MiB&zone=1MiB");
    let open = |shard| drive.shard(&ShardOptions { shard, shard_count: 2, ..bench.options() });
    conformance::run_all(|| open(1).unwrap(), |device| device.wait(PATIENCE));
    let mut shards = [0, 1].map(|shard| open(shard).unwrap());
    assert_eq!(shards.each_ref().map(|shard| shard.geometry().zone_count), [6, 5]);
    for (device, byte) in shards.iter_mut().zip([5, 6]) {
        for zone in device.geometry().zones() {
            let lba = device.geometry().zone_start(zone);
            call(device, bench.write(lba, 256, byte)).unwrap();
        }
    }
    let file = std::fs::read(bench.path()).unwrap();
    let (first, second) = file.split_at(6 << 20);
    assert!(first.iter().all(|byte| *byte == 5) && second.iter().all(|byte| *byte == 6));
    assert_eq!(second.len(), 5 << 20);
}

#[test]
fn a_small_queue_and_unregistered_memory_change_nothing() {
    let bench = Bench::new();
    // The buffer ids of this pool exceed the number of buffers that a ring can register.
    let classes = [
        PoolClass { blocks: Blocks(1), count: 1 << 15 },
        PoolClass { blocks: Blocks(64), count: 64 },
    ];
    let pool = Pool::new(&classes, Box::new(|| ()));
    for engine in ENGINES {
        let drive = bench.drive(&format!("size=8MiB&zone=1MiB&engine={engine}"));
        let options = ShardOptions { queue_depth: 2, pool: &pool, ..bench.options() };
        let make = || drive.shard(&options).unwrap();
        conformance::run_all(make, |device| device.wait(PATIENCE));
    }
}

#[test]
fn a_system_without_io_uring_gets_threads() {
    let bench = Bench::new();
    let drive = bench.drive("size=8MiB&zone=1MiB");
    assert_eq!(drive.shard(&bench.options()).unwrap().engine(), EngineKind::Uring);
    let file = File::options().read(true).write(true).open(bench.path()).unwrap();
    // More entries than any ring has: the kernel refuses them, as others refuse io_uring.
    let engine = Engine::open(None, file, 1 << 20, &bench.pool).unwrap();
    assert_eq!(engine.kind(), EngineKind::Psync);
}

#[test]
fn a_block_device_keeps_the_contract() {
    let Ok(path) = std::env::var("ZONAL_TEST_BLOCK_DEVICE") else {
        return println!("skipped: ZONAL_TEST_BLOCK_DEVICE names no device to overwrite");
    };
    let bench = Bench::new();
    for engine in ENGINES {
        let spec = format!("block:{path}?zone=1MiB&engine={engine}").parse().unwrap();
        let make = || claimed(&spec).shard(&bench.options()).unwrap();
        conformance::run_all(make, |device| device.wait(PATIENCE));
        let drive = claimed(&spec);
        assert!(matches!(Drive::open(&spec), Err(OpenError::InUse { .. })));
        drop(drive);
    }
}

/// With one command at a time, a file and a RAM device give the same answers.
#[test]
fn a_file_behaves_as_the_device_in_memory() {
    for (engine, seed) in ENGINES.into_iter().zip(1..) {
        let bench = Bench::new();
        let drive = bench.drive(&format!("size=8MiB&zone=1MiB&engine={engine}"));
        let mut device = drive.shard(&bench.options()).unwrap();
        let mut model = RamDevice::new(*device.geometry(), RamOptions::default());
        let (mut rng, mut pointers) = (Rng::new(seed), vec![Blocks(0); 8]);
        for step in 0..4000 {
            let command = random_command(&bench, &mut rng, &pointers);
            let name = format!("step {step} of seed {seed}: {command:?}");
            let blocks = match &command {
                Command::Read { blocks, .. } => *blocks,
                _ => Blocks(0),
            };
            let answer = call(&mut device, again(&bench, &command));
            let expected = call_model(&mut model, command);
            let summaries = [answer, expected].map(|answer| answer.map(|a| summary(a, blocks)));
            assert_eq!(summaries[0], summaries[1], "{name}");
            if rng.one_in(2) {
                let report = || Command::Report { first: ZoneId(0), count: 8 };
                let zones =
                    [call(&mut device, report()), call_model(&mut model, report())].map(zones);
                assert_eq!(zones[0], zones[1], "{name}");
                pointers = zones[0].clone();
            }
        }
    }
}

/// Mostly valid commands, some of them slightly out of bounds.
fn random_command(bench: &Bench, rng: &mut Rng, pointers: &[Blocks]) -> Command {
    let zone = rng.below(8);
    let (start, written) = (Lba(zone * 256), pointers[index(zone)].0);
    let zone = ZoneId(u32::try_from(zone).unwrap());
    let (count, byte) = (1 + rng.below(64), u8::try_from(rng.below(256)).unwrap());
    let beside = u64::from(rng.one_in(16));
    match rng.below(20) {
        0..9 => bench.write(start + Blocks(written + beside), count, byte),
        9 => Command::Append { zone, data: vec![bench.blocks(count, byte)] },
        10..17 => bench.read(start + Blocks(rng.below(written + 1)), count),
        17 => Command::Restore { zone, written: Blocks(count) },
        18 => Command::Manage { zone, action: ZoneAction::Finish },
        _ => Command::Manage { zone, action: ZoneAction::Reset },
    }
}

fn again(bench: &Bench, command: &Command) -> Command {
    match command {
        Command::Read { lba, blocks, .. } => bench.read(*lba, blocks.0),
        Command::Write { lba, data } => Command::Write { lba: *lba, data: data.clone() },
        Command::Append { zone, data } => Command::Append { zone: *zone, data: data.clone() },
        Command::Manage { zone, action } => Command::Manage { zone: *zone, action: *action },
        Command::Restore { zone, written } => Command::Restore { zone: *zone, written: *written },
        other => panic!("{other:?} is not among the random ones"),
    }
}

fn call_model(model: &mut RamDevice, command: Command) -> Completion {
    model.submit(Nanos(0), Ticket(0), command).unwrap();
    model.poll(Nanos(0)).unwrap().1
}

/// Fields of an answer for comparison, with the bytes of a read.
fn summary(answer: Answer, blocks: Blocks) -> (Option<Lba>, Vec<u8>) {
    match answer {
        Answer::Read(buffer) => (None, buffer.bytes()[..index(blocks.bytes().0)].to_vec()),
        Answer::Written(lba) => (Some(lba), Vec::new()),
        Answer::Report(_) | Answer::Done => (None, Vec::new()),
    }
}

/// The write pointers in a report.
fn zones(completion: Completion) -> Vec<Blocks> {
    match completion {
        Ok(Answer::Report(zones)) => zones.iter().map(|zone| zone.written).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_was_written_is_there_after_a_restart_and_so_is_nothing_else() {
    for engine in ENGINES {
        let bench = Bench::new();
        let mut device = bench.device(engine);
        call(&mut device, bench.write(Lba(0), 3, 7)).unwrap();
        call(&mut device, Command::Flush).unwrap();
        drop(device);
        let mut device = bench.device(engine);
        let report = call(&mut device, Command::Report { first: ZoneId(0), count: 1 }).unwrap();
        let Answer::Report(zones) = report else { panic!("{report:?}") };
        assert_eq!(zones[0].state, ZoneState::Empty, "the owner has to say");
        assert_eq!(read(&bench, &mut device, 0, 4), [7, 7, 7, 0]);
        call(&mut device, Command::Restore { zone: ZoneId(0), written: Blocks(3) }).unwrap();
        call(&mut device, bench.write(Lba(3), 1, 8)).unwrap();
        assert_eq!(read(&bench, &mut device, 0, 4), [7, 7, 7, 8]);
    }
}

#[test]
fn a_write_of_more_pieces_than_a_system_call_takes_is_written_whole() {
    for engine in ENGINES {
        let bench = Bench::new();
        let drive = bench.drive(&format!("size=32MiB&zone=16MiB&engine={engine}"));
        let mut device = drive.shard(&bench.options()).unwrap();
        let blocks: Vec<_> = (0..10).map(|byte| bench.blocks(1, byte)).collect();
        let data: Vec<_> = blocks.iter().cycle().take(2500).cloned().collect();
        call(&mut device, Command::Write { lba: Lba(0), data }).unwrap();
        for at in [0, 1020, 2047, 2490] {
            let expected: Vec<_> = (at..at + 10).map(|at| (at % 10) as u8).collect();
            assert_eq!(read(&bench, &mut device, at, 10), expected);
        }
        drop(blocks);
        assert_eq!(bench.pool.in_use(), 0, "every buffer came back");
    }
}

#[test]
fn a_file_that_shrank_gives_errors_and_no_zeros() {
    for engine in ENGINES {
        let bench = Bench::new();
        let mut device = bench.device(engine);
        call(&mut device, bench.write(Lba(0), 8, 7)).unwrap();
        let file = File::options().write(true).open(bench.path()).unwrap();
        file.set_len(Blocks(4).bytes().0).unwrap();
        // The kernel returns the first half, then end of file.
        let torn = call(&mut device, bench.read(Lba(0), 8)).err();
        assert_eq!(torn, Some(DeviceError::Media));
        assert_eq!(read(&bench, &mut device, 0, 4), [7; 4]);
    }
}

#[test]
fn a_device_that_only_fails_is_gone() {
    for engine in ENGINES {
        let bench = Bench::new();
        let mut device = bench.device(engine);
        call(&mut device, bench.write(Lba(0), 8, 7)).unwrap();
        File::options().write(true).open(bench.path()).unwrap().set_len(0).unwrap();
        let mut media_errors = 0;
        loop {
            match call(&mut device, bench.read(Lba(0), 1)).err() {
                Some(DeviceError::Media) => media_errors += 1,
                other => break assert_eq!(other, Some(DeviceError::DeviceGone)),
            }
            assert!(media_errors < 100, "it never gives up");
        }
        let report = Command::Report { first: ZoneId(0), count: 1 };
        for command in [report, Command::Flush, bench.write(Lba(8), 1, 1)] {
            assert_eq!(call(&mut device, command).err(), Some(DeviceError::DeviceGone));
        }
    }
}

#[test]
fn flushes_that_come_together_are_all_answered() {
    for engine in ENGINES {
        let bench = Bench::new();
        let mut device = bench.device(engine);
        submit(&mut device, 1, bench.write(Lba(0), 2, 1));
        (2..9).for_each(|ticket| submit(&mut device, ticket, Command::Flush));
        let mut answered: Vec<_> = (1..9).map(|_| next(&mut device)).collect();
        assert!(answered.iter().all(|(_, completion)| completion.is_ok()));
        answered.sort_by_key(|(ticket, _)| *ticket);
        assert_eq!(answered.len(), 8);
        assert!(device.poll(Nanos(0)).is_none());
    }
}

#[test]
fn a_host_that_sleeps_on_edges_is_woken_and_not_without_reason() {
    for engine in ENGINES {
        let bench = Bench::new();
        let mut device = bench.device(engine);
        let sleeper = Sleeper::new(&device);
        for round in 0..50 {
            let at = round * 4;
            submit(&mut device, 0, bench.write(Lba(at), 4, 3));
            let mut answers = sleeper.answers(&mut device, 1);
            (0..4).for_each(|n| submit(&mut device, n, bench.read(Lba(at + n), 1)));
            // The second flush waits for the first and is submitted when that completes.
            (4..6).for_each(|n| submit(&mut device, n, Command::Flush));
            answers.extend(sleeper.answers(&mut device, 6));
            assert!(answers.iter().all(|(_, completion)| completion.is_ok()), "{answers:?}");
        }
        // One wakeup may be left from completions that were already polled.
        sleeper.sleep(Duration::from_millis(10));
        assert!(!sleeper.sleep(Duration::from_millis(50)), "{engine}: nothing is in flight");
    }
}

/// Sleeps as an edge-triggered event loop does, without ever reading the descriptor.
struct Sleeper(OwnedFd);

impl Sleeper {
    fn new(device: &HostDevice) -> Self {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        let edges = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&epoll, device, epoll::EventData::new_u64(0), edges).unwrap();
        Self(epoll)
    }

    /// True when woken before the timeout: by the descriptor, or by a signal as in any event loop.
    fn sleep(&self, timeout: Duration) -> bool {
        let timeout = Timespec::try_from(timeout).unwrap();
        let mut events = [epoll::Event {
            flags: epoll::EventFlags::empty(),
            data: epoll::EventData::new_u64(0),
        }];
        epoll::wait(&self.0, &mut events[..], Some(&timeout)) != Ok(0)
    }

    fn answers(&self, device: &mut HostDevice, count: usize) -> Vec<(Ticket, Completion)> {
        let mut answers = Vec::new();
        device.flush_submissions();
        loop {
            answers.extend(std::iter::from_fn(|| device.poll(Nanos(0))));
            if answers.len() == count {
                return answers;
            }
            assert_eq!(device.next_event(), None, "real devices wake their host");
            assert!(self.sleep(PATIENCE), "{} of {count} were answered", answers.len());
        }
    }
}

#[test]
fn an_answer_that_needs_no_disk_does_not_wait_for_it() {
    let bench = Bench::new();
    let mut device = bench.device(EngineKind::Uring);
    submit(&mut device, 1, Command::Manage { zone: ZoneId(0), action: ZoneAction::Finish });
    assert_eq!(device.next_event(), Some(Nanos(0)));
    assert!(matches!(device.poll(Nanos(0)), Some((Ticket(1), Ok(Answer::Done)))));
}

#[test]
fn a_drive_whose_zones_are_ignored_takes_writes_anywhere_on_it() {
    for engine in ENGINES {
        let bench = Bench::new();
        let mut device = bench.device(engine);
        assert_eq!(
            call(&mut device, bench.write(Lba(5), 1, 1)).err(),
            Some(DeviceError::InvalidWrite)
        );
        device.ignore_zones();
        // One write across the end of a zone of 512 blocks, and one over blocks that are already
        // written.
        for (lba, count, byte) in [(510, 4, 1), (511, 2, 2)] {
            let answer = call(&mut device, bench.write(Lba(lba), count, byte));
            assert!(matches!(answer, Ok(Answer::Written(at)) if at == Lba(lba)), "{answer:?}");
        }
        assert_eq!(read(&bench, &mut device, 509, 6), [0, 1, 2, 2, 1, 0]);
        for lba in [2047, u64::MAX] {
            let answer = call(&mut device, bench.write(Lba(lba), 2, 3));
            assert_eq!(answer.err(), Some(DeviceError::InvalidField), "8 MiB are 2048 blocks");
            let answer = call(&mut device, bench.read(Lba(lba), 2));
            assert_eq!(answer.err(), Some(DeviceError::InvalidField));
        }
    }
}

#[test]
fn a_device_dropped_with_commands_in_flight_gives_all_memory_back() {
    for engine in ENGINES {
        let bench = Bench::new();
        let mut device = bench.device(engine);
        call(&mut device, bench.write(Lba(0), 64, 3)).unwrap();
        for ticket in 0..20 {
            submit(&mut device, ticket, bench.read(Lba(ticket), 1));
            if ticket == 10 {
                device.flush_submissions();
            }
        }
        submit(&mut device, 20, bench.write(Lba(64), 1, 3));
        drop(device);
        assert_eq!(bench.pool.in_use(), 0);
    }
}

#[test]
fn a_device_can_be_opened_here_and_driven_there() {
    let bench = Bench::new();
    let mut device = bench.device(EngineKind::Uring);
    let bench = &bench;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            call(&mut device, bench.write(Lba(0), 1, 9)).unwrap();
            assert_eq!(read(bench, &mut device, 0, 1), [9]);
        });
    });
}
