//! Many histories, all clean; and the simulator itself: it is deterministic, and it does something.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use zonal_sim::{Options, Report, run};

fn from_env(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// `ZONAL_SIM_SEEDS` histories from seed `ZONAL_SIM_SEED` on; one violation shows how to see it again.
#[test]
fn no_history_violates_the_oracle() {
    let first = from_env("ZONAL_SIM_SEED", 1);
    let count = from_env("ZONAL_SIM_SEEDS", 2000);
    let (next, found) = (AtomicU64::new(first), Mutex::new(Vec::new()));
    let reports = Mutex::new(Vec::<Report>::new());
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if first + count <= seed || !found.lock().expect("no panics").is_empty() {
                        return;
                    }
                    match run(seed, &Options::default()) {
                        Ok(report) => reports.lock().expect("no panics").push(report),
                        Err(violation) => found.lock().expect("no panics").push(violation),
                    }
                }
            });
        }
    });
    let found = found.into_inner().expect("no panics");
    assert!(
        found.is_empty(),
        "{}\nagain: ZONAL_SIM_SEED={} ZONAL_SIM_SEEDS=1",
        found[0],
        found[0].seed
    );
    let reports = reports.into_inner().expect("no panics");
    let sum = |of: fn(&Report) -> u64| reports.iter().map(of).sum::<u64>();
    let (reads, cached, failed) =
        (sum(|r| r.reads), sum(|r| r.reads_cached), sum(|r| r.reads_failed));
    let (writes, crashes, resets) = (sum(|r| r.writes), sum(|r| r.crashes), sum(|r| r.zones_reset));
    println!(
        "{count} histories: {reads} reads ({cached} cached, {failed} cut short), {writes} writes, {crashes} crashes, {resets} zones emptied"
    );
    if 100 <= count {
        assert!(reads / 10 < cached && failed < reads / 2, "hits are what is to be tested");
        assert!(count / 2 < crashes && count < writes && count < resets);
    }
}

#[test]
fn one_seed_is_one_history_and_another_seed_is_another() {
    let of = |seed| run(seed, &Options::default()).expect("a clean history");
    assert_eq!(of(42), of(42));
    assert_ne!(of(42).history, of(43).history, "the seed must matter, or this test proves nothing");
}
