//! Faults of the conventional drive: each fault has the effects of the fault table, and no others.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use zonal_base::{Bytes, Ticket, index};
use zonal_device::{Answer, Command, DeviceError};

use super::*;
use crate::conventional::{ConventionalProfile, OnReset};
use crate::payload::Memory;
use crate::testing;

/// Size of a zone and of the largest command, in blocks.
const ZONE: u64 = 16;

type Rig = testing::Rig<ConventionalDrive>;

impl Rig {
    /// A drive of 1 MiB in zones of 64 KiB, with a tenth spare in addition to the working space of the FTL.
    fn new() -> Self {
        let mut profile = ConventionalProfile::sn540().scaled_to(Bytes::mib(1));
        let ftl = profile.ftl.as_mut().unwrap();
        (ftl.superblock_units, ftl.superblock_count) = (8, 42);
        let profile = profile.with_zones_of(Blocks(ZONE));
        let medium = Box::new(Memory::new(&profile.drive.geometry));
        let drive = ConventionalDrive::new(profile, OnReset::Nothing, 1, medium);
        Self::of(drive)
    }

    fn begin_write(&mut self, at: u64, blocks: u64, byte: u8) -> Ticket {
        let data = self.data(blocks, byte);
        self.submit(Command::Write { lba: Lba(at), data })
    }

    fn write(&mut self, at: u64, blocks: u64, byte: u8) -> Result<(), DeviceError> {
        let ticket = self.begin_write(at, blocks, byte);
        self.drain().into_iter().find(|answer| answer.0 == ticket).unwrap().1.map(drop)
    }

    /// Restores a write pointer, as the host does after a restart.
    fn restore(&mut self, zone: u32, written: u64) {
        let written = Blocks(written);
        self.call(Command::Restore { zone: ZoneId(zone), written }).unwrap();
    }

    /// Reads blocks and returns the first byte of each.
    fn read(&mut self, at: u64, blocks: u64) -> Result<Vec<u8>, DeviceError> {
        let buffer = self.pool.take(Blocks(ZONE)).unwrap();
        match self.call(Command::Read { lba: Lba(at), blocks: Blocks(blocks), buffer })? {
            Answer::Read(buffer) => {
                let blocks = buffer.bytes().chunks(BLOCK_BYTES).take(index(blocks));
                Ok(blocks.map(|block| block[0]).collect())
            }
            other => panic!("{other:?}"),
        }
    }

    fn written(&mut self, zone: u32) -> Blocks {
        match self.call(Command::Report { first: ZoneId(zone), count: 1 }) {
            Ok(Answer::Report(zones)) => zones[0].written,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_power_cut_leaves_what_was_answered_and_any_blocks_of_what_was_in_flight() {
    let mut seen = BTreeSet::new();
    for seed in 0..200 {
        let mut rig = Rig::new();
        rig.write(0, 4, 1).unwrap();
        rig.begin_write(4, 2, 2);
        rig.begin_write(6, 1, 3);
        rig.drive.cut_power(&mut Rng::new(seed));
        assert!(rig.drain().is_empty(), "nobody answers any more");
        assert_eq!(rig.written(0), Blocks(0), "the host has to say what it knows");
        rig.restore(0, 7);
        let bytes = rig.read(0, 7).unwrap();
        assert_eq!(bytes[..4], [1; 4]);
        seen.insert(bytes[4..].to_vec());
        rig.write(7, 9, 4).unwrap();
        assert_eq!(rig.read(7, 9).unwrap(), [4; 9]);
    }
    assert_eq!(seen.len(), 8, "each of the three blocks is there or is not");
}

#[test]
fn the_translation_layer_outlives_a_power_cut() {
    // Two drives are overwritten zone after zone; one loses its power between two rounds.
    let run = |cut: Option<u32>| {
        let mut rig = Rig::new();
        let mut rng = Rng::new(4);
        for round in 0..6 {
            for _ in 0..16 {
                let zone = rng.below(16);
                let at = rng.below(ZONE);
                rig.drive.forget_zones();
                rig.restore(narrow(zone), at);
                rig.write(zone * ZONE + at, ZONE - at, round).unwrap();
            }
            if cut == Some(u32::from(round)) {
                rig.drive.cut_power(&mut Rng::new(1));
            }
        }
        *rig.drive.ftl_counters().unwrap()
    };
    let counters = run(None);
    assert!(0 < counters.copies && 0 < counters.erases);
    assert_eq!(run(Some(3)), counters);
}

#[test]
fn a_write_error_takes_the_writes_behind_it_in_its_zone_along() {
    let mut rig = Rig::new();
    rig.write(0, 2, 1).unwrap();
    rig.drive.fail_next_write(ZoneId(0));
    let tickets = [(2, 2), (4, 1), (16, 3)].map(|(at, blocks)| rig.begin_write(at, blocks, 2));
    let mut answers = rig.drain();
    answers.sort_by_key(|answer| answer.0.0);
    assert!(answers.iter().map(|answer| answer.0).eq(tickets));
    let refused = answers.iter().map(|answer| answer.1.as_ref().err().copied());
    assert!(refused.eq([Some(DeviceError::Media), Some(DeviceError::InvalidWrite), None]));
    assert_eq!(rig.written(0), Blocks(2));
    rig.write(2, 2, 3).unwrap();
    assert_eq!(rig.read(0, 4).unwrap(), [1, 1, 3, 3]);
    assert_eq!(rig.read(16, 3).unwrap(), [2; 3]);
}

#[test]
fn a_bad_block_stays_until_it_is_written_and_some_no_longer_than_until_a_power_cut() {
    let mut rig = Rig::new();
    rig.write(0, 4, 1).unwrap();
    rig.drive.make_unreadable(Lba(1));
    rig.drive.make_unreadable_while_on(Lba(2));
    rig.drive.flip_bit(Lba(3), 1);
    assert_eq!(rig.read(0, 1), Ok(alloc::vec![1]));
    assert_eq!(rig.read(1, 1), Err(DeviceError::Media));
    assert_eq!(rig.read(2, 2), Err(DeviceError::Media));
    rig.drive.cut_power(&mut Rng::new(1));
    rig.restore(0, 4);
    assert_eq!(rig.read(2, 2), Ok(alloc::vec![1, 3]));
    assert_eq!(rig.read(1, 1), Err(DeviceError::Media));
    rig.drive.forget_zones();
    rig.restore(0, 1);
    rig.write(1, 1, 5).unwrap();
    assert_eq!(rig.read(0, 2), Ok(alloc::vec![1, 5]));
}

#[test]
fn a_lost_command_is_not_answered_and_does_nothing() {
    let mut rig = Rig::new();
    rig.drive.lose_next_command();
    rig.begin_write(0, 2, 1);
    assert!(rig.drain().is_empty());
    rig.write(0, 3, 2).unwrap();
    rig.drive.cut_power(&mut Rng::new(1));
    rig.restore(0, 3);
    assert_eq!(rig.read(0, 3), Ok(alloc::vec![2; 3]));
}

/// Requires: a small number.
fn narrow(n: u64) -> u32 {
    zonal_base::low_u32(index(n))
}
