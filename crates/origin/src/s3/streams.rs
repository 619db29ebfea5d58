//! The two bodies of a forwarded request: counted, watched, without trailers.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep};
use zonal_s3::{BodyError, BoxBody, S3Error};

use crate::error::{OriginError, Wait};
use crate::places::Place;
use crate::stats::Stats;

/// What is known from outside about a body that is being sent.
#[derive(Debug, Default)]
pub(super) struct Progress {
    sent_bytes: AtomicU64,
    failure: OnceLock<OriginError>,
}

impl Progress {
    pub(super) fn sent_bytes(&self) -> u64 {
        self.sent_bytes.load(Ordering::Relaxed)
    }

    /// Why the body that we were given broke, if it did.
    pub(super) fn failure(&self) -> Option<&OriginError> {
        self.failure.get()
    }
}

/// The client's body on its way to the origin.
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
                    // The first failure is the one that counts.
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

/// The origin's body on its way to the client. It breaks when the origin is silent for too long
/// while the client waits; how long the client takes does not matter here.
pub(crate) struct Download<B> {
    inner: B,
    stall: Duration,
    silence: Pin<Box<Sleep>>,
    client_waits: bool,
    stats: Arc<Stats>,
    _place: Place,
}

impl<B> Download<B> {
    pub(crate) fn new(inner: B, stall: Duration, stats: Arc<Stats>, place: Place) -> Self {
        let silence = Box::pin(tokio::time::sleep(stall));
        Self { inner, stall, silence, client_waits: false, stats, _place: place }
    }

    fn broken(&self, error: OriginError) -> BodyError {
        self.stats.count_error(&error);
        Box::new(error)
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Download<B> {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        loop {
            let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(cx) else { break };
            self.client_waits = false;
            let Some(frame) = frame else { return Poll::Ready(None) };
            let Ok(frame) = frame else {
                let missing_bytes = self.inner.size_hint().lower();
                let error = OriginError::Short { missing_bytes };
                return Poll::Ready(Some(Err(self.broken(error))));
            };
            let Ok(bytes) = frame.into_data() else { continue };
            self.stats.received_bytes.add(bytes.len() as u64);
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        if !self.client_waits {
            self.client_waits = true;
            let until = Instant::now() + self.stall;
            self.silence.as_mut().reset(until);
        }
        ready!(self.silence.as_mut().poll(cx));
        let error = OriginError::Stalled { waited_for: Wait::Body, after: self.stall };
        Poll::Ready(Some(Err(self.broken(error))))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
