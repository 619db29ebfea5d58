//! Access log: the content of an entry, and the loss of entries when no writer takes them.

use http::Request;

use super::*;
use crate::request_id::RequestIds;

const CLIENT: &str = "192.0.2.7:40000";

fn begun(
    log: &AccessLog,
    uri: &str,
    headers: &[(&'static str, &'static str)],
) -> Box<PendingEntry> {
    let mut request = Request::get(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let (request, ()) = request.body(()).unwrap().into_parts();
    let id = RequestIds::new().next();
    log.begin((id, CLIENT.parse().unwrap()), &request, &Domains::default())
}

#[track_caller]
fn next(events: &AccessEvents) -> Box<AccessEntry> {
    match events.try_next() {
        Some(AccessEvent::Entry(entry)) => entry,
        other => panic!("no line: {other:?}"),
    }
}

#[test]
fn a_line_leaves_when_its_answer_is_done_with() {
    let (log, events) = AccessLog::new();
    let mut line = begun(&log, "/lake/a%20b?versionId=7&x-id=GetObject", &[("user-agent", "me")]);
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_RANGE, "bytes 0-9/100".parse().unwrap());
    line.answered((StatusCode::PARTIAL_CONTENT, &headers), None, Some(CacheStatus::Hit));
    line.sent(10);
    assert!(events.try_next().is_none());
    drop(line);
    let entry = next(&events);
    assert_eq!((&*entry.bucket, &*entry.key), ("lake", "a b"));
    assert_eq!((entry.operation, entry.client), (Operation::GetObject, CLIENT.parse().unwrap()));
    assert_eq!((entry.sent_bytes, entry.object_bytes), (10, Some(100)));
    assert_eq!(entry.version_id.as_deref(), Some("7"));
    assert_eq!(entry.user_agent.as_deref(), Some("me"));
    assert!(entry.first_byte.unwrap() <= entry.total);
}

#[test]
fn a_client_that_goes_before_its_answer_leaves_a_line_without_status() {
    let (log, events) = AccessLog::new();
    drop(begun(&log, "/lake/a", &[]));
    assert_eq!(next(&events).status, None);
}

#[test]
fn no_request_waits_for_the_log_and_what_is_lost_is_counted() {
    let (log, events) = AccessLog::new();
    for _ in 0..LINES_MAX + 3 {
        drop(begun(&log, "/lake/a", &[]));
    }
    assert_eq!(log.lost().get(), 3);
    drop(events);
    drop(begun(&log, "/lake/a", &[]));
    assert_eq!(log.lost().get(), 4);
}

#[track_caller]
fn check_query(query: &str, said: &str) {
    let (log, events) = AccessLog::new();
    drop(begun(&log, &format!("/lake/a?{query}"), &[]));
    assert_eq!(next(&events).query.as_deref(), Some(said));
}

#[test]
fn what_signs_a_query_is_not_in_a_line() {
    check_query("partNumber=1", "partNumber=1");
    check_query(
        "X-Amz-Date=1&X-Amz-Signature=abc&uploads",
        "X-Amz-Date=1&X-Amz-Signature=-&uploads",
    );
    check_query("x-amz-security-token=t&a=%20", "x-amz-security-token=-&a=%20");
    check_query("AWSAccessKeyId=k&Signature=s", "AWSAccessKeyId=k&Signature=-");
    check_query("X-Amz-%53ignature=abc", "X-Amz-%53ignature=-");
}

#[test]
fn nor_is_what_signed_the_page_that_led_here() {
    let (log, events) = AccessLog::new();
    let page = "https://a.example/lake/b?X-Amz-Date=1&X-Amz-Signature=5ec7e7";
    drop(begun(&log, "/lake/a", &[("referer", page)]));
    let referer = next(&events).referer.unwrap();
    assert_eq!(&*referer, "https://a.example/lake/b?X-Amz-Date=1&X-Amz-Signature=-");
}

#[track_caller]
fn check_key(uri: &str, authorization: &'static str, key: Option<&str>) {
    let (log, events) = AccessLog::new();
    drop(begun(&log, uri, &[("authorization", authorization)]));
    let entry = next(&events);
    assert_eq!(entry.access_key.as_deref(), key);
    assert!(!format!("{entry:?}").contains("5ec7e7"), "{entry:?}");
}

#[test]
fn the_key_that_signed_is_named_and_nothing_else_of_the_signature() {
    let header =
        "AWS4-HMAC-SHA256 Credential=reader/20260101/us-east-1/s3/aws4_request, Signature=5ec7e7";
    check_key("/lake/a", header, Some("reader"));
    let uri = "/lake/a?X-Amz-Credential=other%2F20260101%2Fus-east-1&X-Amz-Signature=5ec7e7";
    check_key(uri, "", Some("other"));
    check_key("/lake/a", "Bearer 5ec7e7", None);
}

#[track_caller]
fn check_trace(value: &str, ids: Option<(&str, &str)>) {
    let trace = Trace::of(value.as_bytes());
    let found = trace.as_ref().map(|trace| (&*trace.trace_id, &*trace.span_id));
    assert_eq!(found, ids, "{value}");
}

#[test]
fn a_trace_is_read_as_w3c_writes_it() {
    let (trace, span) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
    check_trace(&format!("00-{trace}-{span}-01"), Some((trace, span)));
    check_trace(&format!("01-{trace}-{span}-01-more"), Some((trace, span)));
    check_trace(&format!("00-{trace}-{span}-01-more"), None);
    check_trace(&format!("ff-{trace}-{span}-01"), None);
    check_trace(&format!("00-{}-{span}-01", "0".repeat(32)), None);
    check_trace(&format!("00-{}-{span}-01", trace.to_uppercase()), None);
    check_trace(&format!("00-{trace}-{span}"), None);
    check_trace("", None);
}
