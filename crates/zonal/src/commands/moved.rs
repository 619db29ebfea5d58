//! Moved commands: refuses commands that are now part of `zonal-lab`, and names the new command.

use std::ffi::OsString;

use clap::Subcommand;
use zonal_cli::Failure;

/// Each with the words behind it, whatever they are.
#[derive(Debug, Subcommand)]
pub(crate) enum MovedCommand {
    #[command(hide = true, disable_help_flag = true)]
    Bench(Words),
    #[command(hide = true, disable_help_flag = true)]
    Characterize(Words),
    #[command(hide = true, disable_help_flag = true)]
    Lab(Words),
    #[command(hide = true, disable_help_flag = true)]
    Sim(Words),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Words {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

impl MovedCommand {
    /// The failure that names the equivalent `zonal-lab` command.
    pub(super) fn refusal(&self) -> Failure {
        let (command, words) = match self {
            Self::Bench(Words { words }) => (" bench", words),
            Self::Characterize(Words { words }) => (" characterize", words),
            Self::Lab(Words { words }) => ("", words),
            Self::Sim(Words { words }) => (" sim", words),
        };
        let words: String = words.iter().map(|word| format!(" {}", word.display())).collect();
        Failure::request(format!("this is a command of zonal-lab: zonal-lab{command}{words}"))
    }
}
