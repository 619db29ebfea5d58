//! Reference measurements of the ZN540, and the accuracy of the model against them.
//!
//! From the raw data of NVMeBenchmarks (github.com/stonet-research/NVMeBenchmarks, snapshot 01f40f1c, MIT): fio with
//! SPDK on a WD Ultrastar DC ZN540, 4 KiB LBA format; microseconds.

extern crate std;

use alloc::vec::Vec;

use zonal_base::{Blocks, Bytes, Lba, Nanos, ZoneId};
use zonal_device::{Command, Geometry, ZoneAction};

use super::rig::{Job, Rig};
use crate::Profile;

/// Columns: job, zones, queue depth in each, KiB, mean and 99th percentile of the latency.
type Point = (Job, u32, usize, u64, f64, f64);

const LATENCIES: [Point; 20] = [
    (Job::Write, 1, 1, 4, 11.36, 13.50),
    (Job::Write, 1, 1, 8, 11.24, 13.76),
    (Job::Write, 1, 1, 16, 16.25, 19.33),
    (Job::Write, 1, 1, 128, 106.5, 626.7),
    (Job::Write, 2, 1, 4, 13.63, 18.56),
    (Job::Write, 4, 1, 4, 21.55, 31.87),
    (Job::Write, 8, 1, 128, 862.7, 1974.3),
    (Job::Append, 1, 1, 4, 14.83, 17.02),
    (Job::Append, 1, 1, 8, 14.02, 16.19),
    (Job::Append, 1, 4, 4, 29.66, 40.70),
    (Job::Append, 1, 4, 128, 427.6, 1400.8),
    (Job::Append, 1, 16, 128, 1710.6, 3620.9),
    (Job::Read, 1, 1, 4, 72.64, 81.41),
    (Job::Read, 1, 1, 8, 84.15, 93.70),
    (Job::Read, 1, 1, 16, 101.6, 111.1),
    (Job::Read, 1, 8, 4, 80.80, 148.5),
    (Job::Read, 1, 32, 4, 116.4, 301.1),
    (Job::Read, 1, 128, 4, 301.2, 1122.3),
    (Job::Read, 1, 32, 8, 144.4, 366.6),
    (Job::Read, 1, 128, 16, 797.6, 1138.7),
];

/// The ZN540 with longer zones, so that no load reaches the end of a zone.
fn with_long_zones() -> Profile {
    let zone = Bytes::mib(64 << 10).blocks_ceil();
    let zn540 = Profile::zn540();
    let geometry = Geometry { zone_size: zone, zone_capacity: zone, ..zn540.geometry };
    Profile { geometry, ..zn540 }
}

#[test]
fn latencies_are_within_5_percent_in_the_mean_and_20_percent_at_the_99th_percentile() {
    let mut far = 0;
    for (job, zones, depth, kib, mean_us, p99_us) in LATENCIES {
        let outcome = Rig::new(with_long_zones(), 1).load(job, (zones, depth), kib / 4, 20_000);
        let (mean, p99) = (outcome.mean_us / mean_us - 1.0, outcome.p99_us / p99_us - 1.0);
        let is_far = 0.05 < mean.abs() || 0.20 < p99.abs();
        far += u32::from(is_far);
        std::println!(
            "{job:?} {zones} zones, depth {depth}, {kib} KiB: {:.2} us ({:+.1} %), p99 {:.2} ({:+.1} %){}",
            outcome.mean_us,
            mean * 100.0,
            outcome.p99_us,
            p99 * 100.0,
            if is_far { "  <-- too far" } else { "" },
        );
    }
    assert_eq!(far, 0, "points too far from the drive");
}

/// Columns: job, zones, queue depth in each, KiB, commands per second.
const RATES: [(Job, u32, usize, u64, f64); 8] = [
    (Job::Write, 8, 1, 4, 185_852.0),
    (Job::Append, 1, 128, 4, 132_043.0),
    (Job::Write, 1, 1, 128, 9_170.8),
    (Job::Write, 4, 1, 128, 9_215.9),
    (Job::Append, 8, 4, 64, 18_384.0),
    (Job::Read, 1, 256, 4, 437_369.0),
    (Job::Read, 1, 256, 8, 296_259.0),
    (Job::Read, 1, 256, 16, 160_434.0),
];

