//! Block-device histories: many seeds, without violations.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use zonal_sim::Violation;
use zonal_sim::block::{BlockHistory, BlockOptions, BlockReport};

fn from_env(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Runs `ZONAL_SIM_BLOCK_SEEDS` histories from seed `ZONAL_SIM_SEED`.
#[test]
fn no_history_of_a_block_device_violates_the_oracle() {
    let first = from_env("ZONAL_SIM_SEED", 1);
    let end = first + from_env("ZONAL_SIM_BLOCK_SEEDS", 100);
    let next = AtomicU64::new(first);
    let (found, reports) = (Mutex::new(Vec::<Violation>::new()), Mutex::new(Vec::new()));
    let work = || {
        while found.lock().expect("no panics").is_empty() {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if end <= seed {
                return;
            }
            match BlockHistory::of_seed(seed, &BlockOptions::default()).run() {
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
    if let Some(violation) = found.first() {
        let (trace, _) =
            BlockHistory::of_seed(violation.seed, &BlockOptions::default()).run_traced();
        let tail: Vec<&str> = trace.lines().rev().take(40).collect();
        let tail: Vec<&str> = tail.into_iter().rev().collect();
        panic!("{}\n{violation}\nagain: ZONAL_SIM_SEED={}", tail.join("\n"), violation.seed);
    }
    let reports: Vec<BlockReport> = reports.into_inner().expect("no panics");
    let sum = |of: fn(&BlockReport) -> u64| reports.iter().map(of).sum::<u64>();
    println!(
        "{} histories: {} reads, {} acts, {} crashes, {} zones reset, {} blocks torn, {} starts that salvaged, {} devices damaged at rest, {} starts refused for that",
        reports.len(),
        sum(|report| report.reads),
        sum(|report| report.acts),
        sum(|report| report.crashes),
        sum(|report| report.zones_reset),
        sum(|report| report.torn_blocks),
        sum(|report| report.salvages),
        sum(|report| report.damages),
        sum(|report| report.refusals),
    );
    if 100 <= reports.len() {
        assert!(
            reports.len() as u64 * 10 < sum(|report| report.zones_reset),
            "zones must turn over"
        );
        assert!(0 < sum(|report| report.torn_blocks), "crashes must tear");
        assert!(0 < sum(|report| report.scrubs), "scrubs must end");
    }
}

/// Seeds that found a bug once, with the bug.
const WENT_WRONG: [(u64, &str); 10] = [
    (
        3341,
        "a zone of the buffer that was the map's was worn out, the log had all others, and nothing could be written any more",
    ),
    (
        32_729,
        "two headers could not be read together with what stands behind them, new walks took the memory for reading them alone, and the start hung",
    ),
    (
        46_418,
        "a zone was offline and given up, users were told what was lost with it, and then the device had it again: what was lost came back",
    ),
    (
        10_729,
        "a header of an older log lay where recovery had rebuilt one from its echo, and collection moved what the older one named",
    ),
    (
        49_275,
        "a block under an unreadable header was overwritten while collection looked for such blocks, and its old version got a newer sequence",
    ),
    (
        50_407,
        "an exchanged zone began with the mark of an empty one, and was reset although its segments had been rebuilt",
    ),
    (
        17_913,
        "the last usable zone of the buffer was full, and never sealed: compaction could not empty it",
    ),
    (5786, "a crash had left a gap of two headers in a row, and the next start took it for damage"),
    (
        25_558,
        "a power cut lost the first segments of a zone that was written again, and a torn one behind those of its earlier use was believed",
    ),
    (72_411, "the same, and the blocks of the torn segment became errors"),
];

#[test]
fn what_went_wrong_once_does_so_no_more() {
    for (seed, why) in WENT_WRONG {
        let outcome = BlockHistory::of_seed(seed, &BlockOptions::default()).run();
        assert!(outcome.is_ok(), "seed {seed} ({why}): {outcome:?}");
    }
}

#[test]
fn one_seed_is_one_history_and_another_seed_is_another() {
    let of = |seed| BlockHistory::of_seed(seed, &BlockOptions::default()).run_traced();
    for seed in 42..46 {
        assert_eq!(of(seed), of(seed), "seed {seed}");
        assert_ne!(of(seed).0, of(seed + 1).0, "the seed must matter, or this test proves nothing");
    }
}
