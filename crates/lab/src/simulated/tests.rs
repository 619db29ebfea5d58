//! Cache engine on the ZN540 model: right bytes, garbage collection, admission, restarts, equal
//! seeds.

use zonal_base::{Bytes, Nanos};
use zonal_cache::CacheStats;
use zonal_emulator::{Profile, Tags, ZonedDrive};

use super::{OriginTimes, Simulated, SimulationOutcome, SimulationSettings};
use crate::{Distribution, Draw};

const ZONES: u32 = 16;

/// 1/250 of the drive.
const DRAM: Bytes = Bytes::mib(64);

fn settings(seed: u64, policy: &str) -> SimulationSettings {
    SimulationSettings {
        chunk: Bytes::mib(1),
        get: Bytes::mib(1),
        policy: policy.parse().unwrap(),
        memory: Bytes(0),
        tasks: 16,
        origin: OriginTimes::each(Nanos::millis(10)),
        seed,
    }
}

/// Runs gets over twice as many chunks as the drive holds, four per chunk on average.
fn run(seed: u64, policy: &str) -> (SimulationOutcome, Simulated<ZonedDrive>, Draw) {
    run_with(&settings(seed, policy))
}

fn run_with(settings: &SimulationSettings) -> (SimulationOutcome, Simulated<ZonedDrive>, Draw) {
    let mut profile = Profile::zn540();
    profile.geometry.zone_count = ZONES;
    let geometry = profile.geometry;
    let drive = ZonedDrive::new(profile, settings.seed, Box::new(Tags::new(&geometry)));
    let mut simulated = Simulated::start(drive, settings).expect("the settings fit");
    let chunks = 2 * u64::from(ZONES) * geometry.zone_capacity.bytes().0 / settings.chunk.0;
    let draw = Draw::new(Distribution::Zipf { theta: 0.9 }, chunks, settings.seed);
    let outcome = simulated.gets(4 * chunks, draw).expect("every byte is right");
    (outcome, simulated, draw)
}

fn stats_of(policy: &str) -> (CacheStats, u64) {
    let (_, simulated, _) = run(1, policy);
    let cache = simulated.cache();
    (cache.stats(), cache.log().stats().device_written_bytes)
}

#[test]
fn a_cache_on_a_model_hits_misses_and_reclaims_and_every_tag_is_right() {
    let (outcome, simulated, _) = run(1, "zone-lru");
    let CacheStats { damaged, evicted, .. } = simulated.cache().stats();
    assert!(outcome.hits * 10 > outcome.gets * 3, "{outcome:?}");
    assert!(outcome.hits * 10 < outcome.gets * 9, "{outcome:?}");
    assert!(damaged == 0 && 0 < evicted, "{damaged} damaged, {evicted} evicted");
    let again = run(1, "zone-lru").0;
    assert_eq!((again.hits, again.took), (outcome.hits, outcome.took), "one seed, one history");
    assert_ne!(run(2, "zone-lru").0.took, outcome.took);
}

#[test]
fn what_is_missed_once_is_not_written_once_flash_has_been_full() {
    let (all, _) = stats_of("zone-lru");
    assert_eq!(all.turned_away_bytes, 0);
    for admission in ["second-hit", "sketch"] {
        let (second, _) = stats_of(&format!("zone-lru?admit={admission}"));
        assert!(0 < second.turned_away_bytes);
        assert!(second.admitted_bytes * 10 < all.admitted_bytes * 9, "{second:?}\n{all:?}");
    }
}

#[test]
fn what_is_read_often_is_read_from_memory() {
    let (hits, simulated, _) =
        run_with(&SimulationSettings { memory: DRAM, ..settings(1, "zone-lru") });
    let (stats, without) = (simulated.cache().stats(), run(1, "zone-lru").0.hits);
    assert!(stats.pieces / 20 < stats.pieces_dram_hits, "{stats:?}");
    assert!(hits.hits.abs_diff(without) < hits.gets / 100, "what flash holds is the same");
    let held = simulated.cache().held_memory();
    assert!(held <= DRAM && DRAM.0 / 10 * 9 < held.0, "{held}");
}

#[test]
fn what_waits_has_a_bound_and_costs_no_hits() {
    let of = |memory| {
        run_with(&SimulationSettings { memory, ..settings(1, "zone-lru?admit=probation") })
    };
    let [(without, ..), (with, simulated, _)] = [Bytes(0), Bytes(4 * DRAM.0)].map(of);
    let (stats, held) = (simulated.cache().stats(), simulated.cache().held_memory());
    assert!(0 < stats.turned_away_bytes && 0 < stats.pieces_dram_hits, "{stats:?}");
    assert!(held.0 <= 4 * DRAM.0 && 3 * DRAM.0 < held.0, "{held}");
    assert!(without.hits.abs_diff(with.hits) < with.gets / 100, "{without:?} and {with:?}");
}

#[test]
fn a_budget_bounds_what_is_written() {
    let (stats, written) = stats_of("flow?admit=all&budget=15%");
    assert!(0 < stats.turned_away_bytes && 0 < stats.evicted, "{stats:?}");
    // The live data of a victim zone are rewritten even over the write budget. Then less is admitted.
    let most = stats.served_bytes / 100 * 15 + Bytes::mib(1077).0;
    assert!(written <= most, "{written} of {most}");
}

#[test]
fn a_budget_in_time_is_a_rate_on_the_mean() {
    let room = u64::from(ZONES) * Profile::zn540().geometry.zone_capacity.bytes().0;
    let of_a_day = 100.0 * room as f64 / (24.0 * 3600.0);
    for (budget, rate) in [("20MiB/s", (20 << 20) as f64), ("100dwpd", of_a_day)] {
        let (outcome, simulated, _) = run(1, &format!("zone-fifo?budget={budget}"));
        let stats = simulated.cache().stats();
        assert!(0 < stats.turned_away_bytes, "{stats:?}");
        let written = simulated.cache().log().stats().device_written_bytes as f64;
        let earned = rate * outcome.took.0 as f64 / 1e9;
        assert!(written <= earned && 0.9 * earned < written, "{budget}: {written} of {earned}");
    }
}

#[test]
fn hits_after_a_restart_are_those_of_before() {
    let all = zonal_policy::NAMES;
    let some = ["flow", "zone-lru", "chunk-lru", "region-lru"];
    let is_slow = std::env::var_os("SLOW_TESTS").is_some_and(|value| value == "1");
    let mut far = Vec::new();
    for policy in if is_slow { &all[..] } else { &some } {
        let (_, mut simulated, draw) = run(1, policy);
        let gets = |simulated: &mut Simulated<_>| {
            simulated.gets(40_000, draw).expect("every byte is right").hits
        };
        let running = gets(&mut simulated);
        let mut simulated = simulated.restart(&settings(2, policy)).expect("it comes up");
        let killed = gets(&mut simulated);
        simulated.stop();
        let mut simulated = simulated.restart(&settings(3, policy)).expect("it comes up");
        let stopped = gets(&mut simulated);
        println!("{policy}: {running}, after a kill {killed}, and after a stop {stopped}");
        // `epoch` has more hits without its last state: a chunk of unknown age counts as just used.
        let most = if policy == &"epoch" { 1200 } else { 800 };
        let is_far = running.abs_diff(killed).max(killed.abs_diff(stopped)) > most;
        far.extend(is_far.then_some((policy, running, killed, stopped)));
    }
    assert!(far.is_empty(), "more than two points of 100: {far:?}");
}
