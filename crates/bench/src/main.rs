//! Comparison with peers: foyer, `fio`, nginx, nbdkit and qemu-nbd, alternating with Zonal under
//! the same workload.
//!
//! Uses: `lab`, `emulator`, `device`, `host`, `base`, foyer.
//! Knows nothing of: Zonal's insides; it runs the program as any user would. The block device
//! without NBD is the exception.
//! Read in this order: `main` (the commands), `foyer_cache`, `block_writes`, `compare`; `model`;
//! `traces`, `policies`.

mod block_writes;
mod compare;
mod foyer_cache;
mod model;
mod policies;
mod traces;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use clap::{Parser, Subcommand};
use zonal_base::Bytes;
use zonal_lab::bench::{self, BenchSettings, Progress};

use foyer_cache::FoyerSubject;

/// Same allocator as Zonal, so that the comparison is not one of allocators.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Debug, Parser)]
#[command(name = "zonal-compare", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Compare the cache with foyer and fio, and write the results down
    All(compare::Args),
    /// Compare the block device with nbdkit, qemu-nbd and fio, and write the results down
    Block(compare::Args),
    BlockWrites(block_writes::Args),
    Foyer(FoyerArgs),
    /// Compare the endpoint with nginx and fio, and write the results down
    Http(compare::Args),
    Model(model::Args),
    Policies(policies::Args),
    Traces(traces::Args),
}

/// Run the workload of `zonal-lab bench` on foyer 0.22.6
#[derive(Debug, clap::Args)]
struct FoyerArgs {
    /// Its folder
    #[arg(long, value_name = "DIR")]
    folder: PathBuf,
    /// Its size on disk
    #[arg(long, value_name = "SIZE", default_value = "4GiB")]
    size: Bytes,
    /// Begin with an empty cache: the folder is removed
    #[arg(long)]
    format: bool,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    workload: BenchSettings,
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::All(args) => compare::run(&args, &compare::CACHE),
        Command::Block(args) => compare::run(&args, &compare::BLOCK),
        Command::BlockWrites(args) => block_writes::run(&args),
        Command::Foyer(args) => foyer(args),
        Command::Http(args) => compare::run(&args, &compare::HTTP),
        Command::Model(args) => model::run(&args),
        Command::Policies(args) => policies::run(&args),
        Command::Traces(args) => traces::run(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("zonal-compare: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Threads of foyer's runtime: as many as Zonal's default number of shards.
fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    tokio::runtime::Builder::new_multi_thread().worker_threads(cores).enable_all().build()
}

fn foyer(args: FoyerArgs) -> Result<(), String> {
    args.workload.check()?;
    let text = |error: &dyn std::fmt::Display| error.to_string();
    if args.format && args.folder.exists() {
        std::fs::remove_dir_all(&args.folder).map_err(|error| text(&error))?;
    }
    runtime().map_err(|error| text(&error))?.block_on(async {
        let start = Instant::now();
        let subject = FoyerSubject::open(args.folder, args.size, args.workload.value).await;
        let subject = Arc::new(subject.map_err(|error| text(&error))?);
        let opened = start.elapsed();
        let progress = Progress::shown();
        let report = bench::run(subject.clone(), (args.workload, opened), progress).await;
        subject.close().await.map_err(|error| text(&error))?;
        let report = report.map_err(|error| text(&error))?;
        match args.json {
            true => println!("{}", serde_json::to_string(&report).map_err(|error| text(&error))?),
            false => print!("{report}"),
        }
        Ok(())
    })
}
