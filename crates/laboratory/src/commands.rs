//! Subcommands of `zonal-lab`, one file each.

mod advise;
mod bench;
mod characterize;
mod make;
mod paper;
mod run;
mod sim;
mod trace;

use clap::{CommandFactory, Subcommand};
use zonal_cli::{Failure, GenerateCommand};
use zonal_policy::{Spec, SpecError};

use crate::CommandLine;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Bench(Box<bench::Args>),
    Characterize(Box<characterize::Args>),
    Sim(sim::Args),
    Run(run::Args),
    Paper(paper::Args),
    Advise(Box<advise::Args>),
    Trace(trace::Args),
    Make(make::Args),
    #[command(flatten)]
    Generate(GenerateCommand),
}

impl Command {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self {
            Self::Bench(args) => bench::run(*args),
            Self::Characterize(args) => characterize::run(&args),
            Self::Sim(args) => sim::run(&args),
            Self::Run(args) => run::run(&args),
            Self::Paper(args) => paper::run(&args),
            Self::Advise(args) => advise::run(&args),
            Self::Trace(args) => trace::run(&args),
            Self::Make(args) => make::run(&args),
            Self::Generate(generate) => generate.run(CommandLine::command()),
        }
    }
}

/// Parses a policy that works on a device.
fn on_device(text: &str) -> Result<Spec, SpecError> {
    text.parse::<Spec>()?.on_device()
}

/// Number of parallel runs: as requested, or one per core.
fn at_once(jobs: Option<u32>) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    jobs.map_or_else(cores, |jobs| jobs as usize)
}
