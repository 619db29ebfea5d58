//! RAM device: the contract, its faults, and the states after a process crash or a power cut.

use alloc::boxed::Box;
use alloc::vec::Vec;

use zonal_base::{BLOCK_BYTES, Pool, PoolClass, index};

use super::*;
use crate::{ZoneReport, conformance};

const ZONED: Geometry = Geometry {
    kind: DeviceKind::Zoned,
    zone_count: 6,
    zone_size: Blocks(16),
    zone_capacity: Blocks(12),
    max_open_zones: Some(2),
    max_active_zones: Some(3),
};

const CONVENTIONAL: Geometry = Geometry {
    kind: DeviceKind::Conventional,
    zone_capacity: Blocks(16),
    max_open_zones: None,
    max_active_zones: None,
    ..ZONED
};

const SLOW: RamOptions = RamOptions {
    seed: 7,
    queue_depth: 32,
    latency: Nanos::micros(10),
    latency_spread: Nanos::micros(90),
    slow_reads: Nanos::micros(900),
};

fn pool() -> Pool {
    Pool::new(&[PoolClass { blocks: Blocks(16), count: 64 }], Box::new(|| ()))
}

fn data(pool: &Pool, blocks: u64, byte: u8) -> Vec<Payload> {
    let mut buffer = pool.take(Blocks(16)).unwrap();
    buffer.bytes_mut().fill(byte);
    alloc::vec![buffer.freeze(index(Blocks(blocks).bytes().0))]
}

/// Advances time until every command is answered.
fn drain(device: &mut RamDevice) -> Vec<(Ticket, Completion)> {
    let mut answers = Vec::new();
    while let Some(due) = device.next_event() {
        answers.extend(core::iter::from_fn(|| device.poll(due)));
    }
    answers
}

fn call(device: &mut RamDevice, command: Command) -> Completion {
    let ticket = Ticket(u64::MAX);
    device.submit(Nanos(0), ticket, command).unwrap();
    let answers = drain(device);
    answers.into_iter().find(|(answered, _)| *answered == ticket).unwrap().1
}

fn write(device: &mut RamDevice, lba: Lba, blocks: u64, byte: u8) -> Result<(), DeviceError> {
    call(device, Command::Write { lba, data: data(&pool(), blocks, byte) }).map(drop)
}

/// Reads blocks and returns the first byte of each.
fn read(device: &mut RamDevice, lba: Lba, blocks: u64) -> Result<Vec<u8>, DeviceError> {
    let buffer = pool().take(Blocks(16)).unwrap();
    match call(device, Command::Read { lba, blocks: Blocks(blocks), buffer })? {
        Answer::Read(buffer) => {
            let blocks = buffer.bytes().chunks(BLOCK_BYTES).take(index(blocks));
            Ok(blocks.map(|block| block[0]).collect())
        }
        other => panic!("{other:?}"),
    }
}

fn report(device: &mut RamDevice, zone: u32) -> ZoneReport {
    match call(device, Command::Report { first: ZoneId(zone), count: 1 }) {
        Ok(Answer::Report(zones)) => zones[0],
        other => panic!("{other:?}"),
    }
}

#[test]
fn keeps_the_device_contract() {
    let limits = [(None, None), (Some(2), Some(3)), (Some(3), Some(3)), (Some(2), Some(2))];
    for kind in [DeviceKind::Zoned, DeviceKind::Conventional] {
        for (zone_size, zone_capacity) in [(16, 12), (16, 16), (200, 150), (8, 8)] {
            for (max_open_zones, max_active_zones) in limits {
                let geometry = Geometry {
                    kind,
                    zone_count: 5,
                    zone_size: Blocks(zone_size),
                    zone_capacity: Blocks(zone_capacity),
                    max_open_zones,
                    max_active_zones,
                };
                let none = |_: &mut RamDevice| panic!("it always knows when it will answer");
                conformance::run_all(|| RamDevice::new(geometry, RamOptions::default()), none);
                conformance::run_all(|| RamDevice::new(geometry, SLOW), none);
            }
        }
    }
}

