//! Upload body: the client's request body on its way to the origin, counted, without trailers.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use zonal_s3::{BodyError, BoxBody, S3Error};

use crate::error::OriginError;

/// Progress of a body that is being sent, shared with the waiting sender.
#[derive(Debug, Default)]
pub(super) struct Progress {
    sent_bytes: AtomicU64,
    failure: OnceLock<OriginError>,
}

impl Progress {
    pub(super) fn sent_bytes(&self) -> u64 {
        self.sent_bytes.load(Ordering::Relaxed)
    }

    /// The error of the client's body, if it failed.
    pub(super) fn failure(&self) -> Option<&OriginError> {
        self.failure.get()
    }
}

/// Body that counts the client's bytes on their way to the origin.
pub(super) struct Upload {
    pub(super) inner: BoxBody,
    pub(super) progress: Arc<Progress>,
}

impl Body for Upload {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        loop {
            match ready!(Pin::new(&mut self.inner).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    let Ok(bytes) = frame.into_data() else { continue };
                    self.progress.sent_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                    return Poll::Ready(Some(Ok(Frame::data(bytes))));
                }
                Some(Err(error)) => {
                    // Only the first failure is kept.
                    let _ = self
                        .progress
                        .failure
                        .set(OriginError::InvalidRequest(S3Error::of_body(error.as_ref())));
                    return Poll::Ready(Some(Err(error)));
                }
                None => return Poll::Ready(None),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
