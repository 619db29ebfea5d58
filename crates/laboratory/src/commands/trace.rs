//! `zonal-lab trace`: replays a trace on cache policies, and reports misses and bytes written.

use std::path::PathBuf;

use zonal_cli::{Failure, print};
use zonal_lab::bench::Progress;
use zonal_lab::trace::{Capacity, Format, Replay, Trace};

/// Replay a trace on cache policies: misses, and bytes written to flash
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Formats of logs: s3-log (S3 server access log), cloudtrail (data events of S3), cloudfront, nginx (also Apache), haproxy and
zonal-log. They are recognized without --format. A folder, a pattern in quotes such as 'logs/*.gz', or - (standard input) are
traces, too.
Formats of traces: oracleGeneral (libCacheSim), arc (.lis), cachelib, twitter, msr, spc (csv), text (a line for each object),
text-size (object and size), u32le, u32be, u64le, u64be (numbers). File names with the format need no --format:
w.oracleGeneral.bin.zst, P3.lis.zst, w.msr.csv.gz.
All may be compressed with gzip, zstd or xz. Reads are requests; writes and deletes invalidate. docs/traces.md has more.

Zone policies: flow, zone-fifo, zone-lru, epoch, chunk-lru, region-fifo, region-lru, direct, zlru, zdrop and zlru+zdrop,
with settings as in zdrop?vop=50%. Per-object reference policies: lru, fifo, clock, sieve, s3-fifo, arc, and belady (knows
the future). They ignore flash: each miss is one write.

Examples: zonal-lab trace access-logs/ --policy lru,flow --capacity 10GiB,100GiB
          zonal-lab trace w.oracleGeneral.bin.zst --policy lru,sieve,s3-fifo --capacity 4897,9794
          zonal-lab trace requests.log --format text-size --policy flow,belady --capacity 1GiB,8GiB --plot w.svg
          zonal-lab trace P3.lis.zst --policy arc --capacity 76254 --json")]
pub(crate) struct Args {
    /// Trace files: files, folders, patterns in quotes, or - for standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Format of the trace [without it: from the file name or the content]
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
    let trace = Trace::find(&args.files, args.format).map_err(Failure::request)?;
    let comparison = Replay::new(trace, &args.policies, &args.capacities, args.zones);
    let comparison = comparison.map_err(Failure::request)?;
    let report = comparison.run(&Progress::shown()).map_err(Failure::request)?;
    if let Some(path) = &args.plot {
        report.write_plot(path).map_err(Failure::work)?;
        eprintln!("zonal-lab: the plot is {}", path.display());
    }
    if args.json { print::json(&report) } else { print::text(&report.to_string()) }
}
