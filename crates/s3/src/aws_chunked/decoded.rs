//! Decoded body: the payload of an `aws-chunked` body, as a stream.

use bytes::Bytes;

use super::decoder::{ChunkedError, Decoder, Trailer};
use crate::body::DataSource;
use crate::checksum::{Checksum, ChecksumMismatch, Checksummer};
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
    sum: Option<(Checksum, Checksummer)>,
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

impl DataSource for Decoded {
    async fn next(&mut self) -> Result<Option<Bytes>, BodyError> {
        loop {
            if let Some(data) = self.decoder.decode(&mut self.input)? {
                if let Some((_, sum)) = &mut self.sum {
                    sum.update(&data);
                }
                return Ok(Some(data));
            }
            match self.inner.next().await? {
                Some(data) => self.input = data,
                None => return self.finish().map(|()| None),
            }
        }
    }
}
