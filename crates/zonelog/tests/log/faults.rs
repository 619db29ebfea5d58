//! Device failures: failed writes, failed resets, unreadable blocks, a lost device.

use zonal_base::{Blocks, ZoneId};
use zonal_device::ram::Crash;
use zonal_device::{DeviceError, DeviceKind, Geometry, ZonedDevice};
use zonal_zonelog::{AppendError, Key, Log, ReadError, Stream, Urgency, ZoneFacts};

use crate::append::{append, append_many};
use crate::reclaim::{empty_zone, fill_zones, reclaim, reclaim_oldest_for_ever};
use crate::rig::{FoundRecord, Rig, content, geometry, read, record};

const KINDS: [DeviceKind; 2] = [DeviceKind::Zoned, DeviceKind::Conventional];

#[test]
fn a_failed_write_loses_its_records_and_the_log_goes_on_in_another_zone() {
    for kind in KINDS {
        let shape = Geometry { max_active_zones: Some(2), ..geometry(kind, 8) };
        let mut rig = Rig::new(shape, 1);
        let (log, _) = rig.open();
        let writer = log.clone();
        let kept = rig.run(async move { append(&writer, Key(1), 5000, Urgency::Now).await });
        rig.device.fail_next_write(kept.extent.zone);
        let writer = log.clone();
        let lost = rig.run(async move {
            writer.append(Stream::Fill, record(Key(2), 5000), Urgency::Now).await.err()
        });
        assert_eq!(lost, Some(AppendError::Lost(DeviceError::Media)));
        rig.run_until_idle();
        let writer = log.clone();
        let next = rig.run(async move { append(&writer, Key(3), 5000, Urgency::Now).await });
        assert_ne!(next.extent.zone, kept.extent.zone);
        let stats = log.stats();
        assert_eq!((stats.write_errors, log.backlog().0, log.held()), (1, 0, 0));
        assert!(log.slots_balance());
        let at = (log.clone(), rig.ports());
        assert!(rig.run(read(at, kept, 0..5000)) == Ok(content(Key(1), 5000)));
        drop(log);
        rig.crash(Crash::Process);
        let keys: Vec<Key> = rig.open().1.iter().map(|record| record.key()).collect();
        assert!(keys.contains(&Key(1)) && keys.contains(&Key(3)) && !keys.contains(&Key(2)));
        assert_eq!(rig.refusals, [DeviceError::Media]);
    }
}

#[test]
fn what_waits_behind_a_failed_write_is_told_so_too() {
    let mut rig = Rig::new(geometry(DeviceKind::Zoned, 8), 1);
    rig.settings.fill_zones = 1;
    let (log, _) = rig.open();
    rig.device.fail_next_write(ZoneId(0));
    let outcomes = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    for key in 0..16 {
        let (log, outcomes) = (log.clone(), outcomes.clone());
        rig.spawn(async move {
            let placed = log.append(Stream::Fill, record(Key(key), 30_000), Urgency::Linger).await;
            outcomes.borrow_mut().push(placed.is_ok());
        });
    }
    rig.run_until_idle();
    let outcomes = outcomes.take();
    assert_eq!(outcomes.len(), 16, "nobody waits for ever");
    assert!(outcomes.contains(&false) && outcomes.contains(&true));
    assert_eq!((log.held(), log.backlog().0, log.slots_balance()), (0, 0, true));
}

#[test]
fn a_removal_whose_write_failed_is_not_acknowledged() {
    let mut rig = Rig::new(geometry(DeviceKind::Zoned, 8), 1);
    let (log, _) = rig.open();
    append_many(&mut rig, &log, 1..2, 5000);
    rig.device.fail_next_write(ZoneId(0));
    let remover = log.clone();
    let outcome = rig.run(async move { remover.remove(Key(1)).await });
    assert_eq!(outcome, Err(AppendError::Lost(DeviceError::Media)));
    assert_eq!(log.tombstone(Key(1)), None);
    let remover = log.clone();
    assert!(rig.run(async move { remover.remove(Key(1)).await }).is_ok());
}

