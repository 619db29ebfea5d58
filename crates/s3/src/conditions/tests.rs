//! Every combination of conditions that S3 documents, as one table.

use std::time::Duration;

use http::HeaderValue;
use proptest::prelude::*;

use super::*;

const ETAG: &str = "\"e1\"";
const MODIFIED: &str = "Sat, 21 Nov 2026 07:00:00 GMT";
const BEFORE: &str = "Wed, 18 Nov 2026 07:00:00 GMT";
const AFTER: &str = "Sat, 21 Nov 2026 07:00:01 GMT";
const FUTURE: &str = "Sun, 21 Nov 2027 07:00:00 GMT";

fn now() -> SystemTime {
    httpdate::parse_http_date(AFTER).unwrap() + Duration::from_secs(60)
}

fn headers(text: &[(HeaderName, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in text {
        headers.append(name.clone(), HeaderValue::from_str(value).unwrap());
    }
    headers
}

#[track_caller]
fn check(text: &[(HeaderName, &str)], expected: ConditionResult) {
    let version = StoredVersion { etag: ETAG, last_modified: MODIFIED };
    assert_eq!(evaluate(&headers(text), version, now()), expected, "{text:?}");
}

const OK: ConditionResult = ConditionResult::Proceed;
const SAME: ConditionResult = ConditionResult::NotModified;
const BY_ETAG: ConditionResult = ConditionResult::Failed("If-Match");
const BY_DATE: ConditionResult = ConditionResult::Failed("If-Unmodified-Since");

#[test]
fn without_conditions_everything_goes() {
    check(&[], OK);
}

#[test]
fn if_match_outranks_all_and_silences_if_unmodified_since() {
    for other in ["\"x\"", "x", "W/\"e1\"", "\"x\", \"y\""] {
        check(&[(IF_MATCH, other)], BY_ETAG);
        check(&[(IF_MATCH, other), (IF_NONE_MATCH, ETAG)], BY_ETAG);
        check(&[(IF_MATCH, other), (IF_UNMODIFIED_SINCE, AFTER)], BY_ETAG);
    }
    for this in ["\"e1\"", "e1", "*", "\"x\", \"e1\"", " * "] {
        check(&[(IF_MATCH, this)], OK);
        check(&[(IF_MATCH, this), (IF_UNMODIFIED_SINCE, BEFORE)], OK);
        check(&[(IF_MATCH, this), (IF_NONE_MATCH, ETAG)], SAME);
        check(&[(IF_MATCH, this), (IF_MODIFIED_SINCE, AFTER)], SAME);
    }
}

#[test]
fn if_none_match_silences_if_modified_since() {
    for this in ["\"e1\"", "e1", "*", "W/\"e1\"", "\"x\",\"e1\""] {
        check(&[(IF_NONE_MATCH, this)], SAME);
        check(&[(IF_NONE_MATCH, this), (IF_MODIFIED_SINCE, BEFORE)], SAME);
        check(&[(IF_NONE_MATCH, this), (IF_UNMODIFIED_SINCE, BEFORE)], BY_DATE);
        check(&[(IF_NONE_MATCH, this), (IF_UNMODIFIED_SINCE, AFTER)], SAME);
    }
    check(&[(IF_NONE_MATCH, "\"x\"")], OK);
    check(&[(IF_NONE_MATCH, "\"x\""), (IF_MODIFIED_SINCE, AFTER)], OK);
}

#[test]
fn dates_compare_in_whole_seconds() {
    check(&[(IF_MODIFIED_SINCE, MODIFIED)], SAME);
    check(&[(IF_MODIFIED_SINCE, BEFORE)], OK);
    check(&[(IF_MODIFIED_SINCE, AFTER)], SAME);
    check(&[(IF_UNMODIFIED_SINCE, MODIFIED)], OK);
    check(&[(IF_UNMODIFIED_SINCE, BEFORE)], BY_DATE);
    check(&[(IF_UNMODIFIED_SINCE, AFTER)], OK);
    check(&[(IF_MODIFIED_SINCE, AFTER), (IF_UNMODIFIED_SINCE, BEFORE)], BY_DATE);
}

#[test]
fn a_date_that_says_nothing_is_ignored() {
    for nothing in [FUTURE, "", "yesterday", "2026-11-21T07:00:00Z"] {
        check(&[(IF_MODIFIED_SINCE, nothing)], OK);
        check(&[(IF_UNMODIFIED_SINCE, nothing)], OK);
    }
    let undated = StoredVersion { etag: ETAG, last_modified: "" };
    for header in [IF_MODIFIED_SINCE, IF_UNMODIFIED_SINCE] {
        assert_eq!(evaluate(&headers(&[(header, BEFORE)]), undated, now()), OK);
    }
}

#[test]
fn a_list_may_be_spread_over_lines_and_a_tag_may_hold_a_comma() {
    check(&[(IF_MATCH, "\"x\""), (IF_MATCH, "\"e1\"")], OK);
    check(&[(IF_MATCH, "\"x,e1\"")], BY_ETAG);
    let version = StoredVersion { etag: "\"a,b\"", last_modified: "" };
    assert_eq!(evaluate(&headers(&[(IF_NONE_MATCH, "\"a,b\"")]), version, now()), SAME);
}

#[test]
fn a_range_for_another_version_is_no_range() {
    let version = StoredVersion { etag: ETAG, last_modified: MODIFIED };
    let range = |if_range| {
        let headers = headers(&[(RANGE, "bytes=0-1"), (IF_RANGE, if_range)]);
        range_header(&headers, version).map(str::to_owned)
    };
    assert_eq!(range(ETAG).as_deref(), Some("bytes=0-1"));
    assert_eq!(range(MODIFIED).as_deref(), Some("bytes=0-1"));
    assert_eq!(range("\"x\""), None);
    assert_eq!(range("W/\"e1\""), None);
    assert_eq!(range(AFTER), None);
}

#[test]
fn a_write_goes_where_the_named_version_is_and_no_other() {
    let hold = |name: HeaderName, value: &str, etag| {
        WriteConditions::of(&headers(&[(name, value)])).hold(etag)
    };
    for (value, etag, expected) in [
        (ETAG, Some(ETAG), true),
        ("*", Some(ETAG), true),
        ("\"x\", e1", Some(ETAG), true),
        ("\"x\"", Some(ETAG), false),
        ("\"x,e1\"", Some(ETAG), false),
        ("W/\"e1\"", Some(ETAG), false),
        ("*", None, false),
        (ETAG, None, false),
    ] {
        assert_eq!(hold(IF_MATCH, value, etag), expected, "If-Match: {value} of {etag:?}");
    }
    for (value, etag, expected) in [
        ("*", None, true),
        ("*", Some(ETAG), false),
        (ETAG, Some(ETAG), false),
        ("W/\"e1\"", Some(ETAG), false),
        ("\"x\"", Some(ETAG), true),
    ] {
        assert_eq!(
            hold(IF_NONE_MATCH, value, etag),
            expected,
            "If-None-Match: {value} of {etag:?}"
        );
    }
    assert!(WriteConditions::of(&HeaderMap::new()).hold(None));
}

/// Generates a member of an ETag list, quoted or not, weak or not, and whether it names `e1`.
fn tag() -> impl Strategy<Value = (String, bool)> {
    let text = prop_oneof!["e1", "[a-z0-9]{1,3}", "[a-z]{0,2},[a-z]{0,2}"];
    (text, 0..3u8).prop_map(|(text, form)| {
        let is_it = text == "e1";
        match form {
            0 if !text.contains(',') => (text, is_it),
            1 => (format!("W/\"{text}\""), is_it),
            _ => (format!("\"{text}\""), is_it),
        }
    })
}

proptest! {
    #[test]
    fn a_list_names_what_one_of_its_tags_names(tags in prop::collection::vec(tag(), 1..5), comma in " ?, {0,2}") {
        let list = tags.iter().map(|(text, _)| text.as_str()).collect::<Vec<_>>().join(&comma);
        let is_named = tags.iter().any(|(_, is_it)| *is_it);
        let is_named_strongly = tags.iter().any(|(text, is_it)| *is_it && !text.starts_with("W/"));
        check(&[(IF_NONE_MATCH, &list)], if is_named { SAME } else { OK });
        check(&[(IF_MATCH, &list)], if is_named_strongly { OK } else { BY_ETAG });
    }

    #[test]
    fn a_date_is_compared_or_counts_as_not_there(
        since in prop_oneof![
            (0..5_000_000_000u64).prop_map(|seconds| {
                httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
            }),
            "[A-Z][a-z]{2}, [0-9]{2} [A-Z][a-z]{2} [0-9]{4} [0-9:]{8} GMT",
            "[ -~]*",
        ],
    ) {
        let date = httpdate::parse_http_date(&since).ok().filter(|date| *date <= now());
        let modified = httpdate::parse_http_date(MODIFIED).unwrap();
        let (is_newer, is_known) = (date.map(|date| date < modified), date.is_some());
        let changed = if is_newer == Some(true) { BY_DATE } else { OK };
        check(&[(IF_UNMODIFIED_SINCE, &since)], changed);
        let same = if is_known && is_newer == Some(false) { SAME } else { OK };
        check(&[(IF_MODIFIED_SINCE, &since)], same);
    }

    #[test]
    fn whatever_stands_in_the_headers_there_is_a_verdict(
        values in prop::collection::vec((0..OF_READ.len(), "[\t -~]{0,40}"), 0..6),
        last_modified in ".*",
    ) {
        let mut headers = HeaderMap::new();
        for (name, value) in &values {
            headers.append(OF_READ[*name].clone(), HeaderValue::from_str(value).unwrap());
        }
        let version = StoredVersion { etag: ETAG, last_modified: &last_modified };
        let _ = evaluate(&headers, version, now());
        let _ = range_header(&headers, version);
    }
}
