//! Origin errors: a variant for each decision that a caller can take.

use std::error::Error;
use std::fmt;
use std::io;
use std::time::Duration;

use zonal_s3::{BadQuery, BodyError, S3Error};

/// An error response of the origin: its status, and the code and message of its XML document, if
/// any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorResponse {
    /// HTTP status.
    pub status: u16,
    /// S3 error code, such as `NoSuchKey`. Empty if the response has none (an answer to HEAD has no
    /// body).
    pub code: String,
    /// Message for people; may be empty.
    pub message: String,
}

impl ErrorResponse {
    /// True if the origin failed, not the request: 5xx except 501, with which S3 refuses
    /// unsupported operations.
    const fn is_failure(&self) -> bool {
        500 <= self.status && self.status != 501
    }
}

/// Error code of a forwarded [`ErrorResponse`], in the extensions of the response, so that the gateway
/// need not parse the document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorCode(pub String);

impl fmt::Display for ErrorResponse {
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

/// Error of an origin request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OriginError {
    /// 404: the object or bucket does not exist. Remove it from the cache and tell the client.
    NotFound(ErrorResponse),
    /// 403: the origin accepts Zonal's credentials, but denies access to this object. Tell the
    /// client.
    Denied(ErrorResponse),
    /// Zonal's keys, token or clock are wrong, so every request fails. The client is not at fault;
    /// the operator must act.
    CredentialsRejected(ErrorResponse),
    /// Zonal has no credentials for the origin yet, so no request was sent. The operator must act,
    /// or a provider of credentials answer.
    NoCredentials {
        /// Why no provider has any.
        why: String,
    },
    /// 412, or an answer with another ETag or size: the version is gone. Discard it and request the
    /// head again.
    Changed,
    /// 416: the object is shorter than expected. Request the head again.
    RangeNotSatisfiable,
    /// 429, 503 or `SlowDown`, even after retries. Tell the client to retry later.
    Throttled {
        /// The response of the origin.
        refusal: ErrorResponse,
        /// `Retry-After` of the origin, if it sent one.
        retry_after: Option<Duration>,
    },
    /// A redirection: the bucket is in another region or at another endpoint. The operator must
    /// configure that one.
    Redirected {
        /// The region in the response, if any.
        region: Option<String>,
    },
    /// Any other status. Forward it to the client.
    Failed(ErrorResponse),
    /// No connection, or a connection that broke before the answer. For a folder: a file system
    /// error.
    Unreachable {
        /// Error message of the system.
        cause: String,
    },
    /// TLS failure: the origin's certificate is not trusted, or is for another name. Every request
    /// fails; the operator of the origin or of Zonal must act.
    Untrusted {
        /// Problem of the certificate.
        cause: String,
    },
    /// Timeout: the origin sent nothing for too long.
    Stalled {
        /// The missing part of the answer.
        waited_for: Wait,
        /// Length of the timeout.
        after: Duration,
    },
    /// The body ended early. Discard the received bytes.
    Truncated {
        /// Bytes missing at the end.
        missing_bytes: u64,
    },
    /// The answer contradicts the request or itself. Discard the whole answer.
    InvalidResponse {
        /// The contradiction, for people.
        what: String,
    },
    /// The client's request cannot be forwarded: its body failed or was malformed, had a wrong hash
    /// or signature, or the origin canonicalizes one of its headers differently. Answer with this
    /// error.
    InvalidRequest(S3Error),
}

/// The part of an answer that a timeout waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The response head.
    Answer,
    /// The next bytes of a body.
    Body,
}

