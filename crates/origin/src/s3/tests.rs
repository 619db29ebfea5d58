//! The S3 origin against a server that misbehaves on purpose.

mod buckets;
mod first_reads;
mod multipart;
mod pressure;
mod renewal;
mod scripted;
mod silence;
mod trouble;
mod uploads;

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt;
use scripted::{Answer, Server};
use zonal_s3::{BoxBody, full_body};

use super::*;
use crate::body::OriginBody;
use crate::error::{ErrorResponse, OriginError, Wait};
use crate::object::ObjectName;
use crate::origin::Origin;

/// Timeout for tests that wait until it expires.
const SHORT: Duration = Duration::from_millis(100);

const ETAG: &str = "\"v1\"";

fn limits() -> OriginLimits {
    OriginLimits { backoff: Duration::from_millis(1), ..OriginLimits::default() }
}

fn s3_with(server: &Server, limits: OriginLimits) -> S3Origin {
    let credentials =
        Credentials { access_key: "AK".into(), secret_key: "SK".into(), session_token: None };
    let endpoint = server.url().parse().unwrap();
    S3Origin::open(endpoint, "us-east-1".into(), Some(credentials), limits).unwrap()
}

fn origin_with(server: &Server, limits: OriginLimits) -> Origin {
    Origin::from(s3_with(server, limits).with_buckets(&["b".to_owned()]))
}

fn origin(server: &Server) -> Origin {
    origin_with(server, limits())
}

fn object() -> ObjectName {
    ObjectName::new("b", "dir/a key")
}

/// An answer with this status line, these headers and this body; then the connection is closed.
fn answer(status: &str, headers: &str, body: &str) -> Answer {
    Answer::Close(format!("HTTP/1.1 {status}\r\nConnection: close\r\n{headers}\r\n{body}"))
}

fn with_body(status: &str, headers: &str, body: &str) -> Answer {
    answer(status, &format!("Content-Length: {}\r\n{headers}", body.len()), body)
}

/// A good answer to a request for the bytes 2..6 of `0123456789`.
fn good_range() -> Answer {
    with_body("206 Partial Content", "Content-Range: bytes 2-5/10\r\nETag: \"v1\"\r\n", "2345")
}

fn xml_error(status: &str, code: &str) -> Answer {
    let xml =
        format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>m</Message></Error>");
    with_body(status, "Content-Type: application/xml\r\n", &xml)
}

async fn collect(mut body: OriginBody) -> Result<Vec<u8>, OriginError> {
    let mut bytes = Vec::new();
    while let Some(piece) = body.next().await {
        bytes.extend_from_slice(&piece?);
    }
    assert!(body.next().await.is_none(), "a body that is over stays over");
    Ok(bytes)
}

/// Reads the bytes 2..6 of version `v1`.
async fn get(origin: &Origin) -> Result<Vec<u8>, OriginError> {
    collect(origin.get(&object(), 2..6, Some(ETAG)).await?).await
}

/// The result of a get, without retries, if the server gives these answers.
async fn get_from(answers: impl IntoIterator<Item = Answer>) -> Result<Vec<u8>, OriginError> {
    let server = Server::start(answers).await;
    get(&origin_with(&server, OriginLimits { retries: 0, ..limits() })).await
}

/// The errors that were counted, by kind.
fn counted(origin: &Origin) -> Vec<(&'static str, u64)> {
    origin.stats().errors().filter(|(_, n)| *n != 0).collect()
}

fn is_lie<T: fmt::Debug>(result: &Result<T, OriginError>) -> bool {
    matches!(result, Err(OriginError::InvalidResponse { .. }))
}

#[tokio::test]
async fn a_range_is_asked_for_with_its_version_and_signed() {
    let server = Server::start([good_range()]).await;
    let origin = origin(&server);
    assert_eq!(get(&origin).await.unwrap(), b"2345");
    let request = server.requests().remove(0);
    assert!(request.head.starts_with("GET /b/dir/a%20key HTTP/1.1\r\n"), "{}", request.head);
    assert_eq!(request.header("range"), Some("bytes=2-5"));
    assert_eq!(request.header("if-match"), Some(ETAG));
    let authorization = request.header("authorization").unwrap();
    assert!(
        authorization.contains("SignedHeaders=host;if-match;range;x-amz-content-sha256;x-amz-date")
    );
    assert_eq!((origin.stats().gets.get(), origin.stats().received_bytes.get()), (1, 4));
}

