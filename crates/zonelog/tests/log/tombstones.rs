//! Removals: removed records never come back, and tombstones do not stay for ever.

use zonal_device::DeviceKind;
use zonal_device::ram::Crash;
use zonal_zonelog::{Generations, Key, Log, Stream, Urgency};

use crate::append::{append, append_many};
use crate::reclaim::{empty_zone, fill_zones, reclaim};
use crate::rig::{Rig, geometry, record};

const KINDS: [DeviceKind; 2] = [DeviceKind::Zoned, DeviceKind::Conventional];

/// Keys that an owner would find alive: those whose newest record no newer tombstone removes.
fn alive(rig: &mut Rig) -> (Log, Vec<Key>) {
    let (log, found) = rig.open();
    let mut keys: Vec<Key> = found
        .iter()
        .filter(|record| {
            log.tombstone(record.key())
                .is_none_or(|removed| removed <= record.descriptor.generation)
        })
        .map(|record| record.key())
        .collect();
    keys.sort_unstable();
    keys.dedup();
    (log, keys)
}

fn remove(rig: &mut Rig, log: &Log, key: Key) -> u64 {
    let log = log.clone();
    rig.run(async move { log.remove(key).await }).expect("the device is healthy")
}

#[test]
fn an_acknowledged_removal_survives_a_power_cut() {
    for kind in KINDS {
        for seed in 0..20 {
            let mut rig = Rig::new(geometry(kind, 8), seed);
            let (log, _) = rig.open();
            append_many(&mut rig, &log, 0..3, 5000);
            let generation = remove(&mut rig, &log, Key(1));
            assert_eq!(log.tombstone(Key(1)), Some(generation));
            append_many(&mut rig, &log, 3..6, 5000);
            drop(log);
            rig.crash(Crash::Power);
            let (log, keys) = alive(&mut rig);
            assert!(!keys.contains(&Key(1)) && keys.contains(&Key(0)), "{keys:?}");
            assert_eq!(log.tombstone(Key(1)), Some(generation));
        }
    }
}

#[test]
fn a_record_appended_after_a_removal_is_alive() {
    for kind in KINDS {
        let mut rig = Rig::new(geometry(kind, 8), 1);
        let (log, _) = rig.open();
        append_many(&mut rig, &log, 1..2, 5000);
        remove(&mut rig, &log, Key(1));
        append_many(&mut rig, &log, 1..2, 5000);
        rig.crash(Crash::Process);
        assert_eq!(alive(&mut rig).1, [Key(1)]);
    }
}

#[test]
fn what_was_superseded_stays_dead_when_its_successors_zone_goes_first() {
    for kind in KINDS {
        let mut rig = Rig::new(geometry(kind, 8), 1);
        let (log, _) = rig.open();
        append_many(&mut rig, &log, 1..2, 5000);
        let first = fill_zones(&mut rig, &log, 1);
        let between = log.next_generation();
        let superseding = log.clone();
        rig.run(async move {
            superseding.supersede(Key(1), between).await.expect("written");
            append(&superseding, Key(1), 5000, Urgency::Now).await
        });
        let second = fill_zones(&mut rig, &log, 1);
        assert_eq!((first.len(), second.len()), (1, 1));
        // The new record is reclaimed. The tombstone is rewritten, because the old record is still
        // there.
        empty_zone(&mut rig, &log, second[0]);
        assert_eq!(log.tombstone(Key(1)), Some(between));
        rig.crash(Crash::Power);
        assert!(!alive(&mut rig).1.contains(&Key(1)), "{kind:?}");
    }
}

