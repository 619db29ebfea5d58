//! Opening a device: blank, with a log, foreign, damaged, or with another geometry.

use zonal_base::{BLOCK_BYTES, Blocks, Bytes, PoolClass, ZoneId, index};
use zonal_device::ram::Crash;
use zonal_device::{Answer, Command, DeviceKind, Geometry, ZoneState, ZonedDevice};
use zonal_zonelog::{
    FirstBlock, Identity, Key, OpenError, OpenMode, SettingsError, Urgency, ZoneContent, ZoneEnd,
    inspect_zone,
};

use crate::append::append;
use crate::reclaim::{empty_zone, fill_zones};
use crate::rig::{CRC, IDENTITY, Rig, geometry};

const KINDS: [DeviceKind; 2] = [DeviceKind::Zoned, DeviceKind::Conventional];

/// Overwrites the first block of a zone without the log.
fn put_block(rig: &mut Rig, zone: ZoneId, bytes: &[u8]) {
    let class = PoolClass { blocks: Blocks(1), count: 1 };
    let pool = zonal_base::Pool::new(&[class], Box::new(|| ()));
    let mut buffer = pool.take(Blocks(1)).expect("a new pool has one");
    buffer.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
    let lba = rig.device.geometry().zone_start(zone);
    let write = Command::Write { lba, data: vec![buffer.freeze(BLOCK_BYTES)] };
    let reset = Command::Manage { zone, action: zonal_device::ZoneAction::Reset };
    let device = rig.ports().device;
    rig.run(async move {
        device.call(reset).await.expect("zones can be reset");
        device.call(write).await.expect("an empty zone can be written");
        device.call(Command::Flush).await.expect("devices flush");
    });
}

fn first_block(rig: &mut Rig, zone: ZoneId) -> Vec<u8> {
    let (ports, lba) = (rig.ports(), rig.device.geometry().zone_start(zone));
    rig.run(async move {
        let buffer = ports.buffers.take(Blocks(1)).await;
        match ports.device.call(Command::Read { lba, blocks: Blocks(1), buffer }).await {
            Ok(Answer::Read(buffer)) => buffer.bytes()[..BLOCK_BYTES].to_vec(),
            other => panic!("{other:?}"),
        }
    })
}

/// A rig whose log holds one record, after a process crash.
fn with_one_record(kind: DeviceKind) -> Rig {
    let mut rig = Rig::new(geometry(kind, 8), 1);
    let (log, found) = rig.open();
    assert_eq!(found.len(), 0);
    rig.run(async move { append(&log, Key(1), 5000, Urgency::Now).await });
    rig.crash(Crash::Process);
    rig
}

#[track_caller]
fn refused(rig: &mut Rig, identity: Identity) -> OpenError {
    let before = rig.commands;
    let error = rig.try_open(identity, OpenMode::Recover).err().expect("the device is refused");
    assert!(rig.commands - before <= 9, "a report and first blocks, no more");
    error
}

#[test]
fn a_blank_device_is_formatted_and_found_again() {
    for kind in KINDS {
        let mut rig = Rig::new(geometry(kind, 8), 1);
        let (log, found) = rig.open();
        assert_eq!((found.len(), log.identity(), log.zone_counts()[0]), (0, IDENTITY, 8));
        rig.crash(Crash::Power);
        let other = Identity { log: [9; 16], ..IDENTITY };
        let (log, _) = rig.try_open(other, OpenMode::Recover).expect("it opens");
        // A zoned device without a record has no block that carries an identity.
        let expected = if kind == DeviceKind::Zoned { other } else { IDENTITY };
        assert_eq!(log.identity(), expected, "{kind:?}");
        assert_eq!(rig.refusals, []);
    }
}

#[test]
fn a_device_with_a_log_keeps_that_logs_identity_and_says_so_in_every_first_block() {
    for kind in KINDS {
        let mut rig = with_one_record(kind);
        let other = Identity { log: [9; 16], ..IDENTITY };
        let (log, found) = rig.try_open(other, OpenMode::Recover).expect("it opens");
        assert_eq!((log.identity(), found.len()), (IDENTITY, 1));
        let block = first_block(&mut rig, found[0].extent.zone);
        assert_eq!(FirstBlock::read(&block, CRC).identity(), Some(IDENTITY));
        assert_eq!(FirstBlock::read(&[0; BLOCK_BYTES], CRC), FirstBlock::Blank);
    }
}