#[test]
fn tombstones_are_written_elsewhere_when_a_rewrite_fails() {
    let mut rig = Rig::new(geometry(DeviceKind::Zoned, 8), 1);
    rig.settings.fill_zones = 1;
    let (log, _) = rig.open();
    append_many(&mut rig, &log, 1..2, 5000);
    fill_zones(&mut rig, &log, 1);
    let remover = log.clone();
    let generation = rig.run(async move { remover.remove(Key(1)).await }).expect("written");
    let zone = fill_zones(&mut rig, &log, 1)[0];
    // The rewrite stream opens its zone on first use. One append shows which zone it is.
    let rewriter = log.clone();
    let placed = rig.run(async move {
        rewriter.append(Stream::Rewrite, record(Key(2), 100), Urgency::Now).await
    });
    let rewrites = placed.expect("written").extent().zone;
    rig.device.fail_next_write(rewrites);
    let reclaiming = log.clone();
    let outcome = rig.run(async move { reclaim(&reclaiming, zone).await });
    assert_eq!((outcome, log.tombstone(Key(1))), (Ok(()), Some(generation)));
    drop(log);
    rig.crash(Crash::Power);
    assert_eq!(rig.open().0.tombstone(Key(1)), Some(generation));
}

#[test]
fn flipped_bits_and_unreadable_blocks_are_told_from_data() {
    for kind in KINDS {
        let mut rig = Rig::new(geometry(kind, 8), 1);
        let (log, _) = rig.open();
        let writer = log.clone();
        let found = rig.run(async move { append(&writer, Key(1), 65_536, Urgency::Now).await });
        let start = rig.device.geometry().zone_start(found.extent.zone);
        let block = |at: u64| start + Blocks(found.extent.byte_offset() / 4096 + at);
        rig.device.flip_bit(block(3), 12_345);
        rig.device.make_unreadable(block(9));
        let mut read_range = |range: std::ops::Range<u32>| {
            let at = (log.clone(), rig.ports());
            rig.run(read(at, found.clone(), range))
        };
        assert_eq!(read_range(0..100), Err(ReadError::Check));
        assert_eq!(read_range(40_000..40_100), Err(ReadError::Device(DeviceError::Media)));
        assert_eq!((log.stats().check_errors, log.stats().read_errors, log.held()), (1, 1, 0));
        assert!(!log.is_gone());
    }
}

#[test]
fn a_device_that_is_gone_ends_every_wait_and_takes_nothing_any_more() {
    for kind in KINDS {
        let mut rig = Rig::new(geometry(kind, 4), 1);
        let (log, _) = rig.open();
        let answered = std::rc::Rc::new(std::cell::Cell::new(0));
        // More records than fit: some appends wait for an empty zone that never comes.
        for key in 0..300 {
            let (log, answered) = (log.clone(), answered.clone());
            rig.spawn(async move {
                let _ = log.append(Stream::Fill, record(Key(key), 16_384), Urgency::Linger).await;
                answered.set(answered.get() + 1);
            });
        }
        rig.run_until_idle();
        assert!(answered.get() < 300);
        rig.device.kill();
        rig.spawn(reclaim_oldest_for_ever(log.clone()));
        let remover = log.clone();
        let outcome = rig.run(async move { remover.remove(Key(1)).await });
        assert_eq!(outcome.err(), Some(AppendError::Gone));
        rig.run_until_idle();
        assert_eq!((answered.get(), log.is_gone()), (300, true));
        assert_eq!((log.held(), log.backlog().0), (0, 0));
        let remover = log.clone();
        let outcome = rig.run(async move { remover.remove(Key(1)).await });
        assert_eq!(outcome.err(), Some(AppendError::Gone));
    }
}

#[test]
fn a_device_that_is_worn_out_is_as_good_as_gone() {
    let mut rig = Rig::new(geometry(DeviceKind::Zoned, 5), 1);
    let (log, _) = rig.open();
    let zones = fill_zones(&mut rig, &log, 2);
    for zone in zones {
        rig.device.take_offline(zone);
        let reclaiming = log.clone();
        let outcome = rig.run(async move { reclaim(&reclaiming, zone).await });
        assert_eq!(outcome, Err(DeviceError::InvalidTransition));
    }
    assert!(log.is_gone(), "three zones are too few");
    let writer = log.clone();
    let outcome = rig.run(async move {
        writer.append(Stream::Fill, record(Key(1), 100), Urgency::Now).await.err()
    });
    assert_eq!(outcome, Some(AppendError::Gone));
}

