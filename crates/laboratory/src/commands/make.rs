//! `zonal-lab make`: writes a trace of a synthetic workload.

use std::path::PathBuf;

use zonal_base::Bytes;
use zonal_cli::Failure;
use zonal_lab::bench::Progress;
use zonal_lab::made::{BTree, Drifting, Made, Maker, Output, Shape};
use zonal_lab::{CacheBench, Distribution, Draw, KeyGen};

/// Generate a synthetic workload and write it as a trace for the other commands
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Workloads: uniform, zipf:THETA (exact), ycsb-zipf:THETA and ycsb-scrambled (YCSB's plain and scrambled zipfian generators).
--churn 5 replaces 5 % of the keys per million requests. --btree writes the chunk reads of lookups in a B-tree (pages of
32 KiB, records of 1 KiB) that miss the reader's memory. --cachebench takes objects from pop.json and sizes.json of a
CacheBench configuration.

Output formats: x.u32le has 32-bit little-endian keys, as ZNCache's workloads; x.oracleGeneral.bin also has sizes and times,
and so has x.s3-log, a server access log as S3 writes it. See docs/lab.md.

Examples: zonal-lab make ycsb-scrambled --keys 1000000 --requests 10000000 --out y.u32le
          zonal-lab make zipf:0.9 --churn 20 --keys 1000000 --requests 50000000 --out moving.u32le
          zonal-lab make --cachebench kvcache_l2_wc --requests 10000000 --out l2.oracleGeneral.bin
          zonal-lab make uniform --btree --memory 2GiB --chunk 1MiB --keys 35000000 --requests 1000000 --out tree.u32le")]
pub(crate) struct Args {
    /// Key distribution
    #[arg(
        value_name = "WORKLOAD",
        required_unless_present = "cachebench",
        conflicts_with = "cachebench"
    )]
    workload: Option<Distribution>,
    /// Number of keys, or of records of the tree [with --cachebench: one for each of its objects]
    #[arg(long, value_name = "N", required_unless_present = "cachebench", value_parser = clap::value_parser!(u64).range(1..))]
    keys: Option<u64>,
    /// Number of requests to write
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    requests: u64,
    /// Requests per second, if the format has times
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    requests_per_s: u32,
    /// Object size, if the format has sizes
    #[arg(long, value_name = "SIZE", default_value = "64KiB", conflicts_with_all = ["btree", "cachebench"])]
    size: Bytes,
    /// Churn: percentage of keys replaced in each million requests
    #[arg(long, value_name = "PERCENT", default_value_t = 0, conflicts_with_all = ["btree", "cachebench"])]
    churn: u32,
    /// CacheBench configuration directory: take popularity and sizes from its pop.json and
    /// sizes.json
    #[arg(long, value_name = "DIR", conflicts_with = "btree")]
    cachebench: Option<PathBuf>,
    /// Keys as in CacheBench's first version, with overlapping ranges (useLegacyKeyGen)
    #[arg(long, requires = "cachebench")]
    legacy_keys: bool,
    /// Write the chunk reads of a B-tree in which the keys are looked up
    #[arg(long)]
    btree: bool,
    /// Memory of the tree's reader
    #[arg(long, value_name = "SIZE", default_value = "64MiB", requires = "btree")]
    memory: Bytes,
    /// Chunk size of the tree's file: one page or several
    #[arg(long, value_name = "SIZE", default_value = "32KiB", requires = "btree")]
    chunk: Bytes,
    /// Random seed; equal seeds give equal traces
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Output file
    #[arg(long, value_name = "FILE")]
    out: Output,
}

/// WiredTiger's default for the largest leaf page.
const PAGE: Bytes = Bytes::kib(32);

/// Size of a key and a page pointer.
const ENTRY: Bytes = Bytes(64);

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let made = Made {
        maker: maker(args).map_err(Failure::request)?,
        requests: args.requests,
        requests_per_s: args.requests_per_s,
        seed: args.seed,
    };
    made.write(&args.out, &Progress::shown()).map_err(Failure::work)
}

fn maker(args: &Args) -> Result<Maker, String> {
    if let Some(folder) = &args.cachebench {
        let (popularity, sizes) = (folder.join("pop.json"), folder.join("sizes.json"));
        let keygen = if args.legacy_keys { KeyGen::Legacy } else { KeyGen::Current };
        let keys = (args.keys, keygen);
        return CacheBench::read(&popularity, &sizes, keys).map(Maker::CacheBench);
    }
    let (Some(workload), Some(keys)) = (args.workload, args.keys) else {
        return Err("missing workload: write a key distribution, and --keys".into());
    };
    if args.btree {
        let draw = Draw::new(workload, keys, args.seed);
        let shape = Shape {
            page: PAGE,
            record: Bytes::kib(1),
            entry: ENTRY,
            memory: args.memory,
            chunk: args.chunk,
        };
        return BTree::new(draw, shape).map(|tree| Maker::BTree(Box::new(tree)));
    }
    let churn = f64::from(args.churn) / 100.0;
    Ok(Maker::Drawn(Drifting::new(workload, (keys, args.seed), churn, args.size)))
}
