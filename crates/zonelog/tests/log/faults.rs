//! A device that fails.

use zonal_base::{Blocks, ZoneId};
use zonal_device::ram::Crash;
use zonal_device::{DeviceError, Geometry, Kind as DeviceKind, ZonedDevice};
use zonal_zonelog::{AppendError, Key, ReadError, Stream, Urgency};

use crate::append::{append, append_many};
use crate::reclaim::{fill_zones, reclaim_oldest_for_ever};
use crate::rig::{Rig, content, geometry, read, record};

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
    // The rewrite stream opens its zone when it is first needed: find out which by using it.
    let rewriter = log.clone();
    let placed = rig.run(async move {
        rewriter.append(Stream::Rewrite, record(Key(2), 100), Urgency::Now).await
    });
    let rewrites = placed.expect("written").extent().zone;
    rig.device.fail_next_write(rewrites);
    let reclaiming = log.clone();
    let outcome = rig.run(async move { reclaiming.begin_reclaim(zone).finish().await });
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
        // More than fit: some of them wait for a zone that never gets empty.
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
        let outcome = rig.run(async move { reclaiming.begin_reclaim(zone).finish().await });
        assert_eq!(outcome, Err(DeviceError::InvalidTransition));
    }
    assert!(log.is_gone(), "three zones are too few");
    let writer = log.clone();
    let outcome = rig.run(async move {
        writer.append(Stream::Fill, record(Key(1), 100), Urgency::Now).await.err()
    });
    assert_eq!(outcome, Some(AppendError::Gone));
}
