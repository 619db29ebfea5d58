//! Reclaim: victims, pins, rewrites, and resets.

use std::cell::Cell;
use std::rc::Rc;

use zonal_base::ZoneId;
use zonal_device::ram::Crash;
use zonal_device::{DeviceError, DeviceKind, Geometry};
use zonal_zonelog::{AppendError, Key, Log, Stream, Urgency, ZoneFacts};

use crate::append::{append, append_many};
use crate::rig::{Rig, content, geometry, read, record};

const KINDS: [DeviceKind; 2] = [DeviceKind::Zoned, DeviceKind::Conventional];

/// Appends filler records until `count` more zones are sealed. Returns these zones, oldest first.
pub(crate) fn fill_zones(rig: &mut Rig, log: &Log, count: usize) -> Vec<ZoneId> {
    let _ = log.take_sealed();
    let mut sealed = Vec::new();
    let mut key = 1 << 100;
    while sealed.len() < count {
        let filler = log.clone();
        key += 1;
        rig.run(async move { append(&filler, Key(key), 30_000, Urgency::Now).await });
        rig.run_until_calm();
        sealed.extend(log.take_sealed());
    }
    sealed
}

pub(crate) fn empty_zone(rig: &mut Rig, log: &Log, zone: ZoneId) {
    let log = log.clone();
    rig.run(async move { reclaim(&log, zone).await }).expect("the zone is reset");
}

/// Reclaims a zone without keeping any record.
pub(crate) async fn reclaim(log: &Log, zone: ZoneId) -> Result<(), DeviceError> {
    log.begin_reclaim(zone).await.expect("tombstones have room").finish().await
}

/// Reclaims the oldest zone again and again, as an owner that keeps no record (FIFO).
pub(crate) async fn reclaim_oldest_for_ever(log: Log) {
    loop {
        let oldest = log.candidates().into_iter().min_by_key(|facts| facts.sequence);
        match oldest.filter(|_| !log.has_enough_empty_zones()) {
            Some(ZoneFacts { zone, .. }) => {
                if let Ok(reclaim) = log.begin_reclaim(zone).await {
                    let _ = reclaim.finish().await;
                }
            }
            None => log.reclaim_wanted().await,
        }
    }
}

#[test]
fn zones_are_filled_and_given_back_for_ever_at_every_limit() {
    for kind in KINDS {
        for max_active_zones in [None, Some(2), Some(3), Some(14)] {
            for zone_count in [4, 5, 8] {
                let shape = Geometry { max_active_zones, ..geometry(kind, zone_count) };
                let mut rig = Rig::new(shape, 1);
                rig.settings.fill_zones = 14;
                let (log, _) = rig.open();
                rig.spawn(reclaim_oldest_for_ever(log.clone()));
                for round in 0..4 {
                    append_many(&mut rig, &log, round * 200..round * 200 + 200, 16_384);
                }
                let stats = log.stats();
                assert_eq!(stats.appended_bytes, 800 * 16_384, "{shape:?}");
                assert!(15 < stats.zones_reset, "{shape:?}: {stats:?}");
                assert_eq!((log.held(), log.slots_balance()), (0, true));
                assert_eq!(rig.refusals, []);
            }
        }
    }
}

#[test]
fn a_reset_waits_for_reads_under_way() {
    for kind in KINDS {
        let mut rig = Rig::new(geometry(kind, 8), 1);
        let (log, _) = rig.open();
        let writer = log.clone();
        let found = rig.run(async move { append(&writer, Key(1), 30_000, Urgency::Now).await });
        let zone = fill_zones(&mut rig, &log, 1)[0];
        assert_eq!(zone, found.extent.zone);
        let done = Rc::new(Cell::new(false));
        let (at, heard) = ((log.clone(), rig.ports()), done.clone());
        let expected = content(Key(1), 30_000);
        rig.spawn(async move {
            assert!(read(at, found, 0..30_000).await == Ok(expected));
            heard.set(true);
        });
        rig.run_steps(0);
        let (reclaiming, read_before) = (log.clone(), done.clone());
        let reset_after_read = rig.run(async move {
            reclaim(&reclaiming, zone).await.expect("the zone is reset");
            read_before.get()
        });
        assert!(reset_after_read && rig.refusals.is_empty());
    }
}

#[test]
fn a_reset_waits_for_reads_whose_readers_went_away() {
    let mut rig = Rig::new(geometry(DeviceKind::Zoned, 8), 1);
    let (log, _) = rig.open();
    let writer = log.clone();
    let found = rig.run(async move { append(&writer, Key(1), 30_000, Urgency::Now).await });
    let zone = fill_zones(&mut rig, &log, 1)[0];
    let buffer = rig.ports().buffers.try_take(zonal_base::Blocks(17)).expect("plenty");
    let place = (found.key(), found.extent);
    drop(log.start_read(place, found.checks(), &(0..30_000), buffer));
    assert_eq!(log.held(), 1, "the device still reads");
    empty_zone(&mut rig, &log, zone);
    assert_eq!((log.held(), &rig.refusals[..]), (0, &[][..]));
    assert_eq!(rig.ports().buffers.pool().in_use(), 0);
}

