//! Each kind of store over a server that speaks its protocol: always the tests' own server, and
//! real servers where they are found.

mod pressure;
mod real;
mod served;

use std::time::{Duration, Instant};

use http::{HeaderValue, Request, StatusCode};
use http_body_util::BodyExt;
use served::{Served, Speaks};
use zonal_origin::conformance::{Subject, lists, reads, refusals_to_write};
use zonal_origin::{ObjectName, Origin, OriginError, OriginLimits, RangeSpec};
use zonal_s3::full_body;

use super::{Azure, AzureKeys, Gcs, GcsKeys, Web};

/// An Azure account key; the tests' own server does not check it.
const KEY: &str = "bm8gc2VjcmV0";

fn limits() -> OriginLimits {
    OriginLimits { backoff: Duration::from_millis(1), ..OriginLimits::default() }
}

fn gcs(served: &Served, limits: OriginLimits) -> Origin {
    let endpoint = Some(served.url("").parse().unwrap());
    let store = Gcs { bucket: "b".into(), endpoint, keys: GcsKeys::Anonymous };
    store.open("shown".into(), limits).unwrap().into()
}

fn azure(served: &Served, limits: OriginLimits) -> Origin {
    let store = Azure {
        account: "account".into(),
        container: "b".into(),
        endpoint: Some(served.url("account").parse().unwrap()),
        keys: AzureKeys::Account(KEY.into()),
    };
    store.open("shown".into(), limits).unwrap().into()
}

fn web(served: &Served, limits: OriginLimits) -> Origin {
    let store: Web = served.url("b").parse().unwrap();
    store.open("shown".into(), limits).unwrap().into()
}

/// Opens a kind of store.
type Open = fn(&Served, OriginLimits) -> Origin;

const KINDS: [(Speaks, Open); 3] =
    [(Speaks::Google, gcs), (Speaks::Azure, azure), (Speaks::Http, web)];

fn object(key: &str) -> ObjectName {
    ObjectName::new("shown", key)
}

/// Sends a client's GET. Returns status, headers and body of the answer.
async fn ask(origin: &Origin, uri: &str, range: Option<&str>) -> (u16, http::HeaderMap, String) {
    let mut request = Request::get(uri);
    if let Some(range) = range {
        request = request.header("range", range);
    }
    let answer = origin.forward(request.body(full_body("")).unwrap()).await.unwrap();
    let (parts, body) = answer.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (parts.status.as_u16(), parts.headers, String::from_utf8_lossy(&body).into_owned())
}

#[tokio::test]
async fn every_kind_keeps_what_every_origin_promises_and_a_web_server_all_but_lists() {
    for (speaks, open) in KINDS {
        let served = Served::start(speaks).await;
        let origin = open(&served, limits());
        let put = async |key: &str, bytes: &[u8]| served.put(key, bytes);
        let subject = Subject { origin: &origin, bucket: "shown", put };
        reads(&subject).await;
        if speaks != Speaks::Http {
            lists(&subject).await;
        }
        refusals_to_write(&subject).await;
        assert!(origin.probe().await.is_ok(), "{speaks:?}");
    }
}

/// Requests of first reads, the table of docs/origins.md.
#[tokio::test]
async fn a_first_read_is_one_request_at_every_kind() {
    let ranges = [
        ("a", RangeSpec::Whole, Some("0123456789")),
        ("a", RangeSpec::Int(2..6), Some("2345")),
        ("a", RangeSpec::Int(2..u64::MAX), Some("23456789")),
        ("empty", RangeSpec::Whole, Some("")),
        ("missing", RangeSpec::Whole, None),
        ("a", RangeSpec::Suffix(3), Some("789")),
    ];
    for (speaks, open) in KINDS {
        let served = Served::start(speaks).await;
        served.put("a", b"0123456789");
        served.put("empty", b"");
        let origin = open(&served, limits());
        for (key, range, content) in &ranges {
            let before = served.asked();
            let response = origin.get_object(&object(key), range, None).await;
            match content {
                Some(content) => {
                    let (mut body, mut bytes) = (response.unwrap().body, Vec::new());
                    while let Some(piece) = body.next().await {
                        bytes.extend_from_slice(&piece.unwrap());
                    }
                    assert_eq!(bytes, content.as_bytes(), "{speaks:?}: {range:?} of {key}");
                }
                None => assert!(matches!(response, Err(OriginError::NotFound(_))), "{speaks:?}"),
            }
            // Azure has no ranges that count from the end: a HEAD brings the size.
            let is_counted_back = matches!(range, RangeSpec::Suffix(_)) && speaks == Speaks::Azure;
            let expected = if is_counted_back { 2 } else { 1 };
            assert_eq!(served.asked() - before, expected, "{speaks:?}: {range:?} of {key}");
        }
    }
}

