//! `zonal sim`: histories of the engine in virtual time, with crashes and faults; a seed finds each again.

use std::ops::Range;
use std::str::FromStr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use serde::Serialize;
use zonal_sim::{Options, Report, Violation};

use super::print;
use crate::failure::Failure;

/// Run the engine in virtual time, with crashes and faults
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples: zonal sim --seed 42, zonal sim --seeds 1..2000 --json")]
pub(crate) struct Args {
    /// One history
    #[arg(long, value_name = "N", conflicts_with = "seeds")]
    seed: Option<u64>,
    /// Many histories: from A up to and without B, on all cores, until one goes wrong
    #[arg(long, value_name = "A..B")]
    seeds: Option<Seeds>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const NOT_NAMED: &str = "name --seed N for one history, or --seeds A..B for many (see --help)";

/// `A..B`
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seeds(Range<u64>);

impl FromStr for Seeds {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let range = text.split_once("..").and_then(|(first, end)| {
            let range = first.parse().ok()?..end.parse().ok()?;
            (!range.is_empty()).then_some(Self(range))
        });
        range.ok_or("write two numbers, the smaller one first, such as 1..2000")
    }
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let seeds = match (args.seed, &args.seeds) {
        (Some(seed), _) => seed..seed.saturating_add(1),
        (None, Some(Seeds(range))) => range.clone(),
        (None, None) => return Err(Failure::request(NOT_NAMED)),
    };
    let summary = Summary::of(run_all(seeds).map_err(|violation| {
        let seed = violation.seed;
        Failure::work(format!("{violation}; see it again with `zonal sim --seed {seed}`"))
    })?);
    if args.json { print::json(&summary) } else { print::text(&summary.to_text()) }
}

/// Each thread takes the next seed; the first violation ends all.
fn run_all(seeds: Range<u64>) -> Result<Vec<Report>, Violation> {
    let next = AtomicU64::new(seeds.start);
    let results: Mutex<Result<Vec<Report>, Violation>> = Mutex::new(Ok(Vec::new()));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            let is_over = |so_far: &Result<_, _>| so_far.is_err() || !seeds.contains(&seed);
            if is_over(&results.lock().expect("no thread panics while it holds the results")) {
                return;
            }
            let result = zonal_sim::run(seed, &Options::default());
            let mut so_far = results.lock().expect("no thread panics while it holds the results");
            match (&mut *so_far, result) {
                (Ok(reports), Ok(report)) => reports.push(report),
                (Ok(_), Err(violation)) => *so_far = Err(violation),
                (Err(_), _) => (),
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    results.into_inner().expect("no thread panics while it holds the results")
}

/// What the histories did, together.
#[derive(Debug, Serialize)]
struct Summary {
    histories: usize,
    /// All that happened, as one number: equal for equal seeds.
    fingerprint: String,
    reads: u64,
    reads_cached: u64,
    reads_failed: u64,
    writes: u64,
    crashes: u64,
    zones_reset: u64,
    virtual_seconds: f64,
}

impl Summary {
    fn of(reports: Vec<Report>) -> Self {
        let sum = |of: fn(&Report) -> u64| reports.iter().map(of).sum::<u64>();
        // The order in which threads finish does not matter to a sum.
        let fingerprint =
            reports.iter().fold(0, |sum: u64, report| sum.wrapping_add(report.history));
        Self {
            histories: reports.len(),
            fingerprint: format!("{fingerprint:016x}"),
            reads: sum(|report| report.reads),
            reads_cached: sum(|report| report.reads_cached),
            reads_failed: sum(|report| report.reads_failed),
            writes: sum(|report| report.writes),
            crashes: sum(|report| report.crashes),
            zones_reset: sum(|report| report.zones_reset),
            virtual_seconds: reports.iter().map(|report| report.lasted as f64 / 1e9).sum(),
        }
    }

    fn to_text(&self) -> String {
        format!(
            "{} histories, {:.1} s of virtual time, fingerprint {}: no violation\n{} reads ({} cached, {} cut \
             short), {} writes, {} crashes, {} zones emptied\n",
            self.histories,
            self.virtual_seconds,
            self.fingerprint,
            self.reads,
            self.reads_cached,
            self.reads_failed,
            self.writes,
            self.crashes,
            self.zones_reset,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_a_range_that_is_not_empty() {
        assert_eq!("1..3".parse(), Ok(Seeds(1..3)));
        for text in ["1", "3..1", "1..1", "a..b", ".."] {
            assert!(text.parse::<Seeds>().is_err(), "{text}");
        }
    }
}
