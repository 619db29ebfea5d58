//! `zonal lab`: experiments that need no device.

mod advise;
mod make;
mod paper;
mod run;
mod trace;

use clap::Subcommand;

use crate::failure::Failure;

/// Experiments that need no device
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(Debug, Subcommand)]
enum Experiment {
    Run(run::Args),
    Paper(paper::Args),
    Trace(trace::Args),
    Advise(Box<advise::Args>),
    Make(make::Args),
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match &args.experiment {
        Experiment::Run(args) => run::run(args),
        Experiment::Paper(args) => paper::run(args),
        Experiment::Trace(args) => trace::run(args),
        Experiment::Advise(args) => advise::run(args),
        Experiment::Make(args) => make::run(args),
    }
}

/// Runs at the same time: as asked for, or one for each core.
fn at_once(jobs: Option<u32>) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    jobs.map_or_else(cores, |jobs| jobs as usize)
}