/// A log whose zones, except the last one, which is empty, hold many needed tombstones. Returns the
/// sealed zones, oldest first; one more zone is open.
fn full_of_tombstones(kind: DeviceKind) -> (Rig, Log, Vec<ZoneId>) {
    let mut rig = Rig::new(geometry(kind, 8), 1);
    rig.settings.fill_zones = 1;
    let (log, _) = rig.open();
    // This record is older than all tombstones, and so is one in the second zone. So each zone's
    // tombstones are needed because of a record in another zone.
    append_many(&mut rig, &log, 1..2, 5000);
    let generation = Some(log.next_generation());
    let mut zones = Vec::new();
    remove_many(&mut rig, &log, 1000);
    while zones.len() < 6 {
        zones.extend(fill_zones(&mut rig, &log, 1));
        remove_many(&mut rig, &log, 1000 * (1 + zones.len() as u128));
        let (writer, old) =
            (log.clone(), zonal_zonelog::Record { generation, ..record(Key(2), 100) });
        let placed =
            rig.run(async move { writer.append(Stream::Fill, old, Urgency::Now).await.map(drop) });
        assert_eq!(placed, Ok(()));
    }
    assert_eq!(log.zone_counts(), [1, 1, 6, 0, 0]);
    (rig, log, zones)
}

fn remove_many(rig: &mut Rig, log: &Log, first: u128) {
    for key in first..first + 600 {
        let log = log.clone();
        rig.spawn(async move { assert!(log.remove(Key(key)).await.is_ok()) });
    }
    rig.run_until_calm();
}

/// Rewrites until the log refuses for lack of room. Returns the zone of the last rewrite.
async fn rewrite_until_full(log: Log) -> ZoneId {
    let mut last = ZoneId(0);
    for key in 5000.. {
        match log.append(Stream::Rewrite, record(Key(key), 4000), Urgency::Now).await {
            Ok(placed) => last = placed.extent().zone,
            Err(error) => {
                assert_eq!(error, AppendError::Full);
                break;
            }
        }
    }
    last
}

fn fail_reset(rig: &mut Rig, zone: ZoneId) {
    match rig.device.geometry().kind {
        DeviceKind::Zoned => rig.device.make_read_only(zone),
        // The reset writes a mark, and that write fails.
        DeviceKind::Conventional => rig.device.fail_next_write(zone),
    }
}

/// Runs more appends and removals than fit without reclaim. Returns how many ended, and how many of
/// these succeeded.
fn keep_busy(rig: &mut Rig, log: &Log) -> (u64, u64) {
    let ended = std::rc::Rc::new(std::cell::Cell::new((0, 0)));
    for key in 0..300 {
        let (log, ended) = (log.clone(), ended.clone());
        rig.spawn(async move {
            let record = record(Key(key), 16_384);
            let is_stored = log.append(Stream::Fill, record, Urgency::Linger).await.is_ok();
            let is_removed = log.remove(Key(key)).await.is_ok();
            let (all, good) = ended.get();
            ended.set((all + 1, good + u64::from(is_stored && is_removed)));
        });
    }
    rig.run_until_idle();
    ended.get()
}

/// Regression: rewrites had filled the last zone and left room for the tombstones of their victim.
/// When the victim could not be reset, no other zone's tombstones found room. Reclaim stopped, and
/// all appends and removals waited for ever.
#[test]
fn reclaim_goes_on_when_a_reset_fails_while_no_zone_is_empty() {
    for kind in KINDS {
        let (mut rig, log, zones) = full_of_tombstones(kind);
        let (reclaiming, victim) = (log.clone(), zones[2]);
        fail_reset(&mut rig, victim);
        let outcome = rig.run(async move {
            let reclaim = reclaiming.begin_reclaim(victim).await.expect("there is room");
            rewrite_until_full(reclaiming.clone()).await;
            reclaim.finish().await
        });
        assert!(outcome.is_err());
        assert_eq!((log.zone_counts()[0], log.zone_counts()[4]), (0, 1));
        rig.spawn(reclaim_oldest_for_ever(log.clone()));
        assert_eq!(keep_busy(&mut rig, &log), (300, 300), "{kind:?}");
    }
}

