//! Zoned drive tests under a real kernel. `ZONAL_TEST_ZONED_DEVICE` names the drive to overwrite,
//! `ZONAL_TEST_ZONED_OPTIONS` the options of its spec. `make test-zoned` boots kernels with such
//! drives and runs these tests there.

mod appends;

use std::fs::{self, File};
use std::path::PathBuf;

use zonal_base::{Blocks, Lba, Nanos, Rng, Ticket, ZoneId, index};
use zonal_device::ram::{RamDevice, RamOptions};
use zonal_device::{
    Answer, Command, Completion, DeviceError, ZoneAction, ZoneState, ZonedDevice, conformance,
};

use super::ioctl;
use super::layout::ZoneLayout;
use crate::tests::{Bench, PATIENCE, call, claimed, first_bytes, next, submit};
use crate::{
    Content, DeviceLocation, DeviceSpec, Drive, HostDevice, OpenError, Queue, ShardOptions,
};

/// The drive under test, a bench, and direct access to the drive through the kernel.
struct Rig {
    bench: Bench,
    path: String,
    options: String,
    file: File,
    layout: ZoneLayout,
}

impl Rig {
    /// `None` when no drive is configured. All zones are empty.
    fn new() -> Option<Self> {
        let Ok(path) = std::env::var("ZONAL_TEST_ZONED_DEVICE") else {
            println!("skipped: ZONAL_TEST_ZONED_DEVICE names no drive to overwrite");
            return None;
        };
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let zones = ioctl::report(&file, 0, 1 << 20).unwrap();
        let layout = ZoneLayout::of(&zones, &Queue::of(&file)).unwrap();
        let options = std::env::var("ZONAL_TEST_ZONED_OPTIONS").unwrap_or_default();
        let rig = Self { bench: Bench::new(), path, options, file, layout };
        rig.empty();
        Some(rig)
    }

    fn spec(&self, engine: &str) -> DeviceSpec {
        format!("zns:{}?engine={engine}&{}", self.path, self.options).parse().unwrap()
    }

    /// True when appends are zone appends of the drive.
    fn has_appends(&self) -> bool {
        matches!(self.spec("uring").place, DeviceLocation::Zoned { appends: true, .. })
    }

    fn device(&self) -> HostDevice {
        claimed(&self.spec("uring")).shard(&self.bench.options()).unwrap()
    }

    /// Issues a zone command behind the device's back, as another program would.
    fn manage(&self, zone: u32, action: ZoneAction) -> Result<(), rustix::io::Errno> {
        let sector = self.layout.sector(ZoneId(zone));
        ioctl::manage(&self.file, sector, self.layout.sectors(), action)
    }

    fn empty(&self) {
        for zone in self.layout.geometry.zones() {
            self.manage(zone.0, ZoneAction::Reset).unwrap();
        }
    }

    fn lba(&self, zone: u32, at: u64) -> Lba {
        self.layout.geometry.zone_start(ZoneId(zone)) + Blocks(at)
    }

    fn write(&self, device: &mut HostDevice, zone: u32, at: u64) -> Result<(), DeviceError> {
        call(device, self.bench.write(self.lba(zone, at), 1, 7)).map(drop)
    }

    /// sysfs file that selects the scheduler of the drive, which may be below a mapped device.
    fn scheduler(&self) -> PathBuf {
        let queue = Queue::of(&self.file);
        PathBuf::from(format!("/sys/block/{}/queue/scheduler", queue.drives()[0].name))
    }
}

fn state(device: &mut HostDevice, zone: u32) -> (ZoneState, Blocks) {
    match call(device, Command::Report { first: ZoneId(zone), count: 1 }) {
        Ok(Answer::Report(zones)) => (zones[0].state, zones[0].written),
        other => panic!("{other:?}"),
    }
}

fn manage(device: &mut HostDevice, zone: u32, action: ZoneAction) -> Result<(), DeviceError> {
    call(device, Command::Manage { zone: ZoneId(zone), action }).map(drop)
}

#[test]
fn a_zoned_drive_keeps_the_contract_under_any_scheduler_that_is_not_refused() {
    let Some(rig) = Rig::new() else { return };
    let queue = Queue::of(&rig.file);
    for (scheduler, engine) in
        [("none", "uring"), ("mq-deadline", "uring"), ("mq-deadline", "psync")]
    {
        fs::write(rig.scheduler(), scheduler).unwrap();
        if rig.has_appends() && engine == "psync" {
            continue;
        }
        let spec = rig.spec(engine);
        if scheduler == "none" && !queue.has_write_plugging() && !rig.has_appends() {
            let refused = Drive::open(&spec).unwrap_err().to_string();
            assert!(refused.ends_with(&queue.drives()[0].ordering_command()), "{refused}");
            Drive::open_read_only(&spec).unwrap();
            continue;
        }
        let make = || {
            rig.empty();
            claimed(&spec).shard(&rig.bench.options()).unwrap()
        };
        conformance::run_all(make, |device| device.wait(PATIENCE));
    }
}

