//! Body types of requests and responses.

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};

/// Error of a body stream. Holds an [`S3Error`](crate::S3Error) if the client is at fault.
pub type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// Boxed body of a request or response.
pub type BoxBody = UnsyncBoxBody<Bytes, BodyError>;

/// A body that is already complete in memory.
#[must_use]
pub fn full_body(bytes: impl Into<Bytes>) -> BoxBody {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}
