//! Manifests that follow removals: the loss of a zone with tombstones is noticed after a crash, too.

use zonal_base::{Nanos, ZoneId};
use zonal_device::ram::Crash;
use zonal_device::{DeviceKind, ZonedDevice};
use zonal_zonelog::{Damage, Key, Log};

use crate::append::append_many;
use crate::reclaim::fill_zones;
use crate::rig::{Rig, geometry};

const KINDS: [DeviceKind; 2] = [DeviceKind::Zoned, DeviceKind::Conventional];

/// A log with one zone for fills, some records in it, and one sealed zone.
fn one_fill_zone(kind: DeviceKind) -> (Rig, Log) {
    let mut rig = Rig::new(geometry(kind, 8), 1);
    rig.settings.fill_zones = 1;
    let (log, _) = rig.open();
    append_many(&mut rig, &log, 0..3, 5000);
    fill_zones(&mut rig, &log, 1);
    append_many(&mut rig, &log, 10..13, 5000);
    rig.run_until_idle();
    (rig, log)
}

fn zones(rig: &Rig) -> Vec<Vec<u8>> {
    rig.device.geometry().zones().map(|zone| rig.device.zone_bytes(zone)).collect()
}

fn remove(rig: &mut Rig, log: &Log, key: Key) {
    let log = log.clone();
    rig.run(async move { log.remove(key).await }).expect("the device is healthy");
}

fn rest(rig: &mut Rig, time: Nanos) {
    let clock = rig.ports().clock;
    rig.run(async move { clock.sleep_until(clock.now() + time).await });
}

#[test]
fn the_loss_of_a_removal_is_noticed_after_two_seconds_whatever_the_end() {
    for kind in KINDS {
        for end in [Crash::Process, Crash::Power] {
            let (mut rig, log) = one_fill_zone(kind);
            let before = zones(&rig);
            remove(&mut rig, &log, Key(1));
            rest(&mut rig, Nanos::secs(2));
            let after = zones(&rig);
            drop(log);
            rig.crash(end);
            // The zone that was written to first has the tombstone, the other one a manifest.
            let written: Vec<usize> =
                (0..before.len()).filter(|zone| before[*zone] != after[*zone]).collect();
            assert_eq!(written.len(), 2, "{kind:?}");
            let older = before[written[0]].clone();
            let mut older_in_full = after[written[0]].clone();
            older_in_full[..older.len()].copy_from_slice(&older);
            older_in_full[older.len()..].fill(0);
            let zone = ZoneId(u32::try_from(written[0]).expect("few zones"));
            rig.device.replace_zone_bytes(zone, older_in_full);
            let (log, found) = rig.open();
            assert!(found.iter().any(|record| record.key() == Key(1)), "it is back");
            assert!(log.damage().iter().any(|damage| damage.zone() == Some(zone)), "{kind:?}");
            let generations = found.iter().map(|record| record.descriptor.generation);
            assert!(generations.max() < Some(log.suspect_below()), "{kind:?} {end:?}");
        }
    }
}

#[test]
fn what_a_crash_left_unlisted_is_listed_after_the_next_start() {
    let (mut rig, log) = one_fill_zone(DeviceKind::Zoned);
    remove(&mut rig, &log, Key(1));
    drop(log);
    rig.crash(Crash::Power);
    let before = zones(&rig);
    let (log, _) = rig.open();
    rest(&mut rig, Nanos::secs(2));
    let written = (0..before.len()).filter(|zone| before[*zone] != zones(&rig)[*zone]).count();
    assert_eq!((written, log.stats().segments), (1, 1), "a manifest in another zone");
}

#[test]
fn one_manifest_serves_all_removals_of_a_second() {
    let (mut rig, log) = one_fill_zone(DeviceKind::Zoned);
    let before = log.stats().segments;
    for key in 0..40 {
        remove(&mut rig, &log, Key(key));
        rest(&mut rig, Nanos::millis(20));
    }
    rig.run_until_idle();
    assert_eq!(log.stats().segments - before, 41);
    let commands = rig.commands;
    rest(&mut rig, Nanos::secs(100));
    assert_eq!(rig.commands, commands, "an idle log does nothing");
}

#[test]
fn nothing_follows_a_graceful_stop() {
    for pause in [Nanos(0), Nanos::millis(999), Nanos::millis(1000), Nanos::millis(1001)] {
        let (mut rig, log) = one_fill_zone(DeviceKind::Zoned);
        remove(&mut rig, &log, Key(1));
        rest(&mut rig, pause);
        let closing = log.clone();
        rig.run(async move { closing.close().await });
        let closed = zones(&rig);
        rig.run_until_idle();
        assert!(closed == zones(&rig) && log.held() == 0, "{pause:?}");
        drop(log);
        rig.crash(Crash::Power);
        assert_eq!(rig.open().0.damage(), Vec::<Damage>::new());
    }
}

#[test]
fn a_failed_manifest_is_written_elsewhere() {
    let (mut rig, log) = one_fill_zone(DeviceKind::Zoned);
    let counts = log.zone_counts();
    remove(&mut rig, &log, Key(1));
    rig.device.fail_next_write(ZoneId(2));
    rig.run_until_idle();
    assert_eq!(log.stats().write_errors, 1);
    let [empty, open, ..] = log.zone_counts();
    assert_eq!((empty, open), (counts[0] - 2, counts[1] + 1), "the second try had its zone");
}
