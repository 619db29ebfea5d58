//! Chunked payloads: the example of the S3 documentation, and everything that must be refused.

use bytes::Bytes;
use http_body_util::BodyExt;
use proptest::prelude::*;

use super::decoder::ChunkedError;
use super::sample::{documentation_chain, in_pieces, signed_chunks, signed_with_trailer};
use super::*;
use crate::full_body;

/// The documentation's "Example Calculations": 66,560 bytes `a` in chunks of 65,536, 1,024 and 0.
fn documentation_example() -> (Vec<u8>, SignatureChain) {
    let mut body = Vec::new();
    for (size, signature) in [
        (65_536, "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648"),
        (1_024, "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497"),
        (0, "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9"),
    ] {
        body.extend_from_slice(format!("{size:x};chunk-signature={signature}\r\n").as_bytes());
        body.extend(std::iter::repeat_n(b'a', size));
        body.extend_from_slice(b"\r\n");
    }
    (body, documentation_chain())
}

type Payload = (Vec<u8>, Vec<(String, String)>);

/// Decodes `body` in pieces of `piece_bytes`. Returns the payload and the trailers.
fn decode_in_pieces(
    mut decoder: Decoder,
    body: &[u8],
    piece_bytes: usize,
) -> Result<Payload, ChunkedError> {
    let mut payload = Vec::new();
    for piece in body.chunks(piece_bytes) {
        let mut input = Bytes::copy_from_slice(piece);
        while let Some(data) = decoder.decode(&mut input)? {
            payload.extend_from_slice(&data);
        }
        assert!(input.is_empty(), "all input is taken");
    }
    decoder.finish()?;
    Ok((payload, decoder.trailers().to_vec()))
}

#[test]
fn the_documentations_example_decodes_and_verifies_in_any_pieces() {
    let (body, chain) = documentation_example();
    for piece_bytes in [1, 7, 4096, usize::MAX] {
        let decoder = Decoder::signed(66_560, Some(chain.clone()));
        let (payload, trailers) = decode_in_pieces(decoder, &body, piece_bytes).unwrap();
        assert!(payload == vec![b'a'; 66_560] && trailers.is_empty());
    }
}

#[test]
fn a_changed_byte_or_signature_breaks_the_chain() {
    let (body, chain) = documentation_example();
    let broken = |position: usize, byte: u8| {
        let mut body = body.clone();
        body[position] = byte;
        decode_in_pieces(Decoder::signed(66_560, Some(chain.clone())), &body, 4096)
    };
    assert_eq!(broken(1000, b'b'), Err(ChunkedError::WrongSignature));
    assert_eq!(broken(body.len() - 10, b'0'), Err(ChunkedError::WrongSignature));
    let other = SignatureChain { timestamp: "20130524T000001Z".to_owned(), ..chain.clone() };
    let result = decode_in_pieces(Decoder::signed(66_560, Some(other)), &body, 4096);
    assert_eq!(result, Err(ChunkedError::WrongSignature));
}

#[track_caller]
fn check(body: &str, bytes: u64, expected: Result<&str, ChunkedError>) {
    for piece_bytes in [1, 3, 1 << 20] {
        let result = decode_in_pieces(Decoder::unsigned(bytes), body.as_bytes(), piece_bytes);
        let payload = result.map(|(payload, _)| String::from_utf8(payload).unwrap());
        assert_eq!(payload.as_deref().map_err(|e| *e), expected, "{body:?} in {piece_bytes}");
    }
}

