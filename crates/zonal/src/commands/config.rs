//! `zonal config` and `zonal block config`: check, show and write configuration files.

mod check;
mod check_block;
mod check_cache;
mod init;
mod show;

use clap::{ArgMatches, CommandFactory, Subcommand};
use zonal_cli::{Failure, print};

use crate::config::{self, BlockConfig, BlockFlags, Config, ConfigError, Effective, Flags};

use check::CheckReport;

/// Check, show and write the configuration of the server
#[derive(Debug, clap::Args)]
pub(crate) struct Args<F: ServerFlags> {
    #[command(subcommand)]
    action: Action<F>,
}

#[derive(Debug, Subcommand)]
enum Action<F: ServerFlags> {
    Check(Box<check::Args<F>>),
    Show(Box<show::Args<F>>),
    Init(Box<init::Args<F>>),
    /// Print a JSON Schema of the configuration file, for editors
    Schema,
}

/// The flags of a server, from which its configuration is read.
pub(crate) trait ServerFlags: clap::Args {
    /// The command of the server.
    const COMMAND: &'static str;
    /// The commands of its configuration, for examples.
    const CONFIG: &'static str;
    /// The file of its systemd unit, for examples.
    const FILE: &'static str;
    /// The file with every key and its default.
    const SAMPLE: &'static str;

    /// The merged configuration. `matches` are those of the running command.
    fn effective(&self, matches: &ArgMatches) -> Result<Effective, ConfigError>;

    /// Checks the values alone.
    ///
    /// # Errors
    /// A value that no start accepts.
    fn validate(&self) -> Result<(), ConfigError>;

    /// Checks the configuration, and what it names.
    ///
    /// # Errors
    /// The configuration itself is wrong.
    fn check(&self, scope: check::Scope) -> Result<CheckReport, Failure>;
}

impl ServerFlags for Flags {
    const COMMAND: &'static str = "serve";
    const CONFIG: &'static str = "zonal config";
    const FILE: &'static str = "/etc/zonal/zonal.toml";
    const SAMPLE: &'static str = config::CACHE_SAMPLE;

    fn effective(&self, matches: &ArgMatches) -> Result<Effective, ConfigError> {
        Effective::of_cache(self, matches)
    }

    fn validate(&self) -> Result<(), ConfigError> {
        Config::load(self).map(drop)
    }

    fn check(&self, scope: check::Scope) -> Result<CheckReport, Failure> {
        check_cache::check(self, scope)
    }
}

impl ServerFlags for BlockFlags {
    const COMMAND: &'static str = "block";
    const CONFIG: &'static str = "zonal block config";
    const FILE: &'static str = "/etc/zonal/block.toml";
    const SAMPLE: &'static str = config::BLOCK_SAMPLE;

    fn effective(&self, matches: &ArgMatches) -> Result<Effective, ConfigError> {
        Effective::of_block(self, matches)
    }

    fn validate(&self) -> Result<(), ConfigError> {
        BlockConfig::load(self).map(drop)
    }

    fn check(&self, _: check::Scope) -> Result<CheckReport, Failure> {
        check_block::check(self)
    }
}

pub(crate) fn run<F: ServerFlags>(args: &Args<F>) -> Result<(), Failure> {
    match &args.action {
        Action::Check(args) => check::run(args),
        Action::Show(args) => show::run(args),
        Action::Init(args) => init::run(args),
        Action::Schema => print::json(&config::schema(F::SAMPLE, F::COMMAND)),
    }
}

/// What clap found for the flags of this command: it knows which come from the environment.
fn matches() -> ArgMatches {
    let mut matches = crate::Cli::command().get_matches();
    while let Some((_, of_subcommand)) = matches.remove_subcommand() {
        matches = of_subcommand;
    }
    matches
}
