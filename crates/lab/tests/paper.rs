//! Paper 000 on a tenth of the drives: the faster drive, and the law of active zones.
//!
//! `zonal-lab paper 000` runs everything at full size.

use zonal_base::{Bytes, Nanos};
use zonal_lab::Distribution;
use zonal_lab::experiment::{Engine, Experiment, Outcome, Precondition, run};
use zonal_lab::simulated::Habits;

/// A tenth of the zones, of the block drive and of the bytes; chunks of 32 MiB, 33 to a zone, and
/// an origin with the same time per byte.
fn large_chunks(drive: &str, workload: Distribution, ratio: u64) -> Experiment {
    let chunk = Bytes::mib(32);
    Experiment {
        cache: Engine::Zncache,
        drive: drive.parse().expect("ours"),
        precondition: Precondition::Random(Bytes::kib(64)),
        zones: 20,
        chunk,
        policy: "zone-lru".into(),
        dram: Bytes(0),
        workload: workload.into(),
        keys: 33 * 20 * ratio,
        gets: Bytes::mib(300 << 10).0 / chunk.0,
        tasks: 64,
        origin_latency: Nanos::millis(338),
        origin_sd: Nanos(0),
        hold_zone_during_fetch: true,
        habits: Habits::default(),
        limit: Nanos::MAX,
        seed: 1,
    }
}

fn small_chunks(drive: &str, hold_zone_during_fetch: bool) -> Experiment {
    let chunk = Bytes::kib(64);
    Experiment {
        chunk,
        keys: 17_232 * 20 * 10,
        gets: Bytes::mib(6 << 10).0 / chunk.0,
        origin_latency: Nanos::micros(40_632),
        origin_sd: Nanos(0),
        hold_zone_during_fetch,
        ..large_chunks(drive, Distribution::Uniform, 10)
    }
}

const ZNS: &str = "zn540";
const BLOCK: &str = "sn540?size=90GiB";

fn outcome(experiment: &Experiment) -> Outcome {
    run(experiment, &|_| ()).expect("it can be run")
}

#[test]
fn with_large_chunks_the_drive_with_zones_is_faster_and_writes_less() {
    for (workload, ratio) in
        [(Distribution::Uniform, 10), (Distribution::YcsbZipf { theta: 0.99 }, 2)]
    {
        let of = |drive| outcome(&large_chunks(drive, workload, ratio));
        let (zns, block) = (of(ZNS), of(BLOCK));
        let rates = (zns.get_gib_per_s(), block.get_gib_per_s());
        assert!(1.15 * rates.1 < rates.0, "{workload}: {rates:?} GiB/s");
        assert!(zns.get.mean_ns < block.get.mean_ns, "{workload}: {zns:?}\n{block:?}");
        assert!(zns.get.p99_ns < block.get.p99_ns, "{workload}: {zns:?}\n{block:?}");
        assert!(1.2 < block.write_amplification(), "{workload}: {block:?}");
        assert!(zns.write_amplification() < 1.05, "{workload}: {zns:?}");
    }
}

#[test]
fn with_small_chunks_both_drives_wait_for_zones_and_nothing_else() {
    let law = 14.0 * 65536.0 / 0.040_632 / f64::from(1 << 30);
    let written = |outcome: &Outcome| {
        outcome.drive.written as f64 / outcome.took_ns as f64 * 1e9 / f64::from(1 << 30)
    };
    for drive in [ZNS, BLOCK] {
        let rate = written(&outcome(&small_chunks(drive, true)));
        assert!((0.96..1.0).contains(&(rate / law)), "{drive}: {rate} of {law} GiB/s");
    }
    let rate = written(&outcome(&small_chunks(ZNS, false)));
    assert!(4.2 * law < rate, "{rate} of {law} GiB/s");
}

/// Paper 001 with a tenth of the requests and objects: a chunk cache with the given quirks.
fn chunk_cache(habits: &str) -> Experiment {
    Experiment {
        cache: Engine::Znsccache,
        precondition: Precondition::Nothing,
        zones: 4,
        chunk: Bytes::mib(1),
        policy: "epoch".into(),
        workload: Distribution::YcsbZipf { theta: 0.99 }.into(),
        keys: 40_960,
        gets: 20_000,
        tasks: 1,
        origin_latency: Nanos::millis(123),
        origin_sd: Nanos(0),
        hold_zone_during_fetch: false,
        habits: habits.parse().expect("habits"),
        ..large_chunks(ZNS, Distribution::Uniform, 10)
    }
}

#[test]
fn the_spikes_of_a_chunk_cache_are_finishes_and_go_when_nobody_waits() {
    let coded = outcome(&chunk_cache("reopen+small-writes+insert-epoch+finish-in-line"));
    let behind = outcome(&chunk_cache("none"));
    let millis = |nanos: u64| nanos as f64 / 1e6;
    // Each zone has 53 MiB unused, which finishing the zone writes.
    let finish = millis(coded.finish.mean_ns);
    assert!((45.0..52.0).contains(&finish), "{finish} ms");
    // 256 pieces of 4 KiB, and opening the device.
    let write = millis(coded.write.p50_ns);
    assert!((4.0..6.0).contains(&write), "{write} ms");
    assert!(finish < millis(coded.write.max_ns) && millis(behind.write.max_ns) < finish / 2.0);
    // In the code, one of the two emptied zones is already empty, so each reclaim evicts less.
    assert!(coded.first_emptied_ns.is_some() && behind.hits < coded.hits);
}
