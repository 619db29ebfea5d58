//! A program, from its command line to its exit code.

use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use crate::failure::Failure;

/// The commit that this was built from, or `unknown`. What was not committed then does not show.
pub const COMMIT: &str = env!("BUILT_FROM_COMMIT");

/// What stands below the help of a program.
pub const EXIT_CODES: &str = "\
Exit codes: 0 good; 1 the work failed, and may go well another time; 2 the request was wrong, or what it names: change it; \
101 a bug in Zonal (a panic): report it.";

/// Runs what the command line says; `program` begins each line about a failure.
pub fn run<Line: Parser>(
    program: &str,
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
            // Standard output may be a pipe that nobody reads any more.
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
        // Whoever leaves the command out wants to know which there are.
        Err(error) if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            return ExitCode::from(2);
        }
        Err(error) => Failure::Request(one_line(&error)),
    };
    eprintln!("{program}: {failed}");
    failed.exit_code()
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
