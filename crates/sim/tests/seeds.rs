//! Cache histories: many seeds, without violations. Also checks that the simulator is deterministic
//! and does enough work.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use zonal_sim::{History, Options, Report, Violation};

fn from_env(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Runs the first `count` `wanted` histories from seed `ZONAL_SIM_SEED`; none may have a violation.
#[track_caller]
fn check(count: u64, options: &Options, wanted: fn(&History) -> bool) {
    let first = from_env("ZONAL_SIM_SEED", 1);
    let seeds = (first..).filter(|seed| wanted(&History::of_seed(*seed, options)));
    let seeds: Vec<u64> = seeds.take(zonal_base::index(count)).collect();
    let (next, found) = (AtomicU64::new(0), Mutex::new(Vec::<Violation>::new()));
    let reports = Mutex::new(Vec::<Report>::new());
    let work = || {
        while found.lock().expect("no panics").is_empty() {
            let next = zonal_base::index(next.fetch_add(1, Ordering::Relaxed));
            let Some(seed) = seeds.get(next) else { return };
            match zonal_sim::run(*seed, options) {
                Ok(report) => reports.lock().expect("no panics").push(report),
                Err(violation) => found.lock().expect("no panics").push(violation),
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let found = found.into_inner().expect("no panics");
    assert!(found.is_empty(), "{}\nagain: zonal-lab sim --seed {}", found[0], found[0].seed);
    did_something(count, &reports.into_inner().expect("no panics"));
}

fn did_something(count: u64, reports: &[Report]) {
    let sum = |of: fn(&Report) -> u64| reports.iter().map(of).sum::<u64>();
    let (reads, cached, failed) =
        (sum(|r| r.reads), sum(|r| r.reads_cached), sum(|r| r.reads_failed));
    let (writes, crashes, resets) = (sum(|r| r.writes), sum(|r| r.crashes), sum(|r| r.zones_reset));
    let prefetched = sum(|r| r.prefetched_read);
    println!(
        "{count} histories: {reads} reads ({cached} cached, {failed} cut short), {writes} writes, {crashes} crashes, {resets} zones emptied, {} KiB read that were fetched ahead",
        prefetched >> 10
    );
    if 100 <= count {
        assert!(reads / 10 < cached && failed < reads / 2, "hits are what is to be tested");
        assert!(count << 12 < prefetched, "a page of each is the least");
        assert!(count / 2 < crashes && count < writes && count < resets);
    }
}

/// Runs `ZONAL_SIM_SEEDS` histories.
#[test]
fn no_history_in_memory_violates_the_oracle() {
    check(from_env("ZONAL_SIM_SEEDS", 100), &Options::default(), |history| {
        !history.is_on_drive_model()
    });
}

/// Runs `ZONAL_SIM_DRIVE_SEEDS` histories.
#[test]
fn no_history_on_a_drive_model_violates_the_oracle() {
    check(from_env("ZONAL_SIM_DRIVE_SEEDS", 100), &Options::default(), History::is_on_drive_model);
}

/// Runs `ZONAL_SIM_POLICY_SEEDS` histories of each policy.
#[test]
fn no_history_of_any_policy_violates_the_oracle() {
    for name in zonal_policy::NAMES {
        println!("{name}");
        let options = Options::with_policy(name.parse().ok());
        check(from_env("ZONAL_SIM_POLICY_SEEDS", 100), &options, |_| true);
    }
}

/// Seeds that found a bug once, with the bug.
const WENT_WRONG: [(u64, Option<&str>, &str); 2] = [
    (
        161_296,
        None,
        "a fetch that waited for the origin was not counted, once a newer one had taken its place in the table",
    ),
    (
        1105,
        Some("zone-lru"),
        "generations were left out for what could not be read before all that could be was found: a removal was older than the one before it",
    ),
];

#[test]
fn what_went_wrong_once_does_so_no_more() {
    for (seed, policy, why) in WENT_WRONG {
        let options = Options::with_policy(policy.and_then(|policy| policy.parse().ok()));
        let outcome = zonal_sim::run(seed, &options);
        assert!(outcome.is_ok(), "seed {seed} ({why}): {outcome:?}");
    }
}

#[test]
fn one_seed_is_one_history_and_another_seed_is_another() {
    let of = |seed| History::of_seed(seed, &Options::default()).run_traced();
    for seed in 42..48 {
        let (log, report) = of(seed);
        assert_eq!((log.clone(), report.clone()), of(seed), "seed {seed}");
        let (other_log, other_report) = of(seed + 1);
        assert_ne!(log, other_log, "the seed must matter, or this test proves nothing");
        assert_ne!(report, other_report);
    }
}
