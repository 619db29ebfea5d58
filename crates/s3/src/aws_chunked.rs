//! `aws-chunked` bodies: payloads in chunks, with chunk signatures or a checksum trailer.
//!
//! `SIZE[;chunk-signature=S]\r\n DATA \r\n ... 0[;chunk-signature=S]\r\n [NAME:VALUE\r\n]... \r\n`
//!
//! A proxy forwards an unsigned payload with a trailer byte by byte. It cannot forward signed
//! chunks: their signatures chain from that of the request, and the proxy signs the request anew.
//! [`strip_signatures`] verifies such chunks when it has their [`SignatureChain`], and encodes the
//! payload without signatures.
//!
//! Read in this order: `decoder`, `decoded`, `rechunked`.

mod decoded;
mod decoder;
mod rechunked;
pub mod sample;

pub(crate) use decoder::ChunkedError;
pub use decoder::SignatureChain;

use decoded::Decoded;
use decoder::Decoder;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue};
use http::{Extensions, Request, StatusCode};
use rechunked::Rechunked;

use crate::BoxBody;
use crate::body::stream_body;
use crate::checksum::Checksum;
use crate::delayed_tail::DelayedTail;
use crate::error::S3Error;
use crate::sigv4::{
    STREAMING_SIGNED_PAYLOAD, STREAMING_SIGNED_PAYLOAD_TRAILER, STREAMING_UNSIGNED_PAYLOAD_TRAILER,
    UNSIGNED_PAYLOAD,
};

const CONTENT_SHA256: HeaderName = HeaderName::from_static("x-amz-content-sha256");
const DECODED_LENGTH: HeaderName = HeaderName::from_static("x-amz-decoded-content-length");
const TRAILER: HeaderName = HeaderName::from_static("x-amz-trailer");
const CHECKSUM_ALGORITHM: HeaderName = HeaderName::from_static("x-amz-sdk-checksum-algorithm");

/// Kind of `aws-chunked` payload, from `x-amz-content-sha256`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    Unsigned,
    Signed,
    SignedTrailer,
}

impl Framing {
    /// The kind of payload. `None`: the payload is not `aws-chunked`.
    fn of(headers: &HeaderMap) -> Result<Option<Self>, S3Error> {
        let hash = headers.get(CONTENT_SHA256).map_or(&b""[..], HeaderValue::as_bytes);
        match str::from_utf8(hash) {
            Ok(STREAMING_UNSIGNED_PAYLOAD_TRAILER) => Ok(Some(Self::Unsigned)),
            Ok(STREAMING_SIGNED_PAYLOAD) => Ok(Some(Self::Signed)),
            Ok(STREAMING_SIGNED_PAYLOAD_TRAILER) => Ok(Some(Self::SignedTrailer)),
            Ok(hash) if hash.starts_with("STREAMING-") => {
                Err(bad_upload(format!("a payload of kind {hash} is not understood")))
            }
            _ => Ok(None),
        }
    }
}

/// Prepares a request for a new signature: decodes signed chunks, and leaves any other body
/// unchanged.
///
/// Signed chunks without a trailer become an `UNSIGNED-PAYLOAD`. With a checksum trailer they
/// become unsigned chunks with that trailer, so that the origin still verifies and stores the
/// checksum.
///
/// # Errors
/// The headers do not describe an `aws-chunked` payload. The body fails with an error when its
/// chunks are invalid.
pub fn strip_signatures(request: Request<BoxBody>) -> Result<Request<BoxBody>, S3Error> {
    let framing = Framing::of(request.headers())?;
    let (mut parts, body) = request.into_parts();
    let (bytes, decoded) = match framing {
        None | Some(Framing::Unsigned) => return Ok(Request::from_parts(parts, body)),
        Some(framing) => decoded(framing, &parts.headers, &mut parts.extensions, body)?,
    };
    let headers = &mut parts.headers;
    let trailer = headers.get(TRAILER).and_then(|name| name.to_str().ok());
    let layout = trailer.and_then(|name| Rechunked::layout(name, bytes));
    let body = match layout {
        Some(layout) if framing == Some(Framing::SignedTrailer) => {
            let hash = HeaderValue::from_static(STREAMING_UNSIGNED_PAYLOAD_TRAILER);
            headers.insert(CONTENT_SHA256, hash);
            headers.insert(CONTENT_LENGTH, layout.encoded_bytes().into());
            stream_body(Rechunked::new(decoded, layout))
        }
        _ => {
            describe_decoded(headers, bytes);
            stream_body(DelayedTail::new(decoded))
        }
    };
    Ok(Request::from_parts(parts, body))
}