/// A web server that ignores ranges sends the whole object, from which the bytes are taken. The
/// first request is lost, because the library takes the response for an error.
#[tokio::test]
async fn a_first_read_of_a_server_that_ignores_ranges_is_two_requests() {
    let mut served = Served::start(Speaks::Http).await;
    served.put("a", b"0123456789");
    served.ignores_ranges();
    let origin = web(&served, limits());
    for range in [RangeSpec::Int(2..6), RangeSpec::Suffix(3)] {
        let before = served.asked();
        let response = origin.get_object(&object("a"), &range, None).await.unwrap();
        assert_eq!((response.range, response.head.size), (0..10, 10), "{range:?}");
        assert_eq!(served.asked() - before, 2, "{range:?}");
    }
}

/// Web servers redirect the name of a folder to the same name with a slash.
#[tokio::test]
async fn a_first_read_of_the_name_of_a_folder_is_one_request() {
    let served = Served::start(Speaks::Http).await;
    served.redirects_to("/b/folder/");
    let origin = web(&served, limits());
    let response = origin.get_object(&object("folder"), &RangeSpec::Whole, None).await;
    assert!(matches!(response, Err(OriginError::NotFound(_))), "{response:?}");
    assert_eq!(served.asked(), 1);
}

#[tokio::test]
async fn who_wants_the_list_of_a_web_server_is_told_what_to_do() {
    let served = Served::start(Speaks::Http).await;
    let origin = web(&served, limits());
    for uri in ["/shown?list-type=2", "/shown"] {
        let (status, _, text) = ask(&origin, uri, None).await;
        assert_eq!(status, 501, "{text}");
        assert!(text.contains("<Code>NotImplemented</Code>"), "{text}");
        assert!(text.contains("request objects by name"), "{text}");
    }
}

#[tokio::test]
async fn what_users_said_of_an_object_reaches_s3_clients() {
    let said = [
        ("cache-control", "max-age=7"),
        ("x-goog-meta-owner", "me"),
        ("x-ms-meta-team", "us"),
        ("x-goog-hash", "md5=no business of clients"),
    ];
    for speaks in [Speaks::Google, Speaks::Azure] {
        let mut served = Served::start(speaks).await;
        served.says(&said);
        served.put("k.json", b"{}");
        let origin = if speaks == Speaks::Google {
            gcs(&served, limits())
        } else {
            azure(&served, limits())
        };
        let head = origin.head(&object("k.json")).await.unwrap();
        let known = [
            ("cache-control", "max-age=7"),
            ("content-type", "application/json"),
            ("x-amz-meta-owner", "me"),
            ("x-amz-meta-team", "us"),
        ];
        let known = known.map(|(name, value)| (name.to_owned(), HeaderValue::from_static(value)));
        assert_eq!(head.headers, known);
        let (status, headers, text) = ask(&origin, "/shown/k.json", None).await;
        assert_eq!(
            (status, &*text, &headers["x-amz-meta-team"]),
            (200, "{}", &"us".parse().unwrap())
        );
        assert!(!headers.contains_key("x-goog-hash"));
    }
}

#[tokio::test]
async fn an_object_without_a_strong_entity_tag_is_handed_on_and_pins_nothing() {
    for (etag, expected) in [(Some("W/\"1\""), Some("W/\"1\"")), (None, None)] {
        let mut served = Served::start(Speaks::Http).await;
        served.has_etag(etag);
        served.put("k", b"0123456789");
        let origin = web(&served, limits());
        let head = origin.head(&object("k")).await.unwrap();
        assert_eq!((head.etag.as_deref(), head.strong_etag()), (expected, None));
        let (status, _, text) = ask(&origin, "/shown/k", None).await;
        assert_eq!((status, &*text), (200, "0123456789"));
        let (status, _, text) = ask(&origin, "/shown/k", Some("bytes=-3")).await;
        assert_eq!((status, &*text), (206, "789"));
    }
}

