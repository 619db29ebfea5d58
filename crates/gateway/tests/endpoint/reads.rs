//! GET and HEAD of objects.

use std::collections::BTreeSet;

use http::Method;
use zonal_gateway::CacheStatus;
use zonal_host::Freshness;

use crate::client::{Answer, Ask, Connection, ask, get, presigned};
use crate::world::{REVALIDATE, World, pattern};

const MIB: usize = 1 << 20;

#[tokio::test]
async fn the_second_read_comes_from_flash() {
    let world = World::start(Freshness::Immutable).await;
    let bytes = pattern(3 * MIB + 17, 0);
    world.put("blob", &bytes);
    let first = get(world.address, "/b/blob").await;
    assert_eq!((first.status, first.header("x-cache")), (200, "MISS"));
    assert!(first.body == bytes);
    world.settle().await;
    std::fs::remove_file(world.path("blob")).unwrap();
    let second = get(world.address, "/b/blob").await;
    assert_eq!((second.status, second.header("x-cache")), (200, "HIT"));
    assert!(second.body == bytes);
    assert_eq!(world.outcomes(CacheStatus::Hit), 1);
    assert_eq!(world.outcomes(CacheStatus::Miss), 1);
}

#[tokio::test]
async fn under_revalidate_the_origin_confirms_every_read() {
    let world = World::start(REVALIDATE).await;
    world.put("k", "one");
    assert_eq!(get(world.address, "/b/k").await.header("x-cache"), "MISS");
    world.settle().await;
    let confirmed = get(world.address, "/b/k").await;
    assert_eq!((confirmed.text().as_str(), confirmed.header("x-cache")), ("one", "REVALIDATED"));
    let head = ask(world.address, Ask::new("HEAD", "/b/k")).await;
    assert_eq!((head.status, head.header("x-cache")), (200, "REVALIDATED"));
    world.put("k", "another");
    let changed = get(world.address, "/b/k").await;
    assert_eq!((changed.text().as_str(), changed.header("x-cache")), ("another", "MISS"));
}

#[tokio::test]
async fn what_is_never_kept_goes_past_the_cache() {
    let world = World::start(Freshness::Immutable).await;
    world.put("never/log", "one");
    for content in ["one", "two"] {
        world.put("never/log", content);
        let answer = get(world.address, "/b/never/log").await;
        assert_eq!((answer.text().as_str(), answer.header("x-cache")), (content, "BYPASS"));
        let head = ask(world.address, Ask::new("HEAD", "/b/never/log")).await;
        assert_eq!((head.status, head.header("x-cache")), (200, "BYPASS"));
    }
    let part = ask(world.address, Ask::new("GET", "/b/never/log").with("range", "bytes=1-")).await;
    assert_eq!((part.status, part.text().as_str()), (206, "wo"));
}

#[tokio::test]
async fn what_is_pinned_outlives_what_is_read_once() {
    let world = World::start(Freshness::Immutable).await;
    let bytes = pattern(2 * MIB, 0);
    world.put("pin/dim", &bytes);
    world.put("other", &bytes);
    for path in ["/b/pin/dim", "/b/other"] {
        get(world.address, path).await;
        world.settle().await;
    }
    for number in 0..10 {
        let (key, path) = (format!("large-{number}"), format!("/b/large-{number}"));
        world.put(&key, pattern(8 * MIB, number));
        get(world.address, &path).await;
        world.settle().await;
    }
    let again = get(world.address, "/b/pin/dim").await;
    assert_eq!(again.header("x-cache"), "HIT");
    assert!(again.body == bytes);
    assert_eq!(get(world.address, "/b/other").await.header("x-cache"), "MISS");
}