#[test]
fn a_foreign_device_is_refused_and_formatted_only_when_told_so() {
    for kind in KINDS {
        let mut rig = Rig::new(geometry(kind, 8), 1);
        put_block(&mut rig, ZoneId(3), b"somebody's file system");
        rig.crash(Crash::Process);
        assert_eq!(refused(&mut rig, IDENTITY), OpenError::Foreign(ZoneId(3)));
        assert!(first_block(&mut rig, ZoneId(3)).starts_with(b"somebody"), "nothing was touched");
        let (log, _) = rig.try_open(IDENTITY, OpenMode::Format).expect("it is formatted");
        assert_eq!(log.zone_counts()[0], 8);
        rig.crash(Crash::Power);
        assert_eq!(rig.open().1.len(), 0);
    }
}

#[test]
fn formatting_loses_what_was_there_for_good() {
    for kind in KINDS {
        let mut rig = with_one_record(kind);
        rig.try_open(Identity { log: [9; 16], ..IDENTITY }, OpenMode::Format).expect("formatted");
        rig.crash(Crash::Power);
        assert_eq!(rig.open().1, []);
    }
}

#[test]
fn other_shards_other_zones_other_logs_and_other_versions_are_refused() {
    for kind in KINDS {
        let mut rig = with_one_record(kind);
        let others = [(1, 2), (0, 2)];
        for (shard, shard_count) in others {
            let error = refused(&mut rig, Identity { shard, shard_count, ..IDENTITY });
            assert_eq!(error, OpenError::Shards { found: IDENTITY });
        }
        let mine = first_block(&mut rig, ZoneId(0));

        let mut version = mine.clone();
        version[4] = 4;
        let crc = CRC.of(0, &version[..60]);
        version[60..64].copy_from_slice(&crc.to_le_bytes());
        put_block(&mut rig, ZoneId(5), &version);
        rig.crash(Crash::Process);
        assert_eq!(refused(&mut rig, IDENTITY), OpenError::Version(ZoneId(5), 4));

        let mut log = mine;
        log[8] = 1;
        let crc = CRC.of(0, &log[..60]);
        log[60..64].copy_from_slice(&crc.to_le_bytes());
        put_block(&mut rig, ZoneId(5), &log);
        rig.crash(Crash::Process);
        assert_eq!(refused(&mut rig, IDENTITY), OpenError::Mixed(ZoneId(5)));
    }
    let mut rig = Rig::new(geometry(DeviceKind::Conventional, 8), 1);
    rig.open();
    rig.crash(Crash::Process);
    let mark = first_block(&mut rig, ZoneId(0));
    let mut smaller = Rig::new(geometry(DeviceKind::Conventional, 6), 1);
    put_block(&mut smaller, ZoneId(0), &mark);
    let zones = OpenError::Zones { zone_count: 8, zone_capacity: crate::rig::ZONE };
    assert_eq!(refused(&mut smaller, IDENTITY), zones);
    // With another shard count the zone counts differ as well. The error must name the shards.
    let more = Identity { shard_count: 2, ..IDENTITY };
    assert_eq!(refused(&mut smaller, more), OpenError::Shards { found: IDENTITY });
}

#[test]
fn a_damaged_first_block_costs_its_zone_and_not_the_log() {
    for kind in KINDS {
        for bit in [3, 40, 70, 200, 240, 300, 500] {
            let mut rig = with_one_record(kind);
            let (log, _) = rig.open();
            let rewrite = zonal_zonelog::Stream::Rewrite;
            let record = crate::rig::record(Key(2), 100);
            let placed = rig.run(async move { log.append(rewrite, record, Urgency::Now).await });
            let kept = placed.expect("appended").extent().zone;
            rig.crash(Crash::Process);
            let damaged = ZoneId(1 - kept.0);
            let lba = rig.device.geometry().zone_start(damaged);
            rig.device.flip_bit(lba, bit);
            let (log, found) = rig.open();
            let keys: Vec<Key> = found.iter().map(|record| record.descriptor.key).collect();
            assert_eq!(keys, [Key(2)], "bit {bit} on {kind:?}");
            assert_eq!((log.zone_counts()[0], rig.refusals.len()), (7, 0), "its zone is empty");
            // The zone stays empty even when the bit flips back.
            drop(log);
            rig.crash(Crash::Power);
            rig.device.flip_bit(lba, bit);
            let found = match rig.try_open(IDENTITY, OpenMode::Recover) {
                Ok((_, found)) => found,
                Err(error) => panic!("bit {bit} on {kind:?}: {error}"),
            };
            let keys: Vec<Key> = found.iter().map(|record| record.descriptor.key).collect();
            assert_eq!(keys, [Key(2)], "bit {bit} on {kind:?}");
        }
    }
}