#[test]
fn rates_end_where_those_of_the_drive_end() {
    for (job, zones, depth, kib, iops) in RATES {
        let outcome = Rig::new(with_long_zones(), 2).load(job, (zones, depth), kib / 4, 40_000);
        let off = outcome.iops / iops - 1.0;
        std::println!("{job:?} {zones} x {depth}, {kib} KiB: {:.0} ({off:+.3})", outcome.iops);
        assert!(off.abs() < 0.05, "{job:?} {zones} x {depth}, {kib} KiB: {:.0}", outcome.iops);
    }
}

/// Columns: written blocks of the zone, mean milliseconds of a finish, of the reset after it, and of a reset without
/// a finish. From the same data, partial_finish and partial_reset, 2709 of each.
const MANAGEMENT: [(u64, f64, f64, f64); 6] = [
    (1, 907.507, 1.674, 1.686),
    (17_232, 848.266, 2.513, 5.154),
    (34_464, 792.699, 3.356, 6.316),
    (68_928, 681.053, 5.074, 8.144),
    (137_856, 456.759, 8.523, 11.608),
    (275_711, 3.072, 15.372, f64::NAN),
];

const ROUNDS: u32 = 400;

fn mean_ms(mut took: impl FnMut() -> Nanos) -> f64 {
    (0..ROUNDS).map(|_| took().0 as f64 / 1e6).sum::<f64>() / f64::from(ROUNDS)
}

#[track_caller]
fn check_ms(what: &str, written: u64, ms: f64, expected_ms: f64) {
    std::println!("{what} at {written}: {ms:.3} ms for {expected_ms:.3}");
    assert!((ms / expected_ms - 1.0).abs() < 0.05, "{what} at {written}: {ms:.3} ms");
}

#[test]
fn finishes_and_resets_take_as_long_as_their_zones_are_empty_or_full() {
    for (written, finish_ms, reset_finished_ms, reset_ms) in MANAGEMENT {
        let mut rig = Rig::new(Profile::zn540(), written);
        let mut resets = 0.0;
        let finish = mean_ms(|| {
            rig.fill(0, written);
            let took = rig.manage(0, ZoneAction::Finish);
            resets += rig.manage(0, ZoneAction::Reset).0 as f64 / 1e6;
            took
        });
        check_ms("finish", written, finish, finish_ms);
        check_ms("reset after a finish", written, resets / f64::from(ROUNDS), reset_finished_ms);
        if !reset_ms.is_nan() {
            let reset = mean_ms(|| {
                rig.fill(0, written);
                rig.manage(0, ZoneAction::Reset)
            });
            check_ms("reset", written, reset, reset_ms);
        }
    }
    let mut rig = Rig::new(Profile::zn540(), 0);
    let full = mean_ms(|| {
        rig.fill(0, 275_712);
        rig.manage(0, ZoneAction::Reset)
    });
    check_ms("reset", 275_712, full, 16.187);
}

#[test]
fn opening_closing_and_the_first_write_of_a_zone_cost_microseconds() {
    let mut rig = Rig::new(Profile::zn540(), 3);
    let mut sums = [0.0; 4];
    for _ in 0..1000 {
        let first_write = rig.write(Lba(0), 1);
        let close = rig.manage(0, ZoneAction::Close);
        let open = rig.manage(0, ZoneAction::Open);
        let data = rig.data(1);
        rig.manage(0, ZoneAction::Reset);
        let first_append = rig.call(Command::Append { zone: ZoneId(0), data });
        rig.manage(0, ZoneAction::Reset);
        for (sum, took) in sums.iter_mut().zip([first_write, close, open, first_append]) {
            *sum += took.0 as f64 / 1e6;
        }
    }
    // io:write_implicit_opened, close, explicit_open, io:append_implicit_opened.
    for (us, expected_us) in sums.into_iter().zip([13.646, 10.963, 9.572, 17.512]) {
        assert!((us / expected_us - 1.0_f64).abs() < 0.05, "{us:.3} us for {expected_us:.3}");
    }
}