/// Regression: one media error while no zone was empty ended the log until the next restart.
#[test]
fn a_failed_write_while_no_zone_is_empty_does_not_end_the_log() {
    for kind in KINDS {
        let (mut rig, log, zones) = full_of_tombstones(kind);
        let (reclaiming, victim) = (log.clone(), zones[2]);
        let (reclaim, rewrites) = rig.run(async move {
            let reclaim = reclaiming.begin_reclaim(victim).await.expect("there is room");
            (reclaim, rewrite_until_full(reclaiming).await)
        });
        assert_eq!(log.zone_counts()[0], 0);
        rig.device.fail_next_write(rewrites);
        let outcome = rig.run(async move { reclaim.finish().await });
        assert_eq!((outcome, log.is_gone()), (Ok(()), false), "{kind:?}");
        rig.spawn(reclaim_oldest_for_ever(log.clone()));
        let (all, good) = keep_busy(&mut rig, &log);
        assert!(all == 300 && 290 < good, "{kind:?}: {good} of {all}");
    }
}

/// Regression: after every reset had failed, no tombstones found room, and appends waited for ever.
#[test]
fn a_log_that_can_empty_no_zone_any_more_says_so() {
    for kind in KINDS {
        let (mut rig, log, zones) = full_of_tombstones(kind);
        let (reclaiming, victim) = (log.clone(), zones[2]);
        fail_reset(&mut rig, victim);
        rig.run(async move {
            let reclaim = reclaiming.begin_reclaim(victim).await.expect("there is room");
            rewrite_until_full(reclaiming.clone()).await;
            assert!(reclaim.finish().await.is_err());
        });
        while let Some(ZoneFacts { zone, .. }) = log.candidates().first().copied() {
            fail_reset(&mut rig, zone);
            let reclaiming = log.clone();
            assert!(rig.run(async move { reclaim(&reclaiming, zone).await }).is_err());
        }
        assert!(log.zone_counts()[4] < 5, "zones enough are left");
        assert!(!log.is_gone(), "one is still being filled");
        rig.spawn(reclaim_oldest_for_ever(log.clone()));
        let (all, good) = keep_busy(&mut rig, &log);
        assert!(all == 300 && good < 30, "{kind:?}: {good} of {all}");
        assert!(log.is_gone(), "{kind:?}");
    }
}

#[test]
fn a_zone_whose_tombstones_cannot_be_written_again_stays_as_it_is() {
    for kind in KINDS {
        let (mut rig, log, zones) = full_of_tombstones(kind);
        let writer = log.clone();
        let filled = rig.run(async move { append(&writer, Key(1), 100, Urgency::Now).await });
        let is_empty = |zone: &ZoneId| !zones.contains(zone) && *zone != filled.extent.zone;
        let last = (0..8).map(ZoneId).find(is_empty).expect("one is empty");
        rig.device.fail_next_write(last);
        let (reclaiming, victim) = (log.clone(), zones[2]);
        let refused = rig.run(async move { reclaiming.begin_reclaim(victim).await.err() });
        assert_eq!(refused, Some(AppendError::Full));
        rig.run_until_idle();
        assert_eq!((log.zone_counts(), log.is_gone()), ([0, 1, 7, 0, 0], false));
        // The zone of the failed write needs no tombstones, so it can be emptied. After it, all
        // others can.
        let candidates: Vec<ZoneId> = log.candidates().iter().map(|facts| facts.zone).collect();
        assert_eq!(candidates, [last]);
        rig.spawn(reclaim_oldest_for_ever(log.clone()));
        assert_eq!(keep_busy(&mut rig, &log), (300, 300), "{kind:?}");
        drop(log);
        rig.crash(Crash::Power);
        let (log, found) = rig.open();
        let is_removed = |record: &FoundRecord| {
            let removed = log.tombstone(record.key());
            Key(300) <= record.key() || Some(record.descriptor.generation) < removed
        };
        assert!(found.iter().all(is_removed), "{kind:?}");
    }
}

