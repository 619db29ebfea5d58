//! Download body: the origin's response body on its way to the client, counted, with a stall
//! timeout, without trailers.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep};
use zonal_s3::BodyError;

use crate::concurrency::Permit;
use crate::error::{OriginError, Wait};
use crate::stats::Stats;

/// Yields `inner`. The body fails if the origin sends nothing for `stall` while the client waits
/// for bytes. A slow client causes no timeout. Holds a concurrency permit until it is dropped.
#[derive(Debug)]
pub struct Download<B> {
    inner: B,
    stall: Duration,
    silence: Pin<Box<Sleep>>,
    client_waits: bool,
    stats: Arc<Stats>,
    _permit: Permit,
}

impl<B> Download<B> {
    /// Wraps the body `inner` of an answer.
    #[must_use]
    pub fn new(inner: B, stall: Duration, stats: Arc<Stats>, permit: Permit) -> Self {
        let silence = Box::pin(tokio::time::sleep(stall));
        Self { inner, stall, silence, client_waits: false, stats, _permit: permit }
    }

    fn broken(&self, error: OriginError) -> BodyError {
        self.stats.count_error(&error);
        Box::new(error)
    }
}

impl<B: Body<Data = Bytes, Error: Into<BodyError>> + Unpin> Body for Download<B> {
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
            let frame = match frame {
                Ok(frame) => frame,
                Err(error) => {
                    let missing_bytes = self.inner.size_hint().lower();
                    let error = OriginError::of_body(error.into(), missing_bytes);
                    return Poll::Ready(Some(Err(self.broken(error))));
                }
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