#[tokio::test]
async fn without_credentials_nothing_is_signed() {
    let server = Server::start([good_range()]).await;
    let endpoint = server.url().parse().unwrap();
    let origin = Origin::from(S3Origin::open(endpoint, String::new(), None, limits()).unwrap());
    assert_eq!(get(&origin).await.unwrap(), b"2345");
    assert_eq!(server.requests()[0].header("authorization"), None);
}

#[tokio::test]
async fn other_keys_count_from_the_next_request_on() {
    let server = Server::start([good_range(), good_range(), good_range()]).await;
    let with_key = |access_key: &str| {
        let (access_key, secret_key) = (access_key.to_owned(), "SK".to_owned());
        let credentials = Credentials { access_key, secret_key, session_token: None };
        let endpoint = server.url().parse().unwrap();
        Origin::from(S3Origin::open(endpoint, "r".into(), Some(credentials), limits()).unwrap())
    };
    let origin = with_key("AK1");
    // This request was signed before the change of credentials.
    let begun = origin.get(&object(), 2..6, Some(ETAG)).await.unwrap();
    origin.take_credentials(&with_key("AK2"));
    assert_eq!(collect(begun).await.unwrap(), b"2345");
    assert_eq!(get(&origin).await.unwrap(), b"2345");
    let nobody = S3Origin::open(server.url().parse().unwrap(), "r".into(), None, limits()).unwrap();
    origin.take_credentials(&nobody.into());
    assert_eq!(get(&origin).await.unwrap(), b"2345");
    let requests = server.requests();
    let signed = |n: usize| requests[n].header("authorization");
    for (n, key) in ["AK1", "AK2"].into_iter().enumerate() {
        assert!(signed(n).unwrap().contains(&format!("Credential={key}/")), "{:?}", signed(n));
    }
    assert_eq!(signed(2), None);
}

#[tokio::test]
async fn a_chunked_answer_is_as_good() {
    let headers = "Content-Range: bytes 2-5/*\r\nETag: \"v1\"\r\nTransfer-Encoding: chunked\r\n";
    let chunked = |body| get_from([answer("206 Partial Content", headers, body)]);
    assert_eq!(chunked("2\r\n23\r\n2\r\n45\r\n0\r\n\r\n").await.unwrap(), b"2345");
    assert!(is_lie(&chunked("5\r\n23456\r\n0\r\n\r\n").await));
    assert!(is_lie(&chunked("4\r\n2345\r\n1\r\n6\r\n0\r\n\r\n").await));
    assert_eq!(
        chunked("2\r\n23\r\n0\r\n\r\n").await,
        Err(OriginError::Truncated { missing_bytes: 2 })
    );
}

#[tokio::test]
async fn a_truncated_body_is_short_and_says_by_how_much() {
    let headers = "Content-Range: bytes 2-5/10\r\nETag: \"v1\"\r\nContent-Length: 4\r\n";
    let result = get_from([answer("206 Partial Content", headers, "234")]).await;
    assert_eq!(result, Err(OriginError::Truncated { missing_bytes: 1 }));
}

#[tokio::test]
async fn a_body_that_stops_coming_is_stalled() {
    let headers = "Content-Range: bytes 2-5/10\r\nETag: \"v1\"\r\nContent-Length: 4\r\n";
    let head = format!("HTTP/1.1 206 Partial Content\r\n{headers}\r\n23");
    let server = Server::start([Answer::Hang(head)]).await;
    let result = get(&origin_with(&server, OriginLimits { stall: SHORT, ..limits() })).await;
    assert_eq!(result, Err(OriginError::Stalled { waited_for: Wait::Body, after: SHORT }));
}

