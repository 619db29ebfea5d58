//! `zonal-lab make`: writes a trace of a synthetic workload.

use std::path::PathBuf;

use zonal_base::Bytes;
use zonal_cli::Failure;
use zonal_lab::bench::Progress;
use zonal_lab::made::{BTree, Drifting, Made, Maker, Output, Shape};
use zonal_lab::{CacheBench, Distribution, Draw, KeyGen};

/// Write a made workload as a trace, which the other commands read
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Workloads: uniform, zipf:THETA (exact), ycsb-zipf:THETA and ycsb-scrambled (YCSB's plain and scrambled zipfian generators). With
--churn 5 another key takes the place of five in a hundred in each million requests. --btree: chunks that lookups of
these keys in a B-tree read (pages of 32 KiB, records of 1 KiB), beyond what its reader has in memory. --cachebench:
objects as pop.json and sizes.json in the folder of a CacheBench configuration say.

A file named x.u32le has keys of 32 bits, little-endian, as ZNCache's workloads have; x.oracleGeneral.bin has sizes and times as well.
docs/lab.md says more.

Examples: zonal-lab make ycsb-scrambled --keys 1000000 --requests 10000000 --out y.u32le
          zonal-lab make zipf:0.9 --churn 20 --keys 1000000 --requests 50000000 --out moving.u32le
          zonal-lab make --cachebench kvcache_l2_wc --requests 10000000 --out l2.oracleGeneral.bin
          zonal-lab make uniform --btree --memory 2GiB --chunk 1MiB --keys 35000000 --requests 1000000 --out tree.u32le")]
pub(crate) struct Args {
    /// How keys are drawn
    #[arg(
        value_name = "WORKLOAD",
        required_unless_present = "cachebench",
        conflicts_with = "cachebench"
    )]
    workload: Option<Distribution>,
    /// Keys that there are, or records of the tree; with --cachebench one for each of its objects unless told otherwise
    #[arg(long, value_name = "N", required_unless_present = "cachebench", value_parser = clap::value_parser!(u64).range(1..))]
    keys: Option<u64>,
    /// Requests to write
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    requests: u64,
    /// How many of them in a second, where the file has times
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    requests_per_s: u32,
    /// What each object has, where the file has sizes
    #[arg(long, value_name = "SIZE", default_value = "64KiB", conflicts_with_all = ["btree", "cachebench"])]
    size: Bytes,
    /// How many keys of a hundred are others after a million requests
    #[arg(long, value_name = "PERCENT", default_value_t = 0, conflicts_with_all = ["btree", "cachebench"])]
    churn: u32,
    /// Take popularity and sizes from pop.json and sizes.json in this folder
    #[arg(long, value_name = "DIR", conflicts_with = "btree")]
    cachebench: Option<PathBuf>,
    /// Keys of CacheBench's first version, whose ranges lie over each other (useLegacyKeyGen)
    #[arg(long, requires = "cachebench")]
    legacy_keys: bool,
    /// Look the keys up in a B-tree
    #[arg(long)]
    btree: bool,
    /// Memory of the tree's reader
    #[arg(long, value_name = "SIZE", default_value = "64MiB", requires = "btree")]
    memory: Bytes,
    /// What the tree's file is cut into: one page or several
    #[arg(long, value_name = "SIZE", default_value = "32KiB", requires = "btree")]
    chunk: Bytes,
    /// Equal seeds, equal traces
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// The file
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
    made.write(&args.out, &Progress::on_terminal()).map_err(Failure::work)
}

fn maker(args: &Args) -> Result<Maker, String> {
    if let Some(folder) = &args.cachebench {
        let (popularity, sizes) = (folder.join("pop.json"), folder.join("sizes.json"));
        let keygen = if args.legacy_keys { KeyGen::Legacy } else { KeyGen::Current };
        let keys = (args.keys, keygen);
        return CacheBench::read(&popularity, &sizes, keys).map(Maker::CacheBench);
    }
    let (Some(workload), Some(keys)) = (args.workload, args.keys) else {
        return Err("write how keys are drawn, and how many there are: --keys".into());
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
