//! The commands, one file each.

pub(crate) mod bench;
mod block;
pub(crate) mod cache;
mod characterize;
mod device;
mod inspect;
mod lab;
mod print;
mod serve;
mod sim;

use std::process::ExitCode;

use clap::Subcommand;
use tokio::runtime::{Builder, Runtime};

use crate::failure::Failure;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Serve(Box<serve::Args>),
    Block(Box<block::Args>),
    Cache(cache::Args),
    Device(device::Args),
    Inspect(inspect::Args),
    Bench(Box<bench::Args>),
    Characterize(Box<characterize::Args>),
    Sim(sim::Args),
    Lab(lab::Args),
}

impl Command {
    pub(crate) fn run(self) -> ExitCode {
        let result = match self {
            Self::Serve(args) => serve::run(&args),
            Self::Block(args) => block::run(&args),
            Self::Cache(args) => cache::run(&args),
            Self::Device(args) => device::run(&args),
            Self::Inspect(args) => inspect::run(&args),
            Self::Sim(args) => sim::run(&args),
            Self::Lab(args) => lab::run(&args),
            Self::Characterize(args) => characterize::run(&args),
            Self::Bench(args) => return bench::run(*args),
        };
        match result {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => failure.report(),
        }
    }
}

/// The runtime of the main thread. Shards have their own.
fn runtime() -> Result<Runtime, Failure> {
    Builder::new_current_thread().enable_all().build().map_err(Failure::work)
}
