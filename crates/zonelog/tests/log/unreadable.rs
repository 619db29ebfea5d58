//! Blocks that are unreadable during one recovery and readable during the next.

use std::collections::BTreeSet;

use zonal_base::{BLOCK_BYTES, Blocks, Lba, ZoneId};
use zonal_device::ram::Crash;
use zonal_device::{Answer, Command, DeviceKind, ZonedDevice};
use zonal_zonelog::{Damage, FirstBlock, Key, Log, Stream, Urgency};

use crate::append::append;
use crate::reclaim::{empty_zone, fill_zones, reclaim_oldest_for_ever};
use crate::rig::{CRC, FoundRecord, Rig, ZONE, content, geometry, read, record};

const KINDS: [DeviceKind; 2] = [DeviceKind::Zoned, DeviceKind::Conventional];

/// A rig whose log fills one zone at a time.
fn rig(kind: DeviceKind) -> (Rig, Log) {
    let mut rig = Rig::new(geometry(kind, 8), 1);
    rig.settings.fill_zones = 1;
    let log = rig.open().0;
    (rig, log)
}

/// Appends a record in a segment of its own.
fn append_one(rig: &mut Rig, log: &Log, key: u128) -> FoundRecord {
    let log = log.clone();
    rig.run(async move { append(&log, Key(key), 5000, Urgency::Now).await })
}

fn remove(rig: &mut Rig, log: &Log, key: u128) -> u64 {
    let log = log.clone();
    rig.run(async move { log.remove(Key(key)).await }).expect("the device is healthy")
}

/// Zones with blocks that could not be read when the log was opened.
fn unreadable(log: &Log) -> Vec<ZoneId> {
    let of = |damage: Damage| match damage {
        Damage::Unreadable(zone) => Some(zone),
        _ => None,
    };
    log.damage().into_iter().filter_map(of).collect()
}

/// Block of the header of a record's segment. Requires: the segment holds this record alone.
fn header_of(rig: &Rig, record: &FoundRecord) -> Lba {
    let start = rig.device.geometry().zone_start(record.extent.zone);
    start + Blocks(record.extent.byte_offset() / 4096 - 1)
}

fn reopen(rig: &mut Rig, log: Log, crash: Crash) -> (Log, Vec<FoundRecord>) {
    drop(log);
    rig.crash(crash);
    rig.open()
}

