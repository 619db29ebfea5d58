//! Threads on small drives: misses in progress, waiting times, and the two LRUs.

use zonal_base::{Bytes, Nanos};
use zonal_emulator::{DiscardMedium, Profile, ZonedDrive};

use super::{Calls, ClaimOrder, Lru, MemoryCosts, Threaded, ThreadedOutcome, ThreadedSettings};
use crate::simulated::feed::Load;
use crate::simulated::measures::Timed;
use crate::{Distribution, Draw};

const ZONES: u32 = 40;
const FETCH: Nanos = Nanos::micros(40_632);

fn settings(chunk: Bytes) -> ThreadedSettings {
    ThreadedSettings {
        chunk,
        zones: ZONES,
        active_zones: 14,
        threads: 64,
        origin_latency: FETCH,
        claim: ClaimOrder::BeforeFetch,
        lru: Lru::Zones,
        free_zones: (1, 2),
        calls: Calls { request: chunk.min(Bytes::kib(1280)), reads: 256, host: Nanos(3_110) },
        memory: MemoryCosts { copying: Nanos(2_200_000), touching: Nanos(490_000) },
        seed: 1,
    }
}

fn run(settings: ThreadedSettings, gets: u64, keys: u64) -> ThreadedOutcome {
    let mut profile = Profile::zn540();
    profile.geometry.zone_count = ZONES;
    let drive = ZonedDrive::new(profile, settings.seed, Box::new(DiscardMedium));
    let draw = Draw::new(Distribution::Uniform, keys, settings.seed);
    let load = Load::Drawn(gets, draw);
    let threads = Threaded::new(drive.into(), settings, load, Nanos::secs(60));
    threads.run(&|_| ()).expect("the drive takes everything").0
}

fn write_rate(outcome: &ThreadedOutcome, chunk: Bytes) -> f64 {
    let written = outcome.measures.latency(Timed::Write).count * chunk.0;
    written as f64 / (outcome.took.0 as f64 / 1e9)
}

#[test]
fn as_many_misses_are_under_way_as_zones_may_be_active() {
    let chunk = Bytes::kib(64);
    let holding = run(settings(chunk), 40_000, 1 << 24);
    let law = 14.0 * chunk.0 as f64 / (FETCH.0 as f64 / 1e9);
    let rate = write_rate(&holding, chunk);
    assert!((0.97..1.0).contains(&(rate / law)), "{rate} of {law}");
    let after =
        run(ThreadedSettings { claim: ClaimOrder::AfterFetch, ..settings(chunk) }, 40_000, 1 << 24);
    let all = 64.0 * chunk.0 as f64 / (FETCH.0 as f64 / 1e9);
    let rate = write_rate(&after, chunk);
    assert!((0.97..1.0).contains(&(rate / all)), "{rate} of {all}");
}

#[test]
fn who_spins_may_wait_for_long() {
    let get = run(settings(Bytes::kib(64)), 40_000, 1 << 24).measures.latency(Timed::Get);
    // 50 threads wait, and a random one of them is served every 2.9 ms: a geometric distribution.
    // With a queue all would wait alike.
    let ratio = get.p99_ns as f64 / get.mean_ns as f64;
    assert!((3.3..4.6).contains(&ratio), "{get:?}");
}

#[test]
fn full_zones_are_finished_and_emptied_and_what_is_left_is_hit() {
    let chunk = Bytes::mib(256);
    let free_zones = (8, 16);
    let outcome = run(ThreadedSettings { free_zones, ..settings(chunk) }, 1_000, 200);
    let gets = outcome.measures.latency(Timed::Get).count;
    let misses = outcome.measures.latency(Timed::Write).count;
    assert_eq!((gets, gets - misses), (1_000, outcome.hits));
    // 24 to 32 zones of 4 chunks hold a half to two thirds of the 200 keys.
    assert!((350..700).contains(&outcome.hits), "{} hits", outcome.hits);
    // The last 53 MiB of each zone are not written.
    assert!((misses / 4).abs_diff(outcome.finished) <= 14, "{} of {misses}", outcome.finished);
}

#[test]
fn chunks_are_forgotten_one_by_one_and_what_is_left_of_a_zone_is_moved() {
    let chunk = Bytes::mib(8);
    let lru = Lru::Chunks { spare_percent: 20 };
    let at_once = ThreadedSettings { origin_latency: Nanos::millis(1), ..settings(chunk) };
    let zones = run(at_once, 60_000, 8_000);
    let chunks = run(ThreadedSettings { lru, ..at_once }, 60_000, 8_000);
    // A zone has 134 chunks. With the zone LRU 26 to 38 of 40 zones are full of live chunks; with
    // the chunk LRU four fifths of 40.
    assert!((1..60_000).contains(&chunks.moved) && zones.moved == 0, "{} moved", chunks.moved);
    let kept = chunks.hits as f64 / 60_000.0 * 8_000.0;
    let most = 40.0 * 134.0 * 0.8;
    assert!((0.85 * most..most).contains(&kept), "{kept} of {most}");
    // On average every fifth chunk of a victim zone is garbage, and more in the emptiest zones.
    let misses = 60_000 - chunks.hits;
    assert!(chunks.moved < 4 * misses, "{} moved for {misses}", chunks.moved);
}

#[test]
fn one_seed_is_one_history() {
    let of = |seed| run(ThreadedSettings { seed, ..settings(Bytes::kib(64)) }, 5_000, 1 << 20).took;
    assert_eq!(of(1), of(1));
    assert_ne!(of(1), of(2));
}
