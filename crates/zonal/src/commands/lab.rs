//! `zonal lab`: experiments that need no device.

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
    Trace(trace::Args),
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match &args.experiment {
        Experiment::Trace(args) => trace::run(args),
    }
}
