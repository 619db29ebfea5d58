//! A request's body, held to the hash that its head states.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use ring::digest;

use crate::body::{BodyError, BoxBody};
use crate::error::OriginError;
use crate::held_back::HeldBack;
use crate::sigv4::{EMPTY_SHA256, hex, unhex};

/// The body is another one than `x-amz-content-sha256` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WrongHash {
    /// In hexadecimal.
    pub(crate) stated: String,
    /// That of what came, in hexadecimal.
    pub(crate) computed: String,
}

impl fmt::Display for WrongHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("The provided 'x-amz-content-sha256' header does not match what was computed.")
    }
}

impl std::error::Error for WrongHash {}

/// The request, with a body that breaks before its last bytes when it has another hash than
/// `x-amz-content-sha256` states. Where no hash stands there, nothing is checked.
pub(crate) fn checked(request: Request<BoxBody>) -> Result<Request<BoxBody>, OriginError> {
    let Some(stated) = stated(request.headers()) else { return Ok(request) };
    // Nobody may ask for the bytes of a body that has none.
    if request.body().is_end_stream() {
        let (stated, computed) = (hex(&stated), EMPTY_SHA256.to_owned());
        return match stated == computed {
            true => Ok(request),
            false => Err(OriginError::of_upload(&WrongHash { stated, computed })),
        };
    }
    Ok(request.map(|body| HeldBack::new(Hashed::new(body, stated)).boxed_unsync()))
}

/// The hash that a header states; `None` when it holds one of S3's words, or is not there.
fn stated(headers: &HeaderMap) -> Option<Vec<u8>> {
    let stated = headers.get("x-amz-content-sha256").map(HeaderValue::as_bytes)?;
    unhex(str::from_utf8(stated).ok()?).filter(|hash| hash.len() == digest::SHA256_OUTPUT_LEN)
}

/// Yields `inner`; breaks at its end when its hash is wrong.
struct Hashed {
    inner: BoxBody,
    stated: Vec<u8>,
    hash: digest::Context,
}

impl Hashed {
    fn new(inner: BoxBody, stated: Vec<u8>) -> Self {
        Self { inner, stated, hash: digest::Context::new(&digest::SHA256) }
    }
}

impl Body for Hashed {
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
                    return Poll::Ready(Some(Err(WrongHash { stated, computed }.into())));
                }
            }
        }
        Poll::Ready(frame)
    }
}
