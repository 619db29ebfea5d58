//! Payload hash: verifies a body against `x-amz-content-sha256` as it streams.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use ring::digest;

use crate::error::S3Error;
use crate::held_back::HeldBack;
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
    Ok(request.map(|body| HeldBack::new(Verified::new(body, stated)).boxed_unsync()))
}

/// The hash in the header. `None` without a header, or if its value is a keyword such as
/// `UNSIGNED-PAYLOAD`.
fn stated(headers: &HeaderMap) -> Option<Vec<u8>> {
    let stated = headers.get("x-amz-content-sha256").map(HeaderValue::as_bytes)?;
    unhex(str::from_utf8(stated).ok()?).filter(|hash| hash.len() == digest::SHA256_OUTPUT_LEN)
}

/// Yields `inner`, then an error at its end when the hash does not match.
struct Verified {
    inner: BoxBody,
    stated: Vec<u8>,
    hash: digest::Context,
}

impl Verified {
    fn new(inner: BoxBody, stated: Vec<u8>) -> Self {
        Self { inner, stated, hash: digest::Context::new(&digest::SHA256) }
    }
}

impl Body for Verified {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = &mut *self;
        let frame = ready!(Pin::new(&mut this.inner).poll_frame(cx));
        match &frame {
            Some(Ok(frame)) => this.hash.update(frame.data_ref().map_or(&[], |bytes| bytes)),
            Some(Err(_)) => {}
            None => {
                let computed = this.hash.clone().finish();
                if computed.as_ref() != this.stated {
                    let (stated, computed) = (hex(&this.stated), hex(computed.as_ref()));
                    return Poll::Ready(Some(Err(PayloadHashMismatch { stated, computed }.into())));
                }
            }
        }
        Poll::Ready(frame)
    }
}
