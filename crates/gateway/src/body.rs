//! Response bodies: empty, a document, cached bytes, or the origin's stream.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;
use zonal_host::{PieceSource, StripedRead};
use zonal_s3::BoxBody;

use crate::access_log::PendingEntry;
use crate::accounts;
use crate::latencies::RequestTimer;
use crate::socket::ExchangeGuard;

/// The body broke off. The connection is closed, so that the client notices the missing bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BodyAborted;

impl fmt::Display for BodyAborted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the rest of the response could not be read")
    }
}

impl std::error::Error for BodyAborted {}

/// Source of the body.
pub(crate) enum Source {
    /// No bytes.
    Empty,
    /// A complete document in memory.
    Document(Bytes),
    /// A range of an object, and the bytes of it that are still to come.
    Object(StripedRead, u64),
    /// The origin's response, streamed through.
    Origin(BoxBody),
    /// The origin's response to a write, streamed by the task that also invalidates.
    Write(mpsc::Receiver<Result<Frame<Bytes>, BodyAborted>>),
}

/// Body of a response. The exchange lasts as long as this body.
pub(crate) struct ResponseBody {
    source: Source,
    sent_bytes: u64,
    /// True once the source has ended well.
    has_ended: bool,
    timer: RequestTimer,
    _exchange: ExchangeGuard,
    /// Entry in the access log, if the log is enabled.
    line: Option<Box<PendingEntry>>,
}

impl ResponseBody {
    pub(crate) const fn new(
        source: Source,
        timer: RequestTimer,
        exchange: ExchangeGuard,
        line: Option<Box<PendingEntry>>,
    ) -> Self {
        Self { source, sent_bytes: 0, has_ended: false, timer, _exchange: exchange, line }
    }
}

impl From<Bytes> for Source {
    fn from(document: Bytes) -> Self {
        Self::Document(document)
    }
}

impl Source {
    /// The slowest source of the bytes so far, if they are bytes of an object.
    pub(crate) fn slowest(&self) -> Option<PieceSource> {
        match self {
            Self::Object(reading, _) => reading.slowest,
            Self::Empty | Self::Document(_) | Self::Origin(_) | Self::Write(_) => None,
        }
    }

    fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyAborted>>> {
        match self {
            Self::Empty => Poll::Ready(None),
            Self::Document(bytes) if bytes.is_empty() => Poll::Ready(None),
            Self::Document(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Self::Object(_, 0) => Poll::Ready(None),
            Self::Object(reading, left_bytes) => reading.poll_next(cx).map(|piece| {
                // More bytes than the range, or fewer, would be another object.
                let Some(Ok(bytes)) = piece else { return Some(Err(BodyAborted)) };
                let Some(left) = left_bytes.checked_sub(bytes.len() as u64) else {
                    return Some(Err(BodyAborted));
                };
                *left_bytes = left;
                Some(Ok(Frame::data(bytes)))
            }),
            Self::Origin(body) => {
                Pin::new(body).poll_frame(cx).map(|frame| Some(frame?.map_err(|_| BodyAborted)))
            }
            Self::Write(frames) => frames.poll_recv(cx),
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = BodyAborted;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyAborted>>> {
        let frame = self.source.poll_next(cx);
        match &frame {
            Poll::Ready(Some(Ok(frame))) => {
                self.sent_bytes += frame.data_ref().map_or(0, |bytes| bytes.len() as u64);
            }
            Poll::Ready(Some(Err(BodyAborted))) => {
                self.timer.listener.whole.responses_cut.add(1);
                self.line.iter_mut().for_each(|line| line.cut());
            }
            Poll::Ready(None) => self.has_ended = true,
            Poll::Pending => {}
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::Empty => true,
            Source::Document(bytes) => bytes.is_empty(),
            Source::Object(_, left_bytes) => *left_bytes == 0,
            Source::Origin(body) => body.is_end_stream(),
            Source::Write(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Empty => SizeHint::with_exact(0),
            Source::Document(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Source::Object(_, left_bytes) => SizeHint::with_exact(*left_bytes),
            Source::Origin(body) => body.size_hint(),
            Source::Write(_) => SizeHint::new(),
        }
    }
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        // hyper does not poll for the end of a body whose length it knows.
        if self.has_ended || self.is_end_stream() {
            self.timer.last_byte(self.source.slowest());
        }
        self.timer.listener.whole.sent_bytes.add(self.sent_bytes);
        accounts::settle(&self.timer, self.sent_bytes);
        self.line.iter_mut().for_each(|line| line.sent(self.sent_bytes));
    }
}
