//! Zoned drive: the device contract, and the latencies and bandwidths of the measured drive.

mod reference;
mod rig;

use alloc::boxed::Box;

use zonal_base::{BLOCK_BYTES, Blocks, Bytes, Pool, PoolClass};
use zonal_device::{DeviceKind, Geometry, conformance};

use super::*;
use crate::conventional::{ConventionalDrive, ConventionalProfile, OnReset};
use crate::payload::{Memory, Tags, ZoneImage};

fn small(zone_size: u64, zone_capacity: u64, open: Option<u32>, active: Option<u32>) -> Geometry {
    Geometry {
        kind: DeviceKind::Zoned,
        zone_count: 5,
        zone_size: Blocks(zone_size),
        zone_capacity: Blocks(zone_capacity),
        max_open_zones: open,
        max_active_zones: active,
    }
}

#[test]
fn keeps_the_device_contract() {
    let limits = [(None, None), (Some(2), Some(3)), (Some(3), Some(3)), (Some(2), Some(2))];
    for (zone_size, zone_capacity) in [(16, 12), (16, 16), (200, 150), (8, 8)] {
        for (open, active) in limits {
            let geometry = small(zone_size, zone_capacity, open, active);
            let make = || {
                let profile = Profile { geometry, queue_depth: 256, ..Profile::zn540() };
                ZonedDrive::new(profile, 7, Box::new(Memory::new(&geometry)))
            };
            conformance::run_all(make, |_| panic!("it always knows when it will answer"));
            let make = || {
                let profile = Profile { geometry, queue_depth: 8, ..Profile::zn540() };
                ZonedDrive::new(profile, 8, Box::new(Tags::new(&geometry)))
            };
            conformance::run_all(make, |_| panic!("it always knows when it will answer"));
        }
    }
}

#[test]
fn one_seed_is_one_history() {
    let history = |seed| {
        let mut rig = rig::Rig::new(Profile::zn540(), seed);
        let outcome = rig.load(rig::Job::Append, (4, 8), 4, 2_000);
        (rig.now, rig.drive.next_event(), outcome.mean_us.to_bits())
    };
    assert_eq!(history(42), history(42));
    assert_ne!(history(42), history(43), "the seed must matter, or this test proves nothing");
}

#[test]
fn a_write_that_the_medium_refuses_takes_those_behind_it_along() {
    let geometry = small(16, 12, Some(2), Some(3));
    let profile = Profile { geometry, ..Profile::zn540() };
    check_refused(ZonedDrive::new(profile, 1, Box::new(Refusing::new(&geometry))));
    let profile = ConventionalProfile::sn540().scaled_to(Bytes::mib(256)).with_zones_of(Blocks(16));
    let medium = Box::new(Refusing::new(&profile.drive.geometry));
    check_refused(ConventionalDrive::new(profile, OnReset::Nothing, 1, medium));
}

/// Submits three writes of a zone, of which the medium refuses the second.
#[track_caller]
fn check_refused(mut drive: impl ZonedDevice) {
    let pool = Pool::new(&[PoolClass { blocks: Blocks(1), count: 4 }], Box::new(|| ()));
    let mut now = Nanos(0);
    let mut call = |commands: Vec<Command>| {
        for (ticket, command) in (0..).map(Ticket).zip(commands) {
            drive.submit(now, ticket, command).unwrap();
        }
        let mut answers = Vec::new();
        while let Some(due) = drive.next_event() {
            now = now.max(due);
            while let Some((_, answer)) = drive.poll(now) {
                answers.push(answer.map(drop));
            }
        }
        answers
    };
    let write = |at| {
        let data = alloc::vec![pool.take(Blocks(1)).unwrap().freeze(BLOCK_BYTES)];
        Command::Write { lba: Lba(at), data }
    };
    let refused = [Ok(()), Err(DeviceError::Media), Err(DeviceError::InvalidWrite)];
    assert_eq!(call(alloc::vec![write(0), write(1), write(2)]), refused);
    let report = Command::Report { first: ZoneId(0), count: 1 };
    assert_eq!(call(alloc::vec![report]), [Ok(())]);
    assert_eq!(call(alloc::vec![write(1)]), [Ok(())], "where it failed");
}

/// A medium that refuses the second write.
#[derive(Debug)]
struct Refusing {
    memory: Memory,
    writes: u32,
}

impl Refusing {
    fn new(geometry: &Geometry) -> Self {
        Self { memory: Memory::new(geometry), writes: 0 }
    }
}

impl Medium for Refusing {
    fn write(&mut self, lba: Lba, data: &[Payload]) -> Result<(), DeviceError> {
        self.writes += 1;
        if self.writes == 2 { Err(DeviceError::Media) } else { self.memory.write(lba, data) }
    }

    fn read(&mut self, lba: Lba, blocks: Blocks, out: &mut Buffer) -> Result<(), DeviceError> {
        self.memory.read(lba, blocks, out)
    }

    fn truncate(&mut self, zone: ZoneId, written: Blocks) {
        self.memory.truncate(zone, written);
    }

    fn flip_bit(&mut self, lba: Lba, bit: u32) {
        self.memory.flip_bit(lba, bit);
    }
}

#[test]
fn a_drive_that_was_off_goes_on_where_its_zones_were() {
    let geometry = small(16, 12, Some(2), Some(3));
    let profile = Profile { geometry, ..Profile::zn540() };
    let kept = [(0, false), (5, false), (5, true), (12, false), (0, true)];
    let kept = kept.map(|(data, is_finished)| ZoneImage { data: Blocks(data), is_finished });
    let drive = ZonedDrive::powered_on(profile, 1, Box::new(Memory::new(&geometry)), &kept);
    let states: Vec<_> = geometry.zones().map(|zone| drive.table.look(zone)).collect();
    let states: Vec<_> = states.iter().map(|report| (report.state, report.written.0)).collect();
    let full = (ZoneState::Full, 12);
    assert_eq!(states, [(ZoneState::Empty, 0), (ZoneState::Closed, 5), full, full, full]);
}
