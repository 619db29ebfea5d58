//! The body that an `aws-chunked` body stands for.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame};

use super::decoder::{Decoder, Trailer};
use crate::body::{BodyError, BoxBody};

/// Yields the payload of a chunked body; breaks when that is malformed. The bytes of a chunk come before its
/// signature is checked: whoever stores them waits for the end.
pub(super) struct Decoded {
    inner: BoxBody,
    decoder: Decoder,
    /// Received and not decoded yet.
    input: Bytes,
}

impl Decoded {
    pub(super) fn new(inner: BoxBody, decoder: Decoder) -> Self {
        Self { inner, decoder, input: Bytes::new() }
    }

    /// The trailers; complete once the body has ended.
    pub(super) fn trailers(&self) -> &[Trailer] {
        self.decoder.trailers()
    }
}

impl Body for Decoded {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = &mut *self;
        loop {
            match this.decoder.decode(&mut this.input) {
                Ok(Some(data)) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                Ok(None) => {}
                Err(error) => return Poll::Ready(Some(Err(error.into()))),
            }
            match ready!(Pin::new(&mut this.inner).poll_frame(cx)) {
                Some(Ok(frame)) => this.input = frame.into_data().unwrap_or_default(),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => {
                    let end = this.decoder.finish();
                    return Poll::Ready(end.err().map(|error| Err(error.into())));
                }
            }
        }
    }
}