#[test]
fn tombstones_are_rewritten_while_an_older_record_may_exist_and_dropped_after() {
    for kind in KINDS {
        let mut rig = Rig::new(geometry(kind, 8), 1);
        rig.settings.fill_zones = 1;
        let (log, _) = rig.open();
        append_many(&mut rig, &log, 1..2, 5000);
        let old = fill_zones(&mut rig, &log, 1);
        for key in 1..100 {
            remove(&mut rig, &log, Key(key));
        }
        let young = fill_zones(&mut rig, &log, 1);
        let before = log.stats();
        empty_zone(&mut rig, &log, young[0]);
        let after = log.stats();
        assert_eq!(after.tombstones - before.tombstones, 99, "all are written again");
        assert!(after.segments - before.segments <= 2, "together");
        empty_zone(&mut rig, &log, old[0]);
        // No older record is left. The tombstones are dropped with their zone.
        drop(log);
        rig.crash(Crash::Power);
        let (log, keys) = alive(&mut rig);
        assert!(!keys.contains(&Key(1)));
        assert_eq!(log.tombstone(Key(1)).is_some(), log.tombstone(Key(99)).is_some());
        fill_zones(&mut rig, &log, 3);
        turn_over(&mut rig, &log);
        assert_eq!(log.tombstone(Key(1)), None, "{kind:?}");
        assert_eq!((log.held(), log.slots_balance()), (0, true));
    }
}

/// Reclaims the oldest zone and fills another, six times: as often as there are zones to fill.
fn turn_over(rig: &mut Rig, log: &Log) {
    for _ in 0..6 {
        let oldest = log.candidates().into_iter().min_by_key(|facts| facts.sequence);
        if let Some(facts) = oldest {
            empty_zone(rig, log, facts.zone);
        }
        fill_zones(rig, log, 1);
    }
}

#[test]
fn a_tombstone_stays_as_long_as_another_log_of_the_node_holds_something_older() {
    for kind in KINDS {
        let mut parts = Generations::of_node(2);
        let [mut home, mut other] = [1, 2].map(|seed| {
            let mut rig = Rig::new(geometry(kind, 8), seed);
            rig.settings.fill_zones = 1;
            rig.share(parts.next().expect("one of two"));
            rig
        });
        let ((tombstones, _), (chunks, _)) = (home.open(), other.open());
        append_many(&mut other, &chunks, 1..2, 5000);
        remove(&mut home, &tombstones, Key(1));
        for _ in 0..2 {
            turn_over(&mut home, &tombstones);
            assert!(tombstones.tombstone(Key(1)).is_some(), "{kind:?}");
        }
        // The tombstone is in a rewrite zone now, which is reclaimed only when it is full. The
        // second tombstone is checked for the first time after the other log has turned over.
        remove(&mut home, &tombstones, Key(2));
        fill_zones(&mut other, &chunks, 1);
        for _ in 0..2 {
            turn_over(&mut other, &chunks);
        }
        for _ in 0..2 {
            turn_over(&mut home, &tombstones);
        }
        assert_eq!(tombstones.tombstone(Key(2)), None, "{kind:?}");
    }
}

#[test]
fn removals_that_wait_together_share_a_segment_and_a_flush() {
    let mut rig = Rig::new(geometry(DeviceKind::Zoned, 8), 1);
    let (log, _) = rig.open();
    for key in 0..100 {
        let log = log.clone();
        rig.spawn(async move { assert!(log.remove(Key(key)).await.is_ok()) });
    }
    rig.run_until_calm();
    let stats = log.stats();
    assert_eq!((stats.tombstones, stats.segments), (100, 1));
    for key in 0..100 {
        remove(&mut rig, &log, Key(key));
    }
    assert_eq!(log.stats().segments, 101, "one after the other they do not wait");
}

#[test]
fn a_zone_full_of_tombstones_is_reclaimed_like_any_other() {
    for kind in KINDS {
        let mut rig = Rig::new(geometry(kind, 8), 1);
        rig.settings.fill_zones = 1;
        let (log, _) = rig.open();
        append_many(&mut rig, &log, 0..1, 5000);
        fill_zones(&mut rig, &log, 1);
        for round in 0..25 {
            for key in 0..120 {
                let log = log.clone();
                let key = Key(round * 1000 + key);
                rig.spawn(async move { assert!(log.remove(key).await.is_ok()) });
            }
            rig.run_until_idle();
        }
        let zones = fill_zones(&mut rig, &log, 1);
        let before = log.stats().tombstones;
        let used = log.zone_counts()[0];
        empty_zone(&mut rig, &log, zones[0]);
        assert!(1000 < log.stats().tombstones - before);
        assert!(used <= log.zone_counts()[0] + 1, "they need no more than a zone");
        rig.crash(Crash::Power);
        let (log, _) = rig.open();
        for key in 0..120 {
            assert!(log.tombstone(Key(24_000 + key)).is_some());
        }
    }
}