#[tokio::test]
async fn a_head_has_the_headers_of_the_get_and_no_body() {
    let world = World::start(Freshness::Immutable).await;
    world.put("a.txt", "hello");
    let mut connection = Connection::open(world.address).await;
    let get = connection.ask(Ask::new("GET", "/b/a.txt")).await;
    let head = connection.ask(Ask::new("HEAD", "/b/a.txt")).await;
    assert_eq!((get.status, head.status), (200, 200));
    for name in ["etag", "last-modified", "content-length", "content-type", "accept-ranges"] {
        assert_eq!(head.header(name), get.header(name), "{name}");
        assert!(!head.header(name).is_empty(), "{name}");
    }
    assert_eq!(head.header("content-length"), "5");
    assert!(head.header("etag").starts_with('"'));
    // The next request on the connection would fail if the HEAD had sent a body.
    let missing = connection.ask(Ask::new("HEAD", "/b/none")).await;
    assert_eq!(missing.status, 404);
    assert_eq!(connection.ask(Ask::new("GET", "/b/a.txt")).await.text(), "hello");
}

#[tokio::test]
async fn ranges_are_cut_out_of_the_object() {
    let world = World::start(Freshness::Immutable).await;
    let bytes = pattern(MIB, 0);
    world.put("k", &bytes);
    world.put("empty", "");
    let mut connection = Connection::open(world.address).await;
    let last = format!("bytes {}-{}/{MIB}", MIB - 5, MIB - 1);
    let from = format!("bytes={}-", MIB - 5);
    let over = format!("bytes={}-{}", MIB - 5, MIB + 5);
    let all = format!("bytes 0-{}/{MIB}", MIB - 1);
    let long = format!("bytes=-{}", MIB + 1);
    let cases: [(&str, &[u8], &str); 8] = [
        ("bytes=0-0", &bytes[..1], "bytes 0-0/1048576"),
        ("bytes=300000-300009", &bytes[300_000..300_010], "bytes 300000-300009/1048576"),
        ("bytes=262143-262144", &bytes[262_143..262_145], "bytes 262143-262144/1048576"),
        ("bytes=-5", &bytes[MIB - 5..], &last),
        (&from, &bytes[MIB - 5..], &last),
        (&over, &bytes[MIB - 5..], &last),
        ("bytes=0-", &bytes, &all),
        (&long, &bytes, &all),
    ];
    for (range, expected, content_range) in cases {
        let answer = connection.ask(Ask::new("GET", "/b/k").with("range", range)).await;
        assert_eq!(
            (answer.status, answer.header("content-range")),
            (206, content_range),
            "{range}"
        );
        assert!(answer.body == expected, "{range}");
        let head = connection.ask(Ask::new("HEAD", "/b/k").with("range", range)).await;
        assert_eq!((head.status, head.header("content-range")), (206, content_range), "{range}");
    }
    for range in ["bytes=5-4", "bytes=0-1,3-4", "lines=0-1", "bytes=x"] {
        let answer = connection.ask(Ask::new("GET", "/b/k").with("range", range)).await;
        assert_eq!((answer.status, answer.has("content-range")), (200, false), "{range}");
        assert!(answer.body == bytes, "{range}");
    }
    for (uri, range, size) in
        [("/b/k", "bytes=1048576-", "bytes */1048576"), ("/b/empty", "bytes=0-", "bytes */0")]
    {
        let answer = connection.ask(Ask::new("GET", uri).with("range", range)).await;
        assert_eq!((answer.status, answer.header("content-range")), (416, size));
        assert_eq!(answer.code(), "InvalidRange");
        let head = connection.ask(Ask::new("HEAD", uri).with("range", range)).await;
        assert_eq!((head.status, head.header("content-range")), (416, size));
    }
    let empty = connection.ask(Ask::new("GET", "/b/empty").with("range", "bytes=-5")).await;
    assert_eq!((empty.status, empty.header("content-length")), (200, "0"));
}

