//! Mutation test of the simulator: it finds each planted bug within 1,500 seeds, and shrinks its
//! history.
//!
//! `cargo test -p zonal-sim --features planted-bugs --test planted -- --nocapture` prints the table
//! of `docs/simulation.md`.
#![cfg(feature = "planted-bugs")]

use std::fmt::Display;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use zonal_cache::Mutation as Cache;
use zonal_shaper::Mutation as Block;
use zonal_sim::{History, Options, Shrink, Violation, block};
use zonal_zonelog::Mutation as Log;

/// Largest number of histories until a bug must be found.
const SEEDS_MAX: u64 = 1500;

/// Largest number of steps and ends of lives of a shrunk history: small enough to read.
const STEPS_MAX: usize = 100;

static BUGS: [(&str, Options); 26] = [
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
    ("pieces of one size have the keys of those of another", of_cache(Cache::PieceIgnored)),
    ("a head from before a purge of its prefix is served", of_cache(Cache::PurgedHeadServed)),
    ("chunks from before a purge of a prefix keep their keys", of_cache(Cache::PurgedSaltIgnored)),
    ("stale head after a purge of a prefix", of_cache(Cache::PurgeOverlooksQuestions)),
    ("a fetch is not pinned to its version", of_cache(Cache::VersionNotPinned)),
    ("a lookup of missing bytes is not pinned", of_cache(Cache::LookupNotPinned)),
    ("a fetch ahead of a reader is not pinned either", of_cache(Cache::PrefetchNotPinned)),
    ("reclaim drops what is pinned", of_cache(Cache::PinDropped)),
    ("removals that an isolated share missed are forgotten", of_cache(Cache::MissedForgotten)),
    ("wrong CRC range: the first 32 KiB only", of_log(Log::CheckShort)),
    ("no check at all", of_log(Log::CheckIgnored)),
    ("lost zones are not noticed", of_log(Log::LossIgnored)),
    ("no manifest follows a removal", of_log(Log::RemovalsUnlisted)),
    ("a zone is reset while the manifest has it", of_log(Log::ResetExpected)),
    ("a full zone keeps its active slot", of_log(Log::SlotLeaked)),
];

static BLOCK_BUGS: [(&str, Block); 14] = [
    ("block device: a flush is acknowledged and not done", Block::FlushLost),
    ("block device: in the map before the device answered", Block::MapEarly),
    ("block device: compaction overwrites what is newer", Block::CompactionStale),
    ("block device: a retained copy overwrites newer data", Block::RoundStale),
    ("block device: compaction forgets trims", Block::TrimResurrected),
    ("block device: a zone is reset under a read", Block::CollectionRace),
    ("block device: a zone is reset before its copies are flushed", Block::CopyNotFlushed),
    ("block device: a page of the map counts before it is written", Block::PageEarly),
    ("block device: a zone of the map is reset with its pages", Block::PagesDropped),
    ("block device: what changes under a merge is forgotten", Block::ChangeForgotten),
    ("block device: what is hidden by a younger place is moved", Block::HiddenMoved),
    ("block device: recovery believes what may be torn", Block::TornTaken),
    ("block device: reads do not verify checksums", Block::ReadUnchecked),
    ("block device: a zone is reset while the zone table has it", Block::ZoneStaysInTable),
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
    shrunk_steps: usize,
    runs: u32,
    violation: Violation,
    /// Violation when the shrunk history runs again.
    again: Option<Violation>,
    text: String,
    shrinking: Duration,
}

/// Name of a bug, and the search for it.
type Bug = (&'static str, Box<dyn Fn() -> Option<Found> + Send + Sync>);

fn bugs() -> Vec<Bug> {
    let cache = BUGS.iter().map(|(name, options)| -> Bug {
        (*name, Box::new(|| find(|seed| History::of_seed(seed, options))))
    });
    let block = BLOCK_BUGS.iter().map(|(name, bug)| -> Bug {
        let options = block::BlockOptions { bug: Some(*bug) };
        (*name, Box::new(move || find(|seed| block::BlockHistory::of_seed(seed, &options))))
    });
    cache.chain(block).collect()
}

#[test]
fn every_planted_bug_is_found_within_1500_seeds_and_shrinks_to_what_one_can_read() {
    let bugs = bugs();
    let (left, rows) = (Mutex::new(bugs.iter().enumerate()), Mutex::new(Vec::new()));
    let work = || {
        loop {
            let next = left.lock().expect("no panics").next();
            let Some((number, (name, find))) = next else { return };
            let found = find();
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
        assert!(found.shrunk_steps <= STEPS_MAX, "{name}:\n{}", found.text);
        let again = found.again.as_ref();
        assert_eq!(again, Some(&found.violation), "{name}: every time, without its seed, too");
    }
}

/// First failing history that shrinks to a readable size, or else the shortest.
fn find<H: Shrink + Display>(of_seed: impl Fn(u64) -> H) -> Option<Found> {
    let (begun, mut shortest) = (Instant::now(), None::<Found>);
    let mut shrinking = Duration::ZERO;
    for seeds in 1..=SEEDS_MAX {
        let history = of_seed(seeds);
        let Some(violation) = history.violation() else { continue };
        let found_at = Instant::now();
        let shrunk = history.shrink(&violation);
        shrinking += found_at.elapsed();
        let found = Found {
            seeds,
            finding: begun.elapsed() - shrinking,
            steps: history.step_count(),
            shrunk_steps: shrunk.history.step_count(),
            runs: shrunk.runs,
            again: shrunk.history.violation(),
            text: shrunk.history.to_string(),
            violation: shrunk.violation,
            shrinking,
        };
        if found.shrunk_steps <= STEPS_MAX {
            return Some(found);
        }
        if shortest.as_ref().is_none_or(|best| found.shrunk_steps < best.shrunk_steps) {
            shortest = Some(found);
        }
    }
    shortest
}

fn print_row(name: &str, found: Option<&Found>) {
    let Some(found) = found else {
        return println!("| {name} | none of {SEEDS_MAX} | | | | | | |");
    };
    let Found { seeds, finding, steps, shrunk_steps, runs, violation, shrinking, .. } = found;
    println!(
        "| {name} | {seeds} | {} ms | {} | {steps} | {shrunk_steps} | {runs} | {} ms |",
        finding.as_millis(),
        violation.kind,
        shrinking.as_millis(),
    );
}
