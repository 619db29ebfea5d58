//! Subcommands of `zonal`, one file each.

mod block;
pub(crate) mod cache;
mod config;
mod device;
mod env;
mod inspect;
mod moved;
mod origin;
mod play;
mod scrub_watch;
mod serve;

use std::path::Path;

use clap::{CommandFactory, Subcommand};
use tokio::runtime::{Builder, Runtime};
use zonal_admin::Recording;
use zonal_cli::{Failure, GenerateCommand};

use crate::Cli;
use crate::config::Flags;
use moved::MovedCommand;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Serve(Box<serve::Args>),
    Block(Box<block::Args>),
    Cache(cache::Args),
    Config(config::Args<Flags>),
    Origin(origin::Args),
    Device(device::Args),
    Env(Box<env::Args>),
    Inspect(inspect::Args),
    Play(play::Args),
    #[command(flatten)]
    Generate(GenerateCommand),
    #[command(flatten)]
    Moved(MovedCommand),
}

impl Command {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self {
            Self::Serve(args) => serve::run(&args),
            Self::Block(args) => block::run(&args),
            Self::Cache(args) => cache::run(&args),
            Self::Config(args) => config::run(&args),
            Self::Origin(args) => origin::run(&args),
            Self::Device(args) => device::run(&args),
            Self::Env(args) => env::run(&args),
            Self::Inspect(args) => inspect::run(&args),
            Self::Play(args) => play::run(&args),
            Self::Generate(generate) => generate.run(Cli::command()),
            Self::Moved(moved) => Err(moved.refusal()),
        }
    }
}

/// The runtime of the main thread. Shards have their own.
fn runtime() -> Result<Runtime, Failure> {
    Builder::new_current_thread().enable_all().build().map_err(Failure::work)
}

/// Opens the recording of the configuration.
fn recording(path: Option<&Path>) -> Result<Option<Recording>, Failure> {
    let opened = path.map(Recording::open).transpose();
    opened.map_err(|why| Failure::request(format!("--record (log.record): {why}")))
}
