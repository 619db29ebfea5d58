//! What can go wrong at an origin: a variant per decision that the caller can take.

use std::fmt;
use std::time::Duration;

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
    /// 401 or 403: our credentials or our clock are not good for this. Tell the client, look at the configuration.
    Denied(Refusal),
    /// 412, or an answer that carries another ETag or another size: the version is gone. Forget it, ask for the head again.
    Changed,
    /// 416: the object is shorter than the range believes. Ask for the head again.
    RangeNotSatisfiable,
    /// 429, 503 or `SlowDown`, even after retries. Tell the client to come back later.
    Busy(Refusal),
    /// 301, 302, 307 or 308: the bucket lives elsewhere. The configuration must name that region or endpoint.
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
    /// The body that we were given to send on failed, was malformed or had a wrong signature: the client's doing.
    BadUpload {
        /// In what way.
        cause: String,
    },
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
    /// One word per variant: the label under which errors are counted.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        KINDS[self.kind_index()]
    }

    pub(crate) const fn kind_index(&self) -> usize {
        match self {
            Self::NotFound(_) => 0,
            Self::Denied(_) => 1,
            Self::Changed => 2,
            Self::RangeNotSatisfiable => 3,
            Self::Busy(_) => 4,
            Self::Elsewhere { .. } => 5,
            Self::Failed(_) => 6,
            Self::Unreachable { .. } => 7,
            Self::Stalled { .. } => 8,
            Self::Short { .. } => 9,
            Self::Lied { .. } => 10,
            Self::BadUpload { .. } => 11,
        }
    }

    pub(crate) fn lied(what: impl Into<String>) -> Self {
        Self::Lied { what: what.into() }
    }
}

/// The words of [`OriginError::kind`], in the order of the counters.
pub(crate) const KINDS: [&str; 12] = [
    "not_found",
    "denied",
    "changed",
    "range_not_satisfiable",
    "busy",
    "elsewhere",
    "failed",
    "unreachable",
    "stalled",
    "short",
    "lied",
    "bad_upload",
];

impl fmt::Display for OriginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound(refusal) => write!(f, "the origin does not have it ({refusal})"),
            Self::Denied(refusal) => write!(f, "the origin denied access ({refusal})"),
            Self::Changed => f.write_str("the object has changed at the origin"),
            Self::RangeNotSatisfiable => {
                f.write_str("the range lies outside the object as the origin has it")
            }
            Self::Busy(refusal) => write!(f, "the origin is too busy ({refusal})"),
            Self::Elsewhere { region: Some(region) } => {
                write!(f, "the bucket lives in region {region}: configure the origin for it")
            }
            Self::Elsewhere { region: None } => {
                f.write_str("the origin redirected the request: configure the endpoint it names")
            }
            Self::Failed(refusal) => write!(f, "the origin failed the request ({refusal})"),
            Self::Unreachable { cause } => write!(f, "the origin cannot be reached: {cause}"),
            Self::Stalled { waited_for: Wait::Answer, after } => {
                write!(f, "the origin did not answer within {after:?}")
            }
            Self::Stalled { waited_for: Wait::Body, after } => {
                write!(f, "the origin sent nothing more for {after:?}")
            }
            Self::Short { missing_bytes } => {
                write!(f, "the origin's answer ended {missing_bytes} bytes early")
            }
            Self::Lied { what } => write!(f, "the origin's answer contradicts itself: {what}"),
            Self::BadUpload { cause } => write!(f, "the request's body failed: {cause}"),
        }
    }
}

impl std::error::Error for OriginError {}
