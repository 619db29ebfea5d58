//! Errors that count, errors that concern the whole origin, and the distinction between a refusal
//! of the request and a refusal of the credentials.

use zonal_s3::S3Error;

use super::*;

const LIST: &str = "<?xml version=\"1.0\"?><ListAllMyBucketsResult xmlns=\"u\"/>";

async fn forward(origin: &Origin, method: Method) -> Result<u16, OriginError> {
    let request = Request::builder().method(method).uri("/b/k").body(full_body("")).unwrap();
    origin.forward(request).await.map(|response| response.status().as_u16())
}

fn trouble(origin: &Origin) -> Option<&'static str> {
    origin.stats().trouble().and_then(|error| error.kind())
}

/// A missing object counted as a failed request, so the error counters rose even without any fault.
#[tokio::test]
async fn what_is_an_answer_is_no_error() {
    let answers = [
        xml_error("404 Not Found", "NoSuchKey"),
        xml_error("412 Precondition Failed", "PreconditionFailed"),
        xml_error("416 Range Not Satisfiable", "InvalidRange"),
        xml_error("400 Bad Request", "InvalidArgument"),
        xml_error("501 Not Implemented", "NotImplemented"),
    ];
    let server = Server::start(answers).await;
    let origin = origin(&server);
    for _ in 0..5 {
        get(&origin).await.unwrap_err();
    }
    assert_eq!((counted(&origin), trouble(&origin)), (vec![], None));
}

/// Only calls without any answer counted as errors: an origin that answered every write with 500
/// looked healthy.
#[tokio::test]
async fn failures_that_are_handed_on_count_too() {
    let answers = [
        xml_error("404 Not Found", "NoSuchKey"),
        xml_error("403 Forbidden", "AccessDenied"),
        xml_error("503 Slow Down", "SlowDown"),
        xml_error("500 Internal Server Error", "InternalError"),
    ];
    let server = Server::start(answers).await;
    let origin = origin(&server);
    for status in [404, 403, 503, 500] {
        assert_eq!(forward(&origin, Method::PUT).await, Ok(status));
    }
    assert_eq!(counted(&origin), [("denied", 1), ("busy", 1), ("failed", 1)]);
    assert_eq!(trouble(&origin), Some("failed"));
}

#[tokio::test]
async fn trouble_ends_with_the_first_good_answer() {
    let answers = [
        xml_error("403 Forbidden", "InvalidAccessKeyId"),
        xml_error("403 Forbidden", "InvalidAccessKeyId"),
        with_body("404 Not Found", "", "<html>"),
        xml_error("404 Not Found", "NoSuchKey"),
        with_body("200 OK", "", "<html>"),
        good_range(),
    ];
    let server = Server::start(answers).await;
    let origin = origin(&server);
    let mut changes = origin.stats().watch_trouble();
    let mut has_changed = || {
        let changed = changes.has_changed().unwrap();
        changes.mark_unchanged();
        changed
    };
    assert_eq!((trouble(&origin), has_changed()), (None, false));
    for is_news in [true, false] {
        forward(&origin, Method::GET).await.unwrap_err();
        assert_eq!((trouble(&origin), has_changed()), (Some("not_signed_in"), is_news));
    }
    assert!(is_lie(&forward(&origin, Method::GET).await));
    assert_eq!((trouble(&origin), has_changed()), (Some("lied"), true));
    assert_eq!(forward(&origin, Method::GET).await, Ok(404));
    assert_eq!((trouble(&origin), has_changed()), (None, true));
    assert!(is_lie(&origin.probe().await));
    assert_eq!(trouble(&origin), Some("lied"));
    assert_eq!(get(&origin).await.unwrap(), b"2345");
    assert_eq!((trouble(&origin), has_changed()), (None, true));
}

#[track_caller]
fn check_probe(result: &Result<(), OriginError>, expected: Option<&str>) {
    let kind = result.as_ref().err().map(|error| error.kind().expect("an error of the origin"));
    assert_eq!(kind, expected, "{result:?}");
}

#[tokio::test]
async fn a_probe_tells_whether_an_s3_endpoint_lets_us_in() {
    for (answer, expected) in [
        (with_body("200 OK", "", LIST), None),
        (xml_error("403 Forbidden", "AccessDenied"), None),
        (xml_error("405 Method Not Allowed", "MethodNotAllowed"), None),
        (xml_error("403 Forbidden", "InvalidAccessKeyId"), Some("not_signed_in")),
        (xml_error("404 Not Found", "XAdminUserNotFound"), Some("not_signed_in")),
        (xml_error("400 Bad Request", "ExpiredToken"), Some("not_signed_in")),
        (with_body("301 Moved Permanently", "Location: /\r\n", ""), Some("elsewhere")),
        (with_body("200 OK", "", "<html>hello</html>"), Some("lied")),
        (with_body("404 Not Found", "", "<html>none</html>"), Some("lied")),
        (xml_error("500 Internal Server Error", "InternalError"), Some("failed")),
        (answer("", "", ""), Some("lied")),
    ] {
        let server = Server::start([answer]).await;
        let origin = origin(&server);
        check_probe(&origin.probe().await, expected);
        assert_eq!(trouble(&origin), expected);
        assert!(server.requests()[0].head.starts_with("GET / HTTP/1.1\r\n"));
        assert_eq!((origin.stats().probes.get(), server.requests().len()), (1, 1));
    }
    let server = Server::start([Answer::Hang("HTTP/1.1 200 OK\r\n\r\n<html>".into())]).await;
    let origin = origin_with(&server, OriginLimits { answer: SHORT, ..limits() });
    check_probe(&origin.probe().await, Some("stalled"));
}

