//! Recovery of a log after chosen crashes. See `history` for crashes at any moment.

use zonal_base::Blocks;
use zonal_device::ram::Crash;
use zonal_device::{DeviceKind, Geometry, ZonedDevice};
use zonal_zonelog::{Key, Log, Stream, Urgency};

use crate::append::{append, append_many};
use crate::rig::{FoundRecord, Rig, ZONE, content, geometry, read, record};

const KINDS: [DeviceKind; 2] = [DeviceKind::Zoned, DeviceKind::Conventional];

fn sorted(mut records: Vec<FoundRecord>) -> Vec<FoundRecord> {
    records.sort_by_key(|record| (record.key(), record.descriptor.generation));
    records
}

#[track_caller]
fn check_readable(rig: &mut Rig, log: &Log, found: &FoundRecord) {
    let len = found.extent.len;
    let bytes = rig.run(read((log.clone(), rig.ports()), found.clone(), 0..len));
    assert!(bytes == Ok(content(found.key(), len)), "{found:?}");
}

#[test]
fn everything_that_was_acknowledged_is_found_after_a_crash_of_the_process() {
    for kind in KINDS {
        let mut rig = Rig::new(geometry(kind, 8), 1);
        let (log, _) = rig.open();
        let mut records = append_many(&mut rig, &log, 0..60, 16_000);
        records.extend(append_many(&mut rig, &log, 60..200, 300));
        rig.crash(Crash::Process);
        let (log, found) = rig.open();
        assert_eq!(sorted(found.clone()), sorted(records), "{kind:?}");
        found.iter().for_each(|found| check_readable(&mut rig, &log, found));
        assert_eq!(rig.refusals, []);
    }
}

#[test]
fn full_zones_are_recovered_from_their_footers_alone() {
    for kind in KINDS {
        let mut rig = Rig::new(geometry(kind, 64), 1);
        rig.settings.fill_zones = 1;
        let (log, _) = rig.open();
        // The last record has a segment of its own, so that the open zone holds little but its
        // header.
        append_many(&mut rig, &log, 0..1000, 16_384);
        let full = u64::from(log.zone_counts()[2]);
        assert!(30 < full);
        rig.crash(Crash::Process);
        let before = rig.blocks_read;
        let (_, found) = rig.open();
        assert_eq!(found.len(), 1000);
        // Each full zone costs three reads: the first block, the trailer's block and the one-block
        // footer. Each other zone costs at most its first block, and the open zone its walk.
        let bound = 3 * full + 64 + ZONE.0;
        assert!(rig.blocks_read - before <= bound, "{} blocks", rig.blocks_read - before);
    }
}

#[test]
fn a_damaged_footer_is_made_good_by_the_headers() {
    for kind in KINDS {
        let mut rig = Rig::new(geometry(kind, 8), 1);
        let (log, _) = rig.open();
        let records = append_many(&mut rig, &log, 0..60, 16_000);
        let sealed = log.take_sealed();
        assert!(!sealed.is_empty());
        rig.crash(Crash::Process);
        for zone in sealed {
            let last = rig.device.geometry().zone_start(zone) + (ZONE - Blocks(1));
            match zone.0 % 2 {
                0 => rig.device.flip_bit(last, 32_000),
                _ => rig.device.make_unreadable(last),
            }
        }
        let (log, found) = rig.open();
        assert_eq!(sorted(found), sorted(records));
        assert!(log.slots_balance());
    }
}

#[test]
fn a_torn_segment_is_cut_and_the_log_goes_on_behind_it_in_the_same_zone() {
    for kind in KINDS {
        let mut cut = 0;
        for seed in 0..40 {
            let mut rig = Rig::new(geometry(kind, 4), seed);
            let (log, _) = rig.open();
            let first = {
                let log = log.clone();
                rig.run(async move { append(&log, Key(1), 9000, Urgency::Now).await })
            };
            let torn = log.clone();
            rig.spawn(async move {
                let _ = torn.append(Stream::Fill, record(Key(2), 60_000), Urgency::Now).await;
            });
            rig.run_steps(0);
            drop(log);
            rig.crash(Crash::Process);
            let written = rig.written(first.extent.zone);
            let (log, found) = rig.open();
            cut += u32::from(sorted(found.clone()).first() == Some(&first) && found.len() == 1);
            assert_eq!(log.zone_counts()[..3], [3, 1, 0], "the zone is gone on with");
            let next = {
                let log = log.clone();
                rig.run(async move { append(&log, Key(3), 9000, Urgency::Now).await })
            };
            assert_eq!(next.extent.zone, first.extent.zone);
            if kind == DeviceKind::Zoned {
                assert_eq!(u64::from(next.extent.offset) * 16 / 4096, written.0 + 1);
            }
            rig.crash(Crash::Process);
            let (log, again) = rig.open();
            assert_eq!(sorted(again.clone()), sorted([found, vec![next]].concat()), "{seed}");
            again.iter().for_each(|found| check_readable(&mut rig, &log, found));
            assert_eq!(rig.refusals, []);
        }
        assert!(10 < cut, "most of these writes are torn: {cut}");
    }
}

