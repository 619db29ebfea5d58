//! `zonal origin`: checks of the configured origins.

mod check;
mod report;

use clap::Subcommand;

pub(super) use check::check_all;
pub(super) use report::{OriginReport, Outcome, failed_checks, line as report_line};
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
