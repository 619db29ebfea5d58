//! Append tests on a zoned drive: zone appends where the spec enables them, writes at the write
//! pointer otherwise.

use std::collections::BTreeMap;
use std::fs;

use zonal_base::{Blocks, Lba, Nanos, Payload, Rng, Ticket, ZoneId};
use zonal_device::{Answer, Command, DeviceError, ZoneAction, ZoneState, ZonedDevice};

use super::{Rig, manage, state};
use crate::tests::{PATIENCE, call, claimed, first_bytes, next, submit};
use crate::{Drive, HostDevice};

impl Rig {
    /// Append of `count` blocks, every byte equal to `byte`.
    fn append(&self, zone: u32, count: u64, byte: u8) -> Command {
        let Command::Write { data, .. } = self.bench.write(Lba(0), count, byte) else {
            unreachable!("a write is a write")
        };
        Command::Append { zone: ZoneId(zone), data }
    }
}

fn landed(answer: Result<Answer, DeviceError>) -> Lba {
    match answer {
        Ok(Answer::Written(lba)) => lba,
        other => panic!("{other:?}"),
    }
}

/// Appends in flight: as many as the pool has buffers for, with a reserve.
const IN_FLIGHT_MAX: usize = 24;

/// Command in flight in the test below.
enum Asked {
    Append { zone: u32, count: u64, byte: u8 },
    Read { byte: u8 },
}

#[test]
fn appends_in_flight_lie_one_beside_the_other_where_they_say_and_can_be_read_then() {
    let Some(rig) = Rig::new() else { return };
    let mut device = rig.device();
    let mut rng = Rng::new(4);
    let (mut under_way, mut lies) = (BTreeMap::new(), BTreeMap::new());
    for ticket in 0..400 {
        let (zone, count) = (u32::try_from(rng.below(3)).unwrap(), 1 + rng.below(4));
        let byte = u8::try_from(ticket % 251).unwrap();
        submit(&mut device, 2 * ticket, rig.append(zone, count, byte));
        under_way.insert(2 * ticket, Asked::Append { zone, count, byte });
        let most = if ticket == 399 { 0 } else { IN_FLIGHT_MAX };
        while most < under_way.len() {
            let (Ticket(answered), answer) = next(&mut device);
            match under_way.remove(&answered).unwrap() {
                Asked::Append { zone, count, byte } => {
                    let lba = landed(answer);
                    assert_eq!(rig.layout.geometry.zone_of(lba), ZoneId(zone));
                    for at in 0..count {
                        let other = lies.insert(lba + Blocks(at), byte);
                        assert_eq!(other, None, "two lie at {lba} + {at}");
                    }
                    submit(&mut device, answered + 1, rig.bench.read(lba, count));
                    under_way.insert(answered + 1, Asked::Read { byte });
                }
                Asked::Read { byte } => assert_eq!(first_bytes(answer.unwrap(), 1), [byte]),
            }
        }
    }
    for zone in 0..3 {
        let written = state(&mut device, zone).1;
        let start = rig.layout.geometry.zone_start(ZoneId(zone));
        let blocks = lies.range(start..start + rig.layout.geometry.zone_size);
        assert_eq!(blocks.count() as u64, written.0, "zone {zone} has no holes");
    }
}

#[test]
fn appends_and_writes_of_a_zone_follow_each_other() {
    let Some(rig) = Rig::new() else { return };
    let mut device = rig.device();
    for (ticket, command) in (0..).zip([
        rig.append(0, 2, 1),
        rig.append(0, 2, 1),
        rig.bench.write(rig.lba(0, 4), 3, 2),
        rig.bench.write(rig.lba(0, 7), 1, 3),
        rig.append(0, 1, 4),
        // More bytes than one zone append takes.
        rig.append(0, 256, 5),
        rig.append(0, 1, 6),
    ]) {
        submit(&mut device, ticket, command);
    }
    let mut places: BTreeMap<Ticket, Lba> = BTreeMap::new();
    while places.len() < 7 {
        let (ticket, answer) = next(&mut device);
        places.insert(ticket, landed(answer));
    }
    let at = |ticket| places[&Ticket(ticket)];
    assert_eq!([2, 3, 4, 5, 6].map(at), [4, 7, 8, 9, 265].map(|block| rig.lba(0, block)));
    let read = call(&mut device, rig.bench.read(rig.lba(0, 0), 10)).unwrap();
    assert_eq!(first_bytes(read, 10), [1, 1, 1, 1, 2, 2, 2, 3, 4, 5]);
    let read = call(&mut device, rig.bench.read(rig.lba(0, 264), 2)).unwrap();
    assert_eq!(first_bytes(read, 2), [5, 6]);
}

