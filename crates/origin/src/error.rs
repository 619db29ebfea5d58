//! Origin errors: a variant for each decision that a caller can take.

use std::error::Error;
use std::fmt;
use std::io;
use std::time::Duration;

use zonal_s3::{BadQuery, BodyError, S3Error};

/// An answer of the origin that says no: its status, and the code and message of its XML if it sent any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// S3's error code, such as `NoSuchKey`; empty when none was sent (an answer to HEAD has no body).
    pub code: String,
    /// S3's error message, for people; may be empty.
    pub message: String,
}

impl Refusal {
    /// True when the origin failed, and not the request: 5xx but for 501, which is S3's word for what it
    /// does not have.
    const fn is_failure(&self) -> bool {
        500 <= self.status && self.status != 501
    }
}

/// The code of a [`Refusal`] that is handed on as an answer, in the answer's extensions: whoever hands it on does not
/// have to read its document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusalCode(pub String);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "status {}", self.status)?;
        if !self.code.is_empty() {
            write!(f, " {}", self.code)?;
        }
        if !self.message.is_empty() {
            write!(f, ": {}", self.message)?;
        }
        Ok(())
    }
}

/// Why the origin did not give what was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OriginError {
    /// 404: there is no such object or bucket. Forget what is cached of it, tell the client.
    NotFound(Refusal),
    /// 403: the origin knows who we are, and this is not for us. Tell the client.
    Denied(Refusal),
    /// Our keys, our token or our clock are wrong: no request gets through. The client is not at fault, the
    /// operator must act.
    NotSignedIn(Refusal),
    /// 412, or an answer that carries another ETag or another size: the version is gone. Forget it, ask for the head again.
    Changed,
    /// 416: the object is shorter than the range believes. Ask for the head again.
    RangeNotSatisfiable,
    /// 429, 503 or `SlowDown`, even after retries. Tell the client to come back later.
    Busy {
        /// What was said.
        refusal: Refusal,
        /// When the origin wants to be asked again, if it said so (`Retry-After`).
        retry_after: Option<Duration>,
    },
    /// A redirection: the bucket lives elsewhere. The configuration must name that region or endpoint.
    Elsewhere {
        /// The region that the origin named.
        region: Option<String>,
    },
    /// Any other status. Hand it on.
    Failed(Refusal),
    /// No connection, or it broke before an answer came; for a folder, its file system failed.
    Unreachable {
        /// What the system said.
        cause: String,
    },
    /// What it showed is no certificate that is trusted, or none for its name: whoever looks after it or after us must act.
    /// No request gets through.
    Untrusted {
        /// What is wrong with the certificate.
        cause: String,
    },
    /// The origin was silent for too long.
    Stalled {
        /// What we waited for.
        waited_for: Wait,
        /// How long.
        after: Duration,
    },
    /// The body ended early. What was received must not be kept.
    Short {
        /// Bytes that did not come.
        missing_bytes: u64,
    },
    /// The answer contradicts the request or itself. Nothing of it may be kept.
    Lied {
        /// In what.
        what: String,
    },
    /// The client's request cannot be sent on: its body failed, was malformed, or had a wrong hash or signature, or the
    /// origin signs one of its headers in another way. Answer with this error.
    InvalidRequest(S3Error),
}

/// What an origin was silent about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The head of its answer.
    Answer,
    /// The next bytes of a body.
    Body,
}