#[test]
fn answers_overtake_each_other_and_depend_on_the_seed_alone() {
    let order = |seed| {
        let mut device = RamDevice::new(ZONED, RamOptions { seed, ..SLOW });
        for n in 0..20 {
            let report = Command::Report { first: ZoneId(0), count: 1 };
            device.submit(Nanos(0), Ticket(n), report).unwrap();
        }
        drain(&mut device).iter().map(|(ticket, _)| ticket.0).collect::<Vec<_>>()
    };
    assert_eq!(order(1), order(1));
    assert_ne!(order(1), order(2), "the seed must matter, or this test proves nothing");
    assert!(!order(1).is_sorted());
}

#[test]
fn a_write_in_flight_cannot_be_read_and_takes_time() {
    let mut device = RamDevice::new(ZONED, SLOW);
    let write = Command::Write { lba: Lba(0), data: data(&pool(), 2, 1) };
    device.submit(Nanos(0), Ticket(1), write).unwrap();
    let buffer = pool().take(Blocks(1)).unwrap();
    let read = Command::Read { lba: Lba(0), blocks: Blocks(1), buffer };
    device.submit(Nanos(0), Ticket(2), read).unwrap();
    assert!(device.poll(Nanos::micros(9)).is_none());
    let answers = drain(&mut device);
    let read = answers.iter().find(|(ticket, _)| *ticket == Ticket(2)).unwrap();
    assert_eq!(read.1.as_ref().err(), Some(&DeviceError::ReadPastWritePointer));
}

#[test]
fn bad_blocks_and_flipped_bits_stay_until_they_are_written_over() {
    let mut device = RamDevice::new(CONVENTIONAL, RamOptions::default());
    write(&mut device, Lba(0), 3, 0).unwrap();
    device.make_unreadable(Lba(1));
    device.flip_bit(Lba(2), 5);
    assert_eq!(read(&mut device, Lba(0), 3), Err(DeviceError::Media));
    assert_eq!(read(&mut device, Lba(0), 1), Ok(alloc::vec![0]));
    assert_eq!(read(&mut device, Lba(2), 1), Ok(alloc::vec![1 << 5]));
    call(&mut device, Command::Manage { zone: ZoneId(0), action: ZoneAction::Reset }).unwrap();
    write(&mut device, Lba(0), 3, 7).unwrap();
    assert_eq!(read(&mut device, Lba(0), 3), Ok(alloc::vec![7; 3]));
}

#[test]
fn a_write_that_fails_takes_those_behind_it_along_and_spares_those_before() {
    let mut device = RamDevice::new(ZONED, SLOW);
    write(&mut device, Lba(0), 1, 1).unwrap();
    device.fail_next_write(ZoneId(0));
    for at in [1, 2] {
        let write = Command::Write { lba: Lba(at), data: data(&pool(), 1, 2) };
        device.submit(Nanos(0), Ticket(at), write).unwrap();
    }
    let errors: Vec<_> = drain(&mut device).into_iter().map(|(_, answer)| answer.err()).collect();
    assert_eq!(errors, [Some(DeviceError::Media), Some(DeviceError::InvalidWrite)]);
    assert_eq!(write(&mut device, Lba(1), 1, 3), Err(DeviceError::InvalidWrite));
    assert_eq!(report(&mut device, 0).written, Blocks(1));
    assert_eq!(write(&mut device, Lba(1), 1, 3), Ok(()));
}