/// Regression: a reader that waited for a client's socket kept its pins and those of its
/// read-ahead. Reclaim waited for the pins, and all appends that needed an empty zone waited for
/// reclaim.
#[test]
fn a_reset_does_not_wait_until_readers_come_for_what_was_read() {
    let mut rig = Rig::new(geometry(DeviceKind::Zoned, 8), 1);
    let (log, _) = rig.open();
    let writer = log.clone();
    let found = rig.run(async move { append(&writer, Key(1), 30_000, Urgency::Now).await });
    let zone = fill_zones(&mut rig, &log, 1)[0];
    let buffer = rig.ports().buffers.try_take(zonal_base::Blocks(17)).expect("plenty");
    let place = (found.key(), found.extent);
    let mut reading = log.start_read(place, found.checks(), &(0..30_000), buffer);
    empty_zone(&mut rig, &log, zone);
    assert_eq!(log.held(), 0);
    let payload =
        rig.run(async move { reading.done().await }).expect("it was read before the reset");
    assert!(payload.as_bytes() == content(Key(1), 30_000));
}

#[test]
fn a_zone_with_a_record_that_is_not_published_is_no_candidate() {
    let mut rig = Rig::new(geometry(DeviceKind::Zoned, 8), 1);
    let (log, _) = rig.open();
    let writer = log.clone();
    let placed = rig.run(async move {
        writer.append(Stream::Fill, record(Key(1), 5000), Urgency::Now).await.expect("written")
    });
    let zone = placed.extent().zone;
    assert_eq!(fill_zones(&mut rig, &log, 1), [zone]);
    assert_eq!((log.candidates().len(), log.held()), (0, 1));
    drop(placed);
    assert_eq!(log.candidates().len(), 1);
}

#[test]
fn what_an_owner_keeps_is_found_after_a_crash_and_no_second_copy_counts() {
    for kind in KINDS {
        let mut rig = Rig::new(geometry(kind, 8), 1);
        let (log, _) = rig.open();
        let writer = log.clone();
        let found = rig.run(async move { append(&writer, Key(1), 30_000, Urgency::Now).await });
        let zone = fill_zones(&mut rig, &log, 1)[0];
        let (keeper, generation) = (log.clone(), found.descriptor.generation);
        rig.run(async move {
            let reclaim = keeper.begin_reclaim(zone).await.expect("no tombstones");
            let listed = reclaim.records().await.expect("the zone can be read");
            assert!(listed.iter().any(|record| record.key == Key(1)));
            let kept =
                zonal_zonelog::Record { generation: Some(generation), ..record(Key(1), 30_000) };
            let placed = keeper.append(Stream::Rewrite, kept, Urgency::Linger).await;
            assert_eq!(placed.expect("there is room").descriptor().generation, generation);
            reclaim.finish().await.expect("the zone is reset");
        });
        assert_eq!(log.stats().rewritten_bytes, 30_000);
        drop(log);
        // The rewritten record is flushed before the reset of its old zone.
        rig.crash(Crash::Power);
        let (log, records) = rig.open();
        let copies: Vec<_> = records.iter().filter(|record| record.key() == Key(1)).collect();
        assert_eq!(copies.len(), 1);
        let at = (log, rig.ports());
        assert!(rig.run(read(at, copies[0].clone(), 0..30_000)) == Ok(content(Key(1), 30_000)));
    }
}

#[test]
fn appends_wait_for_reclaim_when_no_zone_is_empty_and_that_is_counted() {
    let mut rig = Rig::new(geometry(DeviceKind::Zoned, 4), 1);
    let (log, _) = rig.open();
    let done = Rc::new(Cell::new(0));
    for key in 0..200 {
        let (log, done) = (log.clone(), done.clone());
        rig.spawn(async move {
            append(&log, Key(key), 16_384, Urgency::Linger).await;
            done.set(done.get() + 1);
        });
    }
    rig.run_until_idle();
    let before = done.get();
    assert!(before < 200 && log.zone_counts()[0] == 1, "one empty zone is kept for rewrites");
    assert!(0 < log.stats().foreground_waits && log.wants_reclaim());
    rig.spawn(reclaim_oldest_for_ever(log.clone()));
    rig.run_until_idle();
    assert_eq!(done.get(), 200);
}

#[test]
fn rewrites_that_find_no_zone_are_told_so_instead_of_waiting_for_ever() {
    for kind in KINDS {
        let mut rig = Rig::new(geometry(kind, 4), 1);
        let (log, _) = rig.open();
        let zone = fill_zones(&mut rig, &log, 1)[0];
        let rewriter = log.clone();
        let (kept, error) = rig.run(async move {
            let reclaim = rewriter.begin_reclaim(zone).await.expect("no tombstones");
            for key in 0.. {
                let placed =
                    rewriter.append(Stream::Rewrite, record(Key(key), 30_000), Urgency::Now).await;
                if let Err(error) = placed {
                    reclaim.finish().await.expect("there is always room for that");
                    return (key, error);
                }
            }
            unreachable!("zones are finite")
        });
        assert_eq!(error, AppendError::Full);
        assert!(8 < kept, "as long as there was room");
        assert_eq!((log.zone_counts()[0], log.slots_balance()), (1, true));
        append_many(&mut rig, &log, 0..1, 100);
        assert_eq!(rig.refusals, []);
    }
}

#[test]
fn a_zone_that_cannot_be_reset_is_retired() {
    let mut rig = Rig::new(geometry(DeviceKind::Zoned, 8), 1);
    let (log, _) = rig.open();
    let zone = fill_zones(&mut rig, &log, 1)[0];
    rig.device.make_read_only(zone);
    let reclaiming = log.clone();
    let outcome = rig.run(async move { reclaim(&reclaiming, zone).await });
    assert_eq!(outcome, Err(DeviceError::InvalidTransition));
    assert_eq!((log.zone_counts()[4], log.is_gone()), (1, false));
}