#[test]
fn so_does_each_of_its_shards() {
    let Some(rig) = Rig::new() else { return };
    let spec = rig.spec("uring");
    let make = || {
        rig.empty();
        let options = ShardOptions { shard: 1, shard_count: 2, ..rig.bench.options() };
        claimed(&spec).shard(&options).unwrap()
    };
    conformance::run_all(make, |device| device.wait(PATIENCE));
}

#[test]
fn what_was_written_is_there_after_a_restart_with_its_zones() {
    let Some(rig) = Rig::new() else { return };
    let mut device = rig.device();
    let capacity = rig.layout.geometry.zone_capacity;
    call(&mut device, rig.bench.write(rig.lba(1, 0), 3, 9)).unwrap();
    manage(&mut device, 2, ZoneAction::Finish).unwrap();
    call(&mut device, Command::Flush).unwrap();
    drop(device);
    let drive = claimed(&rig.spec("uring"));
    assert!(matches!(drive.content(), Ok(Content::Something(_))), "it is not blank");
    let mut device = drive.shard(&rig.bench.options()).unwrap();
    let (active, written) = state(&mut device, 1);
    assert!(active.is_active() && written == Blocks(3), "{active:?} {written:?}");
    assert_eq!(state(&mut device, 2), (ZoneState::Full, capacity));
    let read = call(&mut device, rig.bench.read(rig.lba(1, 0), 3)).unwrap();
    assert_eq!(first_bytes(read, 3), [9; 3]);
    let restore = Command::Restore { zone: ZoneId(0), written: Blocks(1) };
    assert_eq!(call(&mut device, restore).err(), Some(DeviceError::Unsupported));
    call(&mut device, rig.bench.write(rig.lba(1, 3), 1, 8)).unwrap();
}

/// A zone that was reset may still return old bytes: they are no content.
#[test]
fn a_drive_whose_zones_are_all_empty_is_blank() {
    let Some(rig) = Rig::new() else { return };
    rig.write(&mut rig.device(), 0, 0).unwrap();
    rig.empty();
    let drive = claimed(&rig.spec("uring"));
    assert_eq!(drive.content().unwrap(), Content::Blank);
    assert_eq!(drive.first_of_zones(|_, _| Some(())), None);
    let mut device = drive.shard(&rig.bench.options()).unwrap();
    let refused = call(&mut device, rig.bench.read(rig.lba(0, 0), 1)).err();
    assert_eq!(refused, Some(DeviceError::ReadPastWritePointer));
}

/// After a failed write Linux 6.10 and newer refuse all writes to the zone until it is reported.
#[test]
fn a_zone_that_somebody_else_reset_is_reported_and_can_be_written_again() {
    let Some(rig) = Rig::new() else { return };
    let mut device = rig.device();
    call(&mut device, rig.bench.write(rig.lba(0, 0), 3, 7)).unwrap();
    rig.manage(0, ZoneAction::Reset).unwrap();
    let tickets = [3, 4].map(|at| rig.bench.write(rig.lba(0, at), 1, 7));
    for (ticket, command) in (1..).zip(tickets) {
        submit(&mut device, ticket, command);
    }
    for _ in 0..2 {
        let (_, answer) = next(&mut device);
        assert_eq!(answer.err(), Some(DeviceError::InvalidWrite));
    }
    assert_eq!(rig.write(&mut device, 0, 0), Err(DeviceError::InvalidWrite), "not reported yet");
    assert_eq!(rig.write(&mut device, 1, 0), Ok(()), "other zones go on");
    assert_eq!(state(&mut device, 0), (ZoneState::Empty, Blocks(0)));
    for at in 0..3 {
        assert_eq!(rig.write(&mut device, 0, at), Ok(()));
    }
}

#[test]
fn a_zone_that_somebody_else_finished_is_full() {
    let Some(rig) = Rig::new() else { return };
    let mut device = rig.device();
    rig.write(&mut device, 0, 0).unwrap();
    rig.manage(0, ZoneAction::Finish).unwrap();
    assert_eq!(rig.write(&mut device, 0, 1), Err(DeviceError::ZoneFull));
    assert_eq!(state(&mut device, 0).0, ZoneState::Full);
    manage(&mut device, 0, ZoneAction::Reset).unwrap();
    assert_eq!(rig.write(&mut device, 0, 0), Ok(()));
}