/// AWS redirects anonymous ListBuckets requests to a web page.
#[tokio::test]
async fn without_keys_any_answer_but_a_failure_will_do() {
    for (answer, expected) in [
        (with_body("307 Temporary Redirect", "Location: /s3\r\n", ""), None),
        (with_body("200 OK", "", "<html>hello</html>"), None),
        (with_body("404 Not Found", "", "<html>none</html>"), None),
        (xml_error("500 Internal Server Error", "InternalError"), Some("failed")),
    ] {
        let server = Server::start([answer]).await;
        let endpoint = server.url().parse().unwrap();
        let origin = Origin::from(S3Origin::open(endpoint, String::new(), None, limits()).unwrap());
        check_probe(&origin.probe().await, expected);
    }
}

fn denied_head() -> Answer {
    answer("403 Forbidden", "Content-Length: 0\r\n", "")
}

#[tokio::test]
async fn a_denied_head_is_looked_into_once_in_a_while() {
    let answers = [denied_head(), with_body("200 OK", "", LIST), denied_head()];
    let server = Server::start(answers).await;
    let origin = origin(&server);
    for _ in 0..2 {
        assert_eq!(forward(&origin, Method::HEAD).await, Ok(403));
    }
    assert_eq!((origin.stats().probes.get(), server.requests().len()), (1, 3));
}

#[tokio::test]
async fn a_head_that_was_denied_to_us_says_so_until_we_are_let_in() {
    let answers = [
        denied_head(),
        xml_error("403 Forbidden", "SignatureDoesNotMatch"),
        denied_head(),
        answer("404 Not Found", "Content-Length: 0\r\n", ""),
        with_body("200 OK", "", LIST),
        answer("404 Not Found", "Content-Length: 0\r\n", ""),
    ];
    let server = Server::start(answers).await;
    let origin = origin(&server);
    for _ in 0..3 {
        let result = forward(&origin, Method::HEAD).await;
        assert!(matches!(result, Err(OriginError::CredentialsRejected(_))), "{result:?}");
    }
    assert_eq!(origin.probe().await, Ok(()));
    assert_eq!(forward(&origin, Method::HEAD).await, Ok(404));
    assert_eq!((origin.stats().probes.get(), server.requests().len()), (2, 6));
}

#[tokio::test]
async fn an_error_document_without_an_end_is_not_handed_on() {
    let long = with_body("403 Forbidden", "", &"x".repeat(100_000));
    let hanging = "HTTP/1.1 403 Forbidden\r\nContent-Length: 9\r\n\r\n<";
    let server = Server::start([long, Answer::Hang(hanging.to_owned())]).await;
    let origin = origin_with(&server, OriginLimits { stall: SHORT, ..limits() });
    assert!(is_lie(&forward(&origin, Method::GET).await));
    let result = forward(&origin, Method::GET).await;
    assert_eq!(result, Err(OriginError::Stalled { waited_for: Wait::Body, after: SHORT }));
}

/// Any client with write permission could make Zonal report that its own keys are wrong.
#[tokio::test]
async fn a_header_that_is_signed_in_two_ways_is_no_word_about_our_keys() {
    let answers = [(); 4].map(|()| xml_error("403 Forbidden", "SignatureDoesNotMatch"));
    let server = Server::start(answers).await;
    let origin = origin(&server);
    let write = |value: &[u8]| {
        let request = Request::builder().method(Method::PUT).uri("/b/k");
        let request = request.header("x-amz-meta-a", HeaderValue::from_bytes(value).unwrap());
        origin.forward(request.body(full_body("")).unwrap())
    };
    for value in [&b"a\tb"[..], b"a\xC2\xA0b", b"a\xE3\x80\x80b"] {
        let error = write(value).await.unwrap_err();
        let OriginError::InvalidRequest(S3Error { status, details, .. }) = &error else {
            panic!("{error:?}")
        };
        assert_eq!((*status, &*details[0].1), (StatusCode::BAD_REQUEST, "x-amz-meta-a"));
        assert_eq!(trouble(&origin), None);
    }
    let plain = write(b"a  b").await;
    assert!(matches!(plain, Err(OriginError::CredentialsRejected(_))), "{plain:?}");
    assert_eq!(trouble(&origin), Some("not_signed_in"));
}
