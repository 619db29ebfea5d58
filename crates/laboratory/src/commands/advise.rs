//! `zonal-lab advise`: recommends drive, policy, chunk size and spare space for a recorded load.

use std::path::{Path, PathBuf};

use zonal_base::{Bytes, Nanos};
use zonal_cli::{COMMIT, Failure, print};
use zonal_lab::advise::Question;
use zonal_lab::bench::Progress;
use zonal_lab::experiment::Drive;
use zonal_lab::trace::{Format, SIZE_UNKNOWN};
use zonal_lab::{Pace, Recorded};

use super::at_once;

/// Say which drive, policy, chunk size and spare space suit a recorded load, and what they rest on
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The trace is replayed on the policies that may win, with several capacities and chunk sizes; the best few are then run as the
whole cache on the model of the drive, and the best of them on its twin without zones (zn540 and sn540 are such a pair).
docs/lab.md says what each figure is and how far it can be relied on. Formats are those of zonal-lab trace.

A short trace does not fill a large drive: --copies 50 asks for as many copies of it together, each with objects of its own.

Prices: 0.40 $ for a million requests is what GETs from S3 Standard cost in us-east-1; traffic is not counted.

Examples: zonal-lab advise --trace w.oracleGeneral.bin.zst --capacity 500GiB
          zonal-lab advise --trace requests.log --format text-size --reads-per-s 2000 --html advice
          zonal-lab advise --trace cdn.text-size --drive sn540 --capacity 200GiB --dwpd 3 --price 0.45 --json")]
pub(crate) struct Args {
    /// The trace
    #[arg(long, value_name = "FILE")]
    trace: PathBuf,
    /// How it is written down, if its name does not say
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
    /// Only so many requests of it, from its beginning
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    requests: Option<u64>,
    /// Ask for so many copies of the trace together, each with objects of its own
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=65536))]
    copies: u32,
    /// Ask as it was recorded (1x), or so many times as fast, instead of as fast as it goes
    #[arg(long, value_name = "TIMES")]
    pace: Option<Pace>,
    /// What objects have where the trace has no sizes: a power of two from 4KiB to 1MiB
    #[arg(long, value_name = "SIZE", default_value_t = Bytes(SIZE_UNKNOWN.into()))]
    size: Bytes,
    /// The drive: zn540, sn540; p5316-qlc, p5510-tlc and p5800x-optane are guesses
    #[arg(long, value_name = "NAME", default_value = "zn540")]
    drive: Drive,
    /// How much of it the cache may have; all of it unless told otherwise
    #[arg(long, value_name = "SIZE")]
    capacity: Option<Bytes>,
    /// Memory before flash
    #[arg(long, value_name = "SIZE", default_value = "64MiB")]
    dram: Bytes,
    /// Gets that are under way together
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=16384))]
    tasks: u32,
    /// How long the origin takes to the first byte
    #[arg(long, value_name = "TIME", default_value = "40ms")]
    origin_latency: Nanos,
    /// Dollars for a million requests to the origin
    #[arg(long, value_name = "DOLLARS", default_value_t = 0.40)]
    price: f64,
    /// Reads in a second, for months and years; as the trace's times say unless told otherwise
    #[arg(long, value_name = "N")]
    reads_per_s: Option<f64>,
    /// Drive writes a day that the drive is rated for, for five years
    #[arg(long, value_name = "N", default_value_t = 1.0)]
    dwpd: f64,
    /// Equal seeds, equal advice
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Runs at the same time; as many as the machine has cores unless it says otherwise
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    jobs: Option<u32>,
    /// Write a report with tables and figures to this folder
    #[arg(long, value_name = "DIR")]
    html: Option<PathBuf>,
    /// Print JSON instead of sentences and tables
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let mut recorded = Recorded {
        pace: args.pace.unwrap_or_default(),
        copies: args.copies,
        requests: args.requests,
        ..Recorded::new(args.trace.clone(), args.format)
    };
    if recorded.known_format().is_none() {
        let file = args.trace.display();
        let why = format!("the name of {file} does not say its format: write --format");
        return Err(Failure::request(why));
    }
    recorded.find(Path::new("")).map_err(Failure::request)?;
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
