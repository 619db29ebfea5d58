//! Bytes read and time taken by recovery.

use zonal_base::{Blocks, Bytes, Contents, Nanos, Rng};
use zonal_shaper::Settings;

use crate::rig::{Drives, Rig, Shape, export, is_slow, mib};

/// Recovery reads the headers and the data written since the last flush: half a percent of the data
/// plus a constant, whatever the size of the devices.
#[test]
fn opening_reads_headers_and_what_was_not_flushed() {
    let shape = Shape { zone: Blocks(960), buffer_zones: 6, capacity_zones: 64 };
    let drives = Drives::new(shape, Contents::Bytes);
    let settings = Settings { flush_every: Bytes::mib(2), ..Settings::default() };
    let user = settings.exportable(&drives.layout(), 1).0 * 8 / 10;
    let mut rig = Rig::open(drives, settings, export(Blocks(user)));
    let mut next = 0;
    rig.write(user, move || {
        next += 1;
        next - 1
    });
    let mut rng = Rng::new(3);
    rig.write(user / 2, move || rng.below(user));
    let before = rig.shaper.tenant_stats()[0].1;
    let rig = Rig::open(rig.kill(), settings, export(Blocks(user)));
    let (recovery, after) = (rig.shaper.recovery(), rig.shaper.tenant_stats()[0].1);
    assert_eq!(after.mapped_blocks, before.mapped_blocks);
    let written = Blocks(user).bytes().0;
    println!("{} MiB written: {recovery:?}", mib(written));
    assert_eq!(recovery.torn_blocks, 0);
    // Two tiers, and for each the data written while a flush is in flight.
    assert!(recovery.verified_bytes <= 4 * settings.flush_every.0, "{recovery:?}");
    // The buffer, with its short segments, is read completely. Of the capacity tier the headers are
    // read, and the first 32 blocks of each zone.
    let buffer = Blocks(shape.zone.0 * u64::from(shape.buffer_zones)).bytes().0;
    let firsts = Blocks(33 * u64::from(shape.capacity_zones)).bytes().0;
    let limit = buffer + firsts + written / 100 + recovery.verified_bytes;
    assert!(recovery.read_bytes <= limit, "{recovery:?}, at most {limit}");
}

/// Regression: a zone that was finished before it was full was read to its end at each start.
#[test]
fn a_zone_that_was_finished_early_is_not_read_to_its_end() {
    let shape = Shape { zone: Blocks(60_000), buffer_zones: 4, capacity_zones: 12 };
    let settings = Settings { flush_every: Bytes::mib(2), ..Settings::default() };
    let mut drives = Drives::new(shape, Contents::Bytes);
    let user = Blocks(20_000);
    let mut read = Vec::new();
    for life in 0..3 {
        let mut rig = Rig::open(drives, settings, export(user));
        read.push(rig.shaper.recovery().read_bytes);
        let mut rng = Rng::new(life);
        rig.write(200_000, move || rng.below(user.0));
        drives = rig.kill();
        drives.finish_zones_of_capacity();
    }
    let limit = shape.zone.bytes().0 / 4;
    assert!(read.iter().all(|bytes| *bytes < limit), "{read:?}");
}

/// Regression: the durable mark stayed below a refused segment for ever, so that every later start
/// read all that was flushed since.
#[test]
fn a_start_after_refused_writes_reads_no_more_than_another() {
    let shape = Shape { zone: Blocks(960), buffer_zones: 6, capacity_zones: 64 };
    let settings = Settings { flush_every: Bytes::mib(2), ..Settings::default() };
    let verified = |is_faulty: bool| {
        let drives = Drives::new(shape, Contents::Bytes);
        let user = settings.exportable(&drives.layout(), 1).0 * 8 / 10;
        let mut rig = Rig::open(drives, settings, export(Blocks(user)));
        let mut rng = Rng::new(3);
        rig.write(user / 4, move || rng.below(user));
        if is_faulty {
            rig.fail_some_writes_of_capacity();
        }
        let mut rng = Rng::new(4);
        rig.write(user, move || rng.below(user));
        assert_eq!(is_faulty, 0 < rig.stats().0.write_errors, "{:?}", rig.stats().0);
        let rig = Rig::open(rig.kill(), settings, export(Blocks(user)));
        let recovery = rig.shaper.recovery();
        assert_eq!(recovery.torn_blocks, 0);
        recovery.verified_bytes
    };
    let (healthy, faulty) = (verified(false), verified(true));
    println!("{} KiB, after refused writes {} KiB", healthy >> 10, faulty >> 10);
    // The rewrites and a zone table are flushed before durable marks go on.
    assert!(faulty <= healthy + 4 * settings.flush_every.0, "{faulty} and {healthy}");
}

/// With `SLOW_TESTS=1` the 64 GiB of `docs/block-device.md`. Otherwise 1/128 of them, in smaller
/// zones.
#[test]
fn what_64_gib_written_left_is_found_within_five_seconds_of_the_devices_time() {
    let (zone, user) = if is_slow() {
        (Blocks(1 << 18), Blocks(1 << 24))
    } else {
        (Blocks(1 << 11), Blocks(1 << 17))
    };
    let shape = Shape { zone, buffer_zones: 4, capacity_zones: 80 };
    let settings = Settings::default();
    let drives = Drives::new(shape, Contents::Bytes);
    let mut rig = Rig::open(drives, settings, export(user));
    let mut next = 0;
    rig.write(user.0, move || {
        next += 1;
        next - 1
    });
    // At the crash the buffer is full of single-block writes.
    let mut rng = Rng::new(5);
    rig.write(user.0 / 16, move || rng.below(user.0));
    let before = rig.shaper.tenant_stats()[0].1;
    let drives = rig.kill();
    let (began, cpu) = (drives.now(), cpu_seconds());
    let rig = Rig::open(drives, settings, export(user));
    let (recovery, took) = (rig.shaper.recovery(), rig.now().since(began));
    println!(
        "{} MiB written: opened in {:.2} s of the devices' time and {:.2} s of CPU, the models' included; {} MiB read, {} reads; {recovery:?}",
        mib(user.bytes().0),
        took.0 as f64 / 1e9,
        cpu_seconds() - cpu,
        mib(recovery.read_bytes),
        recovery.reads,
    );
    assert_eq!(rig.shaper.tenant_stats()[0].1.mapped_blocks, before.mapped_blocks);
    assert!(took < Nanos::secs(5), "{took:?}");
    let buffer = Blocks(zone.0 * u64::from(shape.buffer_zones)).bytes().0;
    let firsts = Blocks(33 * u64::from(shape.capacity_zones)).bytes().0;
    let limit = buffer + firsts + user.bytes().0 / 100 + recovery.verified_bytes;
    assert!(recovery.read_bytes <= limit, "{recovery:?}, at most {limit}");
}

/// CPU seconds of this thread; zero if the kernel does not report them.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split_whitespace().next().and_then(|nanos| nanos.parse::<f64>().ok());
    nanos.unwrap_or_default() / 1e9
}