#[tokio::test]
async fn conditions_are_answered_without_the_origin() {
    let world = World::start(Freshness::Immutable).await;
    world.put("k", "hello");
    let mut connection = Connection::open(world.address).await;
    let etag = connection.ask(Ask::new("GET", "/b/k")).await.header("etag").to_owned();
    world.settle().await;
    std::fs::remove_file(world.path("k")).unwrap();
    for method in ["GET", "HEAD"] {
        let mut answer = async |name, value: &str| -> Answer {
            connection.ask(Ask::new(method, "/b/k").with(name, value)).await
        };
        assert_eq!(answer("if-match", &etag).await.status, 200);
        let same = answer("if-none-match", &etag).await;
        assert_eq!((same.status, same.header("etag"), same.body.len()), (304, &*etag, 0));
        assert_eq!(same.header("x-cache"), "HIT");
        let other = answer("if-match", "\"other\"").await;
        assert_eq!((other.status, other.header("x-cache")), (412, "HIT"));
        assert_eq!(other.code(), if method == "GET" { "PreconditionFailed" } else { "" });
        let since = "Sat, 01 Jan 2000 00:00:00 GMT";
        assert_eq!(answer("if-unmodified-since", since).await.status, 412);
        assert_eq!(answer("if-modified-since", since).await.status, 200);
    }
}

#[tokio::test]
async fn a_presigned_url_needs_nothing_else() {
    let world = World::start(Freshness::Immutable).await;
    world.put("a b+c/ü.txt", "hello");
    let mut connection = Connection::open(world.address).await;
    let path = "/b/a%20b+c/%C3%BC.txt?response-content-type=text%2Fx-test";
    connection.send(&presigned(path)).await;
    let answer = connection.answer(&Method::GET).await.unwrap();
    assert_eq!((answer.status, answer.text().as_str()), (200, "hello"));
    assert_eq!(answer.header("content-type"), "text/x-test");
}

#[tokio::test]
async fn a_read_of_a_version_that_is_gone_gets_the_new_one_as_a_whole() {
    let world = World::start(Freshness::Immutable).await;
    let (old, new) = (pattern(2 * MIB, 1), pattern(2 * MIB + 1, 2));
    world.put("k", &old);
    let first = ask(world.address, Ask::new("GET", "/b/k").with("range", "bytes=0-9")).await;
    assert_eq!(first.body, old[..10]);
    world.put("k", &new);
    let rest = ask(world.address, Ask::new("GET", "/b/k").with("range", "bytes=1048576-")).await;
    assert!(rest.body == new[MIB..], "the head is known for ever, and still no mixture");
    assert_eq!(rest.header("content-range"), "bytes 1048576-2097152/2097153");
    assert_eq!(rest.header("x-cache"), "MISS");
    assert_eq!(world.gateway.stats().versions_changed.get(), 1);
}

#[tokio::test]
async fn what_only_the_origin_can_answer_goes_there() {
    let world = World::start(Freshness::Immutable).await;
    world.put("k", "hello");
    let mut connection = Connection::open(world.address).await;
    assert_eq!(connection.ask(Ask::new("GET", "/b/k")).await.status, 200);
    for uri in ["/b/k?acl", "/b/k?versionId=null", "/b/k?partNumber=1", "/", "/b?list-type=2"] {
        let answer = connection.ask(Ask::new("GET", uri)).await;
        assert_eq!(answer.header("x-cache"), "BYPASS", "{uri}");
    }
    let encrypted = ("x-amz-server-side-encryption-customer-algorithm", "AES256");
    let answer = connection.ask(Ask::new("GET", "/b/k").with(encrypted.0, encrypted.1)).await;
    assert_eq!(answer.header("x-cache"), "BYPASS");
    let missing = connection.ask(Ask::new("GET", "/b/none")).await;
    assert_eq!((missing.status, missing.code().as_str()), (404, "NoSuchKey"));
    assert_eq!(missing.header("x-cache"), "MISS");
    let missing = connection.ask(Ask::new("GET", "/nowhere/k")).await;
    assert_eq!((missing.status, missing.code().as_str()), (404, "NoSuchBucket"));
    assert_eq!(missing.header("x-cache"), "BYPASS");
}