#[test]
fn limits_that_somebody_else_has_used_up_are_told_and_pass() {
    let Some(rig) = Rig::new() else { return };
    let geometry = rig.layout.geometry;
    let limit = [geometry.max_open_zones, geometry.max_active_zones].into_iter().flatten().min();
    let Some(limit) = limit.filter(|limit| limit + 4 < geometry.zone_count) else { return };
    let mut device = rig.device();
    let others = geometry.zone_count - limit..geometry.zone_count;
    for zone in others.clone() {
        rig.manage(zone, ZoneAction::Open).unwrap();
    }
    assert_eq!(rig.write(&mut device, 0, 0), Err(DeviceError::TooManyZones));
    assert_eq!(manage(&mut device, 1, ZoneAction::Open), Err(DeviceError::TooManyZones));
    for zone in [0, 1] {
        assert_eq!(state(&mut device, zone), (ZoneState::Empty, Blocks(0)));
    }
    rig.manage(others.start, ZoneAction::Reset).unwrap();
    assert_eq!(rig.write(&mut device, 0, 0), Ok(()), "there is a place again");
}

#[test]
fn a_drive_that_is_used_or_of_another_kind_is_refused_with_a_reason() {
    let Some(rig) = Rig::new() else { return };
    let spec = rig.spec("uring");
    let drive = claimed(&spec);
    assert!(matches!(Drive::open(&spec), Err(OpenError::InUse { .. })));
    Drive::open_read_only(&spec).unwrap();
    crate::probe(&spec, 3).unwrap();
    drop(drive);
    drop(claimed(&spec));
    let block = format!("block:{}", rig.path).parse().unwrap();
    let refused = Drive::open(&block).unwrap_err().to_string();
    assert!(refused.ends_with("write zns:/dev/NAME"), "{refused}");
    if let Ok(plain) = std::env::var("ZONAL_TEST_PLAIN_DEVICE") {
        let refused = Drive::open(&format!("zns:{plain}").parse().unwrap()).unwrap_err();
        assert!(refused.to_string().ends_with("write block:/dev/NAME"), "{refused}");
    }
}

/// Number of random commands, one at a time.
const STEPS: u64 = 1500;

#[test]
fn a_zoned_drive_behaves_as_the_device_in_memory() {
    let Some(rig) = Rig::new() else { return };
    let mut device = rig.device();
    let mut model = RamDevice::new(*device.geometry(), RamOptions::default());
    let mut rng = Rng::new(1);
    for step in 0..STEPS {
        let zone = u32::try_from(rng.below(8)).unwrap();
        let (now, written) = state(&mut device, zone);
        // A finished zone may return any bytes after its last write.
        let shown = if now == ZoneState::Full { 0 } else { u64::MAX };
        let beside = u64::from(rng.one_in(16));
        let (count, byte) = (1 + rng.below(64), u8::try_from(rng.below(256)).unwrap());
        let at = rig.lba(zone, written.0 + beside);
        let command = || match step % 20 {
            0..10 => rig.bench.write(at, count, byte),
            10..17 => rig.bench.read(rig.lba(zone, written.0 / 2), count),
            17 => Command::Manage { zone: ZoneId(zone), action: ZoneAction::Finish },
            18 => Command::Manage { zone: ZoneId(zone), action: ZoneAction::Close },
            _ => Command::Manage { zone: ZoneId(zone), action: ZoneAction::Reset },
        };
        let outcomes = [call(&mut device, command()), call_model(&mut model, command())];
        let [drive, memory] =
            outcomes.map(|outcome| outcome.map(|answer| bytes(answer, count.min(shown))));
        assert_eq!(drive, memory, "step {step}: {:?}", command());
        let report = || Command::Report { first: ZoneId(0), count: 8 };
        let [drive, memory] =
            [call(&mut device, report()), call_model(&mut model, report())].map(pointers);
        assert_eq!(drive, memory, "step {step}: {:?}", command());
    }
}

fn call_model(model: &mut RamDevice, command: Command) -> Completion {
    model.submit(Nanos(0), Ticket(0), command).unwrap();
    model.poll(Nanos(0)).unwrap().1
}

/// Bytes of a read.
fn bytes(answer: Answer, count: u64) -> Vec<u8> {
    match answer {
        Answer::Read(buffer) => buffer.bytes()[..index(Blocks(count).bytes().0)].to_vec(),
        _ => Vec::new(),
    }
}

/// Written blocks of each zone, and whether it is full.
fn pointers(report: Completion) -> Vec<(Blocks, bool)> {
    match report {
        Ok(Answer::Report(zones)) => {
            zones.iter().map(|zone| (zone.written, zone.state == ZoneState::Full)).collect()
        }
        other => panic!("{other:?}"),
    }
}

/// More failures in a row than the number at which a device counts as lost.
const MANY: u64 = 50;

