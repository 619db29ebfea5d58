//! `zonal block`: serves a block device over NBD.

mod admin;
mod banner;
mod format;
mod metrics;
mod running;
mod scrub;
mod scrubber;
mod serve;
mod stats;

pub(super) use serve::settings;

use clap::Subcommand;
use zonal_block::{OpenError, OpenMode, StartError};
use zonal_cli::Failure;

use super::config;
use crate::config::BlockFlags;

/// Serve a block device over NBD; its drives are written sequentially
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    // Declared before the flags: otherwise clap lists it under their last help heading.
    /// Salvage: start despite unreadable data; some blocks may revert to an older version
    #[arg(long)]
    salvage: bool,
    #[command(flatten)]
    flags: BlockFlags,
}

#[derive(Debug, Subcommand)]
enum Action {
    Stats(stats::Args),
    Scrub(scrub::Args),
    Format(Box<format::Args>),
    Config(config::Args<BlockFlags>),
}

const EXAMPLES: &str = "\
Examples:
  zonal block
  zonal block --capacity block:/dev/nvme1n1 --buffer 'block:/dev/nvme0n1' --export vm=500GiB --export db=200GiB,postgres

Precedence: flag, environment variable, configuration file, default.
Sizes need a unit (KiB, MiB, GiB, TiB).";

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match &args.action {
        None if args.salvage => serve::run(&args.flags, OpenMode::Salvage),
        None => serve::run(&args.flags, OpenMode::Recover),
        Some(Action::Stats(args)) => stats::run(args),
        Some(Action::Scrub(args)) => scrub::run(args),
        Some(Action::Format(args)) => format::run(args),
        Some(Action::Config(args)) => config::run(args),
    }
}

/// Failure of a start, with advice. The error decides whether a retry may succeed.
pub(super) fn failed_start(error: StartError) -> Failure {
    let why = match &error {
        StartError::Foreign { .. } => {
            format!("{error}: name another device, or erase this one with zonal block format")
        }
        StartError::Open { error: OpenError::Unreadable(_) | OpenError::Damaged(..), .. } => {
            format!("{error}: zonal block --salvage")
        }
        StartError::Device(_)
        | StartError::Open { .. }
        | StartError::Unfit(_)
        | StartError::System(_) => error.to_string(),
    };
    match error {
        StartError::Device(error) => error.into(),
        error if error.may_pass() => Failure::work(why),
        _ => Failure::request(why),
    }
}