/// Keys that an owner would find alive, in order.
fn alive(log: &Log, found: &[FoundRecord]) -> Vec<u128> {
    let is_alive = |record: &&FoundRecord| {
        log.tombstone(record.key()).is_none_or(|removed| removed <= record.descriptor.generation)
    };
    let mut keys: Vec<u128> = found.iter().filter(is_alive).map(|record| record.key().0).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// Reopens the log while blocks of `zone` are unreadable, appends, and reopens it with all blocks
/// readable.
#[track_caller]
fn check_sealed(kind: DeviceKind, rig: &mut Rig, log: Log, zone: ZoneId, keys: &[u128]) {
    let (log, _) = reopen(rig, log, Crash::Process);
    assert_eq!((unreadable(&log), log.stats().zones_unreadable), (vec![zone], 1), "{kind:?}");
    assert!(log.slots_balance());
    let next = append_one(rig, &log, 1000);
    assert_ne!(next.extent.zone, zone, "{kind:?}");
    rig.failing_reads.clear();
    let (log, found) = reopen(rig, log, Crash::Process);
    assert_eq!(unreadable(&log), []);
    let expected: Vec<u128> = keys.iter().copied().chain([1000]).collect();
    assert_eq!(alive(&log, &found), expected, "{kind:?}");
    for record in found.iter().filter(|record| record.extent.len == 5000) {
        let bytes = rig.run(read((log.clone(), rig.ports()), record.clone(), 0..5000));
        assert!(bytes == Ok(content(record.key(), 5000)), "{record:?}");
    }
    assert_eq!(rig.refusals, []);
}

/// Regression: recovery continued the zone at the unreadable block. New segments overwrote the old
/// ones, or the old ones hid the new records during the next recovery.
#[test]
fn a_zone_is_not_gone_on_with_when_a_header_cannot_be_read() {
    for kind in KINDS {
        for hidden in [1, 2] {
            let (mut rig, log) = rig(kind);
            let records = [1, 2, 3].map(|key| append_one(&mut rig, &log, key));
            rig.failing_reads.insert(header_of(&rig, &records[hidden]));
            check_sealed(kind, &mut rig, log, records[0].extent.zone, &[1, 2, 3]);
        }
    }
}

#[test]
fn a_zone_is_not_gone_on_with_when_the_end_of_its_last_segment_cannot_be_read() {
    for kind in KINDS {
        let (mut rig, log) = rig(kind);
        let records = [1, 2, 3].map(|key| append_one(&mut rig, &log, key));
        rig.failing_reads.insert(header_of(&rig, &records[2]) + Blocks(2));
        check_sealed(kind, &mut rig, log, records[2].extent.zone, &[1, 2, 3]);
    }
}

/// Regression: on a conventional device recovery continued the zone in front of its unreadable
/// footer. When the footer became readable, recovery did not look at the new segments in front of
/// it.
#[test]
fn a_zone_is_not_gone_on_with_when_its_footer_cannot_be_read() {
    for kind in KINDS {
        let (mut rig, log) = rig(kind);
        append_one(&mut rig, &log, 1);
        let zone = fill_zones(&mut rig, &log, 1)[0];
        let before = reopen(&mut rig, log, Crash::Process);
        let keys = alive(&before.0, &before.1);
        let last = rig.device.geometry().zone_start(zone) + (ZONE - Blocks(1));
        rig.failing_reads.insert(last);
        let (log, found) = reopen(&mut rig, before.0, Crash::Process);
        assert_eq!((alive(&log, &found), unreadable(&log)), (keys.clone(), vec![zone]));
        // The zone has little room left, and the rewrite stream gets it.
        let writer = log.clone();
        let new = rig.run(async move {
            writer.append(Stream::Rewrite, record(Key(1000), 100), Urgency::Now).await.map(drop)
        });
        assert_eq!(new, Ok(()));
        rig.failing_reads.clear();
        let (log, found) = reopen(&mut rig, log, Crash::Process);
        assert!(alive(&log, &found).contains(&1000), "{kind:?}");
        assert_eq!(rig.refusals, []);
    }
}

/// Regression: the walk ended at the unreadable block and missed the tombstone behind it, so the
/// record was back at once.
#[test]
fn a_removal_behind_a_block_that_cannot_be_read_holds() {
    for kind in KINDS {
        for at in [0, 1] {
            let (mut rig, log) = rig(kind);
            let old = append_one(&mut rig, &log, 1);
            assert_eq!(fill_zones(&mut rig, &log, 1), [old.extent.zone]);
            let zone = append_one(&mut rig, &log, 10).extent.zone;
            let records = [11, 12].map(|key| append_one(&mut rig, &log, key));
            assert!(records.iter().all(|record| record.extent.zone == zone));
            let removed = remove(&mut rig, &log, 1);
            let hidden = match at {
                0 => rig.device.geometry().zone_start(zone),
                _ => header_of(&rig, &records[0]),
            };
            rig.failing_reads.insert(hidden);
            let (log, _) = reopen(&mut rig, log, Crash::Process);
            assert_eq!(log.tombstone(Key(1)), Some(removed), "{kind:?}, {at}");
            assert_eq!(unreadable(&log), [zone]);
            assert!(log.slots_balance());
            // The tombstone is rewritten before its zone is reset. A zone without a first block is
            // reset at once.
            if log.zone_counts()[2] == 2 {
                empty_zone(&mut rig, &log, zone);
            }
            let (log, found) = reopen(&mut rig, log, Crash::Power);
            assert_eq!(log.tombstone(Key(1)), Some(removed), "{kind:?}, {at}");
            assert!(!alive(&log, &found).contains(&1));
        }
    }
}

/// Regression: while a record was unreadable, a removal of its key got a generation no higher than
/// the record's, and the tombstone was not kept.
#[test]
fn what_is_removed_while_it_cannot_be_read_stays_removed() {
    for kind in KINDS {
        let (mut rig, log) = rig(kind);
        // The readable part of the zone needs no tombstone.
        remove(&mut rig, &log, 9);
        let hidden = append_one(&mut rig, &log, 1);
        rig.failing_reads.insert(header_of(&rig, &hidden));
        let (log, found) = reopen(&mut rig, log, Crash::Process);
        assert_eq!(alive(&log, &found), [0; 0]);
        let removed = remove(&mut rig, &log, 1);
        assert!(hidden.descriptor.generation < removed, "{kind:?}");
        let young = fill_zones(&mut rig, &log, 1)[0];
        assert_ne!(young, hidden.extent.zone);
        empty_zone(&mut rig, &log, young);
        rig.failing_reads.clear();
        let (log, found) = reopen(&mut rig, log, Crash::Power);
        assert!(found.iter().any(|record| record.key() == Key(1)), "it can be read again");
        assert!(!alive(&log, &found).contains(&1), "{kind:?}");
    }
}

/// Appends and removes random keys, one at a time, so that each record has a segment of its own.
/// `removed` collects the keys whose last acknowledged operation is a removal.
fn live(rig: &mut Rig, log: &Log, steps: u64, removed: &mut BTreeSet<u128>) {
    rig.spawn(reclaim_oldest_for_ever(log.clone()));
    for _ in 0..steps {
        let (key, writer) = (u128::from(rig.rng.below(24)), log.clone());
        if rig.rng.one_in(3) {
            if rig.run(async move { writer.remove(Key(key)).await }).is_ok() {
                removed.insert(key);
            }
        } else {
            let record = record(Key(key), if rig.rng.one_in(2) { 100 } else { 14_000 });
            removed.remove(&key);
            rig.run(async move {
                let _ = writer.append(Stream::Fill, record, Urgency::Now).await;
            });
        }
    }
}

/// Picks a random header to make unreadable. Headers of tombstones alone are excluded: losing one
/// loses its tombstones.
fn any_header(rig: &mut Rig) -> Option<Lba> {
    let zone = ZoneId(u32::try_from(rig.rng.below(8)).expect("few"));
    let lba = rig.device.geometry().zone_start(zone) + Blocks(rig.rng.below(ZONE.0));
    let ports = rig.ports();
    let block = rig.run(async move {
        let buffer = ports.buffers.take(Blocks(1)).await;
        ports.device.call(Command::Read { lba, blocks: Blocks(1), buffer }).await
    });
    let Ok(Answer::Read(block)) = block else { return None };
    match FirstBlock::read(&block.bytes()[..BLOCK_BYTES], CRC) {
        FirstBlock::Segment(header) if 0 < header.payload_blocks => Some(lba),
        _ => None,
    }
}

#[test]
fn whatever_cannot_be_read_what_was_removed_stays_removed() {
    let mut unreadable = 0;
    for kind in KINDS {
        for seed in 0..40 {
            let mut rig = Rig::new(geometry(kind, 8), seed);
            let (mut log, mut found) = rig.open();
            let mut removed = BTreeSet::new();
            for round in 0..4 {
                let back: Vec<u128> = alive(&log, &found);
                let back = back.into_iter().find(|key| removed.contains(key));
                assert_eq!(back, None, "{kind:?}, seed {seed}, round {round}");
                let steps = 40 + rig.rng.below(120);
                live(&mut rig, &log, steps, &mut removed);
                drop(log);
                let crash = if rig.rng.one_in(2) { Crash::Power } else { Crash::Process };
                rig.crash(crash);
                rig.failing_reads.clear();
                let headers: Vec<Lba> = (0..24).filter_map(|_| any_header(&mut rig)).collect();
                let count = rig.rng.below(4).min(headers.len() as u64);
                for header in &headers[..zonal_base::index(count)] {
                    let geometry = *rig.device.geometry();
                    let start = geometry.zone_start(geometry.zone_of(*header));
                    // Without its footer, a full zone is walked as well.
                    rig.failing_reads.extend([*header, start + (ZONE - Blocks(1))]);
                }
                (log, found) = rig.open();
                unreadable += log.stats().zones_unreadable;
            }
        }
    }
    assert!(100 < unreadable, "{unreadable} zones could not be read");
}
