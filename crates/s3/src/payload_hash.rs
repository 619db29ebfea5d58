//! Payload hash: verifies a body against `x-amz-content-sha256` as it streams.

use std::fmt;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request};
use http_body::Body;
use ring::digest;

use crate::body::{DataSource, stream_body};
use crate::delayed_tail::DelayedTail;
use crate::error::S3Error;
use crate::sigv4::{EMPTY_SHA256, hex, unhex};
use crate::{BodyError, BoxBody};

/// A body does not match `x-amz-content-sha256`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PayloadHashMismatch {
    /// The hash in the header, in hexadecimal.
    pub(crate) stated: String,
    /// The hash of the received body, in hexadecimal.
    pub(crate) computed: String,
}

impl fmt::Display for PayloadHashMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("The provided 'x-amz-content-sha256' header does not match what was computed.")
    }
}

impl std::error::Error for PayloadHashMismatch {}

/// Verifies the body as it streams. On a mismatch, the body fails before it yields its last bytes.
/// A header without a hash (`UNSIGNED-PAYLOAD` and the like) is not verified.
///
/// # Errors
/// The body is empty, and the header has the hash of a body with bytes.
pub fn verify(request: Request<BoxBody>) -> Result<Request<BoxBody>, S3Error> {
    let Some(stated) = stated(request.headers()) else { return Ok(request) };
    // A receiver may never poll an empty body, so the check comes first.
    if request.body().is_end_stream() {
        let (stated, computed) = (hex(&stated), EMPTY_SHA256.to_owned());
        return match stated == computed {
            true => Ok(request),
            false => Err(S3Error::of_body(&PayloadHashMismatch { stated, computed })),
        };
    }
    let verified = |body| DelayedTail::new(PayloadHashVerifier::new(body, stated));
    Ok(request.map(|body| stream_body(verified(body))))
}

/// The hash in the header. `None` without a header, or if its value is a keyword such as
/// `UNSIGNED-PAYLOAD`.
fn stated(headers: &HeaderMap) -> Option<Vec<u8>> {
    let stated = headers.get("x-amz-content-sha256").map(HeaderValue::as_bytes)?;
    unhex(str::from_utf8(stated).ok()?).filter(|hash| hash.len() == digest::SHA256_OUTPUT_LEN)
}

/// Yields `inner`, and fails at its end if the hash does not match.
struct PayloadHashVerifier {
    inner: BoxBody,
    stated: Vec<u8>,
    hash: digest::Context,
}

impl PayloadHashVerifier {
    fn new(inner: BoxBody, stated: Vec<u8>) -> Self {
        Self { inner, stated, hash: digest::Context::new(&digest::SHA256) }
    }
}

impl DataSource for PayloadHashVerifier {
    async fn next(&mut self) -> Result<Option<Bytes>, BodyError> {
        let data = self.inner.next().await?;
        match &data {
            Some(data) => self.hash.update(data),
            None => {
                let computed = self.hash.clone().finish();
                if computed.as_ref() != self.stated {
                    let (stated, computed) = (hex(&self.stated), hex(computed.as_ref()));
                    return Err(PayloadHashMismatch { stated, computed }.into());
                }
            }
        }
        Ok(data)
    }
}