impl OriginError {
    /// The label under which it is counted. `None` for what is an answer (there is no such object, or no such
    /// version of it) or the client's doing.
    #[must_use]
    pub fn kind(&self) -> Option<&'static str> {
        self.kind_index().map(|n| KINDS[n])
    }

    pub(crate) const fn kind_index(&self) -> Option<usize> {
        match self {
            Self::Denied(_) => Some(0),
            Self::NotSignedIn(_) => Some(1),
            Self::Busy { .. } => Some(2),
            Self::Elsewhere { .. } => Some(3),
            Self::Failed(refusal) if refusal.is_failure() => Some(4),
            Self::Unreachable { .. } | Self::Untrusted { .. } => Some(5),
            Self::Stalled { .. } => Some(6),
            Self::Short { .. } => Some(7),
            Self::Lied { .. } => Some(8),
            Self::NotFound(_)
            | Self::Changed
            | Self::RangeNotSatisfiable
            | Self::Failed(_)
            | Self::InvalidRequest(_) => None,
        }
    }

    /// True when it speaks of the origin as a whole, and not of one object or one moment: somebody should look.
    #[must_use]
    pub const fn is_trouble(&self) -> bool {
        match self {
            Self::NotSignedIn(_)
            | Self::Elsewhere { .. }
            | Self::Unreachable { .. }
            | Self::Untrusted { .. }
            | Self::Stalled { waited_for: Wait::Answer, .. }
            | Self::Lied { .. } => true,
            Self::Failed(refusal) => refusal.is_failure(),
            _ => false,
        }
    }

    /// What the origin said, when it said no in words.
    #[must_use]
    pub const fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::NotFound(refusal)
            | Self::Denied(refusal)
            | Self::NotSignedIn(refusal)
            | Self::Busy { refusal, .. }
            | Self::Failed(refusal) => Some(refusal),
            _ => None,
        }
    }

    /// 503 `SlowDown`: a limit of ours, or of a store that has no words for it.
    pub fn slow_down(message: impl Into<String>) -> Self {
        let (code, message) = ("SlowDown".to_owned(), message.into());
        Self::Busy { refusal: Refusal { status: 503, code, message }, retry_after: None }
    }

    /// The same, told to somebody who does not know which origin was asked.
    pub(crate) fn at(self, origin: &str) -> Self {
        match self {
            Self::Unreachable { cause } if !origin.is_empty() => {
                Self::Unreachable { cause: format!("{origin}: {cause}") }
            }
            error => error,
        }
    }

    /// Why a body of ours or of an origin broke: the error in it, or else that the connection did.
    pub(crate) fn of_body(error: BodyError, missing_bytes: u64) -> Self {
        error.downcast().map_or(Self::Short { missing_bytes }, |error| *error)
    }

    pub(crate) fn lied(what: impl Into<String>) -> Self {
        Self::Lied { what: what.into() }
    }
}

/// The message of the operating system, without its number.
#[must_use]
pub fn os_message(error: &io::Error) -> String {
    let text = error.to_string();
    let number = error.raw_os_error().map(|number| format!(" (os error {number})"));
    number.and_then(|number| text.strip_suffix(&number).map(str::to_owned)).unwrap_or(text)
}

/// The words of [`OriginError::kind`], in the order of the counters.
pub(crate) const KINDS: [&str; 9] = [
    "denied",
    "not_signed_in",
    "busy",
    "elsewhere",
    "failed",
    "unreachable",
    "stalled",
    "short",
    "lied",
];

impl fmt::Display for OriginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound(refusal) => write!(f, "the origin does not have it ({refusal})"),
            Self::Denied(refusal) => write!(f, "the origin denied access ({refusal})"),
            Self::NotSignedIn(refusal) => write!(f, "the origin does not let us in ({refusal})"),
            Self::Changed => f.write_str("the object has changed at the origin"),
            Self::RangeNotSatisfiable => {
                f.write_str("the range lies outside the object as the origin has it")
            }
            Self::Busy { refusal, .. } => write!(f, "the origin is too busy ({refusal})"),
            Self::Elsewhere { region: Some(region) } => {
                write!(f, "the bucket lives in region {region}: configure the origin for it")
            }
            Self::Elsewhere { region: None } => {
                f.write_str("the origin redirected the request: configure the endpoint it names")
            }
            Self::Failed(refusal) => write!(f, "the origin failed the request ({refusal})"),
            Self::Unreachable { cause } => write!(f, "the origin cannot be reached: {cause}"),
            Self::Untrusted { cause } => {
                write!(f, "the origin's certificate is not trusted: {cause}")
            }
            Self::Stalled { waited_for: Wait::Answer, after } => {
                write!(f, "the origin did not answer within {after:?}")
            }
            Self::Stalled { waited_for: Wait::Body, after } => {
                write!(f, "the origin sent nothing more for {after:?}")
            }
            Self::Short { missing_bytes } => {
                write!(f, "the origin's answer ended {missing_bytes} bytes early")
            }
            Self::Lied { what } => write!(f, "the origin's answer makes no sense: {what}"),
            Self::InvalidRequest(error) => write!(f, "the request cannot be sent on: {error}"),
        }
    }
}

impl Error for OriginError {}

impl From<S3Error> for OriginError {
    /// What is wrong with the request, before it was sent on.
    fn from(error: S3Error) -> Self {
        Self::InvalidRequest(error)
    }
}

impl From<BadQuery> for OriginError {
    fn from(BadQuery: BadQuery) -> Self {
        let (code, message) = ("InvalidURI".to_owned(), "the query cannot be read".to_owned());
        Self::Failed(Refusal { status: 400, code, message })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_says_has_no_number() {
        let said = |errno| os_message(&io::Error::from_raw_os_error(errno));
        assert_eq!(said(111), "Connection refused");
        assert_eq!(os_message(&io::Error::other("odd (os error 1)")), "odd (os error 1)");
    }
}
