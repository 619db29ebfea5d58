//! Files generated from the command line of a program: completions, man pages, and the reference.

use std::fmt::Write;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Arg, Command, Subcommand};
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
    /// Print the reference of all commands in Markdown
    // Hidden: the reference is in the documentation.
    #[command(hide = true)]
    Reference,
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
            Self::Reference => {
                program.build();
                let name = program.get_name().to_owned();
                let mut text = format!("# Reference of `{name}`\n\n{INTRODUCTION}\n");
                add_command(&mut text, &program, (&name, &mut Vec::new()));
                print::text(&text)
            }
        }
    }
}

const INTRODUCTION: &str = "\
Every command with its arguments, flags and environment variables. A flag takes precedence over its variable. The
program wrote this page; a test compares both.

Exit codes of all commands: 0 success; 1 failed, a retry may succeed; 2 invalid usage, configuration or target; 101 a
bug in Zonal (a panic).";

/// A command with this many flags is a server. Other commands that take all of them refer to it.
const SERVER_FLAGS_MIN: usize = 12;

/// Flags of a server that are no configuration, at most.
const OWN_FLAGS_MAX: usize = 1;

/// Path of a command of the page, and the names of its flags.
type Listed = (String, Vec<String>);

/// Adds a command and its subcommands. `servers`: the commands with many flags so far.
fn add_command(text: &mut String, command: &Command, (path, servers): (&str, &mut Vec<Listed>)) {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let _ = write!(text, "\n## {path}\n\n{}\n", wrapped(&about));
    let flags = command.get_arguments().filter(|of| !of.is_hide_set() && of.get_id() != "help");
    let flags: Vec<&Arg> = flags.collect();
    let names: Vec<String> = flags.iter().map(|flag| flag.get_id().to_string()).collect();
    let of_server = servers.iter().find(|(_, of)| {
        let common = of.iter().filter(|name| names.contains(name)).count();
        of.len() <= common + OWN_FLAGS_MAX
    });
    let is_new =
        |flag: &&&Arg| of_server.is_none_or(|(_, of)| !of.contains(&flag.get_id().to_string()));
    let mut new = flags.iter().filter(is_new).peekable();
    if new.peek().is_some() {
        text.push_str("\n| argument | variable | meaning |\n| --- | --- | --- |\n");
    }
    for flag in new {
        let variable = flag.get_env().map(|name| format!("`{}`", name.display()));
        let meaning = flag.get_help().map(ToString::to_string).unwrap_or_default();
        let meaning = meaning.split_whitespace().map(quoted).collect::<Vec<_>>().join(" ");
        let meaning = meaning.replace('|', "\\|");
        let shown = flag.to_string().replace('|', "\\|");
        let _ = writeln!(text, "| `{shown}` | {} | {meaning} |", variable.unwrap_or_default());
    }
    match of_server {
        Some((server, _)) => {
            let _ = write!(text, "\nIt takes the configuration of `{server}` as well.\n");
        }
        None if SERVER_FLAGS_MIN <= names.len() => servers.push((path.to_owned(), names)),
        None => {}
    }
    let is_shown = |of: &&Command| !of.is_hide_set() && of.get_name() != "help";
    for subcommand in command.get_subcommands().filter(is_shown) {
        let path = format!("{path} {}", subcommand.get_name());
        add_command(text, subcommand, (&path, servers));
    }
}

/// Text in lines of the width of the documentation.
fn wrapped(text: &str) -> String {
    const WIDTH: usize = 110;
    let mut lines = vec![String::new()];
    for word in text.split_whitespace().map(quoted) {
        match lines.last_mut() {
            Some(line) if line.is_empty() => *line = word,
            Some(line) if line.len() + 1 + word.len() <= WIDTH => *line += &format!(" {word}"),
            _ => lines.push(word),
        }
    }
    lines.join("\n")
}

/// A word; a URL is code, because it is a pattern and no link.
fn quoted(word: &str) -> String {
    if word.contains("://") { format!("`{word}`") } else { word.to_owned() }
}

fn write_pages(program: Command, directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    clap_mangen::generate_to(program, directory)
}
