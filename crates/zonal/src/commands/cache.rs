//! `zonal cache`: statistics of a running Zonal, and commands to it.

pub(super) mod ask;
mod list;
mod ls;
mod pin;
mod purge;
mod scrub;
mod stats;
mod switch;
mod warm;

use clap::Subcommand;
use zonal_cli::Failure;
use zonal_gateway::Caching;

/// Show the statistics of a running cache, list what it has, or warm, pin and purge objects
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Warm(warm::Args),
    /// Pin objects: keep them on flash regardless of the policy, until `unpin`
    #[command(after_help = pin::PIN_HELP)]
    Pin(pin::Args),
    /// Unpin objects
    #[command(after_help = pin::UNPIN_HELP)]
    Unpin(pin::Args),
    Purge(purge::Args),
    Scrub(scrub::Args),
    Stats(stats::Args),
    Ls(ls::LsArgs),
    Show(ls::ShowArgs),
    /// Switch the cache off: all reads go to the origin, until `on` or a restart
    #[command(after_help = switch::HELP)]
    Off(switch::Args),
    /// Switch the cache on again
    #[command(after_help = switch::HELP)]
    On(switch::Args),
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match &args.action {
        Action::Warm(args) => warm::run(args),
        Action::Pin(args) => pin::pin(args),
        Action::Unpin(args) => pin::unpin(args),
        Action::Purge(args) => purge::run(args),
        Action::Scrub(args) => scrub::run(args),
        Action::Stats(args) => stats::run(args),
        Action::Ls(args) => ls::ls(args),
        Action::Show(args) => ls::show(args),
        Action::Off(args) => switch::run(args, Caching::Off),
        Action::On(args) => switch::run(args, Caching::On),
    }
}