#[test]
fn a_power_cut_loses_nothing_that_was_flushed() {
    for kind in KINDS {
        for seed in 0..20 {
            let mut rig = Rig::new(geometry(kind, 8), seed);
            let (log, _) = rig.open();
            let flushed = append_many(&mut rig, &log, 0..40, 16_000);
            let flusher = log.clone();
            rig.run(async move { flusher.flush().await });
            append_many(&mut rig, &log, 40..60, 16_000);
            drop(log);
            rig.crash(Crash::Power);
            let (log, found) = rig.open();
            let kept: Vec<_> = found.into_iter().filter(|found| found.key() < Key(40)).collect();
            assert_eq!(sorted(kept.clone()), sorted(flushed), "seed {seed} on {kind:?}");
            kept.iter().for_each(|found| check_readable(&mut rig, &log, found));
        }
    }
}

#[test]
fn what_a_power_cut_took_back_never_returns() {
    // Regression: a power cut on a conventional device may lose a segment and keep the ones after
    // it. When the log continued in the place of the lost segment, it took the later ones for its
    // own again.
    for seed in 0..60 {
        let mut rig = Rig::new(geometry(DeviceKind::Conventional, 4), seed);
        let (log, _) = rig.open();
        for key in 0..6 {
            let log = log.clone();
            rig.run(async move { append(&log, Key(key), 5000, Urgency::Now).await });
        }
        drop(log);
        rig.crash(Crash::Power);
        let (log, found) = rig.open();
        // The same record again, with the same generation, in a segment of the same size.
        let missing = (0..6).find(|key| !found.iter().any(|found| found.key() == Key(*key)));
        let Some(missing) = missing else { continue };
        let next = rig.run(async move { append(&log, Key(missing), 5000, Urgency::Now).await });
        rig.crash(Crash::Process);
        let (_, again) = rig.open();
        assert_eq!(sorted(again), sorted([found, vec![next]].concat()), "seed {seed}");
    }
}

#[test]
fn generations_grow_over_restarts() {
    for kind in KINDS {
        let mut rig = Rig::new(geometry(kind, 8), 1);
        let mut last = 0;
        for key in 0..5 {
            let (log, _) = rig.open();
            let found = rig.run(async move { append(&log, Key(key), 5000, Urgency::Now).await });
            assert!(last < found.descriptor.generation);
            last = found.descriptor.generation;
            rig.crash(Crash::Process);
        }
    }
}

#[test]
fn open_zones_beyond_the_slots_are_made_full() {
    let shape = geometry(DeviceKind::Zoned, 16);
    let mut rig = Rig::new(shape, 1);
    rig.settings.fill_zones = 4;
    let (log, _) = rig.open();
    let records = append_many(&mut rig, &log, 0..40, 16_384);
    let open = log.zone_counts()[1];
    assert_eq!(open, 4);
    drop(log);
    rig.crash(Crash::Process);
    rig.settings.fill_zones = 1;
    let (log, found) = rig.open();
    // One open zone for the fill stream, one for rewrites.
    assert_eq!((log.zone_counts()[1], log.slots_balance()), (2, true));
    assert_eq!(sorted(found), sorted(records));
}

#[test]
fn a_log_can_be_opened_and_closed_for_ever_without_losing_zones() {
    for kind in KINDS {
        let shape = Geometry { max_active_zones: Some(2), ..geometry(kind, 4) };
        let mut rig = Rig::new(shape, 1);
        for round in 0..30 {
            let (log, found) = rig.open();
            assert_eq!(found.len(), round);
            let key = Key(round as u128);
            rig.run(async move { append(&log, key, 5000, Urgency::Now).await });
            rig.crash(Crash::Process);
        }
        let (log, _) = rig.open();
        assert_eq!(log.zone_counts(), [3, 1, 0, 0, 0]);
        assert_eq!(rig.refusals, []);
    }
}
