//! Response heads: the headers of each kind of response.

use http::header::RANGE;

use super::*;

fn head() -> Head {
    let pair = |name: &str, value: &str| (Box::from(name), Box::from(value.as_bytes()));
    Head {
        size: 100,
        etag: "\"e1\"".into(),
        version_id: "".into(),
        last_modified: "Sat, 21 Nov 2026 07:00:00 GMT".into(),
        headers: vec![
            pair("content-type", "text/plain"),
            pair("cache-control", "no-cache"),
            pair("x-amz-meta-a", "b"),
            pair("x-amz-checksum-crc32", "AAAAAA=="),
            pair("x-amz-checksum-type", "FULL_OBJECT"),
        ],
        salt: 0,
        chunk: None,
        is_partial: false,
    }
}

fn request(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    let pairs = pairs.iter();
    pairs.map(|(n, v)| (HeaderName::from_static(n), HeaderValue::from_static(v))).collect()
}

/// The response as text: status, and sorted header lines.
fn answer(pairs: &[(&'static str, &'static str)], query: &str) -> (u16, Vec<String>) {
    let (request, head) = (request(pairs), head());
    let decision = decide(&request, &head, SystemTime::now());
    let overrides = Overrides::of(&Query::parse(Some(query)).unwrap()).unwrap();
    let wants_checksum = request.contains_key("x-amz-checksum-mode");
    let headers = decision.headers(&head, &overrides, wants_checksum);
    let line = |(n, v): (&HeaderName, &HeaderValue)| format!("{n}: {}", v.to_str().unwrap());
    let mut lines: Vec<String> = headers.iter().map(line).collect();
    lines.sort();
    (decision.status().as_u16(), lines)
}

const WHOLE: [&str; 7] = [
    "accept-ranges: bytes",
    "cache-control: no-cache",
    "content-length: 100",
    "content-type: text/plain",
    "etag: \"e1\"",
    "last-modified: Sat, 21 Nov 2026 07:00:00 GMT",
    "x-amz-meta-a: b",
];

#[test]
fn a_whole_object_has_all_headers_of_its_version() {
    let (status, headers) = answer(&[], "");
    assert_eq!(status, 200);
    assert_eq!(headers, WHOLE);
}

#[test]
fn a_part_says_which_part_it_is() {
    let (status, headers) = answer(&[("range", "bytes=10-19")], "");
    assert_eq!(status, 206);
    let mut expected = WHOLE.map(str::to_owned).to_vec();
    expected[2] = "content-length: 10".into();
    expected.insert(3, "content-range: bytes 10-19/100".into());
    assert_eq!(headers, expected);
}

#[test]
fn checksums_go_with_whole_objects_and_only_when_asked_for() {
    for mode in ["ENABLED", "enabled"] {
        let (_, headers) = answer(&[("x-amz-checksum-mode", mode)], "");
        assert!(headers.contains(&"x-amz-checksum-crc32: AAAAAA==".to_owned()));
        assert!(headers.contains(&"x-amz-checksum-type: FULL_OBJECT".to_owned()));
        let part = [("x-amz-checksum-mode", mode), ("range", "bytes=0-99")];
        let (status, headers) = answer(&part, "");
        assert_eq!(status, 206);
        assert!(!headers.iter().any(|line| line.contains("checksum")), "{headers:?}");
    }
}

#[test]
fn not_modified_has_no_content() {
    let (status, headers) = answer(&[("if-none-match", "\"e1\""), ("range", "bytes=200-")], "");
    assert_eq!(status, 304);
    assert_eq!(headers, [WHOLE[1], WHOLE[4], WHOLE[5]]);
}

#[test]
fn a_range_behind_the_end_is_told_the_size() {
    let (status, headers) = answer(&[("range", "bytes=100-")], "");
    assert_eq!((status, headers), (416, vec!["content-range: bytes */100".to_owned()]));
    let decision = decide(&request(&[("range", "bytes=100-")]), &head(), SystemTime::now());
    assert_eq!(decision.error(&head()).unwrap().code, "InvalidRange");
}

#[test]
fn a_failed_condition_describes_nothing() {
    let (status, headers) = answer(&[("if-match", "\"e0\"")], "");
    assert_eq!((status, headers), (412, vec![]));
}

#[test]
fn a_request_may_choose_some_headers_of_its_answer() {
    let query = "response-content-type=a%2Fb&response-expires=0&response-content-language=de";
    let (_, headers) = answer(&[], query);
    for line in ["content-type: a/b", "expires: 0", "content-language: de"] {
        assert!(headers.contains(&line.to_owned()), "{headers:?}");
    }
    for query in ["response-etag=x", "response-content-type=%0A", "response-"] {
        let error = Overrides::of(&Query::parse(Some(query)).unwrap()).unwrap_err();
        assert_eq!((error.status.as_u16(), error.code), (400, "InvalidArgument"));
    }
}

#[test]
fn an_empty_object_is_whole_and_has_no_bytes() {
    let head = Head { size: 0, ..head() };
    let decision = decide(&request(&[]), &head, SystemTime::now());
    assert_eq!((decision.status(), decision.range(&head)), (StatusCode::OK, 0..0));
    let decision = decide(&request(&[(RANGE.as_str(), "bytes=-5")]), &head, SystemTime::now());
    assert_eq!(decision, Decision::Whole);
    assert_eq!(decision.headers(&head, &Overrides::default(), false)[CONTENT_LENGTH], "0");
}

#[test]
fn a_numbered_part_has_the_number_of_parts_and_no_checksum_of_the_whole() {
    let headers = |part: &Part| {
        let decision = decide(&request(&[]), &head(), SystemTime::now()).of_part(Some(part));
        assert_eq!(
            (decision.status().as_u16(), decision.range(&head())),
            (206, part.range.clone())
        );
        decision.headers(&head(), &Overrides::default(), true)
    };
    let second = headers(&Part { range: 60..100, count: Some(2) });
    assert_eq!(
        (&second[CONTENT_RANGE], &second[CONTENT_LENGTH]),
        (&text("bytes 60-99/100"), &text("40"))
    );
    assert_eq!(second[PARTS_COUNT], "2");
    assert!(!second.contains_key("x-amz-checksum-crc32"));
    let only = headers(&Part { range: 0..100, count: None });
    assert!(only.contains_key("x-amz-checksum-crc32") && !only.contains_key(PARTS_COUNT));
    // A condition that fails takes precedence.
    let decision = decide(&request(&[("if-match", "\"e0\"")]), &head(), SystemTime::now());
    let part = Part { range: 0..100, count: None };
    assert_eq!(decision.clone().of_part(Some(&part)), decision);
}
