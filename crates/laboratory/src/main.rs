//! `zonal-lab`: measures drives and caches, replays traces, and runs the engines in virtual time.
//!
//! Uses: `lab` for experiments, `sim` for histories, `host` and `hostdev` for real devices, `cli`,
//! which both programs share.
//! Knows nothing of: clients, origins, configuration.
//! Read in this order: `commands`, and below it a file for each command; `recording` and `page`, which
//! record and show simulations.

mod commands;
mod page;
mod recording;

use std::process::ExitCode;

use clap::Parser;

use crate::commands::Command;

/// Thousands of values per second are allocated and freed; the system's allocator would return
/// their pages each time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measure drives and caches, replay traces, run the engines in virtual time.
#[derive(Debug, Parser)]
#[command(name = "zonal-lab", version, max_term_width = 100, after_help = zonal_cli::EXIT_CODES)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    zonal_cli::run("zonal-lab", &[], |line: CommandLine| line.command.run())
}