#[test]
fn lost_zones_and_lost_devices_say_so() {
    let mut device = RamDevice::new(ZONED, RamOptions::default());
    for zone in [0, 1] {
        write(&mut device, ZONED.zone_start(ZoneId(zone)), 2, 1).unwrap();
    }
    let late = Command::Write { lba: Lba(2), data: data(&pool(), 1, 1) };
    device.submit(Nanos(0), Ticket(1), late).unwrap();
    device.make_read_only(ZoneId(0));
    device.take_offline(ZoneId(1));
    let late = drain(&mut device).remove(0).1;
    assert_eq!(late.err(), Some(DeviceError::ZoneReadOnly));
    assert_eq!(read(&mut device, Lba(0), 2), Ok(alloc::vec![1; 2]));
    assert_eq!(write(&mut device, Lba(2), 1, 1), Err(DeviceError::ZoneReadOnly));
    assert_eq!(read(&mut device, Lba(16), 1), Err(DeviceError::ZoneOffline));
    device.kill();
    assert_eq!(read(&mut device, Lba(0), 1), Err(DeviceError::DeviceGone));
    assert_eq!(call(&mut device, Command::Flush).err(), Some(DeviceError::DeviceGone));
}

/// Writes 4 blocks of ones that are flushed, 4 of twos that are only answered, and 4 of threes that are in flight.
/// Then crashes the device and returns its report and its bytes.
fn crashed(geometry: Geometry, crash: Crash, seed: u64) -> (ZoneReport, Vec<u8>) {
    let mut device = RamDevice::new(geometry, RamOptions { seed, ..SLOW });
    write(&mut device, Lba(0), 4, 1).unwrap();
    call(&mut device, Command::Flush).unwrap();
    write(&mut device, Lba(4), 4, 2).unwrap();
    for at in [8, 10] {
        let write = Command::Write { lba: Lba(at), data: data(&pool(), 2, 3) };
        device.submit(Nanos(0), Ticket(at), write).unwrap();
    }
    device.crash(&mut Rng::new(seed), crash);
    assert!(device.next_event().is_none());
    let report = report(&mut device, 0);
    let readable =
        if geometry.kind == DeviceKind::Zoned { report.written } else { geometry.zone_capacity };
    let bytes = (0..readable.0).map(|at| read(&mut device, Lba(at), 1).unwrap()[0]).collect();
    (report, bytes)
}

#[test]
fn a_process_crash_keeps_what_was_answered_and_tears_what_was_not() {
    let mut lengths = BTreeSet::new();
    for seed in 0..200 {
        let (report, bytes) = crashed(ZONED, Crash::Process, seed);
        let landed = bytes.len();
        assert_eq!(bytes, [1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3][..landed]);
        let full = landed == 12;
        let state = if full { ZoneState::Full } else { ZoneState::ImplicitlyOpened };
        assert_eq!(report.state, state);
        lengths.insert(landed);
    }
    assert_eq!(lengths, (8..=12).collect(), "every prefix is seen, none shorter");
}

#[test]
fn a_power_cut_takes_back_a_suffix_of_what_was_not_flushed() {
    let mut lengths = BTreeSet::new();
    for seed in 0..500 {
        let (report, bytes) = crashed(ZONED, Crash::Power, seed);
        assert_eq!(bytes, [1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3][..bytes.len()]);
        assert!(matches!(report.state, ZoneState::Closed | ZoneState::Full), "nothing is open");
        lengths.insert(bytes.len());
    }
    assert_eq!(lengths, (4..=12).collect(), "what was flushed is always there");
}

#[test]
fn a_crash_of_a_conventional_device_leaves_any_subset_of_blocks() {
    let mut images = BTreeSet::new();
    for seed in 0..200 {
        let (report, bytes) = crashed(CONVENTIONAL, Crash::Process, seed);
        assert_eq!((report.state, report.written), (ZoneState::Empty, Blocks(0)));
        assert_eq!(bytes[..8], [1, 1, 1, 1, 2, 2, 2, 2]);
        assert!(bytes[8..12].iter().all(|byte| [0, 3].contains(byte)) && bytes[12..] == [0; 4]);
        images.insert(bytes);
    }
    assert_eq!(images.len(), 16, "every subset of four blocks");
    let mut images = BTreeSet::new();
    for seed in 0..500 {
        let (_, bytes) = crashed(CONVENTIONAL, Crash::Power, seed);
        assert_eq!(bytes[..4], [1; 4], "what was flushed is always there");
        assert!(bytes[4..8].iter().all(|byte| [0, 2].contains(byte)));
        images.insert(bytes[4..8].to_vec());
    }
    assert_eq!(images.len(), 16, "every subset of four blocks");
}