#[test]
fn appends_to_a_zone_that_somebody_else_reset_or_filled_are_refused_until_it_is_reported() {
    let Some(rig) = Rig::new() else { return };
    let mut device = rig.device();
    for zone in 0..2 {
        call(&mut device, rig.append(zone, 3, 7)).unwrap();
    }
    rig.manage(0, ZoneAction::Reset).unwrap();
    rig.manage(1, ZoneAction::Finish).unwrap();
    for (zone, expected) in [(0, DeviceError::InvalidWrite), (1, DeviceError::ZoneFull)] {
        assert_eq!(call(&mut device, rig.append(zone, 1, 7)).err(), Some(expected));
        assert!(call(&mut device, rig.append(zone, 1, 7)).is_err(), "not reported yet");
    }
    let (_, written) = state(&mut device, 0);
    assert_eq!(landed(call(&mut device, rig.append(0, 1, 8))), rig.lba(0, written.0));
    assert_eq!(state(&mut device, 1).0, ZoneState::Full);
    manage(&mut device, 1, ZoneAction::Reset).unwrap();
    assert_eq!(landed(call(&mut device, rig.append(1, 1, 8))), rig.lba(1, 0));
}

/// Number of appends in this measurement.
const APPENDS: u64 = 64;

/// Number of wakeups until all completions are polled, when the host submits all appends at once.
fn wakings(rig: &Rig, device: &mut HostDevice) -> u64 {
    let data: Vec<Payload> = (0..APPENDS)
        .map(|_| match rig.append(0, 1, 7) {
            Command::Append { mut data, .. } => data.remove(0),
            _ => unreachable!("an append is one"),
        })
        .collect();
    for (ticket, piece) in (0..).zip(data) {
        submit(device, ticket, Command::Append { zone: ZoneId(0), data: vec![piece] });
    }
    let (mut answered, mut waits) = (0, 0);
    while answered < APPENDS {
        match device.poll(Nanos(0)) {
            Some((_, answer)) => {
                landed(answer);
                answered += 1;
            }
            None => {
                device.wait(PATIENCE);
                waits += 1;
            }
        }
    }
    waits
}

/// Zone appends let one zone have many writes in flight.
#[test]
fn appends_of_a_drive_wake_their_host_less_often_than_writes_one_after_another() {
    let Some(rig) = Rig::new() else { return };
    if !rig.has_appends() {
        return;
    }
    let mut appending = rig.device();
    let with = wakings(&rig, &mut appending);
    drop(appending);
    rig.empty();
    let spec = format!("zns:{}", rig.path).parse().unwrap();
    fs::write(rig.scheduler(), "mq-deadline").unwrap();
    let without = wakings(&rig, &mut claimed(&spec).shard(&rig.bench.options()).unwrap());
    println!("{APPENDS} blocks to one zone: {with} wakings by zone appends, {without} by writes");
    assert!(with < without, "{with} and {without}");
}

#[test]
fn zone_appends_are_refused_where_there_are_none() {
    let Some(rig) = Rig::new() else { return };
    if crate::Queue::of(&rig.file).name.starts_with("nvme") {
        return;
    }
    let refused = Drive::open(&format!("zns:{}?append=on", rig.path).parse().unwrap()).unwrap_err();
    let refused = refused.to_string();
    assert!(refused.ends_with("it is not an NVMe drive: omit append="), "{refused}");
}

/// Linux 6.10 and newer track the write pointer of a zone, and do not see passthrough writes.
#[test]
fn a_zone_that_was_written_both_ways_can_be_written_again_after_a_reset_at_the_latest() {
    let Some(rig) = Rig::new() else { return };
    if !rig.has_appends() {
        return;
    }
    fs::write(rig.scheduler(), "mq-deadline").unwrap();
    let plain = format!("zns:{}", rig.path).parse().unwrap();
    let through_the_kernel = || claimed(&plain).shard(&rig.bench.options()).unwrap();
    rig.write(&mut through_the_kernel(), 0, 0).unwrap();
    call(&mut rig.device(), rig.append(0, 1, 7)).unwrap();
    let mut device = through_the_kernel();
    assert_eq!(state(&mut device, 0).1, Blocks(2), "the drive knows of both");
    let first = rig.write(&mut device, 0, 2);
    let (_, written) = state(&mut device, 0);
    let reported = rig.write(&mut device, 0, written.0);
    println!("through the kernel after an append past it: {first:?}, after a report: {reported:?}");
    manage(&mut device, 0, ZoneAction::Reset).unwrap();
    assert_eq!(rig.write(&mut device, 0, 0), Ok(()));
}
