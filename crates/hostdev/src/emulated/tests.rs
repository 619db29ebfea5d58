//! Modelled drive tests: device contract, timing, and state after a reopen.

use std::fs;
use std::time::Instant;

use zonal_base::{Blocks, Nanos, Ticket};
use zonal_device::{Answer, Command, DeviceError, ZoneAction, ZoneReport, ZoneState, ZonedDevice};
use zonal_device::{DeviceKind, conformance};
use zonal_emulator::Profile;

use super::*;
use crate::tests::{Bench, PATIENCE, call, first_bytes, next, submit};
use crate::{DeviceSpec, Drive, EngineKind, HostDevice, ShardOptions};

/// A ZN540 with small zones that fill up quickly.
fn small() -> Model {
    let geometry = Geometry {
        kind: DeviceKind::Zoned,
        zone_count: 10,
        zone_size: Blocks(512),
        zone_capacity: Blocks(300),
        max_open_zones: Some(3),
        max_active_zones: Some(4),
    };
    Model::Zoned(Box::new(Profile { geometry, ..Profile::zn540() }))
}

fn in_memory(model: Model) -> Drive {
    let spec = "emulator:zn540?zones=4".parse::<DeviceSpec>().unwrap();
    let (emulated, file) = Emulated::in_memory(model, spec.place.path()).unwrap();
    Drive::of_model(&spec, file, emulated)
}

impl Bench {
    fn model(&self, name: &str) -> DeviceSpec {
        let join = if name.contains('?') { '&' } else { '?' };
        format!("emulator:{name}{join}backing={}", self.path().display()).parse().unwrap()
    }

    /// A ZN540 of ten zones in a backing file.
    fn small(&self) -> Drive {
        let spec = self.model("zn540?zones=10");
        let path = self.path();
        let file = File::options().read(true).write(true).create(true).truncate(false).open(&path);
        let file = file.unwrap();
        let size = Bytes(file.metadata().unwrap().len());
        let emulated = Emulated::in_file(small(), (&file, size), &path).unwrap();
        Drive::of_model(&spec, file, emulated).claim().unwrap()
    }
}

fn claimed(spec: &DeviceSpec) -> Drive {
    crate::tests::claimed(spec)
}

fn report(device: &mut HostDevice, zone: u32) -> ZoneReport {
    match call(device, Command::Report { first: ZoneId(zone), count: 1 }).unwrap() {
        Answer::Report(reports) => reports[0],
        other => panic!("{other:?}"),
    }
}

fn manage(device: &mut HostDevice, zone: u32, action: ZoneAction) {
    call(device, Command::Manage { zone: ZoneId(zone), action }).unwrap();
}

#[test]
fn a_zoned_model_keeps_the_device_contract_in_memory_and_in_a_file() {
    let bench = Bench::new();
    let open = |drive: &Drive| {
        let device = drive.shard(&bench.options()).unwrap();
        assert_eq!(device.engine(), EngineKind::Model);
        device
    };
    conformance::run_all(|| open(&in_memory(small())), |device| device.wait(PATIENCE));
    let make = || {
        let _ = fs::remove_file(bench.path());
        open(&bench.small())
    };
    conformance::run_all(make, |device| device.wait(PATIENCE));
}

