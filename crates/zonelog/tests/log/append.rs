//! Appends, segments and reads of the log on a healthy device.

use std::cell::RefCell;
use std::rc::Rc;

use zonal_base::{Blocks, Bytes, Nanos, ZoneId};
use zonal_device::{DeviceKind, ZonedDevice};
use zonal_zonelog::{
    Key, Log, ReadError, Settings, Stream, Urgency, ZoneContent, ZoneEnd, inspect_zone,
};

use crate::rig::{FoundRecord, Rig, content, geometry, read, record};

/// Appends a record and waits until it is on flash. Drops the [`zonal_zonelog::UnpublishedRecord`] at once.
pub(crate) async fn append(log: &Log, key: Key, len: u32, urgency: Urgency) -> FoundRecord {
    let placed = log.append(Stream::Fill, record(key, len), urgency).await;
    FoundRecord::of(&placed.expect("the device is healthy"))
}

/// Appends records of `len` bytes concurrently, and waits until all are on flash.
pub(crate) fn append_many(
    rig: &mut Rig,
    log: &Log,
    keys: std::ops::Range<u128>,
    len: u32,
) -> Vec<FoundRecord> {
    let found = Rc::new(RefCell::new(Vec::new()));
    for key in keys {
        let (log, out) = (log.clone(), found.clone());
        rig.spawn(async move {
            let record = append(&log, Key(key), len, Urgency::Linger).await;
            out.borrow_mut().push(record);
        });
    }
    rig.run_until_idle();
    found.take()
}

#[test]
fn a_record_is_read_back_whole_and_in_parts() {
    for kind in [DeviceKind::Zoned, DeviceKind::Conventional] {
        let mut rig = Rig::new(geometry(kind, 8), 1);
        let (log, _) = rig.open();
        for len in [1, 15, 16, 17, 4095, 4096, 4097, 32_768, 32_769, 65_535, 65_536] {
            let (writer, key) = (log.clone(), Key(u128::from(len) << 64 | 5));
            let found = rig.run(async move { append(&writer, key, len, Urgency::Now).await });
            let expected = content(key, len);
            let ranges = [0..len, 0..1, len - 1..len, len / 3..len / 2 + 1, len / 2..len];
            for range in ranges {
                let at = (log.clone(), rig.ports());
                let bytes = rig.run(read(at, found.clone(), range.clone()));
                let wanted = &expected[range.start as usize..range.end as usize];
                assert!(bytes.as_deref() == Ok(wanted), "{range:?} of {len} on {kind:?}");
            }
        }
        assert_eq!(log.held(), 0);
        assert_eq!(rig.refusals, []);
    }
}

#[test]
fn a_small_range_reads_only_the_granules_that_it_touches() {
    let mut rig = Rig::new(geometry(DeviceKind::Zoned, 8), 1);
    let (log, _) = rig.open();
    let writer = log.clone();
    let found = rig.run(async move { append(&writer, Key(1), 65_536, Urgency::Now).await });
    for (range, blocks) in [(0..4096, 8), (32_767..32_769, 16), (65_535..65_536, 8)] {
        let before = rig.blocks_read;
        let at = (log.clone(), rig.ports());
        rig.run(read(at, found.clone(), range.clone())).expect("it is there");
        assert_eq!(rig.blocks_read - before, blocks, "{range:?}");
    }
}

#[test]
fn bytes_of_another_record_do_not_pass_for_a_record() {
    let mut rig = Rig::new(geometry(DeviceKind::Zoned, 8), 1);
    let (log, _) = rig.open();
    let records = append_many(&mut rig, &log, 0..2, 8000);
    let extent = records[1].extent;
    let wrong = FoundRecord { extent, ..records[0].clone() };
    let bytes = rig.run(read((log.clone(), rig.ports()), wrong, 0..8000));
    assert_eq!(bytes, Err(ReadError::Check));
    assert_eq!(log.stats().check_errors, 1);
}

#[test]
fn small_records_share_a_segment_and_its_blocks() {
    let mut rig = Rig::new(geometry(DeviceKind::Zoned, 8), 1);
    let (log, _) = rig.open();
    let records = append_many(&mut rig, &log, 0..50, 100);
    assert_eq!(records.len(), 50);
    let stats = log.stats();
    // One block for the header, and two blocks for 50 records of 112 bytes each (padded).
    assert_eq!((stats.segments, stats.device_written_bytes), (1, 3 * 4096));
    for found in records {
        let at = (log.clone(), rig.ports());
        let bytes = rig.run(read(at, found.clone(), 0..100));
        assert!(bytes == Ok(content(found.key(), 100)));
    }
}

#[test]
fn a_segment_that_is_not_full_is_written_after_the_linger() {
    let mut rig = Rig::new(geometry(DeviceKind::Zoned, 8), 1);
    let (log, _) = rig.open();
    for (urgency, earliest) in [(Urgency::Linger, rig.settings.linger), (Urgency::Now, Nanos(0))] {
        let (writer, start) = (log.clone(), rig.now);
        rig.run(async move { append(&writer, Key(1), 100, urgency).await });
        let took = rig.now - start;
        assert!(earliest <= took && took < earliest + Nanos::millis(1), "{urgency:?}: {took}");
    }
    assert_eq!(log.stats().segments_lingered, 1);
}

