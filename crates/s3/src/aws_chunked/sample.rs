//! Sample uploads, for the tests of every crate that handles `aws-chunked` bodies.

use bytes::Bytes;
use futures_util::stream;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};

use super::SignatureChain;
use crate::BoxBody;
use crate::sigv4::{EMPTY_SHA256, Scope, Signature, SigningKey, sha256_hex};

/// Signature chain of the "Example Calculations" in the S3 documentation.
///
/// # Panics
/// Never: the signature is a constant.
#[must_use]
pub fn documentation_chain() -> SignatureChain {
    let scope = Scope { date: "20130524", region: "us-east-1", service: "s3" };
    SignatureChain {
        key: SigningKey::derive("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", &scope),
        timestamp: "20130524T000000Z".to_owned(),
        scope: scope.to_string(),
        signature: Signature::parse(
            "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9",
        )
        .expect("64 digits"),
    }
}

/// Signs chunks as a client does, including the empty last chunk. Returns the body, the chain
/// before its first chunk, and the last signature.
fn sign_chunks(payload: &[u8], chunk_bytes: usize) -> (Vec<u8>, SignatureChain, String) {
    let chain = documentation_chain();
    let mut body = Vec::new();
    let mut previous = chain.signature.to_string();
    let SignatureChain { timestamp, scope, .. } = &chain;
    for chunk in payload.chunks(chunk_bytes).chain([&b""[..]]) {
        let hashes = format!("{}\n{}", EMPTY_SHA256, sha256_hex(chunk));
        let text = format!("AWS4-HMAC-SHA256-PAYLOAD\n{timestamp}\n{scope}\n{previous}\n{hashes}");
        previous = chain.key.sign(&text).to_string();
        body.extend_from_slice(
            format!("{:x};chunk-signature={previous}\r\n", chunk.len()).as_bytes(),
        );
        body.extend_from_slice(chunk);
        if !chunk.is_empty() {
            body.extend_from_slice(b"\r\n");
        }
    }
    (body, chain, previous)
}

/// Encodes a payload as signed chunks without a trailer.
#[must_use]
pub fn signed_chunks(payload: &[u8], chunk_bytes: usize) -> (Vec<u8>, SignatureChain) {
    let (mut body, chain, _) = sign_chunks(payload, chunk_bytes);
    body.extend_from_slice(b"\r\n");
    (body, chain)
}

/// Encodes a payload as signed chunks with a signed trailer.
#[must_use]
pub fn signed_with_trailer(
    payload: &[u8],
    chunk_bytes: usize,
    trailer: &str,
) -> (Vec<u8>, SignatureChain) {
    let (mut body, chain, previous) = sign_chunks(payload, chunk_bytes);
    let SignatureChain { timestamp, scope, .. } = &chain;
    let hash = sha256_hex(format!("{trailer}\n").as_bytes());
    let text = format!("AWS4-HMAC-SHA256-TRAILER\n{timestamp}\n{scope}\n{previous}\n{hash}");
    let signature = chain.key.sign(&text);
    body.extend_from_slice(
        format!("{trailer}\r\nx-amz-trailer-signature:{signature}\r\n\r\n").as_bytes(),
    );
    (body, chain)
}

/// A body that yields frames of `piece_bytes`.
#[must_use]
pub fn in_pieces(body: &[u8], piece_bytes: usize) -> BoxBody {
    let frame = |piece| Ok(Frame::data(Bytes::copy_from_slice(piece)));
    let frames: Vec<_> = body.chunks(piece_bytes).map(frame).collect();
    StreamBody::new(stream::iter(frames)).boxed_unsync()
}