#[tokio::test]
async fn an_origin_that_does_not_answer_is_stalled() {
    let server = Server::start([Answer::Hang(String::new())]).await;
    let result = get(&origin_with(&server, OriginLimits { answer: SHORT, ..limits() })).await;
    assert_eq!(result, Err(OriginError::Stalled { waited_for: Wait::Answer, after: SHORT }));
}

#[tokio::test]
async fn a_200_where_a_range_was_asked_for_is_never_data() {
    let whole = with_body("200 OK", "ETag: \"v1\"\r\n", "0123456789");
    assert!(is_lie(&get_from([whole]).await));
    assert!(is_lie(&get_from([xml_error("200 OK", "InternalError")]).await));
}

#[tokio::test]
async fn a_content_range_that_was_not_asked_for_is_never_data() {
    for range in
        ["bytes 3-6/10", "bytes 2-6/10", "bytes 2-4/10", "bytes 2-5/5", "bytes */10", "2-5", ""]
    {
        let headers = format!("Content-Range: {range}\r\nETag: \"v1\"\r\n");
        let result = get_from([with_body("206 Partial Content", &headers, "2345")]).await;
        assert!(is_lie(&result), "{range:?}: {result:?}");
    }
    let result = get_from([with_body("206 Partial Content", "ETag: \"v1\"\r\n", "2345")]).await;
    assert!(is_lie(&result));
}

#[tokio::test]
async fn a_length_that_contradicts_the_range_is_never_data() {
    let headers = "Content-Range: bytes 2-5/10\r\nETag: \"v1\"\r\n";
    assert!(is_lie(&get_from([with_body("206 Partial Content", headers, "23456")]).await));
    assert!(is_lie(&get_from([with_body("206 Partial Content", headers, "234")]).await));
}

#[tokio::test]
async fn another_version_is_changed_whatever_the_origin_makes_of_if_match() {
    let other = "Content-Range: bytes 2-5/10\r\nETag: \"v2\"\r\n";
    let answers = [
        with_body("206 Partial Content", other, "2345"),
        xml_error("412 Precondition Failed", "PreconditionFailed"),
        with_body("206 Partial Content", "Content-Range: bytes 2-3/4\r\nETag: \"v1\"\r\n", "23"),
    ];
    for answer in answers {
        assert_eq!(get_from([answer]).await, Err(OriginError::Changed));
    }
}

#[tokio::test]
async fn a_pinned_range_without_an_etag_is_never_data() {
    let headers = "Content-Range: bytes 2-5/10\r\n";
    let no_etag = || with_body("206 Partial Content", headers, "2345");
    assert!(is_lie(&get_from([no_etag()]).await));
    let server = Server::start([no_etag()]).await;
    let body = origin(&server).get(&object(), 2..6, None).await.unwrap();
    assert_eq!((body.etag(), body.object_size(), body.missing_bytes()), (None, Some(10), 4));
    assert_eq!(collect(body).await.unwrap(), b"2345");
}

#[tokio::test]
async fn refusals_are_told_apart_by_what_the_caller_does_next() {
    let refusal =
        |status, code: &str| ErrorResponse { status, code: code.into(), message: "m".into() };
    let not_found = get_from([xml_error("404 Not Found", "NoSuchKey")]).await;
    assert_eq!(not_found, Err(OriginError::NotFound(refusal(404, "NoSuchKey"))));
    let denied = get_from([xml_error("403 Forbidden", "AccessDenied")]).await;
    assert_eq!(denied, Err(OriginError::Denied(refusal(403, "AccessDenied"))));
    for (status, code) in [(403, "SignatureDoesNotMatch"), (404, "XAdminUserNotFound"), (401, "")] {
        let not_signed_in = get_from([xml_error(&format!("{status} No"), code)]).await;
        assert_eq!(not_signed_in, Err(OriginError::CredentialsRejected(refusal(status, code))));
    }
    let outside = get_from([xml_error("416 Range Not Satisfiable", "InvalidRange")]).await;
    assert_eq!(outside, Err(OriginError::RangeNotSatisfiable));
    let busy = get_from([xml_error("503 Slow Down", "SlowDown")]).await;
    assert_eq!(
        busy,
        Err(OriginError::Throttled { refusal: refusal(503, "SlowDown"), retry_after: None })
    );
    let failed = get_from([xml_error("400 Bad Request", "Odd")]).await;
    assert_eq!(failed, Err(OriginError::Failed(refusal(400, "Odd"))));
    let headers = "x-amz-bucket-region: eu-west-1\r\n";
    let elsewhere = get_from([with_body("301 Moved Permanently", headers, "")]).await;
    assert_eq!(elsewhere, Err(OriginError::Redirected { region: Some("eu-west-1".into()) }));
}