#[test]
fn everything_that_was_appended_can_be_written_at_once() {
    let mut rig = Rig::new(geometry(DeviceKind::Zoned, 8), 1);
    let (log, _) = rig.open();
    let (writer, start) = (log.clone(), rig.now);
    rig.spawn(async move {
        append(&writer, Key(1), 100, Urgency::Linger).await;
    });
    rig.run_steps(0);
    log.seal_all();
    while log.stats().segments == 0 {
        rig.run_steps(1);
    }
    assert!(rig.now - start < Nanos::millis(1));
}

#[test]
fn zones_are_filled_to_the_end_and_end_in_a_footer_that_lists_their_records() {
    for kind in [DeviceKind::Zoned, DeviceKind::Conventional] {
        let mut rig = Rig::new(geometry(kind, 8), 1);
        let (log, _) = rig.open();
        // A segment has four records of four blocks and a header block: 17 blocks, seven segments
        // per zone.
        let records = append_many(&mut rig, &log, 0..150, 16_384);
        assert_eq!(log.zone_counts()[2], 4, "four zones are full");
        let sealed = log.take_sealed();
        assert_eq!(sealed.len(), 4);
        for zone in sealed {
            let (ports, geometry) = (rig.ports(), *rig.device.geometry());
            let seen = rig.run(async move { inspect_zone(&ports, &geometry, zone).await });
            let Ok((report, ZoneContent::Records { records: listed, ending, .. })) = seen else {
                panic!("a full zone has records")
            };
            assert_eq!((report.written, ending), (geometry.zone_capacity, ZoneEnd::Footer));
            let mut expected: Vec<_> =
                records.iter().filter(|record| record.extent.zone == zone).collect();
            expected.sort_by_key(|record| record.extent.offset);
            let listed: Vec<_> = listed.iter().collect();
            let expected: Vec<_> = expected.iter().map(|record| &record.descriptor).collect();
            assert_eq!(listed, expected);
            assert_eq!(listed.len(), 7 * 4 + 1, "all but eight headers, a footer and three blocks");
        }
        assert_eq!(rig.refusals, []);
        assert!(log.slots_balance());
    }
}

#[test]
fn appends_wait_while_the_backlog_is_full() {
    let mut rig = Rig::new(geometry(DeviceKind::Zoned, 8), 1);
    rig.settings.backlog_max = Bytes::kib(64);
    let (log, _) = rig.open();
    for key in 0..40 {
        let log = log.clone();
        rig.spawn(async move {
            append(&log, Key(key), 16_384, Urgency::Linger).await;
        });
    }
    let mut most = 0;
    while log.stats().appended_bytes < 40 * 16_384 {
        rig.run_steps(1);
        most = most.max(log.backlog().0);
        assert_eq!(log.has_room(16_384), log.backlog().0 + 16_384 <= 64 << 10);
    }
    rig.run_until_idle();
    assert_eq!((most, log.backlog()), (64 << 10, Bytes(0)));
    assert_eq!((log.held(), log.slots_balance()), (0, true));
}

#[test]
fn streams_do_not_share_zones() {
    let mut rig = Rig::new(geometry(DeviceKind::Zoned, 8), 1);
    let (log, _) = rig.open();
    let zone_of = |rig: &mut Rig, stream, key| {
        let log = log.clone();
        rig.run(async move {
            log.append(stream, record(Key(key), 100), Urgency::Now).await.map(|it| it.extent().zone)
        })
    };
    let fill = zone_of(&mut rig, Stream::Fill, 1);
    let rewrite = zone_of(&mut rig, Stream::Rewrite, 2);
    assert!(fill.is_ok() && rewrite.is_ok() && fill != rewrite);
    assert_eq!(zone_of(&mut rig, Stream::Fill, 3), fill);
    assert_eq!(zone_of(&mut rig, Stream::Rewrite, 4), rewrite);
}

#[test]
fn the_largest_records_fill_segments_of_their_own() {
    let mut shape = geometry(DeviceKind::Zoned, 8);
    (shape.zone_capacity, shape.zone_size) = (Blocks(2048), Blocks(2048));
    let mut rig = Rig::new(shape, 1);
    rig.settings.segment_bytes = Settings::SEGMENT;
    rig.settings.backlog_max = Bytes::mib(4);
    let (log, _) = rig.open();
    let records = append_many(&mut rig, &log, 0..10, 1 << 20);
    assert_eq!((records.len(), log.stats().segments), (10, 10));
    let first = records.iter().filter(|record| record.extent.zone == ZoneId(0));
    assert!(first.clone().all(|record| (record.extent.byte_offset()) % 4096 == 0));
    for found in records {
        let at = (log.clone(), rig.ports());
        let bytes = rig.run(read(at, found.clone(), 0..1 << 20));
        assert!(bytes == Ok(content(found.key(), 1 << 20)));
    }
}
