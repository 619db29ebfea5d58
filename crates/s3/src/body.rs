//! Bodies of requests and answers.

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};

/// Why a body broke. It holds an [`S3Error`](crate::S3Error) where the client is at fault.
pub type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// The body of a request or of its answer.
pub type BoxBody = UnsyncBoxBody<Bytes, BodyError>;

/// A body of bytes that are there already.
#[must_use]
pub fn full_body(bytes: impl Into<Bytes>) -> BoxBody {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}