#[test]
fn a_zone_whose_tombstones_find_no_place_at_the_end_is_sealed_again() {
    for kind in KINDS {
        let mut rig = Rig::new(geometry(kind, 8), 1);
        rig.settings.fill_zones = 1;
        let (log, _) = rig.open();
        let old = append_many(&mut rig, &log, 1..2, 5000)[0].clone();
        let remover = log.clone();
        let removed = rig.run(async move { remover.remove(Key(7)).await }).expect("written");
        let victim = fill_zones(&mut rig, &log, 1)[0];
        assert_eq!(victim, old.extent.zone);
        let keeper = log.clone();
        let (reclaim, rewrites) = rig.run(async move {
            let reclaim = keeper.begin_reclaim(victim).await.expect("nothing is older than it");
            // The kept record is older than the tombstone, so the tombstone is needed from now on.
            let generation = Some(old.descriptor.generation);
            let again = zonal_zonelog::Record { generation, ..record(Key(1), 5000) };
            let placed = keeper.append(Stream::Rewrite, again, Urgency::Now).await;
            (reclaim, placed.expect("written").extent().zone)
        });
        // All three attempts fail: in the zone of the rewrites, and in the two zones that replace
        // it.
        (rewrites.0..rewrites.0 + 3).for_each(|zone| rig.device.fail_next_write(ZoneId(zone)));
        let failed = rig.run(async move { reclaim.finish().await });
        assert_eq!(failed, Err(DeviceError::Media), "{kind:?}");
        assert!(log.take_sealed().contains(&victim), "whoever chooses zones hears of it again");
        assert!(log.candidates().iter().any(|facts| facts.zone == victim), "{kind:?}");
        assert_eq!((log.tombstone(Key(7)), log.zone_counts()[4]), (Some(removed), 0));
        assert_eq!(log.stats().write_errors, 3);
        empty_zone(&mut rig, &log, victim);
        drop(log);
        rig.crash(Crash::Power);
        assert_eq!(rig.open().0.tombstone(Key(7)), Some(removed), "{kind:?}");
    }
}

#[test]
fn a_zone_is_not_reset_before_what_was_kept_of_it_is_flushed() {
    for kind in KINDS {
        for seed in 0..10 {
            let mut rig = Rig::new(geometry(kind, 8), seed);
            let (log, _) = rig.open();
            let kept = append_many(&mut rig, &log, 1..2, 5000)[0].clone();
            let zones = fill_zones(&mut rig, &log, 2);
            assert!(zones.contains(&kept.extent.zone));
            let keeper = log.clone();
            let outcome = {
                rig.failing_flushes = 1;
                rig.run(async move {
                    let reclaim =
                        keeper.begin_reclaim(kept.extent.zone).await.expect("no tombstones");
                    let generation = Some(kept.descriptor.generation);
                    let again = zonal_zonelog::Record { generation, ..record(Key(1), 5000) };
                    let placed = keeper.append(Stream::Rewrite, again, Urgency::Now).await;
                    assert!(placed.is_ok());
                    reclaim.finish().await
                })
            };
            assert_eq!(outcome, Err(DeviceError::Media));
            for zone in zones.into_iter().filter(|zone| *zone != kept.extent.zone) {
                empty_zone(&mut rig, &log, zone);
            }
            drop(log);
            rig.crash(Crash::Power);
            assert!(rig.open().1.iter().any(|found| found.key() == Key(1)), "{seed} on {kind:?}");
        }
    }
}

#[test]
fn whoever_waits_to_reclaim_hears_of_a_lost_device_from_a_read() {
    let mut rig = Rig::new(geometry(DeviceKind::Zoned, 8), 1);
    let (log, _) = rig.open();
    let writer = log.clone();
    let found = rig.run(async move { append(&writer, Key(1), 5000, Urgency::Now).await });
    let has_ended = std::rc::Rc::new(std::cell::Cell::new(false));
    let (waiting, ended) = (log.clone(), has_ended.clone());
    rig.spawn(async move {
        while !waiting.is_gone() {
            waiting.reclaim_wanted().await;
        }
        ended.set(true);
    });
    rig.device.kill();
    let at = (log.clone(), rig.ports());
    let gone = Err(ReadError::Device(DeviceError::DeviceGone));
    assert_eq!(rig.run(read(at, found, 0..5000)), gone);
    rig.run_until_idle();
    assert!(has_ended.get());
}
