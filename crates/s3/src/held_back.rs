//! Delayed body: releases its last bytes only after it has ended without an error.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame};

use crate::BodyError;

/// Yields the frames of `inner`, one frame late.
///
/// A receiver that knows the length stops polling after the last byte. A checksum that fails there
/// would come too late, and the receiver would store the object.
pub(crate) struct HeldBack<B> {
    inner: B,
    held: Option<Bytes>,
    over: bool,
}

impl<B> HeldBack<B> {
    pub(crate) fn new(inner: B) -> Self {
        Self { inner, held: None, over: false }
    }
}

impl<B: Body<Data = Bytes, Error = BodyError> + Unpin> Body for HeldBack<B> {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = &mut *self;
        while !this.over {
            match ready!(Pin::new(&mut this.inner).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    // S3 does not use HTTP trailers, so they are dropped. An empty frame does not
                    // replace the delayed one.
                    let bytes = frame.into_data().unwrap_or_default();
                    let before = if bytes.is_empty() { None } else { this.held.replace(bytes) };
                    if let Some(before) = before {
                        return Poll::Ready(Some(Ok(Frame::data(before))));
                    }
                }
                Some(Err(error)) => {
                    (this.held, this.over) = (None, true);
                    return Poll::Ready(Some(Err(error)));
                }
                None => this.over = true,
            }
        }
        Poll::Ready(this.held.take().map(|last| Ok(Frame::data(last))))
    }
}