#[tokio::test]
async fn what_a_server_refuses_has_its_meaning() {
    let served = Served::start(Speaks::Azure).await;
    served.put("k", b"hello");
    let origin = azure(&served, limits());
    let head = async |status: u16, code: &str| {
        served.refuses(StatusCode::from_u16(status).unwrap(), code);
        origin.get(&object("k"), 0..1, None).await.unwrap_err()
    };
    let signed_in = head(403, "AuthenticationFailed").await;
    assert!(matches!(signed_in, OriginError::CredentialsRejected(_)), "{signed_in:?}");
    let denied = head(403, "AuthorizationPermissionMismatch").await;
    assert!(matches!(denied, OriginError::Denied(_)), "{denied:?}");
    let elsewhere = head(302, "").await;
    assert!(matches!(elsewhere, OriginError::Redirected { .. }), "{elsewhere:?}");
    let before = origin.stats().retries.get();
    let busy = head(503, "ServerBusy").await;
    assert!(matches!(busy, OriginError::Throttled { .. }), "{busy:?}");
    assert_eq!(origin.stats().retries.get() - before, u64::from(limits().retries));
    let (status, _, text) = ask(&origin, "/shown/k", None).await;
    assert_eq!(status, 503);
    // The answer to HEAD has no document.
    assert!(text.contains("<Code>SlowDown</Code>"), "{text}");
    served.refuses(StatusCode::FORBIDDEN, "");
    let (status, _, text) = ask(&origin, "/shown/k", None).await;
    assert!(status == 403 && text.contains("<Code>AccessDenied</Code>"), "{text}");
}

#[tokio::test]
async fn a_store_that_fails_everything_is_asked_a_fifth_more_than_is_read() {
    let served = Served::start(Speaks::Google).await;
    served.refuses(StatusCode::INTERNAL_SERVER_ERROR, "InternalError");
    let origin = gcs(&served, limits());
    let began_at = Instant::now();
    for _ in 0..200 {
        origin.get(&object("k"), 0..1, None).await.unwrap_err();
    }
    // Plus the burst of the retry budget, and one retry per second.
    let bound = 200 + 200 / 5 + 20 + began_at.elapsed().as_secs() + 1;
    assert!((200 + 20..=bound).contains(&served.asked()), "{} of {bound}", served.asked());
    assert!(0 < origin.stats().retries_refused.get());
}

#[tokio::test]
async fn what_a_server_does_wrong_is_not_believed() {
    let mut served = Served::start(Speaks::Http).await;
    served.put("k", b"0123456789");
    let origin = web(&served, limits());
    let mut body = origin.get(&object("k"), 0..10, None).await.unwrap();
    assert_eq!(body.next().await.unwrap().unwrap(), "0123456789");
    served.ignores_ranges();
    let whole = origin.get(&object("k"), 2..4, None).await.unwrap_err();
    assert!(matches!(whole, OriginError::InvalidResponse { .. }), "{whole:?}");
    drop(served);
    let gone = origin.head(&object("k")).await.unwrap_err();
    assert!(matches!(gone, OriginError::Unreachable { .. }), "{gone:?}");
    assert!(origin.probe().await.is_err());
}

#[tokio::test]
async fn a_server_that_falls_silent_is_not_waited_for() {
    let mut served = Served::start(Speaks::Google).await;
    served.put("k", &[7; 100_000]);
    served.stalls_after(10);
    let origin = gcs(&served, OriginLimits { stall: Duration::from_millis(300), ..limits() });
    let mut body = origin.get(&object("k"), 0..100_000, None).await.unwrap();
    let end = loop {
        match body.next().await {
            Some(Ok(_)) => {}
            end => break end,
        }
    };
    assert!(matches!(end, Some(Err(OriginError::Stalled { .. }))), "{end:?}");
}

#[tokio::test]
async fn a_key_that_the_store_would_take_for_another_is_not_there() {
    let served = Served::start(Speaks::Google).await;
    served.put("dir/k", b"hello");
    let origin = gcs(&served, limits());
    for key in ["dir//k", "/dir/k", "dir/k/", "dir/./k", "dir/../dir/k", "dir/"] {
        let none = origin.head(&object(key)).await;
        assert!(matches!(none, Err(OriginError::NotFound(_))), "{key}: {none:?}");
    }
    assert_eq!(served.asked(), 0);
}

#[test]
fn what_is_no_url_is_refused() {
    for text in ["", "host", "ftp://h", "http://", "http://h?q", "http://u:p@h", "/path", "https:h"]
    {
        assert!(text.parse::<Web>().is_err(), "{text:?}");
    }
    assert_eq!("https://h:1/a/b".parse::<Web>().unwrap().to_string(), "https://h:1/a/b");
    let bad = Azure {
        account: "a".into(),
        container: "c".into(),
        endpoint: Some("http://127.0.0.1:1".parse().unwrap()),
        keys: AzureKeys::Account("not base64!".into()),
    };
    assert!(bad.open("c".into(), limits()).is_err());
    assert!(!format!("{bad:?}").contains("base64"));
}