#[test]
fn a_share_of_a_model_without_zones_keeps_the_device_contract() {
    let bench = Bench::new();
    let spec = bench.model("sn540?size=256MiB&zone=1MiB");
    let drive = claimed(&spec);
    let options = ShardOptions { shard: 1, shard_count: 24, ..bench.options() };
    let fresh = || {
        let drive = in_memory(spec.model().unwrap());
        drive.shard(&options).unwrap()
    };
    conformance::run_all(fresh, |device| device.wait(PATIENCE));
    // All shards share one drive, and each finds its own data in its own zones.
    let open = |shard| drive.shard(&ShardOptions { shard, shard_count: 3, ..bench.options() });
    let mut shards = [0, 1, 2].map(|shard| open(shard).unwrap());
    for (device, byte) in shards.iter_mut().zip(5..) {
        let lba = device.geometry().zone_start(ZoneId(2));
        let written = call(device, bench.write(lba, 4, byte)).unwrap();
        assert!(matches!(written, Answer::Written(at) if at == lba));
        assert_eq!(report(device, 2).zone, ZoneId(2));
    }
    for (device, byte) in shards.iter_mut().zip(5..) {
        let lba = device.geometry().zone_start(ZoneId(2));
        let read = call(device, bench.read(lba, 4)).unwrap();
        assert_eq!(first_bytes(read, 4), [byte; 4]);
        let beyond = device.geometry().zone_start(ZoneId(device.geometry().zone_count));
        assert_eq!(call(device, bench.read(beyond, 1)).err(), Some(DeviceError::InvalidField));
        let none = Command::Report { first: ZoneId(device.geometry().zone_count), count: 1 };
        assert_eq!(call(device, none).err(), Some(DeviceError::InvalidField));
    }
}

#[test]
fn a_drive_that_was_off_has_its_zones_and_bytes_and_nothing_open() {
    let bench = Bench::new();
    {
        let drive = bench.small();
        let mut device = drive.shard(&bench.options()).unwrap();
        for (zone, blocks, byte) in [(0, 64, 1), (1, 8, 2), (2, 8, 3), (3, 5, 4)] {
            let lba = device.geometry().zone_start(ZoneId(zone));
            call(&mut device, bench.write(lba, blocks, byte)).unwrap();
            if zone == 1 {
                manage(&mut device, zone, ZoneAction::Finish);
            }
            if zone == 2 {
                manage(&mut device, zone, ZoneAction::Reset);
            }
        }
        manage(&mut device, 4, ZoneAction::Open);
        manage(&mut device, 5, ZoneAction::Finish);
        call(&mut device, Command::Flush).unwrap();
    }
    let drive = bench.small();
    let mut device = drive.shard(&bench.options()).unwrap();
    let states: Vec<_> = (0..6).map(|zone| report(&mut device, zone)).collect();
    let states: Vec<_> = states.iter().map(|report| (report.state, report.written.0)).collect();
    let expected = [
        (ZoneState::Closed, 64),
        (ZoneState::Full, 300),
        (ZoneState::Empty, 0),
        (ZoneState::Closed, 5),
        (ZoneState::Empty, 0),
        (ZoneState::Full, 300),
    ];
    assert_eq!(states, expected);
    let lba = device.geometry().zone_start(ZoneId(1));
    let read = call(&mut device, bench.read(lba, 16)).unwrap();
    let padded = [[2; 8], [0; 8]].concat();
    assert_eq!(first_bytes(read, 16), padded, "what a finish padded is zeros");
    // Writes continue at the write pointer, also in a zone whose old bytes are still in the file.
    let lba = device.geometry().zone_start(ZoneId(2));
    call(&mut device, bench.write(lba, 2, 9)).unwrap();
    manage(&mut device, 2, ZoneAction::Finish);
    let read = call(&mut device, bench.read(lba, 8)).unwrap();
    assert_eq!(first_bytes(read, 8), [9, 9, 0, 0, 0, 0, 0, 0]);
    let lba = device.geometry().zone_start(ZoneId(3)) + Blocks(5);
    assert!(matches!(call(&mut device, bench.write(lba, 1, 4)), Ok(Answer::Written(_))));
}

#[test]
fn a_read_takes_at_least_as_long_as_on_the_drive() {
    let bench = Bench::new();
    let drive = in_memory(small());
    let mut device = drive.shard(&bench.options()).unwrap();
    call(&mut device, bench.write(Lba(0), 64, 1)).unwrap();
    let begun = Instant::now();
    for at in 0..20 {
        call(&mut device, bench.read(Lba(at), 1)).unwrap();
    }
    // A ZN540 takes more than 50 us for its fastest page.
    assert!(1000 <= begun.elapsed().as_micros(), "{:?}", begun.elapsed());
}

