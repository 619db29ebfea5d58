//! `zonal-lab sim`: runs histories of the cache or of a block device in virtual time, with crashes
//! and faults. A seed reproduces each.

mod kind;
mod summary;
mod wrong;

use std::ops::Range;
use std::str::FromStr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use zonal_cli::{Failure, print};
use zonal_lab::experiment::Subject;
use zonal_policy::Spec;
use zonal_sim::{History, Options, Violation, block};

use super::on_device;
use crate::page::{self, Destination, RecordingArgs};
use crate::recording::Recorder;
use kind::Kind;
use summary::Summary;
use wrong::FailedSeed;

/// Simulate the engine in virtual time, with crashes and faults
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples: zonal-lab sim --seed 42 --trace, zonal-lab sim --seeds 1..100000 --minutes 5 --json, zonal-lab sim --block --seeds 1..5000,
zonal-lab sim --seed 42 --ui

A violation ends the simulation with exit code 1. It prints the seed, the commit, and a reduced history that still fails.")]
pub(crate) struct Args {
    /// Seed of one history
    #[arg(long, value_name = "N", conflicts_with = "seeds")]
    seed: Option<u64>,
    /// Seeds of many histories, from A to B exclusive, on all cores, until one fails
    #[arg(long, value_name = "A..B")]
    seeds: Option<Seeds>,
    /// Simulate the block device instead of the cache
    #[arg(long, conflicts_with = "policy")]
    block: bool,
    /// Eviction policy of all histories, such as chunk-lru or zdrop?vop=50% [default: chosen by the
    /// seed: zone-fifo, zone-lru, flow, or one that keeps a third of everything]
    #[arg(long, value_name = "POLICY", value_parser = on_device)]
    policy: Option<Spec>,
    /// Time limit in minutes: start no history after it
    #[arg(long, value_name = "M", requires = "seeds", value_parser = minutes)]
    minutes: Option<Duration>,
    /// Print each event: virtual time, actor, action
    #[arg(long, requires = "seed", conflicts_with = "json")]
    trace: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    recording: RecordingArgs,
}

/// Histories last a few seconds: a millisecond of one is a second of its recording.
const SLOW_MOTION: u64 = 1000;

/// Speed of the page at first: a second of virtual time takes 17 s.
const SPEED: u32 = 60;

const NOT_NAMED: &str = "name --seed N for one history, or --seeds A..B for many (see --help)";

const ONE_RECORDED: &str = "--record and --ui show one history: name its --seed N, without --trace";

/// Range of seeds, `A..B`.
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

fn minutes(text: &str) -> Result<Duration, &'static str> {
    let minutes = text.parse::<f64>().ok().filter(|minutes| 0.0 < *minutes);
    let duration = minutes.and_then(|minutes| Duration::try_from_secs_f64(minutes * 60.0).ok());
    duration.ok_or("write a number above 0, such as 5 or 0.5")
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if args.recording.is_asked() && (args.seed.is_none() || args.trace) {
        return Err(Failure::request(ONE_RECORDED));
    }
    let seeds = match (args.seed, &args.seeds) {
        (Some(seed), _) => seed..seed.saturating_add(1),
        (None, Some(Seeds(range))) => range.clone(),
        (None, None) => return Err(Failure::request(NOT_NAMED)),
    };
    match args.block {
        true => run_kind::<block::BlockHistory>(args, seeds, &block::BlockOptions::default()),
        false => run_kind::<History>(args, seeds, &Options::with_policy(args.policy.clone())),
    }
}

fn run_kind<H: Kind>(args: &Args, seeds: Range<u64>, options: &H::Options) -> Result<(), Failure> {
    if let Some(to) = args.recording.destination()? {
        return run_recorded::<H>(args, seeds.start, (options, to));
    }
    let outcome = match args.trace {
        true => run_traced::<H>(seeds.start, options)?,
        false => run_all::<H>(seeds.clone(), options, args.minutes),
    };
    tell::<H>(args, (seeds, options), outcome)
}

/// Prints the outcome.
fn tell<H: Kind>(
    args: &Args,
    (seeds, options): (Range<u64>, &H::Options),
    outcome: Result<Vec<H::Report>, Violation>,
) -> Result<(), Failure> {
    match outcome {
        Ok(reports) => {
            let summary = Summary::of(seeds, &reports);
            if args.json { print::json(&summary) } else { print::text(&summary.to_text()) }
        }
        Err(violation) => {
            let history = H::of_seed(violation.seed, options);
            let found = FailedSeed::new(&violation, &history.shrink(&violation));
            if args.json {
                print::json(&found)?;
                return Err(Failure::work(violation));
            }
            Err(Failure::work(found.to_text(H::SWITCH)))
        }
    }
}

fn run_traced<H: Kind>(
    seed: u64,
    options: &H::Options,
) -> Result<Result<Vec<H::Report>, Violation>, Failure> {
    let (log, outcome) = H::of_seed(seed, options).play_traced();
    print::text(&log)?;
    Ok(outcome.map(|report| vec![report]))
}

/// Runs one history, and records and shows it.
fn run_recorded<H: Kind>(
    args: &Args,
    seed: u64,
    (options, to): (&H::Options, Destination),
) -> Result<(), Failure> {
    let recorder = Recorder::<H::Engine>::open(to.path())?;
    let page = to.show(recorder.growth(), SPEED)?;
    let subject = Subject {
        device: format!("simulated, seed {seed}"),
        buffer: None,
        policy: args.policy.as_ref().map_or("chosen by the seed".into(), ToString::to_string),
        slow_motion: SLOW_MOTION,
    };
    let outcome = H::of_seed(seed, options).play_watched(recorder.watch(subject));
    let violation = outcome.as_ref().err().map(ToString::to_string);
    let (_in_use, recorded) = recorder.finish(violation);
    let outcome = outcome.map(|report| vec![report]);
    let told = tell::<H>(args, (seed..seed.saturating_add(1), options), outcome).and(recorded);
    page::end(page, told)
}

/// Each thread takes the next seed. The first violation ends all threads.
fn run_all<H: Kind>(
    seeds: Range<u64>,
    options: &H::Options,
    most: Option<Duration>,
) -> Result<Vec<H::Report>, Violation> {
    let deadline = most.and_then(|most| Instant::now().checked_add(most));
    let next = AtomicU64::new(seeds.start);
    let results: Mutex<Result<Vec<H::Report>, Violation>> = Mutex::new(Ok(Vec::new()));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            let is_over = |so_far: &Result<_, _>| so_far.is_err() || !seeds.contains(&seed);
            if is_over(&results.lock().expect("no thread panics while it holds the results")) {
                return;
            }
            let result = H::of_seed(seed, options).play();
            let mut so_far = results.lock().expect("no thread panics while it holds the results");
            match (&mut *so_far, result) {
                (Ok(reports), Ok(report)) => reports.push(report),
                (Ok(_), Err(violation)) => *so_far = Err(violation),
                (Err(_), _) => (),
            }
            // Checked last, so that each thread runs at least one history.
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return;
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

    #[test]
    fn minutes_are_a_time_that_passes() {
        assert_eq!(minutes("0.5"), Ok(Duration::from_secs(30)));
        for text in ["0", "-1", "inf", "NaN", "5m", ""] {
            assert!(minutes(text).is_err(), "{text}");
        }
    }
}
