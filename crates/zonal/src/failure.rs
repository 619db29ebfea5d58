//! Why a command did not do what it was asked, and the exit code that says so.

use std::fmt;
use std::process::ExitCode;

use zonal_host::{BlockStartError, StartError};

/// Who must act: whoever wrote the request, or whoever looks after the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Flags, configuration or device spec cannot be meant like that. Nothing was touched.
    Request(String),
    /// The request was right, and the work failed.
    Work(String),
}

impl Failure {
    pub(crate) fn request(why: impl fmt::Display) -> Self {
        Self::Request(why.to_string())
    }

    pub(crate) fn work(why: impl fmt::Display) -> Self {
        Self::Work(why.to_string())
    }

    /// Says why in one line, on standard error.
    pub(crate) fn report(&self) -> ExitCode {
        eprintln!("zonal: {self}");
        match self {
            Self::Work(_) => ExitCode::from(1),
            Self::Request(_) => ExitCode::from(2),
        }
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Divided { .. }
            | StartError::Unfit { .. }
            | StartError::Chunks(_)
            | StartError::Apart { .. }
            | StartError::TooMany => Self::request(error),
            StartError::Device(_)
            | StartError::Foreign { .. }
            | StartError::OtherVersion { .. }
            | StartError::Cache { .. }
            | StartError::Roster { .. }
            | StartError::Thread(_) => Self::work(error),
        }
    }
}

impl From<BlockStartError> for Failure {
    fn from(error: BlockStartError) -> Self {
        match error {
            BlockStartError::Unfit(_) => Self::request(error),
            BlockStartError::Device(_)
            | BlockStartError::Foreign { .. }
            | BlockStartError::Open { .. }
            | BlockStartError::System(_) => Self::work(error),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request(why) | Self::Work(why) => f.write_str(why),
        }
    }
}
