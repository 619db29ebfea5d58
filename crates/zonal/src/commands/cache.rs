//! `zonal cache`: statistics of a running Zonal, and commands to it.

pub(super) mod ask;
mod list;
mod pin;
mod purge;
mod stats;
mod switch;
mod warm;

use clap::Subcommand;
use zonal_cli::Failure;
use zonal_gateway::Caching;

/// Ask a running Zonal about its cache, or change what is cached
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Warm(warm::Args),
    /// Keep objects on flash whatever the policy says, until `unpin`
    #[command(after_help = pin::PIN_HELP)]
    Pin(pin::Args),
    /// Release objects that were pinned
    #[command(after_help = pin::UNPIN_HELP)]
    Unpin(pin::Args),
    Purge(purge::Args),
    Stats(stats::Args),
    /// Send every read past the cache to the origin, until `on` or a restart
    #[command(after_help = switch::HELP)]
    Off(switch::Args),
    /// Answer reads from the cache again
    #[command(after_help = switch::HELP)]
    On(switch::Args),
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match &args.action {
        Action::Warm(args) => warm::run(args),
        Action::Pin(args) => pin::pin(args),
        Action::Unpin(args) => pin::unpin(args),
        Action::Purge(args) => purge::run(args),
        Action::Stats(args) => stats::run(args),
        Action::Off(args) => switch::run(args, Caching::Off),
        Action::On(args) => switch::run(args, Caching::On),
    }
}