/// Decodes a body of any kind, and verifies its checksum trailer. The headers then describe the
/// decoded body.
///
/// # Errors
/// The headers do not describe an `aws-chunked` payload. The body fails with an error when its
/// chunks are invalid.
pub fn decode(request: Request<BoxBody>) -> Result<Request<BoxBody>, S3Error> {
    let framing = Framing::of(request.headers())?;
    let (mut parts, body) = request.into_parts();
    let Some(framing) = framing else { return Ok(Request::from_parts(parts, body)) };
    let (bytes, decoded) = decoded(framing, &parts.headers, &mut parts.extensions, body)?;
    let announced = parts.headers.get(TRAILER).and_then(|name| name.to_str().ok());
    let decoded = match announced.and_then(Checksum::named) {
        Some(checksum) if framing != Framing::Signed => decoded.checked(checksum),
        _ => decoded,
    };
    describe_decoded(&mut parts.headers, bytes);
    Ok(Request::from_parts(parts, stream_body(DelayedTail::new(decoded))))
}

fn decoded(
    framing: Framing,
    headers: &HeaderMap,
    extensions: &mut Extensions,
    body: BoxBody,
) -> Result<(u64, Decoded), S3Error> {
    let bytes = headers.get(DECODED_LENGTH).and_then(|bytes| bytes.to_str().ok()?.parse().ok());
    let missing = || bad_upload("aws-chunked without x-amz-decoded-content-length".to_owned());
    let bytes = bytes.ok_or_else(missing)?;
    let decoder = match framing {
        Framing::Unsigned => Decoder::unsigned(bytes),
        Framing::Signed => Decoder::signed(bytes, extensions.remove::<SignatureChain>()),
        Framing::SignedTrailer => {
            Decoder::signed_with_trailer(bytes, extensions.remove::<SignatureChain>())
        }
    };
    let announced = headers.get(TRAILER).and_then(|name| name.to_str().ok());
    let announced = announced.filter(|_| framing != Framing::Signed);
    Ok((bytes, Decoded::new(body, decoder, announced)))
}

/// Replaces the headers of an encoded payload by those of a decoded payload of `bytes`.
fn describe_decoded(headers: &mut HeaderMap, bytes: u64) {
    headers.insert(CONTENT_SHA256, HeaderValue::from_static(UNSIGNED_PAYLOAD));
    headers.insert(CONTENT_LENGTH, bytes.into());
    headers.remove(DECODED_LENGTH);
    headers.remove(TRAILER);
    // S3 refuses a request that announces a checksum but carries none.
    headers.remove(CHECKSUM_ALGORITHM);
    let encodings: Vec<String> = headers
        .get_all(CONTENT_ENCODING)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|encoding| encoding.trim().to_owned())
        .filter(|encoding| !encoding.is_empty() && encoding != "aws-chunked")
        .collect();
    headers.remove(CONTENT_ENCODING);
    if let Ok(value) = HeaderValue::from_str(&encodings.join(","))
        && !encodings.is_empty()
    {
        headers.insert(CONTENT_ENCODING, value);
    }
}

fn bad_upload(cause: String) -> S3Error {
    S3Error::new(StatusCode::BAD_REQUEST, "InvalidRequest", cause)
}

#[cfg(test)]
mod tests;