#[test]
fn chunks_are_read_strictly() {
    check("5\r\nhello\r\n0\r\n\r\n", 5, Ok("hello"));
    check("2;x=y\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", 5, Ok("hello"));
    check("0\r\n\r\n", 0, Ok(""));
    check("A\r\n0123456789\r\n0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n", 10, Ok("0123456789"));
    check("2\r\na\n\r\n0\r\n\r\n", 2, Ok("a\n"));

    check("5\r\nhello\r\n", 5, Err(ChunkedError::WrongEnd));
    check("5\r\nhel", 5, Err(ChunkedError::WrongEnd));
    check("", 0, Err(ChunkedError::WrongEnd));
    check("0\r\n", 0, Err(ChunkedError::WrongEnd));
    check("5\r\nhello\r\n0\r\n\r\nmore", 5, Err(ChunkedError::WrongEnd));
    check("5\r\nhello\r\n0\r\n\r\n", 6, Err(ChunkedError::WrongLength));
    check("5\r\nhello\r\n0\r\n\r\n", 4, Err(ChunkedError::WrongLength));
    check("ffffffffffffffff\r\n", 5, Err(ChunkedError::WrongLength));
    check("5\r\nhelloworld\r\n0\r\n\r\n", 5, Err(ChunkedError::Malformed));
    check("5\r\nhelloxx0\r\n\r\n", 5, Err(ChunkedError::Malformed));
    check("+5\r\nhello\r\n0\r\n\r\n", 5, Err(ChunkedError::Malformed));
    check("\r\n", 5, Err(ChunkedError::Malformed));
    check("00000000000000005\r\nhello\r\n0\r\n\r\n", 5, Err(ChunkedError::Malformed));
    check("0\r\nno trailer\r\n\r\n", 0, Err(ChunkedError::BadTrailer));
    check(&"1".repeat(5000), 5, Err(ChunkedError::TooLong));
    let trailers = "x:y\r\n".repeat(9);
    check(&format!("0\r\n{trailers}\r\n"), 0, Err(ChunkedError::TooLong));
}

#[test]
fn signed_chunks_need_signatures_even_when_nobody_checks_them() {
    let decode = |body: &str| decode_in_pieces(Decoder::signed(1, None), body.as_bytes(), 9);
    let signature = "0".repeat(64);
    assert_eq!(decode("1\r\na\r\n0\r\n\r\n"), Err(ChunkedError::Unsigned));
    assert_eq!(decode("1;chunk-signature=00\r\na\r\n"), Err(ChunkedError::Unsigned));
    let good =
        format!("1;chunk-signature={signature}\r\na\r\n0;chunk-signature={signature}\r\n\r\n");
    assert_eq!(decode(&good).unwrap().0, b"a");
    let with_trailer =
        |body: &str| decode_in_pieces(Decoder::signed_with_trailer(1, None), body.as_bytes(), 9);
    assert_eq!(with_trailer(&good), Err(ChunkedError::BadTrailer));
    let unsigned = good.replace("\r\n\r\n", "\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n");
    assert_eq!(with_trailer(&unsigned), Err(ChunkedError::Unsigned));
}

/// A request whose body yields frames of `piece_bytes`.
fn request(body: &[u8], piece_bytes: usize, payload_bytes: usize) -> Request<BoxBody> {
    Request::put("/b/k")
        .header("content-encoding", "aws-chunked")
        .header("content-length", body.len())
        .header("x-amz-content-sha256", STREAMING_SIGNED_PAYLOAD_TRAILER)
        .header("x-amz-decoded-content-length", payload_bytes)
        .header("x-amz-sdk-checksum-algorithm", "CRC32")
        .body(in_pieces(body, piece_bytes))
        .unwrap()
}

#[tokio::test]
async fn a_signed_trailer_becomes_an_unsigned_one_with_the_same_checksum() {
    for payload_bytes in [0, 1, 65_535, 65_536, 65_537, 200_000] {
        let payload: Vec<u8> = (0..=250).cycle().take(payload_bytes).collect();
        let trailer = "x-amz-checksum-crc32:AbCdEg==";
        let (body, chain) = signed_with_trailer(&payload, 100_000, trailer);
        let mut request = request(&body, 10_000, payload_bytes);
        request.headers_mut().insert(TRAILER, HeaderValue::from_static("x-amz-checksum-crc32"));
        request.extensions_mut().insert(chain);
        let request = strip_signatures(request).unwrap();
        assert_eq!(request.headers()[CONTENT_SHA256], STREAMING_UNSIGNED_PAYLOAD_TRAILER);
        assert_eq!(request.headers()[TRAILER], "x-amz-checksum-crc32");
        let length = request.headers()[CONTENT_LENGTH].to_str().unwrap().to_owned();
        let sent = request.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(sent.len().to_string(), length, "of a payload of {payload_bytes}");
        let decoder = Decoder::unsigned(payload_bytes as u64);
        let (decoded, trailers) = decode_in_pieces(decoder, &sent, 4096).unwrap();
        assert!(decoded == payload);
        assert_eq!(trailers, [("x-amz-checksum-crc32".to_owned(), "AbCdEg==".to_owned())]);
    }
}