#[tokio::test]
async fn what_is_not_http_is_a_lie_and_a_closed_port_is_unreachable() {
    assert!(is_lie(&get_from([Answer::Close("SSH-2.0-OpenSSH_9.2\r\n\r\n".into())]).await));
    let closed = Server::start([]).await;
    let url = closed.url();
    drop(closed);
    let endpoint = url.parse().unwrap();
    let origin = Origin::from(S3Origin::open(endpoint, String::new(), None, limits()).unwrap());
    let result = get(&origin).await;
    assert!(matches!(result, Err(OriginError::Unreachable { .. })), "{result:?}");
    assert_eq!(origin.stats().retries.get(), 3);
}

#[tokio::test]
async fn failures_that_may_pass_are_tried_again_before_the_first_byte() {
    let broken = Answer::Close("HTTP/1.1 206 Part".into());
    let answers = [
        xml_error("500 Internal Server Error", "InternalError"),
        broken,
        xml_error("503 Slow Down", "SlowDown"),
        good_range(),
    ];
    let server = Server::start(answers).await;
    let origin = origin(&server);
    assert_eq!(get(&origin).await.unwrap(), b"2345");
    assert_eq!((origin.stats().gets.get(), origin.stats().retries.get()), (1, 3));
    assert_eq!(origin.stats().errors().map(|(_, n)| n).sum::<u64>(), 0);
}

#[tokio::test]
async fn retries_end_and_the_last_failure_counts_once() {
    let server = Server::start((0..9).map(|_| xml_error("503 Slow Down", "SlowDown"))).await;
    let origin = origin(&server);
    assert!(matches!(get(&origin).await, Err(OriginError::Throttled { .. })));
    assert_eq!(server.requests().len(), 4);
    assert_eq!(counted(&origin), [("busy", 1)]);
}

#[tokio::test]
async fn what_will_not_pass_is_not_tried_again() {
    let answers = [xml_error("404 Not Found", "NoSuchKey"), good_range()];
    let server = Server::start(answers).await;
    assert!(matches!(get(&origin(&server)).await, Err(OriginError::NotFound(_))));
    let headers = "Content-Range: bytes 2-5/10\r\nETag: \"v1\"\r\nContent-Length: 4\r\n";
    let server = Server::start([answer("206 Partial Content", headers, "2"), good_range()]).await;
    assert!(matches!(get(&origin(&server)).await, Err(OriginError::Truncated { .. })));
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn reads_beyond_the_bound_wait_until_a_body_is_dropped() {
    let server = Server::start([good_range(), good_range()]).await;
    let origin = origin_with(&server, OriginLimits { concurrent_reads: 1, ..limits() });
    let first = origin.get(&object(), 2..6, Some(ETAG)).await.unwrap();
    let mut second = std::pin::pin!(get(&origin));
    assert!(tokio::time::timeout(SHORT, &mut second).await.is_err());
    assert_eq!(server.requests().len(), 1);
    drop(first);
    assert_eq!(second.await.unwrap(), b"2345");
}

#[tokio::test]
async fn a_head_hands_on_what_clients_must_see() {
    let headers = "Content-Length: 10\r\nETag: W/\"v1\"\r\nLast-Modified: Fri, 24 May 2013 00:00:00 GMT\r\n\
        Content-Type: text/plain\r\nContent-Encoding: gzip\r\nCache-Control: no-cache\r\n\
        x-amz-meta-Owner: me\r\nx-amz-version-id: 7\r\nx-amz-checksum-crc32: AAAAAA==\r\n\
        x-amz-request-id: 1\r\nx-amz-id-2: 2\r\nServer: S\r\nDate: now\r\nAccept-Ranges: bytes\r\n";
    let server = Server::start([answer("200 OK", headers, "")]).await;
    let head = origin(&server).head(&object()).await.unwrap();
    assert_eq!((head.size, head.etag.as_deref()), (10, Some("W/\"v1\"")));
    assert_eq!(head.last_modified.as_deref(), Some("Fri, 24 May 2013 00:00:00 GMT"));
    assert_eq!(head.version_id.as_deref(), Some("7"));
    let mut names: Vec<&str> = head.headers.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "cache-control",
            "content-encoding",
            "content-type",
            "x-amz-checksum-crc32",
            "x-amz-meta-owner",
        ]
    );
    assert_eq!(server.requests()[0].header("x-amz-checksum-mode"), Some("ENABLED"));
}

