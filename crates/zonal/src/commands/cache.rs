//! `zonal cache`: what a running Zonal has on flash.

mod warm;

use clap::Subcommand;

use crate::failure::Failure;

/// Ask a running Zonal to change what is cached
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Warm(warm::Args),
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match &args.action {
        Action::Warm(args) => warm::run(args),
    }
}