#[tokio::test]
async fn a_forged_trailer_breaks_the_body() {
    let (body, chain) = signed_with_trailer(b"hello", 5, "x-amz-checksum-crc32:AbCdEg==");
    let body = String::from_utf8(body).unwrap().replace("AbCdEg", "AAAAAA");
    let mut request = request(body.as_bytes(), 100, 5);
    request.headers_mut().insert(TRAILER, HeaderValue::from_static("x-amz-checksum-crc32"));
    request.extensions_mut().insert(chain);
    let error = strip_signatures(request).unwrap().into_body().collect().await.unwrap_err();
    assert_eq!(error.downcast_ref(), Some(&ChunkedError::WrongSignature));
}

/// Strips the signatures of a payload with a signed trailer, and returns the new body.
async fn unchained(trailer: &str, announced: Option<&'static str>) -> Result<Bytes, ChunkedError> {
    let (body, chain) = signed_with_trailer(b"hello", 8192, trailer);
    let mut request = request(&body, 100, 5);
    if let Some(name) = announced {
        request.headers_mut().insert(TRAILER, HeaderValue::from_static(name));
    }
    request.extensions_mut().insert(chain);
    let body = strip_signatures(request).unwrap().into_body().collect().await;
    body.map(|body| body.to_bytes()).map_err(|error| *error.downcast_ref().unwrap())
}

#[tokio::test]
async fn a_trailer_must_be_the_one_that_was_announced() {
    let (crc32, value) = ("x-amz-checksum-crc32", "x-amz-checksum-crc32:AbCdEg==");
    assert!(unchained(value, Some(crc32)).await.is_ok());
    for (trailer, announced, said) in [
        (value, None, ChunkedError::BadTrailer),
        (value, Some("x-amz-checksum-sha1"), ChunkedError::BadTrailer),
        ("x-amz-invalid:invalid", Some(crc32), ChunkedError::BadTrailer),
        ("x-amz-checksum-crc32:invalid", Some(crc32), ChunkedError::BadTrailerValue(crc32)),
    ] {
        assert_eq!(unchained(trailer, announced).await, Err(said), "{trailer}");
    }
}

#[tokio::test]
async fn checksums_that_only_the_origin_computes_get_there() {
    let trailer = format!("x-amz-checksum-sha512:{}", "A".repeat(88));
    let sent = unchained(&trailer, Some("x-amz-checksum-sha512")).await.unwrap();
    assert_eq!(sent, format!("5\r\nhello\r\n0\r\n{trailer}\r\n\r\n"));
}

#[test]
fn only_the_last_signed_chunk_is_small() {
    let decode = |chunk_bytes: usize| {
        let (body, chain) = signed_chunks(&[7; 20_000], chunk_bytes);
        decode_in_pieces(Decoder::signed(20_000, Some(chain)), &body, 1000).map(|_| ())
    };
    assert_eq!(decode(8192), Ok(()));
    assert_eq!(decode(8191), Err(ChunkedError::TooSmall));
}