#[tokio::test]
async fn a_head_without_an_etag_keeps_none_and_one_without_a_size_is_a_lie() {
    let server = Server::start([answer("200 OK", "Content-Length: 0\r\n", "")]).await;
    let head = origin(&server).head(&object()).await.unwrap();
    assert_eq!((head.size, head.etag, head.last_modified), (0, None, None));
    let no_size = || answer("200 OK", "ETag: \"v1\"\r\n", "");
    let server = Server::start([no_size(), answer("200 OK", "", "0123")]).await;
    assert!(is_lie(&origin(&server).head(&object()).await), "no answer states it");
    let of_part = with_body("206 Partial Content", "Content-Range: bytes 0-0/10\r\n", "0");
    let server = Server::start([no_size(), of_part]).await;
    assert_eq!(origin(&server).head(&object()).await.unwrap().size, 10);
    let beyond = || xml_error("416 Range Not Satisfiable", "InvalidRange");
    let server = Server::start([no_size(), beyond(), beyond()]).await;
    assert_eq!(origin(&server).head(&object()).await.unwrap().size, 0);
}

/// Regression: each object of a server that answers 501 to headers that it does not know was 502.
#[tokio::test]
async fn an_origin_that_does_not_know_checksum_mode_is_asked_without_it() {
    let unknown = xml_error("501 Not Implemented", "NotImplemented");
    let known = || answer("200 OK", "Content-Length: 10\r\nETag: \"v1\"\r\n", "");
    let server = Server::start([unknown, known(), known()]).await;
    let origin = origin(&server);
    for _ in 0..2 {
        assert_eq!(origin.head(&object()).await.unwrap().size, 10);
    }
    let requests = server.requests();
    let asked = requests.iter().map(|request| request.header("x-amz-checksum-mode").is_some());
    assert_eq!(asked.collect::<Vec<_>>(), [true, false, false]);
}

