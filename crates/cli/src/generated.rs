//! Files generated from the command line of a program: shell completions and man pages.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Command, Subcommand};
use clap_complete::Shell;

use crate::failure::Failure;
use crate::print;

/// Commands of every program.
#[derive(Debug, Subcommand)]
pub enum GenerateCommand {
    /// Print a completion script for a shell
    #[command(after_help = "\
Example, for bash: zonal completions bash > ~/.local/share/bash-completion/completions/zonal
Packages install the scripts of bash, zsh and fish.")]
    Completions {
        /// Shell
        shell: Shell,
    },
    /// Write the man pages of all commands
    // Hidden: packages install the pages.
    #[command(hide = true)]
    ManPages {
        /// Directory for the pages; created if it does not exist
        directory: PathBuf,
    },
}

impl GenerateCommand {
    /// Runs the command for the program with this command line.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn run(&self, mut program: Command) -> Result<(), Failure> {
        match self {
            Self::Completions { shell } => {
                let name = program.get_name().to_owned();
                let mut script = Vec::new();
                clap_complete::generate(*shell, &mut program, name, &mut script);
                print::text(&String::from_utf8_lossy(&script))
            }
            Self::ManPages { directory } => write_pages(program, directory).map_err(|error| {
                let shown = directory.display();
                Failure::request(format!("cannot write {shown}: {error}: name another directory"))
            }),
        }
    }
}

fn write_pages(program: Command, directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    clap_mangen::generate_to(program, directory)
}