/// Regression: a zone that could not be reset kept all tombstones of the log for ever, even when
/// nothing could be read from it.
#[test]
fn a_zone_keeps_tombstones_while_it_can_be_read_and_no_longer() {
    for is_readable in [true, false] {
        let mut rig = Rig::new(geometry(DeviceKind::Zoned, 8), 1);
        rig.settings.fill_zones = 1;
        let (log, _) = rig.open();
        append_many(&mut rig, &log, 1..2, 5000);
        let old = fill_zones(&mut rig, &log, 1)[0];
        let removed = remove(&mut rig, &log, Key(1));
        let zones = fill_zones(&mut rig, &log, 2);
        match is_readable {
            true => rig.device.make_read_only(old),
            false => rig.device.take_offline(old),
        }
        let reclaiming = log.clone();
        let outcome = rig.run(async move { reclaim(&reclaiming, old).await });
        assert!(outcome.is_err() && log.zone_counts()[4] == 1);
        empty_zone(&mut rig, &log, zones[0]);
        assert_eq!(log.tombstone(Key(1)), is_readable.then_some(removed));
        drop(log);
        rig.crash(Crash::Power);
        assert!(!alive(&mut rig).1.contains(&Key(1)), "it is not back");
    }
}

/// Regression: the newer tombstone of a key that is stored again is not flushed. The zone of the
/// older tombstone was reset all the same. A power cut then left neither, and the removed record
/// was back.
#[test]
fn a_removal_outlives_the_tombstone_that_took_its_place() {
    for kind in KINDS {
        for seed in 0..20 {
            let mut rig = Rig::new(geometry(kind, 8), seed);
            rig.settings.fill_zones = 1;
            let (log, _) = rig.open();
            append_many(&mut rig, &log, 1..2, 5000);
            fill_zones(&mut rig, &log, 1);
            let removed = remove(&mut rig, &log, Key(1));
            let zone = fill_zones(&mut rig, &log, 1)[0];
            let (storing, between) = (log.clone(), log.next_generation());
            rig.run(async move {
                storing.supersede(Key(1), between).await.expect("written");
            });
            empty_zone(&mut rig, &log, zone);
            drop(log);
            rig.crash(Crash::Power);
            let (log, keys) = alive(&mut rig);
            assert!(!keys.contains(&Key(1)), "seed {seed} on {kind:?}");
            assert!(log.tombstone(Key(1)).is_some_and(|generation| removed <= generation));
        }
    }
}

/// Regression: a record that was rewritten and not flushed before a process crash is found, but may
/// be in the device's volatile cache only. The zone of the original was reset without a flush.
#[test]
fn what_was_written_again_before_a_crash_outlives_a_power_cut_after_it() {
    for kind in KINDS {
        for seed in 0..20 {
            let mut rig = Rig::new(geometry(kind, 8), seed);
            let (log, _) = rig.open();
            let placed = append_many(&mut rig, &log, 1..2, 5000);
            let zone = fill_zones(&mut rig, &log, 1)[0];
            let rewriting = log.clone();
            let generation = Some(placed[0].descriptor.generation);
            rig.run(async move {
                rewriting.flush().await;
                let again = zonal_zonelog::Record { generation, ..record(Key(1), 5000) };
                let placed = rewriting.append(Stream::Rewrite, again, Urgency::Now).await;
                assert!(placed.is_ok());
            });
            drop(log);
            rig.crash(Crash::Process);
            let (log, _) = rig.open();
            empty_zone(&mut rig, &log, zone);
            drop(log);
            rig.crash(Crash::Power);
            assert!(alive(&mut rig).1.contains(&Key(1)), "seed {seed} on {kind:?}");
        }
    }
}
