//! `zonal-lab advise`: recommends drive, policy, chunk size and spare space for a recorded load.

use std::path::PathBuf;

use zonal_base::{Bytes, Nanos};
use zonal_cli::{COMMIT, Failure, print};
use zonal_lab::advise::Question;
use zonal_lab::bench::Progress;
use zonal_lab::experiment::Drive;
use zonal_lab::trace::{Format, SIZE_UNKNOWN, Trace};
use zonal_lab::{Pace, Recorded};

use super::at_once;

/// Recommend a drive, policy, chunk size and overprovisioning for a recorded workload, with the
/// figures behind it
#[derive(Debug, clap::Args)]
#[command(after_help = "\
1. Replay the trace on the candidate policies, with several capacities and chunk sizes.
2. Run the best few with the full cache on the drive model, and the best of these also on its twin without zones (zn540 and
   sn540 are twins).
docs/lab.md explains each figure and its limits. Traces are those of zonal-lab trace: access logs of S3 (s3-log), CloudTrail,
CloudFront, nginx, HAProxy and Zonal, and traces of other simulators.

A short trace does not fill a large drive: --copies 50 replays 50 copies together, each with its own objects.

Prices: GETs from S3 Standard in us-east-1 cost 0.40 $ per million requests; traffic is not counted.

Examples: zonal-lab advise --trace access-logs/ --capacity 500GiB --html advice
          zonal-lab advise --trace requests.log --format text-size --reads-per-s 2000 --html advice
          zonal-lab advise --trace cdn.text-size --drive sn540 --capacity 200GiB --dwpd 3 --price 0.45 --json")]
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
    /// Number of copies of the trace to replay together, each with its own objects
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=65536))]
    copies: u32,
    /// Replay speed: 1x as recorded, or a multiple [without it: as fast as possible]
    #[arg(long, value_name = "TIMES")]
    pace: Option<Pace>,
    /// Object size if the trace has no sizes: a power of two from 4KiB to 1MiB
    #[arg(long, value_name = "SIZE", default_value_t = Bytes(SIZE_UNKNOWN))]
    size: Bytes,
    /// Drive model: zn540, sn540; p5316-qlc, p5510-tlc and p5800x-optane are guesses
    #[arg(long, value_name = "NAME", default_value = "zn540")]
    drive: Drive,
    /// Capacity of the cache on the drive [without it: the whole drive]
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
    /// Price of a million requests to the origin, in dollars
    #[arg(long, value_name = "DOLLARS", default_value_t = 0.40)]
    price: f64,
    /// Reads per second, for costs and drive life [without it: from the times of the trace]
    #[arg(long, value_name = "N")]
    reads_per_s: Option<f64>,
    /// Endurance rating of the drive: drive writes per day (DWPD) for five years
    #[arg(long, value_name = "N", default_value_t = 1.0)]
    dwpd: f64,
    /// Random seed; equal seeds give equal advice
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Number of parallel runs [without it: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    jobs: Option<u32>,
    /// Report directory: write tables and figures there
    #[arg(long, value_name = "DIR")]
    html: Option<PathBuf>,
    /// Print JSON instead of text and tables
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let trace = Trace::find(&args.trace, args.format).map_err(Failure::request)?;
    let recorded = Recorded {
        pace: args.pace.unwrap_or_default(),
        copies: args.copies,
        requests: args.requests,
        ..Recorded::of(trace).map_err(Failure::request)?
    };
    let question = Question {
        recorded,
        size: args.size,
        drive: args.drive,
        capacity: args.capacity,
        dram: args.dram,
        tasks: args.tasks as usize,
        origin_latency: args.origin_latency,
        price: args.price,
        reads_per_s: args.reads_per_s,
        dwpd: args.dwpd,
        seed: args.seed,
        at_once: at_once(args.jobs),
        commit: COMMIT.into(),
    };
    let progress = Progress::on_terminal();
    let survey = question.survey(&progress).map_err(Failure::request)?;
    let advice = question.advise(survey, &progress).map_err(Failure::work)?;
    if let Some(folder) = &args.html {
        advice.write(folder).map_err(Failure::work)?;
        eprintln!("zonal-lab: the report is {}", folder.join("report.html").display());
    }
    if args.json { print::json(&advice) } else { print::text(&advice.to_string()) }
}
