//! The body that an `aws-chunked` body stands for.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame};

use super::decoder::{ChunkedError, Decoder, Trailer};
use crate::body::{BodyError, BoxBody};
use crate::checksum::{Checksum, Sum, WrongChecksum};

/// Yields the payload of a chunked body; breaks when that is malformed, or has another checksum than its trailer says. The bytes of a chunk come before its
/// signature is checked: whoever stores them waits for the end.
pub(super) struct Decoded {
    inner: BoxBody,
    decoder: Decoder,
    /// Received and not decoded yet.
    input: Bytes,
    /// What the trailer must say.
    announced: Option<(Checksum, Sum)>,
}

impl Decoded {
    pub(super) fn new(inner: BoxBody, decoder: Decoder) -> Self {
        Self { inner, decoder, input: Bytes::new(), announced: None }
    }

    /// Held to the checksum that its trailer brings.
    pub(super) fn checked(self, checksum: Checksum) -> Self {
        Self { announced: Some((checksum, checksum.start())), ..self }
    }

    /// The trailers; complete once the body has ended.
    pub(super) fn trailers(&self) -> &[Trailer] {
        self.decoder.trailers()
    }

    fn finish(&self) -> Result<(), BodyError> {
        self.decoder.finish()?;
        let Some((checksum, sum)) = &self.announced else { return Ok(()) };
        let mut trailers = self.trailers().iter();
        match trailers.find(|(name, _)| name == checksum.name()) {
            Some((_, value)) if *value == sum.text() => Ok(()),
            Some(_) => Err(WrongChecksum(*checksum).into()),
            None => Err(ChunkedError::Malformed.into()),
        }
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
                Ok(Some(data)) => {
                    if let Some((_, sum)) = &mut this.announced {
                        sum.update(&data);
                    }
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
                Ok(None) => {}
                Err(error) => return Poll::Ready(Some(Err(error.into()))),
            }
            match ready!(Pin::new(&mut this.inner).poll_frame(cx)) {
                Some(Ok(frame)) => this.input = frame.into_data().unwrap_or_default(),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(this.finish().err().map(Err)),
            }
        }
    }
}