#[test]
fn an_unreadable_first_block_costs_its_zone_and_not_the_log() {
    for kind in KINDS {
        let mut rig = with_one_record(kind);
        let lba = rig.device.geometry().zone_start(ZoneId(5));
        if kind == DeviceKind::Zoned {
            put_block(&mut rig, ZoneId(5), b"?");
        }
        rig.device.make_unreadable(lba);
        let (log, found) = rig.open();
        assert_eq!((found.len(), log.zone_counts()[4]), (1, 0), "{kind:?}");
        drop(log);
        rig.crash(Crash::Power);
        let (log, again) = rig.open();
        assert_eq!((again, log.zone_counts()[4]), (found, 0), "{kind:?}");
        assert_eq!(rig.refusals.len(), 1, "the block can be read again");
    }
}

/// Extent of the damage at a zone whose first block is unreadable when the log is opened.
#[derive(Clone, Copy, Debug)]
enum Damage {
    OfTheBlock,
    AndTheNextWrite,
    AndTheZone,
}

/// Regression: recovery took the zone for empty without a reset. The tombstones of its records were
/// dropped with their own zones. When the block became readable again, removed records came back.
#[test]
fn a_first_block_that_cannot_be_read_once_brings_no_removal_back() {
    use DeviceKind::{Conventional, Zoned};
    for (kind, damage) in [
        (Conventional, Damage::OfTheBlock),
        (Conventional, Damage::AndTheNextWrite),
        (Zoned, Damage::OfTheBlock),
        (Zoned, Damage::AndTheZone),
    ] {
        let mut rig = Rig::new(geometry(kind, 8), 1);
        rig.settings.fill_zones = 1;
        let (log, _) = rig.open();
        let writer = log.clone();
        let old = rig.run(async move { append(&writer, Key(1), 5000, Urgency::Now).await });
        assert_eq!(fill_zones(&mut rig, &log, 1), [old.extent.zone]);
        let remover = log.clone();
        let removed = rig.run(async move { remover.remove(Key(1)).await }).expect("written");
        let young = fill_zones(&mut rig, &log, 1)[0];
        drop(log);
        rig.crash(Crash::Process);
        let lba = rig.device.geometry().zone_start(old.extent.zone);
        rig.device.flip_bit(lba, 300);
        match damage {
            Damage::OfTheBlock => {}
            Damage::AndTheNextWrite => rig.device.fail_next_write(old.extent.zone),
            Damage::AndTheZone => rig.device.make_read_only(old.extent.zone),
        }
        let (log, found) = rig.open();
        assert!(!found.iter().any(|record| record.key() == Key(1)), "{kind:?}, {damage:?}");
        // After another fill, the young zone is reclaimed. Its tombstone is dropped if no record
        // needs it.
        empty_zone(&mut rig, &log, young);
        drop(log);
        rig.crash(Crash::Power);
        rig.device.flip_bit(lba, 300);
        let (log, found) = rig.open();
        let is_back = found.iter().any(|record| record.key() == Key(1));
        let is_dead = log.tombstone(Key(1)) == Some(removed);
        assert!(!is_back || is_dead, "{kind:?}, {damage:?}");
        let is_safe = matches!(damage, Damage::OfTheBlock);
        assert_eq!(log.tombstone(Key(1)).is_none(), is_safe, "{kind:?}, {damage:?}");
    }
}

#[test]
fn zones_that_are_gone_are_never_used() {
    let mut rig = with_one_record(DeviceKind::Zoned);
    rig.device.take_offline(ZoneId(4));
    rig.device.make_read_only(ZoneId(5));
    let (log, found) = rig.open();
    assert_eq!((found.len(), log.zone_counts()), (1, [5, 1, 0, 0, 2]));
    // A read-only zone with a record stays readable, and the log does not continue it.
    rig.crash(Crash::Process);
    rig.device.make_read_only(found[0].extent.zone);
    let (log, again) = rig.open();
    assert_eq!((again, log.zone_counts()), (found, [5, 0, 1, 0, 2]));
    // A log needs at least four usable zones.
    rig.crash(Crash::Process);
    (0..8).for_each(|zone| rig.device.take_offline(ZoneId(zone)));
    assert!(rig.open().0.is_gone());
    assert_eq!(rig.refusals, [], "nothing is asked of zones that are gone");
}

