//! Program `zonal`: the cache daemon and block-device server, with configuration, commands, admin
//! API and metrics.
//!
//! Uses: `gateway`, `export`, `origin`, `host`, `hostdev`, `policy`, `base`; `admin` and `api` for the
//! admin endpoints; `cli` for what it shares with `zonal-lab`; `zonelog` for the records that
//! `inspect` shows.
//! Knows nothing of: how objects are cached, how requests are answered; experiments.
//! Read in this order: `commands` (one file each; `serve` and `block` run a server from start-up to
//! shutdown), `config`, `data_dir`, `origins`, `metrics`, `listeners`, `local_socket`, `signals`,
//! `service_manager`, `panics`, `descriptors`, `access_log`, `frontend`, `reload`, `wear`, `admin`;
//! then the formats between commands and `admin`: `object_list`, `reports`, `warming`, `unpinning`,
//! `purging`.

mod access_log;
mod admin;
mod banner;
mod commands;
mod config;
mod data_dir;
mod descriptors;
mod frontend;
mod listeners;
mod listing;
mod local_socket;
mod logging;
mod metrics;
mod object_list;
mod origins;
mod panics;
mod pins;
mod purging;
mod reload;
mod reports;
mod service_manager;
mod signals;
mod unpinning;
mod warming;
mod wear;

use std::process::ExitCode;

use clap::Parser;

use crate::commands::Command;

/// Global allocator: the daemon allocates and frees thousands of values a second, and the system's
/// allocator returns their pages to the kernel each time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A flash cache for object storage.
#[derive(Debug, Parser)]
#[command(name = "zonal", version, max_term_width = 100, after_help = zonal_cli::EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    zonal_cli::run("zonal", &config::WRONG_FLAGS, |line: Cli| line.command.run())
}
