//! Faults of the zoned drive: each fault has the effects of the fault table, and no others.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;

use zonal_base::Nanos;
use zonal_device::{Answer, Command, DeviceKind, ZoneAction, ZonedDevice};

use super::*;
use crate::payload::Memory;
use crate::profile::{BufferProfile, Profile};
use crate::testing;

const GEOMETRY: Geometry = Geometry {
    kind: DeviceKind::Zoned,
    zone_count: 6,
    zone_size: Blocks(16),
    zone_capacity: Blocks(12),
    max_open_zones: Some(2),
    max_active_zones: Some(3),
};

type Rig = testing::Rig<ZonedDrive>;

impl Rig {
    fn new(seed: u64) -> Self {
        Self::with(Profile { geometry: GEOMETRY, ..Profile::zn540() }, seed)
    }

    fn volatile(seed: u64) -> Self {
        let zn540 = Profile::zn540();
        let buffer = BufferProfile { power_loss_protected: false, ..zn540.buffer };
        Self::with(Profile { geometry: GEOMETRY, buffer, ..zn540 }, seed)
    }

    fn with(profile: Profile, seed: u64) -> Self {
        let medium = Box::new(Memory::new(&profile.geometry));
        let drive = ZonedDrive::new(profile, seed, medium);
        Self::of(drive)
    }

    fn write_command(&self, at: u64, blocks: u64, byte: u8) -> Command {
        Command::Write { lba: Lba(at), data: self.data(blocks, byte) }
    }

    fn write(&mut self, at: u64, blocks: u64, byte: u8) -> Result<(), DeviceError> {
        let command = self.write_command(at, blocks, byte);
        self.call(command).map(drop)
    }

    fn read_command(&self, at: u64, blocks: u64) -> Command {
        let buffer = self.pool.take(Blocks(16)).unwrap();
        Command::Read { lba: Lba(at), blocks: Blocks(blocks), buffer }
    }

    /// Reads blocks and returns the first byte of each.
    fn read(&mut self, at: u64, blocks: u64) -> Result<Vec<u8>, DeviceError> {
        let command = self.read_command(at, blocks);
        match self.call(command)? {
            Answer::Read(buffer) => {
                let blocks = buffer.bytes().chunks(BLOCK_BYTES).take(index(blocks));
                Ok(blocks.map(|block| block[0]).collect())
            }
            other => panic!("{other:?}"),
        }
    }

    fn report(&mut self, zone: u32) -> ZoneReport {
        match self.call(Command::Report { first: ZoneId(zone), count: 1 }) {
            Ok(Answer::Report(zones)) => zones[0],
            other => panic!("{other:?}"),
        }
    }

    fn manage(&mut self, zone: u32, action: ZoneAction) -> Result<(), DeviceError> {
        self.call(Command::Manage { zone: ZoneId(zone), action }).map(drop)
    }
}

/// Writes 4 blocks of ones that are flushed, 4 of twos that are answered, and 4 of threes that are in flight. Then
/// cuts the power.
fn without_power(mut rig: Rig, seed: u64) -> (ZoneReport, Vec<u8>) {
    rig.write(0, 4, 1).unwrap();
    rig.call(Command::Flush).unwrap();
    rig.write(4, 4, 2).unwrap();
    for at in [8, 10] {
        let command = rig.write_command(at, 2, 3);
        rig.submit(command);
    }
    rig.drive.cut_power(&mut Rng::new(seed));
    assert!(rig.drain().is_empty(), "nobody answers any more");
    let report = rig.report(0);
    let bytes = match report.written.0 {
        0 => Vec::new(),
        written => rig.read(0, written).unwrap(),
    };
    (report, bytes)
}

#[test]
fn a_power_cut_tears_writes_in_flight_and_spares_what_a_protected_buffer_holds() {
    let mut lengths = BTreeSet::new();
    for seed in 0..200 {
        let (report, bytes) = without_power(Rig::new(seed), seed);
        assert_eq!(bytes, [1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3][..bytes.len()]);
        let is_full = bytes.len() == 12;
        assert_eq!(report.state, if is_full { ZoneState::Full } else { ZoneState::Closed });
        lengths.insert(bytes.len());
    }
    assert_eq!(lengths, (8..=12).collect(), "every prefix is seen, none shorter");
}

#[test]
fn a_power_cut_takes_back_what_a_volatile_buffer_held_since_the_flush() {
    let mut lengths = BTreeSet::new();
    for seed in 0..500 {
        let (report, bytes) = without_power(Rig::volatile(seed), seed);
        if report.state != ZoneState::Full {
            assert_eq!(bytes, [1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3][..bytes.len()]);
        }
        assert_eq!(bytes[..4], [1; 4], "what was flushed is there");
        lengths.insert(bytes.len());
    }
    assert_eq!(lengths, (4..=12).collect());
}

#[test]
fn what_was_drained_before_a_power_cut_is_not_counted_after_it() {
    let mut rig = Rig::new(1);
    rig.write(0, 8, 1).unwrap();
    for _ in 0..2 {
        // Long enough that the drive updates its recent programs.
        rig.now += Nanos::secs(1);
        assert_eq!(rig.read(0, 1).unwrap(), [1]);
    }
    rig.drive.cut_power(&mut Rng::new(1));
    rig.now += Nanos::secs(1);
    assert_eq!(rig.read(0, 1).unwrap(), [1]);
}

