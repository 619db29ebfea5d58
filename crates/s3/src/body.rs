//! Body types of requests and responses.

use std::future::Future;

use bytes::Bytes;
use futures_util::stream;
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};

/// Error of a body stream. Holds an [`S3Error`](crate::S3Error) if the client is at fault.
pub type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// Boxed body of a request or response.
pub type BoxBody = UnsyncBoxBody<Bytes, BodyError>;

/// A body that is already complete in memory.
#[must_use]
pub fn full_body(bytes: impl Into<Bytes>) -> BoxBody {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// Source of a streamed body.
pub(crate) trait DataSource: Send + 'static {
    /// The next bytes; `None` at the end.
    fn next(&mut self) -> impl Future<Output = Result<Option<Bytes>, BodyError>> + Send;
}

/// A body without trailers: S3 does not use those of HTTP.
impl DataSource for BoxBody {
    async fn next(&mut self) -> Result<Option<Bytes>, BodyError> {
        while let Some(frame) = self.frame().await {
            if let Ok(data) = frame?.into_data() {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }
}

/// Body that streams a source. It ends with the first error.
pub(crate) fn stream_body(source: impl DataSource) -> BoxBody {
    let frames = stream::try_unfold(source, async |mut source| {
        Ok(source.next().await?.map(|data| (Frame::data(data), source)))
    });
    StreamBody::new(frames).boxed_unsync()
}
