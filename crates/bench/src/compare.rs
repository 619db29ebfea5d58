//! Comparison driver: the measurements, their order, and the page of results.
//!
//! Measurements alternate (A B, B A, A B, ...), so that other load on the machine affects both
//! alike. Results are ratios of neighbours, and medians of those.

mod block;
mod children;
mod held_disk;
mod http;
mod inserts;
pub(crate) mod machine;
mod nginx;
pub(crate) mod page;
pub(crate) mod samples;
mod scan;
mod steps;

use std::path::{Path, PathBuf};

use zonal_base::Bytes;

use children::Children;
use samples::Row;

/// What both comparisons are told.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where the caches' files are while they are measured; they are removed afterwards
    #[arg(long, value_name = "DIR", default_value = "target/bench")]
    folder: PathBuf,
    /// Size of each cache
    #[arg(long, value_name = "SIZE", default_value = "4GiB")]
    size: Bytes,
    /// How often each measurement is repeated, turn by turn
    #[arg(long, value_name = "N", default_value_t = 10)]
    pairs: u32,
    /// Length of each measurement
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    seconds: f64,
    /// The page that is written [default: its place in docs/results]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Measure only these, by name, and print instead of writing the page
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    only: Vec<String>,
    /// The zonal program [default: the release build of this workspace, built first]
    #[arg(long, value_name = "FILE")]
    zonal: Option<PathBuf>,
}

/// Context of a step.
pub(crate) struct Stage {
    children: Children,
    pairs: u32,
    seconds: f64,
}

/// A step of the comparison: returns its rows, and leaves no files.
struct Step {
    name: &'static str,
    run: fn(&Stage) -> Result<Vec<Row>, String>,
}

/// Steps whose rows share a page.
pub(crate) struct Comparison {
    steps: &'static [Step],
    words: &'static page::Words,
    out: &'static str,
}

/// The cache, compared with foyer and fio.
pub(crate) const CACHE: Comparison =
    Comparison { steps: CACHE_STEPS, words: &page::CACHE, out: "docs/results/first-slice.md" };

/// The endpoint, compared with nginx and fio.
pub(crate) const HTTP: Comparison =
    Comparison { steps: HTTP_STEPS, words: &page::HTTP, out: "docs/results/http.md" };

/// The block device, compared with nbdkit, qemu-nbd and fio.
pub(crate) const BLOCK: Comparison =
    Comparison { steps: BLOCK_STEPS, words: &page::BLOCK, out: "docs/results/block.md" };

const BLOCK_STEPS: &[Step] = &[
    Step { name: "writes", run: block::writes },
    Step { name: "reads", run: block::reads },
    Step { name: "cpu", run: block::cpu },
];

const HTTP_STEPS: &[Step] = &[Step { name: "http", run: http::run }];

const CACHE_STEPS: &[Step] = &[
    Step { name: "hits-64k", run: steps::hits_64k },
    Step { name: "hits-4k", run: steps::hits_4k },
    Step { name: "reclaim", run: steps::reclaim },
    Step { name: "insert-64k", run: inserts::insert_64k },
    Step { name: "insert-4k", run: inserts::insert_4k },
    Step { name: "range", run: steps::range },
    Step { name: "kill", run: steps::kill },
    Step { name: "idle", run: steps::idle },
];

pub(crate) fn run(args: &Args, comparison: &Comparison) -> Result<(), String> {
    let Comparison { steps, words, out } = comparison;
    if args.pairs == 0 || !(0.1..=3600.0).contains(&args.seconds) {
        return Err("write --pairs 1 or more, and --seconds 0.1 to 3600".into());
    }
    let unknown = args.only.iter().find(|name| steps.iter().all(|step| step.name != **name));
    if let Some(unknown) = unknown {
        let names: Vec<&str> = steps.iter().map(|step| step.name).collect();
        return Err(format!("there is no {unknown:?}: write some of {}", names.join(",")));
    }
    let zonal = args.zonal.clone().map_or_else(children::build_zonal, Ok)?;
    let children = Children::new(zonal, &args.folder, args.size)?;
    let stage = Stage { children, pairs: args.pairs, seconds: args.seconds };
    let machine = machine::describe(&args.folder);
    let mut rows = Vec::new();
    for step in steps.iter().filter(|step| args.only.is_empty() || is_named(args, step)) {
        eprintln!("== {}", step.name);
        // A failed step is reported on the page; the other steps still run.
        match (step.run)(&stage) {
            Ok(measured) => {
                measured.iter().for_each(|row| eprintln!("{}", row.line()));
                rows.extend(measured);
            }
            Err(why) => {
                eprintln!("{}: {why}", step.name);
                rows.push(Row::failed(step.name, why));
            }
        }
        stage.children.clear();
    }
    let page = page::page(words, &machine, &rows, &stage.children.commands());
    if args.only.is_empty() {
        let out = args.out.as_deref().unwrap_or(Path::new(out));
        std::fs::write(out, page).map_err(|error| error.to_string())?;
        eprintln!("written: {}", out.display());
    } else {
        print!("{page}");
    }
    Ok(())
}

fn is_named(args: &Args, step: &Step) -> bool {
    args.only.iter().any(|name| name == step.name)
}