/// Regression: a forwarded read failed when the origin closed an idle connection at the same time.
#[tokio::test]
async fn a_forwarded_read_without_an_answer_is_sent_again_once() {
    let nothing = || Answer::Close(String::new());
    let server = Server::start([nothing(), with_body("200 OK", "ETag: \"v1\"\r\n", "hello")]).await;
    let read = || Request::get("/b/k").body(full_body("")).unwrap();
    assert_eq!(origin(&server).forward(read()).await.unwrap().status(), StatusCode::OK);
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn a_missing_object_is_not_found_although_head_has_no_body() {
    let server = Server::start([answer("404 Not Found", "Content-Length: 99\r\n", "")]).await;
    let result = origin(&server).head(&object()).await;
    let refusal = ErrorResponse { status: 404, code: String::new(), message: String::new() };
    assert_eq!(result, Err(OriginError::NotFound(refusal)));
}

async fn text_of(body: BoxBody) -> Bytes {
    body.collect().await.unwrap().to_bytes()
}

#[tokio::test]
async fn a_forwarded_request_keeps_its_headers_but_for_connection_and_signature() {
    let headers = "x-amz-request-id: 1\r\nKeep-Alive: timeout=5\r\nServer: S\r\n";
    let server = Server::start([with_body("409 Conflict", headers, "<Error/>")]).await;
    let origin = origin(&server);
    let request = Request::builder()
        .method(Method::PUT)
        .uri("/b/dir/a%20key+?partNumber=1&uploadId=x%2Fy")
        .header("host", "gateway:9000")
        .header("authorization", "AWS4-HMAC-SHA256 Credential=client")
        .header("x-amz-date", "20130524T000000Z")
        .header("x-amz-security-token", "the client's")
        .header("x-amz-content-sha256", zonal_s3::sigv4::sha256_hex(b"body"))
        .header("connection", "keep-alive, x-hop")
        .header("x-hop", "1")
        .header("expect", "100-continue")
        .header("content-length", "4")
        .header("x-amz-meta-a", "1")
        .header("content-md5", "hVpZ+OrnqLw0uQo=")
        .body(full_body("body"))
        .unwrap();
    let response = origin.forward(request).await.unwrap();
    assert_eq!(response.status(), 409);
    assert_eq!(response.headers()["x-amz-request-id"], "1");
    assert!(!response.headers().contains_key("keep-alive"));
    assert_eq!(text_of(response.into_body()).await, "<Error/>");

    let request = server.requests().remove(0);
    let line = "PUT /b/dir/a%20key%2B?partNumber=1&uploadId=x%2Fy HTTP/1.1\r\n";
    assert!(request.head.starts_with(line), "{}", request.head);
    assert_eq!(request.body, b"body");
    assert_eq!(request.header("content-length"), Some("4"));
    assert_eq!(request.header("x-amz-meta-a"), Some("1"));
    let hash = zonal_s3::sigv4::sha256_hex(b"body");
    assert_eq!(request.header("x-amz-content-sha256"), Some(hash.as_str()));
    assert!(request.header("authorization").unwrap().contains("Credential=AK/"));
    assert_ne!(request.header("x-amz-date"), Some("20130524T000000Z"));
    for name in ["connection", "x-hop", "expect", "x-amz-security-token"] {
        assert_eq!(request.header(name), None, "{name}");
    }
    let stats = origin.stats();
    assert_eq!(
        (stats.forwards.get(), stats.sent_bytes.get(), stats.received_bytes.get()),
        (1, 4, 8)
    );
}

#[tokio::test]
async fn a_forwarded_body_that_breaks_is_the_clients_doing() {
    let server = Server::start([good_range()]).await;
    let request = Request::put("/b/k")
        .header("x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD")
        .header("x-amz-decoded-content-length", "5")
        .body(full_body("not a chunk\r\n"))
        .unwrap();
    let result = origin(&server).forward(request).await.map(|_| ());
    assert!(matches!(result, Err(OriginError::InvalidRequest(_))), "{result:?}");
}

#[tokio::test]
async fn signed_chunks_arrive_as_one_unsigned_payload() {
    let server = Server::start([with_body("200 OK", "ETag: \"v1\"\r\n", "")]).await;
    let signature = "0".repeat(64);
    let body =
        format!("5;chunk-signature={signature}\r\nhello\r\n0;chunk-signature={signature}\r\n\r\n");
    let request = Request::put("/b/k")
        .header("content-encoding", "gzip,aws-chunked")
        .header("content-length", body.len())
        .header("x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD")
        .header("x-amz-decoded-content-length", "5")
        .body(full_body(body))
        .unwrap();
    assert_eq!(origin(&server).forward(request).await.unwrap().status(), 200);
    let request = server.requests().remove(0);
    assert_eq!(request.body, b"hello");
    assert_eq!(request.header("content-length"), Some("5"));
    assert_eq!(request.header("content-encoding"), Some("gzip"));
    assert_eq!(request.header("x-amz-content-sha256"), Some("UNSIGNED-PAYLOAD"));
    assert_eq!(request.header("x-amz-decoded-content-length"), None);
}

#[tokio::test]
async fn a_forwarded_answer_may_stall_and_may_be_short() {
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n23".to_owned();
    for (answer, expected) in
        [(Answer::Hang(head.clone()), "stalled"), (Answer::Close(head), "short")]
    {
        let server = Server::start([answer]).await;
        let origin = origin_with(&server, OriginLimits { stall: SHORT, ..limits() });
        let request = Request::get("/b/?list-type=2").body(full_body("")).unwrap();
        let response = origin.forward(request).await.unwrap();
        let error = response.into_body().collect().await.unwrap_err();
        let error = error.downcast::<OriginError>().unwrap();
        assert_eq!(error.kind(), Some(expected));
        assert_eq!(counted(&origin), [(expected, 1)]);
    }
}

#[tokio::test]
async fn a_forwarded_request_waits_for_its_answer_only_so_long() {
    let server = Server::start([Answer::Hang(String::new())]).await;
    let origin = origin_with(&server, OriginLimits { forward_answer: SHORT, ..limits() });
    let request = Request::get("/b/").body(full_body("")).unwrap();
    let result = origin.forward(request).await.map(|_| ());
    assert_eq!(result, Err(OriginError::Stalled { waited_for: Wait::Answer, after: SHORT }));
}

#[tokio::test]
async fn https_works_with_a_trusted_certificate_and_only_with_one() {
    let (server, roots) = Server::start_tls([good_range(), good_range()]).await;
    let endpoint: Endpoint = server.url().parse().unwrap();
    let open = |roots| {
        let limits = OriginLimits { retries: 0, ..limits() };
        let keys = Arc::new(SigningKeys::fixed(None, String::new()).unwrap());
        Origin::from(S3Origin::with_roots(endpoint.clone(), keys, limits, roots))
    };
    assert_eq!(get(&open(roots)).await.unwrap(), b"2345");
    let result = get(&open(rustls::RootCertStore::empty())).await;
    let cause = "unknown issuer".to_owned();
    assert_eq!(result, Err(OriginError::Untrusted { cause }));
}

#[tokio::test]
async fn a_signature_for_another_region_says_which_one_to_configure() {
    let xml = "<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-west-1</Region></Error>";
    let expected = Err(OriginError::Redirected { region: Some("eu-west-1".into()) });
    assert_eq!(get_from([with_body("400 Bad Request", "", xml)]).await, expected);
    let headers = "x-amz-bucket-region: eu-west-1\r\nContent-Length: 9\r\n";
    let server = Server::start([answer("400 Bad Request", headers, "")]).await;
    let result = origin(&server).head(&object()).await.map(|_| Vec::new());
    assert_eq!(result, expected);
}

/// A body of several pieces, each after [`SHORT`].
struct SlowBody {
    pieces_left: usize,
    pause: Pin<Box<tokio::time::Sleep>>,
}

impl http_body::Body for SlowBody {
    type Data = Bytes;
    type Error = zonal_s3::BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
        if self.pieces_left == 0 {
            return Poll::Ready(None);
        }
        ready!(self.pause.as_mut().poll(cx));
        self.pieces_left -= 1;
        self.pause = Box::pin(tokio::time::sleep(SHORT));
        Poll::Ready(Some(Ok(http_body::Frame::data(Bytes::from_static(b"piece")))))
    }
}

#[tokio::test]
async fn a_slow_upload_is_not_a_silent_origin() {
    let server = Server::start([with_body("200 OK", "", "")]).await;
    // The timeout is half as long as the upload, and far longer than its pauses.
    let origin = origin_with(&server, OriginLimits { forward_answer: 5 * SHORT, ..limits() });
    let body = SlowBody { pieces_left: 10, pause: Box::pin(tokio::time::sleep(SHORT)) };
    let request = Request::put("/b/k").header("content-length", 50);
    let response = origin.forward(request.body(body.boxed_unsync()).unwrap()).await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(server.requests()[0].body, b"piece".repeat(10));
}
