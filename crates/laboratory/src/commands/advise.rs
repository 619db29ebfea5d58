//! `zonal-lab advise`: recommends a cache for a recorded load.

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use signal_hook::consts::SIGINT;
use zonal_base::{Bytes, Nanos};
use zonal_cli::{COMMIT, Failure, print};
use zonal_lab::advise::{Egress, LOOKUPS, Prices, Question};
use zonal_lab::bench::Progress;
use zonal_lab::trace::{Format, SIZE_UNKNOWN, Trace};

use super::at_once;

/// Recommend a cache for a recorded workload: size, drive, policy, chunk size, freshness, and what it
/// saves
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Reads access logs (S3, CloudTrail, CloudFront, nginx, HAProxy, Zonal's own) and traces of other simulators; docs/traces.md has
all formats. A long trace is sampled by objects, with fixed memory; intervals are said. Ctrl-C prints what is known by then.

Prices: --origin and --egress select a row of the built-in list, crates/lab/data/prices.toml; --prices takes your own file of
that form. docs/lab.md#advice explains each figure and its limits.

Examples: zonal-lab advise --trace access-logs/ --html advice
          zonal-lab advise --trace access-logs/ --origin s3-standard-ia --egress internet --capacity 500GiB
          zonal-lab advise --trace requests.log --format text-size --reads-per-s 2000 --json
          zcat logs/*.gz | zonal-lab advise --trace -")]
pub(crate) struct Args {
    /// Trace files: access logs or traces, folders, patterns in quotes, or - for standard input
    #[arg(long, value_name = "FILE", required = true, num_args = 1..)]
    trace: Vec<PathBuf>,
    /// Format of the trace [without it: from the file name or the content]
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
    /// Number of requests to use, from the start of the trace
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    requests: Option<u64>,
    /// Replay all requests instead of a sample: slower, 48 bytes of memory for each
    #[arg(long)]
    exact: bool,
    /// Object size if the trace has no sizes: a power of two from 4KiB to 1MiB
    #[arg(long, value_name = "SIZE", default_value_t = Bytes(SIZE_UNKNOWN))]
    size: Bytes,
    /// Largest cache to recommend [without it: up to all that the trace reads]
    #[arg(long, value_name = "SIZE")]
    capacity: Option<Bytes>,
    /// DRAM in front of flash
    #[arg(long, value_name = "SIZE", default_value = "64MiB")]
    dram: Bytes,
    /// Number of concurrent gets
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=16384))]
    tasks: u32,
    /// Time to first byte of the origin
    #[arg(long, value_name = "TIME", default_value = "40ms")]
    origin_latency: Nanos,
    /// Storage class of the origin, as in the price file
    #[arg(long, value_name = "NAME", default_value = "s3-standard")]
    origin: String,
    /// Where the cache is, seen from the origin: same-region, other-region or internet
    #[arg(long, value_name = "PLACE", default_value_t)]
    egress: Egress,
    /// Price file [without it: the built-in list]
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    /// Reads per second, for costs and drive life [without it: from the times of the trace]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    reads_per_s: Option<f64>,
    /// Random seed; equal seeds give equal advice
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Number of parallel runs [without it: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    jobs: Option<u32>,
    /// Report directory: write a page and its data there
    #[arg(long, value_name = "DIR")]
    html: Option<PathBuf>,
    /// Print JSON instead of text and tables
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let progress = Progress::shown();
    stop_on_interrupt(&progress)?;
    let trace = Trace::find(&args.trace, args.format).map_err(Failure::request)?;
    if progress.stop().swap(false, Ordering::Relaxed) {
        // Ctrl-C has ended what wrote to standard input, too.
        eprintln!("zonal-lab: interrupted: the advice is of what had arrived by then");
    }
    let question = Question {
        trace,
        requests: args.requests,
        lookups: (!args.exact).then_some(LOOKUPS),
        size: args.size,
        capacity: args.capacity,
        dram: args.dram,
        tasks: args.tasks as usize,
        origin_latency: args.origin_latency,
        prices: Prices::read(args.prices.as_deref()).map_err(Failure::request)?,
        origin: args.origin.clone(),
        egress: args.egress,
        reads_per_s: args.reads_per_s,
        seed: args.seed,
        at_once: at_once(args.jobs),
        commit: COMMIT.into(),
    };
    let sample = question.sample(&progress).map_err(Failure::request)?;
    let advice = question.advise(&sample, &progress).map_err(Failure::work)?;
    drop(progress);
    if args.json {
        print::json(&advice)?
    } else {
        print::text(&advice.to_string())?
    }
    if let Some(folder) = &args.html {
        advice.write(folder).map_err(|why| Failure::work(format!("--html: {why}")))?;
        eprintln!("zonal-lab: the report is {}", folder.join("report.html").display());
    }
    Ok(())
}

/// The first Ctrl-C ends the work early, the second one the program.
fn stop_on_interrupt(progress: &Progress) -> Result<(), Failure> {
    let stop = progress.stop();
    let killed =
        signal_hook::flag::register_conditional_shutdown(SIGINT, INTERRUPTED, stop.clone());
    killed
        .and_then(|_| signal_hook::flag::register(SIGINT, stop.clone()))
        .map_err(|error| Failure::work(error.to_string()))?;
    Ok(())
}

/// Exit code of a program that Ctrl-C ended, as shells expect it.
const INTERRUPTED: i32 = 130;
