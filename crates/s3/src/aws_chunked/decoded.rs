//! Decoded body: the payload of an `aws-chunked` body, as a stream.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame};

use super::decoder::{ChunkedError, Decoder, Trailer};
use crate::checksum::{Checksum, ChecksumMismatch, Sum};
use crate::{BodyError, BoxBody};

/// Yields the payload of a chunked body. The stream fails if the body is malformed or does not
/// match its checksum trailer.
///
/// The bytes of a chunk are yielded before its signature is checked. A consumer must not commit the
/// payload before the end of the stream.
pub(super) struct Decoded {
    inner: BoxBody,
    decoder: Decoder,
    /// Received bytes that are not decoded yet.
    input: Bytes,
    /// Name of the announced trailer, in lower case. Exactly this trailer must come; `None`: no
    /// trailer may come.
    announced: Option<String>,
    /// Running checksum that the trailer must match.
    sum: Option<(Checksum, Sum)>,
}

impl Decoded {
    pub(super) fn new(inner: BoxBody, decoder: Decoder, announced: Option<&str>) -> Self {
        let announced = announced.map(|name| name.trim().to_ascii_lowercase());
        Self { inner, decoder, input: Bytes::new(), announced, sum: None }
    }

    /// Also verifies the checksum in the trailer.
    pub(super) fn checked(self, checksum: Checksum) -> Self {
        Self { sum: Some((checksum, checksum.start())), ..self }
    }

    /// Trailers received so far; complete after the end of the body.
    pub(super) fn trailers(&self) -> &[Trailer] {
        self.decoder.trailers()
    }

    fn finish(&self) -> Result<(), BodyError> {
        self.decoder.finish()?;
        let value = match (self.trailers(), &self.announced) {
            ([], None) => return Ok(()),
            ([(name, value)], Some(announced)) if name == announced => value,
            _ => return Err(ChunkedError::BadTrailer.into()),
        };
        match &self.sum {
            Some((checksum, sum)) if *value != sum.text() => {
                Err(ChecksumMismatch { header: checksum.name() }.into())
            }
            _ => Ok(()),
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
                    if let Some((_, sum)) = &mut this.sum {
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
