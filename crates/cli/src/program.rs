//! Program entry point: parses the command line, runs the command, returns the exit code.

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use clap::Parser;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::failure::{Failure, exit_code};

/// The commit that the program was built from, or `unknown`. Uncommitted changes do not show.
pub const COMMIT: &str = env!("BUILT_FROM_COMMIT");

/// The footer of a program's `--help`.
pub const EXIT_CODES: &str = "Exit codes: 0 success; 1 failed, a retry may succeed; 2 invalid \
                              usage, configuration or target, a retry does not help; 101 a bug in \
                              Zonal (a panic), please report it.";

/// Parses the command line and runs the command. `program` prefixes the line on standard error that
/// reports a failure.
///
/// `wrong_flags`: flags that people try, each with what to write instead.
pub fn run<Line: Parser>(
    program: &str,
    wrong_flags: &[(&str, &str)],
    command: impl FnOnce(Line) -> Result<(), Failure>,
) -> ExitCode {
    let failed = match Line::try_parse() {
        Ok(line) => match command(line) {
            Ok(()) => return ExitCode::SUCCESS,
            Err(failure) => failure,
        },
        Err(error)
            if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) =>
        {
            // Standard output may be a closed pipe; a failed print of the help is not a failure.
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
        // A missing subcommand prints the list of subcommands.
        Err(error) if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            return ExitCode::from(exit_code::INVALID);
        }
        Err(error) => Failure::Request(one_line(&error, wrong_flags)),
    };
    let (code, line) = (failed.exit_code(), format!("{program}: {failed}\n"));
    print_last(move || {
        // A closed pipe is no reason to fail otherwise.
        let _ = io::stderr().write_all(line.as_bytes());
    });
    code
}

/// Prints in a thread, and waits at most [`LAST_WORDS_MAX`] for it: the reader of a full pipe may have
/// stopped, and the program ends all the same.
fn print_last(print: impl FnOnce() + Send + 'static) {
    let (printed, is_printed) = mpsc::channel();
    let printing = thread::Builder::new().spawn(move || {
        print();
        let _ = printed.send(());
    });
    if printing.is_ok() {
        let _ = is_printed.recv_timeout(LAST_WORDS_MAX);
    }
}

/// Longest wait for the last line on standard error.
const LAST_WORDS_MAX: Duration = Duration::from_secs(1);

/// The text of a `clap` error on one line, without the usage that `--help` shows.
fn one_line(error: &clap::Error, wrong_flags: &[(&str, &str)]) -> String {
    let wrong = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(flag)) if error.kind() == ErrorKind::UnknownArgument => {
            wrong_flags.iter().find(|(wrong, _)| wrong == flag)
        }
        _ => None,
    };
    if let Some((wrong, advice)) = wrong {
        return format!("unexpected argument '{wrong}': {advice}");
    }
    let text = error.to_string();
    let is_help = |line: &str| line.starts_with("Usage:") || line.starts_with("For more");
    let lines = text.lines().map(str::trim).take_while(|line| !is_help(line));
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    let text = lines.join(" ").replace(" tip: ", "; tip: ");
    format!("{} (see --help)", text.strip_prefix("error: ").unwrap_or(&text))
}