#[tokio::test]
async fn every_answer_has_a_name_of_its_own() {
    let world = World::start(Freshness::Immutable).await;
    world.put("k", "hello");
    let mut connection = Connection::open(world.address).await;
    let mut names = BTreeSet::new();
    for uri in ["/b/k", "/b/k", "/b/none", "/b/k?acl", "/%zz", "/b/k?versionId=1", "/b"] {
        let answer = connection.ask(Ask::new("GET", uri)).await;
        let name = answer.header("x-amz-request-id").to_owned();
        assert!(!name.is_empty(), "{uri}");
        // Error documents of a folder origin have no request id.
        if !answer.code().is_empty() {
            assert!(answer.text().contains(&format!("<RequestId>{name}</RequestId>")));
        }
        names.insert(name);
    }
    assert_eq!(names.len(), 7);
}

#[tokio::test]
async fn keys_are_bytes_and_nothing_is_tidied_up() {
    let world = World::start(Freshness::Immutable).await;
    world.put("a+b", "plus");
    world.put("a b", "space");
    world.put("日本.txt", "unicode");
    world.put("d/a%b&c=d;e", "signs");
    let mut connection = Connection::open(world.address).await;
    for (uri, expected) in [
        ("/b/a+b", "plus"),
        ("/b/a%2Bb", "plus"),
        ("/b/a%20b", "space"),
        ("/b/%E6%97%A5%E6%9C%AC.txt", "unicode"),
        ("/b/d%2Fa%25b&c=d;e", "signs"),
    ] {
        assert_eq!(connection.ask(Ask::new("GET", uri)).await.text(), expected, "{uri}");
    }
    for uri in ["/b/d//a%25b&c=d;e", "/b/./a+b", "/b/x/../a+b", "/b/a+b/", "/b/%2e%2e/b/a+b"] {
        let status = connection.ask(Ask::new("GET", uri)).await.status;
        assert!((400..=404).contains(&status), "{uri} is another key, not {status}");
    }
}

#[tokio::test]
async fn requests_that_are_sent_at_once_are_answered_in_order() {
    let world = World::start(Freshness::Immutable).await;
    let mut wire = Vec::new();
    for n in 0..20 {
        world.put(&format!("k{n}"), format!("body {n}"));
        wire.extend(Ask::new("GET", &format!("/b/k{n}")).signed());
    }
    let mut connection = Connection::open(world.address).await;
    connection.send(&wire).await;
    for n in 0..20 {
        let answer = connection.answer(&Method::GET).await.unwrap();
        assert_eq!(answer.text(), format!("body {n}"));
    }
}

#[tokio::test]
async fn a_body_with_a_get_is_no_secret_way_around_the_hash() {
    let world = World::start(Freshness::Immutable).await;
    world.put("k", "hello");
    let mut ask = Ask::new("GET", "/b/k");
    let wrong = "a".repeat(64);
    crate::client::signer(crate::client::ACCESS_KEY, crate::client::SECRET_KEY).sign(
        crate::client::now(),
        &mut ask.head,
        &wrong,
    );
    let mut connection = Connection::open(world.address).await;
    connection.send(&ask.plain()).await;
    let answer = connection.answer(&Method::GET).await.unwrap();
    assert_eq!((answer.status, answer.code().as_str()), (400, "XAmzContentSHA256Mismatch"));
}

#[tokio::test]
async fn without_its_cache_the_gateway_still_answers() {
    let mut world = World::start(Freshness::Immutable).await;
    world.put("k", "hello");
    world.lose_cache().await;
    let answer = get(world.address, "/b/k").await;
    assert_eq!((answer.status, answer.text().as_str()), (200, "hello"));
    assert_eq!(answer.header("x-cache"), "BYPASS");
}
