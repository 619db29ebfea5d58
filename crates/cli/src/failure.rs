//! Command failures and exit codes: tell a failed operation from an invalid request.

use std::fmt;
use std::process::ExitCode;

use zonal_host::StartError;
use zonal_hostdev::OpenError;

use crate::advice;

/// Exit codes. 0 is success.
pub mod exit_code {
    /// The operation failed: a retry may succeed.
    pub const FAILED: u8 = 1;
    /// Invalid usage, configuration or target: do not retry.
    pub const INVALID: u8 = 2;
    /// A bug in the program: what Rust gives to a program whose main thread panics.
    pub const PANICKED: u8 = 101;
}

/// A failed command. The kind decides the exit code, from which a supervisor or script decides
/// whether to retry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Invalid usage: the flags, the configuration or a named target (device, file, folder,
    /// address) cannot be used. The operator must change the request. The target is unchanged.
    Request(String),
    /// The request is valid, but the operation failed, or another process holds a resource that it
    /// needs. A retry may succeed.
    Work(String),
}

impl Failure {
    /// An invalid request: the operator must change it.
    #[must_use]
    pub fn request(why: impl fmt::Display) -> Self {
        Self::Request(why.to_string())
    }

    /// A failed operation: a retry may succeed.
    #[must_use]
    pub fn work(why: impl fmt::Display) -> Self {
        Self::Work(why.to_string())
    }

    /// The exit code of this kind.
    #[must_use]
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Work(_) => ExitCode::from(exit_code::FAILED),
            Self::Request(_) => ExitCode::from(exit_code::INVALID),
        }
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        let why = match (&error, advice::on_start(&error)) {
            (StartError::Chunks(refused), _) => format!("chunk.rules: {refused}"),
            (error, None) => error.to_string(),
            (error, Some(advice)) => format!("{error}: {advice}"),
        };
        if error.may_pass() { Self::work(why) } else { Self::request(why) }
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        let why = match advice::on_device(&error) {
            None => error.to_string(),
            Some(advice) => format!("{error}: {advice}"),
        };
        if error.may_pass() { Self::work(why) } else { Self::request(why) }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request(why) | Self::Work(why) => f.write_str(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::exit_code;

    #[test]
    fn the_documentation_has_every_exit_code() {
        let page = include_str!("../../../docs/serve/running.md");
        let (_, section) = page.split_once("\n## Exit codes\n").unwrap();
        let (section, _) = section.split_once("\n## ").unwrap();
        let rows = section.lines().filter_map(|line| line.strip_prefix("| ")?.split(' ').next());
        let codes: Vec<u8> = rows.filter_map(|word| word.parse().ok()).collect();
        assert_eq!(codes, [0, exit_code::FAILED, exit_code::INVALID, exit_code::PANICKED]);
        for page in [
            include_str!("../../../docs/reference/zonal.md"),
            include_str!("../../../docs/reference/zonal-lab.md"),
        ] {
            let (_, text) = page.split_once("Exit codes of all commands: ").unwrap();
            let (text, _) = text.split_once('.').unwrap();
            let words = text.split_whitespace().filter_map(|word| word.parse::<u8>().ok());
            assert_eq!(words.collect::<Vec<_>>(), codes);
        }
    }
}