#[test]
fn a_block_written_twice_may_hold_any_of_its_versions() {
    let mut versions = BTreeSet::new();
    for seed in 0..100 {
        let mut device = RamDevice::new(CONVENTIONAL, RamOptions::default());
        for byte in 1..4 {
            write(&mut device, Lba(0), 1, byte).unwrap();
            call(&mut device, Command::Manage { zone: ZoneId(0), action: ZoneAction::Reset })
                .unwrap();
            if byte == 1 {
                call(&mut device, Command::Flush).unwrap();
            }
        }
        device.crash(&mut Rng::new(seed), Crash::Power);
        versions.insert(read(&mut device, Lba(0), 1).unwrap()[0]);
    }
    assert_eq!(versions, BTreeSet::from([1, 2, 3]));
}

#[test]
fn a_reset_is_durable_on_a_zoned_device_and_unknown_to_a_conventional_one() {
    for seed in 0..50 {
        let mut zoned = RamDevice::new(ZONED, RamOptions::default());
        let mut conventional = RamDevice::new(CONVENTIONAL, RamOptions::default());
        for device in [&mut zoned, &mut conventional] {
            write(device, Lba(0), 5, 9).unwrap();
            call(device, Command::Flush).unwrap();
            call(device, Command::Manage { zone: ZoneId(0), action: ZoneAction::Reset }).unwrap();
            device.crash(&mut Rng::new(seed), Crash::Power);
            assert_eq!(report(device, 0).state, ZoneState::Empty);
        }
        assert_eq!(read(&mut zoned, Lba(0), 1), Err(DeviceError::ReadPastWritePointer));
        assert_eq!(read(&mut conventional, Lba(0), 5), Ok(alloc::vec![9; 5]));
        call(&mut conventional, Command::Restore { zone: ZoneId(0), written: Blocks(5) }).unwrap();
        assert_eq!(report(&mut conventional, 0).state, ZoneState::Closed);
    }
}

#[test]
fn the_active_limit_holds_after_a_power_cut() {
    for seed in 0..200 {
        let mut device = RamDevice::new(ZONED, RamOptions::default());
        write(&mut device, Lba(0), 12, 1).unwrap();
        for zone in 1..4 {
            write(&mut device, ZONED.zone_start(ZoneId(zone)), 3, 1).unwrap();
        }
        call(&mut device, Command::Report { first: ZoneId(0), count: 6 }).unwrap();
        device.crash(&mut Rng::new(seed), Crash::Power);
        let reports: Vec<_> = (0..6).map(|zone| report(&mut device, zone)).collect();
        let active = reports.iter().filter(|report| report.state.is_active()).count();
        assert!(active <= 3, "{reports:?}");
        assert!(
            read(&mut device, Lba(0), reports[0].written.0).is_ok() || reports[0].written.0 == 0
        );
    }
}

#[test]
fn a_reset_in_flight_at_a_crash_has_happened_or_has_not() {
    let mut states = BTreeSet::new();
    for seed in 0..20 {
        let mut device = RamDevice::new(ZONED, SLOW);
        write(&mut device, Lba(0), 5, 1).unwrap();
        call(&mut device, Command::Flush).unwrap();
        let reset = Command::Manage { zone: ZoneId(0), action: ZoneAction::Reset };
        device.submit(Nanos(0), Ticket(0), reset).unwrap();
        device.crash(&mut Rng::new(seed), Crash::Power);
        states.insert(report(&mut device, 0).written);
    }
    assert_eq!(states, BTreeSet::from([Blocks(0), Blocks(5)]));
}
