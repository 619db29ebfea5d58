//! Command failures and exit codes: tell a failed operation from an invalid request.

use std::fmt;
use std::process::ExitCode;

use zonal_host::StartError;
use zonal_hostdev::OpenError;

use crate::advice;

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

    /// 1 for a failed operation, 2 for an invalid request.
    #[must_use]
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Work(_) => ExitCode::from(1),
            Self::Request(_) => ExitCode::from(2),
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
