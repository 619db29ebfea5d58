//! Why a command did not do what it was asked, and the exit code that says so.

use std::fmt;
use std::process::ExitCode;

use zonal_host::StartError;
use zonal_hostdev::OpenError;

use crate::advice;

/// Whether it is worth to be tried again as it is. Whoever starts Zonal anew when it ends has nothing else to go by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Flags, configuration, or what they name (a device, a file, a folder, an address) cannot be used as it is: somebody
    /// must change it. What was there is as it was.
    Request(String),
    /// What was asked for is right, and the work failed, or somebody else has now what it takes.
    Work(String),
}

impl Failure {
    /// Somebody must change what was asked for.
    #[must_use]
    pub fn request(why: impl fmt::Display) -> Self {
        Self::Request(why.to_string())
    }

    /// It may go well another time.
    #[must_use]
    pub fn work(why: impl fmt::Display) -> Self {
        Self::Work(why.to_string())
    }

    /// What tells the two apart to whoever started the program.
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