impl OriginError {
    /// Metric label of the error. `None` for valid answers (no such object, no such version) and
    /// for faults of the client.
    #[must_use]
    pub fn kind(&self) -> Option<&'static str> {
        self.kind_index().map(|n| KINDS[n])
    }

    pub(crate) const fn kind_index(&self) -> Option<usize> {
        match self {
            Self::Denied(_) => Some(0),
            Self::CredentialsRejected(_) | Self::NoCredentials { .. } => Some(1),
            Self::Throttled { .. } => Some(2),
            Self::Redirected { .. } => Some(3),
            Self::Failed(refusal) if refusal.is_failure() => Some(4),
            Self::Unreachable { .. } | Self::Untrusted { .. } => Some(5),
            Self::Stalled { .. } => Some(6),
            Self::Truncated { .. } => Some(7),
            Self::InvalidResponse { .. } => Some(8),
            Self::NotFound(_)
            | Self::Changed
            | Self::RangeNotSatisfiable
            | Self::Failed(_)
            | Self::InvalidRequest(_) => None,
        }
    }

    /// True if the error concerns the origin as a whole, not one object or one moment: an operator
    /// should look.
    #[must_use]
    pub const fn is_trouble(&self) -> bool {
        match self {
            Self::CredentialsRejected(_)
            | Self::NoCredentials { .. }
            | Self::Redirected { .. }
            | Self::Unreachable { .. }
            | Self::Untrusted { .. }
            | Self::Stalled { waited_for: Wait::Answer, .. }
            | Self::InvalidResponse { .. } => true,
            Self::Failed(refusal) => refusal.is_failure(),
            _ => false,
        }
    }

    /// The error response of the origin, if the error has one.
    #[must_use]
    pub const fn refusal(&self) -> Option<&ErrorResponse> {
        match self {
            Self::NotFound(refusal)
            | Self::Denied(refusal)
            | Self::CredentialsRejected(refusal)
            | Self::Throttled { refusal, .. }
            | Self::Failed(refusal) => Some(refusal),
            _ => None,
        }
    }

    /// 503 `SlowDown`, for a limit of Zonal, or of a store without such a code.
    pub fn slow_down(message: impl Into<String>) -> Self {
        let (code, message) = ("SlowDown".to_owned(), message.into());
        Self::Throttled { refusal: ErrorResponse { status: 503, code, message }, retry_after: None }
    }

    /// Adds the origin's name to an `Unreachable` error, for clients of several origins.
    pub(crate) fn at(self, origin: &str) -> Self {
        match self {
            Self::Unreachable { cause } if !origin.is_empty() => {
                Self::Unreachable { cause: format!("{origin}: {cause}") }
            }
            error => error,
        }
    }

    /// The error of a failed body: the [`OriginError`] inside, or else `Short`, because the
    /// connection broke.
    pub(crate) fn of_body(error: BodyError, missing_bytes: u64) -> Self {
        error.downcast().map_or(Self::Truncated { missing_bytes }, |error| *error)
    }

    pub(crate) fn invalid_response(what: impl Into<String>) -> Self {
        Self::InvalidResponse { what: what.into() }
    }
}

/// The message of an operating system error, without its number.
#[must_use]
pub fn os_message(error: &io::Error) -> String {
    let text = error.to_string();
    let number = error.raw_os_error().map(|number| format!(" (os error {number})"));
    number.and_then(|number| text.strip_suffix(&number).map(str::to_owned)).unwrap_or(text)
}

/// The labels of [`OriginError::kind`], in the order of the counters.
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
            Self::NotFound(refusal) => write!(f, "not found at the origin ({refusal})"),
            Self::Denied(refusal) => write!(f, "the origin denied access ({refusal})"),
            Self::CredentialsRejected(refusal) => {
                write!(f, "the origin rejects Zonal's credentials ({refusal})")
            }
            Self::NoCredentials { why } => {
                write!(f, "Zonal has no credentials for the origin: {why}")
            }
            Self::Changed => f.write_str("the object has changed at the origin"),
            Self::RangeNotSatisfiable => {
                f.write_str("the range is outside the object at the origin")
            }
            Self::Throttled { refusal, .. } => write!(f, "the origin is too busy ({refusal})"),
            Self::Redirected { region: Some(region) } => {
                write!(
                    f,
                    "the origin or the bucket is in region {region}, not in the configured one"
                )
            }
            Self::Redirected { region: None } => f.write_str(
                "the origin redirected the request: configure the endpoint that it names",
            ),
            Self::Failed(refusal) => write!(f, "the origin failed the request ({refusal})"),
            Self::Unreachable { cause } => write!(f, "the origin cannot be reached: {cause}"),
            Self::Untrusted { cause } => {
                write!(f, "the origin's certificate is not trusted: {cause}")
            }
            Self::Stalled { waited_for: Wait::Answer, after } => {
                write!(f, "timeout: no response from the origin within {after:?}")
            }
            Self::Stalled { waited_for: Wait::Body, after } => {
                write!(f, "stall: the origin sent nothing for {after:?}")
            }
            Self::Truncated { missing_bytes } => {
                write!(f, "the origin's response ended {missing_bytes} bytes early")
            }
            Self::InvalidResponse { what } => {
                write!(f, "invalid response from the origin: {what}")
            }
            Self::InvalidRequest(error) => write!(f, "the request cannot be forwarded: {error}"),
        }
    }
}

impl Error for OriginError {}

impl From<S3Error> for OriginError {
    /// An invalid request, found before it was forwarded.
    fn from(error: S3Error) -> Self {
        Self::InvalidRequest(error)
    }
}

impl From<BadQuery> for OriginError {
    fn from(BadQuery: BadQuery) -> Self {
        let (code, message) = ("InvalidURI".to_owned(), "the query cannot be parsed".to_owned());
        Self::Failed(ErrorResponse { status: 400, code, message })
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
