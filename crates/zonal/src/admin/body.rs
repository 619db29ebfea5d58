//! Response bodies of the admin endpoint: whole, or streamed line by line.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tokio::sync::mpsc;

/// Response body of the admin endpoint.
pub(super) enum Body {
    Whole(Bytes),
    Lines(mpsc::Receiver<Bytes>),
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let frame = |bytes| Ok(Frame::data(bytes));
        match self.get_mut() {
            Self::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Self::Whole(bytes) => Poll::Ready(Some(frame(std::mem::take(bytes)))),
            Self::Lines(lines) => lines.poll_recv(cx).map(|line| line.map(frame)),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(bytes) if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Lines(_) => SizeHint::default(),
        }
    }
}

impl From<&'static str> for Body {
    fn from(text: &'static str) -> Self {
        Self::Whole(text.into())
    }
}

impl From<String> for Body {
    fn from(text: String) -> Self {
        Self::Whole(text.into())
    }
}

impl From<mpsc::Receiver<Bytes>> for Body {
    fn from(lines: mpsc::Receiver<Bytes>) -> Self {
        Self::Lines(lines)
    }
}