#[test]
fn a_reset_in_flight_at_a_power_cut_has_happened_or_has_not() {
    let mut lengths = BTreeSet::new();
    for seed in 0..20 {
        let mut rig = Rig::new(seed);
        rig.write(0, 5, 1).unwrap();
        rig.submit(Command::Manage { zone: ZoneId(0), action: ZoneAction::Reset });
        rig.drive.cut_power(&mut Rng::new(seed));
        lengths.insert(rig.report(0).written);
    }
    assert_eq!(lengths, BTreeSet::from([Blocks(0), Blocks(5)]));
}

#[test]
fn a_block_that_fails_while_the_drive_is_on_is_read_after_a_power_cut() {
    let mut rig = Rig::new(1);
    rig.write(0, 3, 4).unwrap();
    rig.drive.make_unreadable_while_on(Lba(1));
    assert_eq!(rig.read(0, 3), Err(DeviceError::Media));
    rig.drive.cut_power(&mut Rng::new(1));
    assert_eq!(rig.read(0, 3), Ok(alloc::vec![4; 3]));
}

#[test]
fn bad_blocks_and_flipped_bits_stay_until_their_zone_is_reset() {
    let mut rig = Rig::new(1);
    rig.write(0, 3, 0).unwrap();
    rig.drive.make_unreadable(Lba(1));
    rig.drive.flip_bit(Lba(2), 5);
    assert_eq!(rig.read(0, 3), Err(DeviceError::Media));
    assert_eq!(rig.read(0, 1), Ok(alloc::vec![0]));
    assert_eq!(rig.read(2, 1), Ok(alloc::vec![1 << 5]));
    rig.manage(0, ZoneAction::Reset).unwrap();
    rig.write(0, 3, 7).unwrap();
    assert_eq!(rig.read(0, 3), Ok(alloc::vec![7; 3]));
}

#[test]
fn a_write_that_fails_takes_those_behind_it_along_and_spares_those_before() {
    let mut rig = Rig::new(2);
    rig.write(0, 1, 1).unwrap();
    rig.drive.fail_next_write(ZoneId(0));
    for at in [1, 2] {
        let command = rig.write_command(at, 1, 2);
        rig.submit(command);
    }
    let errors: Vec<_> = rig.drain().into_iter().map(|(_, answer)| answer.err()).collect();
    assert_eq!(errors, [Some(DeviceError::Media), Some(DeviceError::InvalidWrite)]);
    assert_eq!(rig.report(0).written, Blocks(1));
    assert_eq!(rig.write(1, 1, 3), Ok(()));
    assert_eq!(rig.read(0, 2), Ok(alloc::vec![1, 3]));
}

#[test]
fn lost_zones_and_lost_drives_say_so() {
    let mut rig = Rig::new(3);
    rig.write(0, 2, 1).unwrap();
    rig.write(16, 2, 1).unwrap();
    let late = rig.write_command(2, 1, 1);
    rig.submit(late);
    rig.drive.make_read_only(ZoneId(0));
    rig.drive.take_offline(ZoneId(1));
    assert_eq!(rig.drain().remove(0).1.err(), Some(DeviceError::ZoneReadOnly));
    assert_eq!(rig.read(0, 2), Ok(alloc::vec![1; 2]));
    assert_eq!(rig.write(2, 1, 1), Err(DeviceError::ZoneReadOnly));
    assert_eq!(rig.read(16, 1), Err(DeviceError::ZoneOffline));
    rig.drive.cut_power(&mut Rng::new(3));
    assert_eq!(rig.report(0).state, ZoneState::ReadOnly, "power does not bring zones back");
    rig.drive.kill();
    assert_eq!(rig.read(0, 1), Err(DeviceError::DeviceGone));
    assert_eq!(rig.call(Command::Flush).err(), Some(DeviceError::DeviceGone));
}

#[test]
fn a_lost_command_has_no_answer_and_no_effect() {
    let mut rig = Rig::new(4);
    rig.drive.lose_next_command();
    let lost = rig.write_command(0, 2, 1);
    rig.submit(lost);
    assert!(rig.drain().is_empty());
    assert_eq!(rig.report(0).written, Blocks(0));
    assert_eq!(rig.write(0, 2, 2), Ok(()), "only one was to be lost");
}

#[test]
fn reads_of_a_slow_die_are_slow_and_others_are_not() {
    let mut rig = Rig::with(Profile::zn540(), 5);
    let start = rig.drive.geometry().zone_start(ZoneId(0)).0;
    for n in 0..64 {
        rig.write(start + n * 12, 12, 1).unwrap();
    }
    // Wait until all programs are done.
    rig.now += Nanos::millis(100);
    rig.drive.slow_down_die(7, 10);
    let mut slow = 0;
    for unit in 0..32 {
        let began = rig.now;
        rig.read(start + unit * 24, 1).unwrap();
        slow += u32::from(Nanos::micros(300) < rig.now - began);
    }
    assert_eq!(slow, 1, "one die of 32");
}

#[test]
fn limits_may_be_lower_than_reported() {
    let mut rig = Rig::new(6);
    rig.drive.lower_limits(1, 2);
    assert_eq!(rig.drive.geometry().max_active_zones, Some(3), "it does not say so");
    rig.write(0, 1, 1).unwrap();
    rig.write(16, 1, 1).unwrap();
    assert_eq!(rig.write(32, 1, 1), Err(DeviceError::TooManyZones));
    rig.manage(0, ZoneAction::Finish).unwrap();
    rig.report(2);
    assert_eq!(rig.write(32, 1, 1), Ok(()));
}
