//! The simulator finds what it is there to find: each planted bug, within 500 seeds, in a history that shrinks.
//!
//! `cargo test -p zonal-sim --features planted-bugs --test planted -- --nocapture` prints the table of
//! `docs/simulation.md`.
#![cfg(feature = "planted-bugs")]

use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use zonal_cache::Planted as Cache;
use zonal_sim::{History, Options, Shrunk};
use zonal_zonelog::Planted as Log;

/// Histories within which a bug must be found.
const SEEDS_MAX: u64 = 500;

/// Steps that a shrunk history has at most, ends of lives included: what one can read.
const STEPS_MAX: usize = 100;

static BUGS: [(&str, Options); 21] = [
    ("early publish: on flash before the device answered", of_log(Log::PublishedEarly)),
    ("a zone is reset with a pin held", of_log(Log::PinIgnored)),
    ("reclaim loses a tombstone", of_log(Log::TombstoneLost)),
    ("a removal writes no tombstone", of_cache(Cache::NoTombstone)),
    ("a tombstone is not flushed", of_log(Log::FlushForgotten)),
    ("recovery revives an older version", of_cache(Cache::GenerationIgnored)),
    ("a head is published after its removal", of_cache(Cache::HeadRevived)),
    ("a removal leaves the head in memory", of_cache(Cache::InvalidationLost)),
    ("a removal leaves an absence remembered", of_cache(Cache::AbsenceKept)),
    ("stale fill after a purge", of_cache(Cache::EpochIgnored)),
    ("chunks from before a removal keep their keys", of_cache(Cache::SaltIgnored)),
    ("a head from before a purge of its prefix is served", of_cache(Cache::PurgedHeadServed)),
    ("chunks from before a purge of a prefix keep their keys", of_cache(Cache::PurgedSaltIgnored)),
    ("stale head after a purge of a prefix", of_cache(Cache::PurgeOverlooksQuestions)),
    ("a fetch is not pinned to its version", of_cache(Cache::VersionNotPinned)),
    ("a fetch ahead of a reader is not pinned either", of_cache(Cache::PrefetchNotPinned)),
    ("reclaim drops what is pinned", of_cache(Cache::PinDropped)),
    ("removals that an isolated share missed are forgotten", of_cache(Cache::MissedForgotten)),
    ("wrong CRC range: the first 32 KiB only", of_log(Log::CheckShort)),
    ("no check at all", of_log(Log::CheckIgnored)),
    ("a full zone keeps its active slot", of_log(Log::SlotLeaked)),
];

const fn of_cache(bug: Cache) -> Options {
    Options { policy: None, cache_bug: Some(bug), log_bug: None }
}

const fn of_log(bug: Log) -> Options {
    Options { policy: None, cache_bug: None, log_bug: Some(bug) }
}

struct Found {
    seeds: u64,
    finding: Duration,
    steps: usize,
    shrunk: Shrunk,
    shrinking: Duration,
}

impl Found {
    fn shrunk_steps(&self) -> usize {
        self.shrunk.history.step_count()
    }
}

#[test]
fn every_planted_bug_is_found_within_500_seeds_and_shrinks_to_what_one_can_read() {
    let (left, rows) = (Mutex::new(BUGS.iter().enumerate()), Mutex::new(Vec::new()));
    let work = || {
        loop {
            let next = left.lock().expect("no panics").next();
            let Some((number, (name, options))) = next else { return };
            let found = find(options);
            rows.lock().expect("no panics").push((number, *name, found));
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let mut rows = rows.into_inner().expect("no panics");
    rows.sort_by_key(|(number, ..)| *number);
    println!("| planted bug | seeds | found in | as | steps | shrunk to | histories tried | in |");
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    for (_, name, found) in &rows {
        print_row(name, found.as_ref());
    }
    for (_, name, found) in &rows {
        let Some(found) = found else { panic!("{name}: not found in {SEEDS_MAX} seeds") };
        let shrunk = &found.shrunk;
        assert!(shrunk.history.step_count() <= STEPS_MAX, "{name}:\n{}", shrunk.history);
        let again = shrunk.history.run().expect_err("it goes wrong every time");
        assert_eq!(again, shrunk.violation, "{name}: without its seed, too");
    }
}

/// The first history that goes wrong and shrinks to what one can read; or else the shortest.
fn find(options: &Options) -> Option<Found> {
    let (begun, mut shortest) = (Instant::now(), None::<Found>);
    let mut shrinking = Duration::ZERO;
    for seeds in 1..=SEEDS_MAX {
        let history = History::of_seed(seeds, options);
        let Err(violation) = history.run() else { continue };
        let found_at = Instant::now();
        let shrunk = history.shrink(&violation);
        shrinking += found_at.elapsed();
        let finding = begun.elapsed() - shrinking;
        let steps = history.step_count();
        let found = Found { seeds, finding, steps, shrunk, shrinking };
        if found.shrunk_steps() <= STEPS_MAX {
            return Some(found);
        }
        if shortest.as_ref().is_none_or(|best| found.shrunk_steps() < best.shrunk_steps()) {
            shortest = Some(found);
        }
    }
    shortest
}

fn print_row(name: &str, found: Option<&Found>) {
    let Some(Found { seeds, finding, steps, shrunk, shrinking }) = found else {
        return println!("| {name} | none of {SEEDS_MAX} | | | | | | |");
    };
    println!(
        "| {name} | {seeds} | {} ms | {} | {steps} | {} | {} | {} ms |",
        finding.as_millis(),
        shrunk.violation.kind,
        shrunk.history.step_count(),
        shrunk.runs,
        shrinking.as_millis(),
    );
}
