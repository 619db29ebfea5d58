//! `zonal origin`: checks of the configured origins.

mod check;
mod report;

use clap::Subcommand;
use zonal_cli::Failure;

/// Check the configured origins
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Check(Box<check::Args>),
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match &args.action {
        Action::Check(args) => check::run(args),
    }
}
