//! `zonal-lab trace`: replays a trace on cache policies, and reports misses and bytes written.

use std::path::PathBuf;

use zonal_cli::{Failure, print};
use zonal_lab::bench::Progress;
use zonal_lab::trace::{Capacity, Format, Replay, Trace};

/// Replay a trace on cache policies: misses, and bytes written to flash
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Formats: oracleGeneral (libCacheSim), arc (.lis), cachelib, twitter, msr, spc (csv), text (a line for each object), text-size
(object and size), u32le, u32be, u64le, u64be (numbers); plain, or compressed with zstd, xz or gzip. File names with the format
need no --format: w.oracleGeneral.bin.zst, P3.lis.zst, w.msr.csv.gz. Reads are requests; writes and deletes invalidate.
docs/traces.md lists the columns.

Zone policies: flow, zone-fifo, zone-lru, epoch, chunk-lru, region-fifo, region-lru, direct, zlru, zdrop and zlru+zdrop,
with settings as in zdrop?vop=50%. Per-object reference policies: lru, fifo, clock, sieve, s3-fifo, arc, and belady (knows
the future). They ignore flash: each miss is one write.

Examples: zonal-lab trace w.oracleGeneral.bin.zst --policy lru,sieve,s3-fifo --capacity 4897,9794
          zonal-lab trace requests.log --format text-size --policy flow,belady --capacity 1GiB,8GiB --plot w.svg
          zonal-lab trace P3.lis.zst --policy arc --capacity 76254 --json")]
pub(crate) struct Args {
    /// Trace file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Format of the trace [without it: from the file name]
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
    /// Policies, comma-separated
    #[arg(long = "policy", value_name = "NAME", value_delimiter = ',', required = true)]
    policies: Vec<String>,
    /// Cache sizes, comma-separated: a number of objects, or bytes (20MiB)
    #[arg(long = "capacity", value_name = "N|SIZE", value_delimiter = ',', required = true)]
    capacities: Vec<Capacity>,
    /// Number of zones of zone policies
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    zones: u32,
    /// SVG file to write with a plot of the table
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let format = args.format.or_else(|| Format::of_name(&args.file)).ok_or_else(|| {
        let file = args.file.display();
        Failure::request(format!("unknown trace format of {file}: write --format"))
    })?;
    let trace = Trace::new(args.file.clone(), format);
    let comparison = Replay::new(trace, &args.policies, &args.capacities, args.zones);
    let comparison = comparison.map_err(Failure::request)?;
    let report = comparison.run(&Progress::on_terminal()).map_err(Failure::request)?;
    if let Some(path) = &args.plot {
        report.write_plot(path).map_err(Failure::work)?;
        eprintln!("zonal-lab: the plot is {}", path.display());
    }
    if args.json { print::json(&report) } else { print::text(&report.to_string()) }
}