/// Appends that go to another zone each time take as long as two at once: 17.0 us. Appends to one zone take 14.7 us
/// (the data set's runs of mixed reads and appends at depth 1).
#[test]
fn appends_that_go_from_zone_to_zone_take_longer_than_those_that_stay() {
    let mean_us = |zones: u32| {
        let mut rig = Rig::new(Profile::zn540(), 8);
        let mut took = Nanos(0);
        for n in 0..2_014 {
            let data = rig.data(1);
            let one = rig.call(Command::Append { zone: ZoneId(n % zones), data });
            // The first append of each zone opens it.
            took += if n < 14 { Nanos(0) } else { one };
        }
        took.0 as f64 / 2e6
    };
    for (zones, expected_us) in [(1, 14.66), (14, 17.3)] {
        let us = mean_us(zones);
        assert!((us / expected_us - 1.0).abs() < 0.03, "{us:.2} us in {zones} zones");
    }
}

#[test]
fn a_finish_shares_the_bandwidth_with_the_zones_that_are_written() {
    // A write-only load of one zone runs at half the speed while another zone is finished.
    let alone = Rig::new(with_long_zones(), 4).load(Job::Write, (1, 4), 32, 4_000);
    let mut rig = Rig::new(with_long_zones(), 4);
    rig.fill(5, 1);
    rig.submit(Command::Manage { zone: ZoneId(5), action: ZoneAction::Finish });
    let shared = rig.load(Job::Write, (1, 4), 32, 4_000);
    assert!((shared.iops / alone.iops - 0.5).abs() < 0.02, "{} of {}", shared.iops, alone.iops);
}

#[test]
fn writes_of_another_zone_wait_for_a_reset_and_the_reset_for_them() {
    let mut rig = Rig::new(Profile::zn540(), 5);
    rig.fill(0, 275_712);
    let reset = rig.submit(Command::Manage { zone: ZoneId(0), action: ZoneAction::Reset });
    let (mut writes, began) = (0, rig.now);
    while rig.now < began + Nanos::millis(10) {
        rig.write(rig.start_of(1) + Blocks(writes * 2), 2);
        writes += 1;
    }
    // Without the other, the load does 890 writes in that time, and the reset takes 16.2 ms.
    assert!((450..800).contains(&writes), "{writes} writes");
    let took = rig.wait_for(reset) - began;
    assert!(Nanos::micros(17_500) < took, "{took}");
}

#[test]
fn reads_wait_for_programs_but_not_longer_than_until_they_are_suspended() {
    let mut rig = Rig::new(with_long_zones(), 6);
    rig.fill(0, 8192);
    let alone = rig.load(Job::Read, (1, 1), 1, 2_000);
    let (mut took, mut at) = (Vec::new(), 0);
    for _ in 0..2_000 {
        // 128 KiB for each read: about half of the program bandwidth of the flash.
        rig.write(rig.start_of(1) + Blocks(at), 32);
        at += 32;
        rig.now += Nanos::micros(100);
        took.push(rig.read(rig.start_of(0) + Blocks(at % 8192)));
    }
    let mean_us = took.iter().map(|took| took.0 as f64 / 1e3).sum::<f64>() / 2_000.0;
    assert!(alone.mean_us * 1.3 < mean_us && mean_us < alone.mean_us * 3.0, "{mean_us:.1} us");
    assert!(took.into_iter().max() < Some(Nanos::micros(360 + 82)));
}

/// `gc.csv`: 128 MiB of writes in flight leave 32 reads 1.36 MiB/s, which is 92 ms for each.
#[test]
fn a_read_passes_some_of_the_writes_that_wait_for_room_and_no_more() {
    let mut rig = Rig::new(with_long_zones(), 7);
    rig.fill(0, 8192);
    rig.now += Nanos::secs(1);
    let place = rig.start_of(0);
    let alone = rig.read(place);
    let write = |rig: &mut Rig, n: u32| {
        let lba = rig.start_of(1 + n % 4) + Blocks(u64::from(n / 4) * 256);
        let data = rig.data(256);
        rig.submit(Command::Write { lba, data });
    };
    // The buffer takes 3 MiB of each of four zones, so that 12 writes wait.
    (0..24).for_each(|n| write(&mut rig, n));
    let took = rig.read(place);
    assert!(took < alone + Nanos::millis(1), "{took}");
    (24..64).for_each(|n| write(&mut rig, n));
    let took = rig.read(place);
    // At 1150 MiB/s all but the 12 MiB in the buffer and the 16 writes that a read overtakes take some 31 ms.
    assert!(Nanos::millis(26) < took && took < Nanos::millis(36), "{took}");
    rig.now += Nanos::secs(1);
    assert!(rig.read(place) < alone + Nanos::micros(100), "nothing waits any more");
}