#[test]
fn a_zone_that_was_opened_and_not_written_is_not_left_active() {
    let mut rig =
        Rig::new(Geometry { max_active_zones: Some(2), ..geometry(DeviceKind::Zoned, 8) }, 1);
    let (log, _) = rig.open();
    for zone in [6, 7] {
        let open = Command::Manage { zone: ZoneId(zone), action: zonal_device::ZoneAction::Open };
        let device = rig.ports().device;
        rig.run(async move { device.call(open).await.expect("there is room for two") });
    }
    drop(log);
    rig.crash(Crash::Process);
    let (log, _) = rig.open();
    rig.run(async move { append(&log, Key(1), 5000, Urgency::Now).await });
    assert_eq!(rig.refusals, []);
}

#[test]
fn what_a_zone_holds_can_be_seen_without_a_log() {
    let mut rig = with_one_record(DeviceKind::Conventional);
    put_block(&mut rig, ZoneId(6), b"foreign");
    rig.crash(Crash::Process);
    let look = |rig: &mut Rig, zone| {
        let (ports, geometry) = (rig.ports(), *rig.device.geometry());
        let seen = rig.run(async move { inspect_zone(&ports, &geometry, ZoneId(zone)).await });
        seen.expect("the device is healthy")
    };
    match look(&mut rig, 0) {
        (report, ZoneContent::Records { first, segments, records, ending }) => {
            assert_eq!((report.state, first.identity), (ZoneState::Empty, IDENTITY));
            assert_eq!((segments.len(), records.len(), ending), (1, 1, ZoneEnd::Open(Blocks(3))));
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(look(&mut rig, 1).1, ZoneContent::Empty(mark) if mark.zone == ZoneId(1)));
    assert!(matches!(look(&mut rig, 6).1, ZoneContent::Foreign));
    let mut blank = Rig::new(geometry(DeviceKind::Zoned, 8), 1);
    assert!(matches!(look(&mut blank, 0).1, ZoneContent::Blank));
}

#[test]
fn settings_that_do_not_fit_the_device_are_refused_before_it_is_touched() {
    let refuse = |shape: Geometry, segment: Bytes| {
        let mut rig = Rig::new(shape, 1);
        rig.settings.segment_bytes = segment;
        let error = rig.try_open(IDENTITY, OpenMode::Format).err();
        assert_eq!(rig.commands, 0);
        error
    };
    let zoned = geometry(DeviceKind::Zoned, 8);
    let (kib_64, mib) = (Bytes::kib(64), Bytes::mib(1));
    let too_few =
        OpenError::Settings(SettingsError::TooFewZones { count: 3, kind: DeviceKind::Zoned });
    assert_eq!(refuse(Geometry { zone_count: 3, ..zoned }, kib_64), Some(too_few));
    let active = OpenError::Settings(SettingsError::TooFewActive);
    assert_eq!(refuse(Geometry { max_active_zones: Some(1), ..zoned }, kib_64), Some(active));
    let (size, least) = (Blocks(128).bytes(), Bytes::mib(2));
    let small = OpenError::Settings(SettingsError::ZoneTooSmall { size, least });
    assert_eq!(refuse(zoned, mib), Some(small));
    for bytes in [Bytes::kib(32), Bytes(100_000), Bytes::mib(2)] {
        let segment = OpenError::Settings(SettingsError::Segment(bytes));
        assert_eq!(refuse(zoned, bytes), Some(segment));
        assert!(0 < index(bytes.0));
    }
}

#[test]
fn errors_say_what_to_do() {
    let foreign = OpenError::Foreign(ZoneId(3)).to_string();
    assert!(foreign.contains("zone 3") && foreign.contains("format"), "{foreign}");
    let version = OpenError::Version(ZoneId(0), 2).to_string();
    assert!(version.contains("version 2"), "{version}");
    let shards = OpenError::Shards { found: IDENTITY }.to_string();
    assert!(shards.contains("for 1 shard ("), "{shards}");
    let zones = |count, kind| SettingsError::TooFewZones { count, kind }.to_string();
    let (one, three) = (zones(1, DeviceKind::Conventional), zones(3, DeviceKind::Zoned));
    assert!(one.starts_with("a shard would have 1 zone and needs 4: use"), "{one}");
    assert!(one.contains("zone="), "its zones may be smaller: {one}");
    assert!(three.starts_with("a shard would have 3 zones and needs 4: use"), "{three}");
    assert!(three.contains("zones=") && !three.contains("zone="), "they may not: {three}");
}