#[tokio::test]
async fn a_checksum_that_nobody_knows_is_dropped_with_its_announcement() {
    let (body, chain) = signed_with_trailer(b"hello", 5, "x-amz-checksum-new:abc");
    let mut request = request(&body, 100, 5);
    request.headers_mut().insert(TRAILER, HeaderValue::from_static("x-amz-checksum-new"));
    request.extensions_mut().insert(chain);
    let request = strip_signatures(request).unwrap();
    let names: Vec<&str> = request.headers().keys().map(HeaderName::as_str).collect();
    assert_eq!(names, ["x-amz-content-sha256", "content-length"]);
    assert_eq!(request.headers()[CONTENT_SHA256], UNSIGNED_PAYLOAD);
    assert_eq!(request.into_body().collect().await.unwrap().to_bytes(), "hello");
}

#[tokio::test]
async fn other_payloads_are_left_alone() {
    for hash in [STREAMING_UNSIGNED_PAYLOAD_TRAILER, UNSIGNED_PAYLOAD, "abcdef"] {
        let request = Request::put("/b/k").header(CONTENT_SHA256, hash);
        let request = strip_signatures(request.body(full_body("as it is")).unwrap()).unwrap();
        assert_eq!(request.headers()[CONTENT_SHA256], hash);
        assert_eq!(request.into_body().collect().await.unwrap().to_bytes(), "as it is");
    }
}

#[test]
fn unknown_kinds_and_missing_lengths_are_refused() {
    for hash in ["STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD", STREAMING_SIGNED_PAYLOAD] {
        let request = Request::put("/b/k").header(CONTENT_SHA256, hash);
        let result = strip_signatures(request.body(full_body("")).unwrap()).map(|_| ());
        assert!(result.is_err(), "{hash}: {result:?}");
    }
}

proptest! {
    #[test]
    fn whatever_its_chunks_a_payload_is_what_was_sent(
        chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..300), 0..6),
        extension in prop::option::of("[ -~]{0,20}"),
        piece_bytes in 1..400usize,
    ) {
        let mut body = Vec::new();
        for chunk in &chunks {
            let extension = extension.as_ref().map_or(String::new(), |text| format!(";{text}"));
            body.extend_from_slice(format!("{:x}{extension}\r\n", chunk.len()).as_bytes());
            body.extend_from_slice(chunk);
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(b"0\r\n\r\n");
        let payload = chunks.concat();
        let decoder = || Decoder::unsigned(payload.len() as u64);
        let (decoded, _) = decode_in_pieces(decoder(), &body, piece_bytes).unwrap();
        prop_assert!(decoded == payload);
        // A truncated body is refused at every cut.
        for cut in (0..body.len()).step_by(7) {
            prop_assert!(decode_in_pieces(decoder(), &body[..cut], piece_bytes).is_err());
        }
    }

    #[test]
    fn what_is_no_payload_in_chunks_is_refused(
        body in prop_oneof![
            "([0-9a-f]{1,2}(;[a-z=]{0,4})?\r\n[a-z]{0,9}\r\n|0\r\n|x-amz-[a-z:]{0,9}\r\n|\r\n){0,8}".prop_map(String::into_bytes),
            prop::collection::vec(any::<u8>(), 0..200),
        ],
        bytes in 0..20u64,
    ) {
        if let Ok((payload, _)) = decode_in_pieces(Decoder::unsigned(bytes), &body, 9) {
            prop_assert_eq!(payload.len() as u64, bytes);
            prop_assert!(body.ends_with(b"\r\n"));
        }
    }

    /// A change of any byte of a signed payload is refused, except the case of the digits in a
    /// size.
    #[test]
    fn any_change_of_a_signed_payload_is_refused(
        payload in prop::collection::vec(any::<u8>(), 0..300),
        at: prop::sample::Index,
        other: u8,
    ) {
        let (mut body, chain) = signed_chunks(&payload, 8192);
        let at = at.index(body.len());
        prop_assume!(!body[at].eq_ignore_ascii_case(&other));
        body[at] = other;
        let decoder = Decoder::signed(payload.len() as u64, Some(chain));
        prop_assert!(decode_in_pieces(decoder, &body, 100).is_err());
    }
}
