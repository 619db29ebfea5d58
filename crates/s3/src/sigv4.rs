//! AWS Signature Version 4 for S3: no I/O, no clock, time is an argument.
//!
//! A client that signs requests ([`Signer`]) and a server that verifies them use the same
//! functions:
//!
//! 1. [`canonical_request`] builds the text to sign,
//! 2. [`string_to_sign`] binds its hash to a time and a [`Scope`],
//! 3. [`KeyCache::key`] finds the signing key of that day, region and service,
//! 4. [`SigningKey::sign`] signs; [`SigningKey::verify`] compares in constant time.
//!
//! S3 differs from other services in one rule: the path is percent-encoded once and never
//! normalised, so `a/../b` and `a//b` are keys of their own.

mod key;
mod signer;
mod timestamp;
mod uri;

pub use key::{KeyCache, Scope, Signature, SigningKey};
pub use signer::{Credentials, Signer, UnusableCredentials};
pub use timestamp::Timestamp;
pub use uri::{PAIRS_EXPECTED, decode_query_value, query_pairs};
pub use uri::{decode_path, encode_path, encode_query_value};

use ring::digest;

/// Algorithm name at the start of the `Authorization` header and of the string to sign.
pub const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// Payload hash keyword: the signature does not cover the payload.
pub const UNSIGNED_PAYLOAD: &str = "UNSIGNED-PAYLOAD";

/// Payload hash keyword: unsigned `aws-chunked` payload with a checksum trailer.
pub const STREAMING_UNSIGNED_PAYLOAD_TRAILER: &str = "STREAMING-UNSIGNED-PAYLOAD-TRAILER";

/// Payload hash keyword: `aws-chunked` payload with a chain of chunk signatures that starts at the
/// signature of the request.
pub const STREAMING_SIGNED_PAYLOAD: &str = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD";

/// Payload hash keyword: signed `aws-chunked` payload with a signed trailer.
pub const STREAMING_SIGNED_PAYLOAD_TRAILER: &str = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER";

/// SHA-256 of the empty string: the payload hash of a request without a body.
pub const EMPTY_SHA256: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// Builds the canonical request.
///
/// `raw_path` and `raw_query` are as on the wire. Both are decoded and encoded again by the strict
/// rules of SigV4, and the query is sorted. A pair named `X-Amz-Signature` is left out, so the
/// query of a presigned URL may be passed unchanged.
///
/// Requires: the names in `headers` are lower-case; pairs of one name stand together, and the names
/// are in the order of `SignedHeaders` (a signer sorts them).
#[must_use]
pub fn canonical_request(
    method: &str,
    raw_path: &str,
    raw_query: &str,
    headers: &[(&str, &[u8])],
    payload_hash: &str,
) -> Vec<u8> {
    let header_bytes: usize =
        headers.iter().map(|(name, value)| 2 * name.len() + value.len() + 3).sum();
    let fixed_bytes = method.len() + raw_path.len() + raw_query.len() + payload_hash.len() + 64;
    let mut text = Vec::with_capacity(fixed_bytes + header_bytes);
    text.extend_from_slice(method.as_bytes());
    text.push(b'\n');
    uri::canonical_path(raw_path, &mut text);
    text.push(b'\n');
    uri::canonical_query(raw_query, &mut text);
    text.push(b'\n');
    for same_name in headers.chunk_by(|a, b| a.0 == b.0) {
        text.extend_from_slice(same_name[0].0.as_bytes());
        for (n, (_, value)) in same_name.iter().enumerate() {
            text.push(if n == 0 { b':' } else { b',' });
            collapse_spaces(value, &mut text);
        }
        text.push(b'\n');
    }
    text.push(b'\n');
    signed_headers(headers, &mut text);
    text.push(b'\n');
    text.extend_from_slice(payload_hash.as_bytes());
    text
}

/// The `SignedHeaders` list: each name once, `;` between them.
fn signed_headers(headers: &[(&str, &[u8])], text: &mut Vec<u8>) {
    for (n, same_name) in headers.chunk_by(|a, b| a.0 == b.0).enumerate() {
        if n != 0 {
            text.push(b';');
        }
        text.extend_from_slice(same_name[0].0.as_bytes());
    }
}

/// Trims a header value, and collapses runs of spaces inside it.
fn collapse_spaces(value: &[u8], text: &mut Vec<u8>) {
    let mut after_space = false;
    for &byte in value.trim_ascii() {
        let is_space = byte == b' ';
        if !(is_space && after_space) {
            text.push(byte);
        }
        after_space = is_space;
    }
}

/// Builds the string to sign: the hash of the canonical request, bound to a time and a scope.
///
/// `timestamp` is the text of `x-amz-date`; a verifier passes the request's own.
#[must_use]
pub fn string_to_sign(timestamp: &str, scope: &Scope<'_>, canonical_request: &[u8]) -> String {
    let mut text = String::with_capacity(ALGORITHM.len() + timestamp.len() + SCOPE_AND_HASH_CHARS);
    for line in [ALGORITHM, timestamp] {
        text.push_str(line);
        text.push('\n');
    }
    scope.write_to(&mut text);
    text.push('\n');
    push_hex(digest::digest(&digest::SHA256, canonical_request).as_ref(), &mut text);
    text
}

/// Expected length of a SHA-256 in hexadecimal and a scope with the longest existing region name,
/// in characters.
const SCOPE_AND_HASH_CHARS: usize = 128;

/// SHA-256 in lower-case hexadecimal, as `x-amz-content-sha256` carries it.
#[must_use]
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, bytes).as_ref())
}

/// Encodes bytes in lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    push_hex(bytes, &mut text);
    text
}

fn push_hex(bytes: &[u8], text: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for some in bytes.chunks(32) {
        let mut digits = [0; 64];
        for (pair, byte) in digits.as_chunks_mut().0.iter_mut().zip(some) {
            *pair = [byte >> 4, byte & 15].map(|digit| DIGITS[usize::from(digit)]);
        }
        text.push_str(str::from_utf8(&digits[..2 * some.len()]).expect("digits are ASCII"));
    }
}

/// Decodes hexadecimal, upper or lower case. `None` for other characters or an odd length.
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let mut bytes = vec![0; text.len() / 2];
    unhex_into(text, &mut bytes).then_some(bytes)
}

/// Fills `bytes`. False if the text is not exactly as many pairs of hexadecimal digits.
fn unhex_into(text: &str, bytes: &mut [u8]) -> bool {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    rest.is_empty()
        && pairs.len() == bytes.len()
        && pairs.iter().zip(bytes).all(|([high, low], byte)| {
            let digits = (uri::hex_digit(*high), uri::hex_digit(*low));
            let (Some(high), Some(low)) = digits else { return false };
            *byte = high << 4 | low;
            true
        })
}

#[cfg(test)]
mod tests;