/// `ZONAL_TEST_NULL_BLK` is the configfs directory of the drive: null_blk makes zones read-only or
/// offline on request.
#[test]
fn zones_that_become_read_only_or_offline_cost_nobody_else_anything() {
    let Ok(settings) = std::env::var("ZONAL_TEST_NULL_BLK") else {
        return println!(
            "skipped: ZONAL_TEST_NULL_BLK names no drive whose zones can be taken away"
        );
    };
    let Some(rig) = Rig::new() else { return };
    let mut device = rig.device();
    for zone in 0..3 {
        call(&mut device, rig.bench.write(rig.lba(zone, 0), 4, 7)).unwrap();
    }
    let take = |zone, how: &str| {
        let file = PathBuf::from(&settings).join(how);
        fs::write(file, rig.layout.sector(ZoneId(zone)).to_string()).unwrap();
    };
    take(0, "zone_readonly");
    take(1, "zone_offline");
    assert_eq!(rig.write(&mut device, 0, 4), Err(DeviceError::ZoneReadOnly));
    assert_eq!(rig.write(&mut device, 1, 4), Err(DeviceError::ZoneOffline));
    let read = call(&mut device, rig.bench.read(rig.lba(0, 0), 4)).unwrap();
    assert_eq!(first_bytes(read, 4), [7; 4], "its data are good");
    assert_eq!(state(&mut device, 0).0, ZoneState::ReadOnly);
    assert_eq!(state(&mut device, 1).0, ZoneState::Offline);
    for _ in 0..MANY {
        let refused = call(&mut device, rig.bench.read(rig.lba(1, 0), 1)).err();
        assert_eq!(refused, Some(DeviceError::ZoneOffline));
    }
    for zone in [0, 1] {
        let refused = manage(&mut device, zone, ZoneAction::Reset);
        assert_eq!(refused, Err(DeviceError::InvalidTransition));
    }
    // An offline zone that the device has not noticed: reads detect it.
    take(2, "zone_offline");
    for _ in 0..MANY {
        let refused = call(&mut device, rig.bench.read(rig.lba(2, 0), 1)).err();
        assert_eq!(refused, Some(DeviceError::ZoneOffline));
    }
    assert_eq!(rig.write(&mut device, 3, 0), Ok(()), "the device goes on");
    drop(device);
    // After a reopen. A second `take` makes null_blk restore the zone.
    let mut device = rig.device();
    assert_eq!(state(&mut device, 0).0, ZoneState::ReadOnly);
    assert_eq!(state(&mut device, 2), (ZoneState::Offline, Blocks(0)));
    drop(device);
    take(0, "zone_readonly");
    take(1, "zone_offline");
    take(2, "zone_offline");
    rig.empty();
}

/// Writes in flight: as many as the pool has buffers for, with a reserve.
const IN_FLIGHT_MAX: usize = 24;

/// A report that was submitted before writes completed must not move the write pointers back, in
/// the answer or in the device.
#[test]
fn reports_among_writes_tell_neither_more_nor_less_than_was_written() {
    let Some(rig) = Rig::new() else { return };
    let mut device = rig.device();
    let mut rng = Rng::new(2);
    // By zone: blocks of submitted writes, and blocks of completed writes.
    let (mut begun, mut ended) = ([0u64; 4], [0u64; 4]);
    // By ticket: zone and length of a write, or the completed blocks when a report was submitted.
    let mut writes = std::collections::BTreeMap::new();
    let mut reports = std::collections::BTreeMap::new();
    for ticket in 0..600 {
        let zone = u32::try_from(rng.below(4)).unwrap();
        let at = zone as usize;
        if rng.one_in(4) {
            reports.insert(ticket, ended);
            submit(&mut device, ticket, Command::Report { first: ZoneId(0), count: 4 });
        } else if begun[at] < rig.layout.geometry.zone_capacity.0 {
            submit(&mut device, ticket, rig.bench.write(rig.lba(zone, begun[at]), 1, 7));
            begun[at] += 1;
            writes.insert(ticket, zone);
        }
        let most = if ticket == 599 { 0 } else { index(rng.below(IN_FLIGHT_MAX as u64)) };
        while most < writes.len() + reports.len() {
            let (Ticket(answered), answer) = next(&mut device);
            if let Some(zone) = writes.remove(&answered) {
                let Ok(Answer::Written(lba)) = answer else { panic!("{answer:?}") };
                assert_eq!(lba, rig.lba(zone, ended[zone as usize]), "in order");
                ended[zone as usize] += 1;
                continue;
            }
            let least = reports.remove(&answered).unwrap();
            let Ok(Answer::Report(zones)) = answer else { panic!("{answer:?}") };
            for (at, zone) in zones.iter().enumerate() {
                let told = zone.written.0;
                assert!(least[at] <= told && told <= begun[at], "{zone:?} {least:?} {begun:?}");
            }
        }
    }
    for zone in 0..4 {
        assert_eq!(state(&mut device, zone).1, Blocks(begun[zone as usize]));
    }
}