#[test]
fn a_full_queue_gives_the_command_back() {
    let bench = Bench::new();
    let drive = in_memory(small());
    let mut device = drive.shard(&ShardOptions { queue_depth: 2, ..bench.options() }).unwrap();
    for ticket in 0..2 {
        submit(&mut device, ticket, Command::Flush);
    }
    assert!(device.submit(Nanos(0), Ticket(2), Command::Flush).is_err());
    let mut answered = [next(&mut device), next(&mut device)].map(|(ticket, _)| ticket.0);
    answered.sort_unstable();
    assert_eq!(answered, [0, 1]);
}

#[test]
fn a_file_is_of_one_drive_and_for_one_process() {
    let bench = Bench::new();
    let spec = bench.model("sn540?size=256MiB");
    {
        Drive::open(&spec).and_then(Drive::claim).unwrap();
        assert!(!bench.path().exists(), "a start that failed leaves nothing behind");
    }
    let drive = claimed(&spec);
    let size = fs::metadata(bench.path()).unwrap().len();
    assert_eq!(size, 257 << 20);
    assert!(matches!(Drive::open(&spec), Err(OpenError::InUse { .. })));
    assert_eq!(Drive::open_read_only(&spec).unwrap().geometry().zone_count, 4);
    drop(drive);
    let other = Drive::open(&bench.model("sn540?size=512MiB"));
    assert!(matches!(other, Err(OpenError::NotThisDrive { .. })));
    let other = Drive::open_read_only(&bench.model("zn540?zones=4"));
    assert!(matches!(other, Err(OpenError::NotThisDrive { .. })));
    Drive::open(&spec).unwrap();
    fs::write(bench.path(), "somebody else's").unwrap();
    assert!(matches!(Drive::open(&spec), Err(OpenError::NotThisDrive { .. })));
    assert!(matches!(Drive::open_read_only(&spec), Err(OpenError::NotThisDrive { .. })));
    assert_eq!(fs::read(bench.path()).unwrap(), b"somebody else's");
}

#[test]
fn a_drive_whose_file_takes_no_writes_can_be_read() {
    let bench = Bench::new();
    let drive = bench.small();
    let mut device = drive.shard(&bench.options()).unwrap();
    call(&mut device, bench.write(Lba(0), 4, 1)).unwrap();
    drop((device, drive));
    // A read-only file stands in for a failing disk.
    let file = File::open(bench.path()).unwrap();
    let emulated = Emulated::in_file(small(), (&file, Bytes(1)), &bench.path()).unwrap();
    let drive = Drive::of_model(&bench.model("zn540?zones=10"), file, emulated);
    let mut device = drive.shard(&bench.options()).unwrap();
    let mut errors = Vec::new();
    for _ in 0..32 {
        let failed = call(&mut device, bench.write(Lba(4), 1, 1)).unwrap_err();
        let _ = call(&mut device, Command::Report { first: ZoneId(0), count: 1 });
        errors.push(failed);
    }
    assert_eq!(errors[0], DeviceError::Media);
    assert_eq!(errors[31], DeviceError::DeviceReadOnly, "{errors:?}");
    call(&mut device, Command::Flush).unwrap();
    call(&mut device, bench.read(Lba(0), 4)).unwrap();
}

#[test]
fn a_drive_that_memory_cannot_hold_is_refused() {
    let path = Path::new("zn540");
    assert!(memory::check(Bytes(1 << 20), path).is_ok());
    // More memory than any test machine has.
    let refused = memory::check(Bytes(1 << 50), path).unwrap_err().to_string();
    assert!(refused.contains("or name a file with backing=PATH"), "{refused}");
}
