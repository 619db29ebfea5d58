//! Uploads that do not match their hash or signatures: the origin never receives their end.

use zonal_s3::aws_chunked::SignatureChain;
use zonal_s3::aws_chunked::sample::{in_pieces, signed_chunks};
use zonal_s3::sigv4::{EMPTY_SHA256, STREAMING_SIGNED_PAYLOAD, sha256_hex};

use super::*;

const PIECE_BYTES: usize = 1000;

/// Result of an upload: the status of its answer, and whether the origin received all of it.
async fn upload(
    request: http::request::Builder,
    body: &[u8],
    chain: Option<SignatureChain>,
) -> (Result<u16, String>, bool) {
    let server = Server::start([with_body("200 OK", "ETag: \"v1\"\r\n", "")]).await;
    let mut request = request.body(in_pieces(body, PIECE_BYTES)).unwrap();
    chain.map(|chain| request.extensions_mut().insert(chain));
    let answer = match origin(&server).forward(request).await {
        Ok(answer) => Ok(answer.status().as_u16()),
        Err(OriginError::InvalidRequest(error)) => Err(error.message.into_owned()),
        Err(other) => panic!("{other:?}"),
    };
    (answer, !server.requests().is_empty())
}

/// Result of an upload of 20,000 bytes in signed chunks of 8,192, after `change`.
async fn chunks(change: impl FnOnce(Vec<u8>) -> Vec<u8>) -> (Result<u16, String>, bool) {
    let (body, chain) = signed_chunks(&[b'a'; 20_000], 8192);
    let body = change(body);
    let request = Request::put("/b/k")
        .header("content-encoding", "aws-chunked")
        .header("content-length", body.len())
        .header("x-amz-content-sha256", STREAMING_SIGNED_PAYLOAD)
        .header("x-amz-decoded-content-length", 20_000);
    upload(request, &body, Some(chain)).await
}

/// An HTTP client stops polling a request body once it has sent Content-Length bytes. The payload
/// of a chunk was forwarded before its signature was verified. So the last data chunk, the last
/// signature and the end of the payload were never verified, and forged bytes were stored.
#[tokio::test]
async fn an_upload_in_signed_chunks_is_whole_only_if_its_very_end_is_right() {
    assert_eq!(chunks(|body| body).await, (Ok(200), true));
    let (answer, arrived) = chunks(|mut body| {
        let last_of_the_data = body.len() - EMPTY_CHUNK_BYTES - "a\r\n".len();
        assert_eq!(std::mem::replace(&mut body[last_of_the_data], b'b'), b'a');
        body
    })
    .await;
    assert!(!arrived && answer.unwrap_err().contains("signature"));
    let (answer, arrived) = chunks(|mut body| {
        let end = body.len() - "\r\n\r\n".len();
        body[end - 64..end].fill(b'0');
        body
    })
    .await;
    assert!(!arrived && answer.unwrap_err().contains("signature"));
    for cut_bytes in [1, 4, EMPTY_CHUNK_BYTES, EMPTY_CHUNK_BYTES + 2] {
        let (answer, arrived) = chunks(|body| body[..body.len() - cut_bytes].to_vec()).await;
        assert!(
            !arrived && answer.unwrap_err().contains("terminated"),
            "without {cut_bytes} bytes"
        );
    }
    let (answer, arrived) = chunks(|body| [&body, &b"more"[..]].concat()).await;
    assert!(!arrived && answer.unwrap_err().contains("terminated"));
}

/// Length of the last chunk: `0;chunk-signature=S`, with two line ends.
const EMPTY_CHUNK_BYTES: usize = "0;chunk-signature=".len() + 64 + 4;

/// The hash of a body was forwarded unverified, for the origin to verify. An S3 server that accepts
/// unsigned requests stored any body under it.
#[tokio::test]
async fn an_upload_is_whole_only_if_it_has_the_hash_that_its_head_states() {
    let body = [b'a'; 2500];
    let hashed = |hash: &str| {
        let request = Request::put("/b/k").header("content-length", body.len());
        upload(request.header("x-amz-content-sha256", hash), &body, None)
    };
    assert_eq!(hashed(&sha256_hex(&body)).await, (Ok(200), true));
    for wrong in [&sha256_hex(b"right"), EMPTY_SHA256] {
        let (answer, arrived) = hashed(wrong).await;
        assert!(!arrived && answer.unwrap_err().contains("x-amz-content-sha256"));
    }
}

#[tokio::test]
async fn a_body_without_bytes_has_a_hash_too() {
    for (hash, is_sent) in [(EMPTY_SHA256, true), (&*sha256_hex(b"right"), false)] {
        let server = Server::start([with_body("200 OK", "", "")]).await;
        let request = Request::put("/b/k").header("content-length", 0);
        let request = request.header("x-amz-content-sha256", hash).body(full_body("")).unwrap();
        let result = origin(&server).forward(request).await;
        assert_eq!((result.is_ok(), server.requests().len() == 1), (is_sent, is_sent), "{hash}");
    }
}
