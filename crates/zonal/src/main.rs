//! Zonal's one binary: commands, configuration, wiring, metrics.
//!
//! Uses: `gateway`, `export`, `origin`, `host`, `hostdev`, `policy`, `base`; `lab` and `sim` for their commands; `zonelog`,
//! `runtime` and `device` to look at a device without a node. Knows nothing of: how objects are cached, how
//! requests are answered.
//! Read in this order: `commands` (one file each; `serve` and `block` are paths from start to stop), `config`,
//! `home`, `metrics`, `listeners`, `local_socket`, `signals`, `service_manager`, `panics`, `descriptors`, `access_log`, `front`, `reload`, `door`, `admin`, `survey`; then what commands and `admin` say to each other: `wanted`, `reports`, `warming`,
//! `unpinning`, `purging`, `stats`, `block_stats`, `switching`.

mod access_log;
mod admin;
mod block_stats;
mod commands;
mod config;
mod descriptors;
mod door;
mod failure;
mod front;
mod greeting;
mod home;
mod listeners;
mod local_socket;
mod logging;
mod metrics;
mod panics;
mod pins;
mod purging;
mod reload;
mod reports;
mod service_manager;
mod signals;
mod stats;
mod survey;
mod switching;
mod unpinning;
mod wanted;
mod warming;

use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use crate::commands::Command;

/// Values come and go by the thousand in a second, and the system's allocator gives their pages back each time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A flash cache for object storage.
#[derive(Debug, Parser)]
#[command(name = "zonal", version, max_term_width = 100, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// The commit that this was built from, or `unknown`. What was not committed then does not show.
const COMMIT: &str = env!("BUILT_FROM_COMMIT");

const EXIT_CODES: &str = "\
Exit codes: 0 good; 1 the work failed, and may go well another time; 2 the request was wrong, or what it names: change it; \
101 a bug in Zonal (a panic): report it.";

fn main() -> ExitCode {
    match Cli::try_parse() {
        Ok(cli) => cli.command.run(),
        Err(error)
            if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) =>
        {
            // Standard output may be a pipe that nobody reads any more.
            let _ = error.print();
            ExitCode::SUCCESS
        }
        // Whoever leaves the command out wants to know which there are.
        Err(error) if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            ExitCode::from(2)
        }
        Err(error) => failure::Failure::Request(one_line(&error)).report(),
    }
}

/// What `clap` says in a paragraph, without the usage that `--help` shows.
fn one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let is_help = |line: &str| line.starts_with("Usage:") || line.starts_with("For more");
    let lines = text.lines().map(str::trim).take_while(|line| !is_help(line));
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    let text = lines.join(" ").replace(" tip: ", "; tip: ");
    format!("{} (see --help)", text.strip_prefix("error: ").unwrap_or(&text))
}
