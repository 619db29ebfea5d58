//! Origin authorization: the origin judges each request as its client signed it. The origin is a
//! second gateway that has the keys, or a real S3 server.

use http::Method;
use zonal_gateway::{Access, AccessRules, CacheStatus, Domains, Operation};
use zonal_origin::{Origin, OriginLimits, S3Origin};
use zonal_s3::sigv4::{Credentials, Timestamp};

use crate::client::{
    ACCESS_KEY, Answer, Ask, Connection, REGION, SECRET_KEY, ask, get, now, presigned, signer,
};
use crate::versitygw::{self, VersityGw};
use crate::world::{REVALIDATE, World, pattern};

const READER: &str = "AKIAREADER";
const READER_SECRET: &str = "reader/secret";

/// Object content that must not leak.
const SECRET: &str = "THE SECRET";

/// The origin, at which the key `READER` may read `b/open/`, and the cache in front of it.
async fn worlds() -> (World, World) {
    let origin = World::start(REVALIDATE).await;
    origin.put("open/k", "one");
    origin.put("closed/k", SECRET);
    origin.put("closed/other", SECRET);
    let open = AccessRules::all(Access::None).with("b/open/", Access::Read);
    origin.change_terms(|runtime_config| {
        runtime_config.access_keys =
            runtime_config.access_keys.clone().with(READER, READER_SECRET, open);
    });
    let endpoint = format!("http://{}", origin.address).parse().unwrap();
    let (access_key, secret_key) = (ACCESS_KEY.to_owned(), SECRET_KEY.to_owned());
    let keys = Credentials { access_key, secret_key, session_token: None };
    let behind = S3Origin::open(endpoint, REGION.to_owned(), Some(keys), OriginLimits::default());
    let cache = World::judged_by(Origin::from(behind.unwrap())).await;
    (origin, cache)
}

fn of_reader(method: &str, uri: &str) -> Ask {
    Ask::new(method, uri).signed_by(READER).signed_with(READER_SECRET)
}

/// Status, `X-Cache` and text of an answer.
fn said(answer: &Answer) -> (u16, &str, String) {
    (answer.status, answer.header("x-cache"), answer.text())
}

fn reads(world: &World, class: u16) -> u64 {
    let stats = world.gateway.stats();
    let all =
        stats.requests().filter(|(of, status, _)| (*of, *status) == (Operation::GetObject, class));
    all.map(|(_, _, n)| n).sum()
}

#[tokio::test]
async fn a_hit_costs_one_request_of_its_client_and_no_bytes() {
    let (origin, cache) = worlds().await;
    let bytes = pattern(1 << 20, 0);
    origin.put("open/blob", &bytes);
    let first = ask(cache.address, of_reader("GET", "/b/open/blob")).await;
    assert_eq!((first.status, first.header("x-cache")), (200, "MISS"));
    assert!(first.body == bytes);
    cache.settle().await;
    let (confirmed, sent) = (reads(&origin, 3), reads(&origin, 2));
    for (range, expected) in [(None, &bytes[..]), (Some("bytes=7-9"), &bytes[7..10])] {
        let request = of_reader("GET", "/b/open/blob");
        let request = match range {
            Some(range) => request.with("range", range).with("if-match", first.header("etag")),
            None => request,
        };
        let hit = ask(cache.address, request).await;
        assert_eq!((hit.status / 100, hit.header("x-cache")), (2, "REVALIDATED"), "{range:?}");
        assert!(hit.body == expected, "{range:?}");
    }
    let mut connection = Connection::open(cache.address).await;
    connection.send(&presigned("/b/open/blob?response-content-type=a%2Fb")).await;
    let hit = connection.answer(&Method::GET).await.unwrap();
    assert_eq!((hit.header("x-cache"), hit.header("content-type")), ("REVALIDATED", "a/b"));
    assert!(hit.body == bytes);
    assert_eq!((reads(&origin, 3), reads(&origin, 2)), (confirmed + 3, sent));
    let head = ask(cache.address, of_reader("HEAD", "/b/open/blob")).await;
    assert_eq!((head.status, head.header("content-length")), (200, "1048576"));
}

#[tokio::test]
async fn who_is_denied_gets_the_words_of_the_origin_and_not_a_byte() {
    let (_origin, cache) = worlds().await;
    assert_eq!(get(cache.address, "/b/closed/k").await.text(), SECRET);
    cache.settle().await;
    assert_eq!(get(cache.address, "/b/closed/k").await.header("x-cache"), "REVALIDATED");
    let old = Timestamp::from_unix_seconds(now().unix_seconds() - 3600);
    let expired = |path: &str| {
        let url = format!("http://gateway{path}").parse().unwrap();
        let url = signer(ACCESS_KEY, SECRET_KEY).presign(old, &Method::GET, &url, 60);
        Ask::new("GET", url.strip_prefix("http://gateway").unwrap()).plain()
    };
    let text = |wire: Vec<u8>| String::from_utf8(wire).unwrap();
    let moved = |path: &str| {
        let signed = text(of_reader("GET", "/b/open/k").signed());
        signed.replace("/b/open/k", path).into_bytes()
    };
    for path in ["/b/closed/k", "/b/closed/other"] {
        let requests = [
            ("AccessDenied", of_reader("GET", path).signed()),
            ("AccessDenied", of_reader("GET", path).with("range", "bytes=0-3").signed()),
            ("AccessDenied", of_reader("GET", path).with("if-match", "*").signed()),
            ("AccessDenied", of_reader("GET", path).with("cache-control", "max-stale").signed()),
            ("AccessDenied", Ask::new("GET", path).plain()),
            ("AccessDenied", expired(path)),
            ("SignatureDoesNotMatch", Ask::new("GET", path).signed_with("wrong").signed()),
            ("SignatureDoesNotMatch", moved(path)),
            ("InvalidAccessKeyId", Ask::new("GET", path).signed_by("NOBODY").signed()),
            ("RequestTimeTooSkewed", Ask::new("GET", path).signed_at(old).signed()),
        ];
        for (code, wire) in requests {
            let shown = String::from_utf8_lossy(&wire).into_owned();
            let mut connection = Connection::open(cache.address).await;
            connection.send(&wire).await;
            let answer = connection.answer(&Method::GET).await.unwrap();
            assert_eq!((answer.status, answer.code().as_str()), (403, code), "{shown}");
            assert!(!answer.text().contains(SECRET) && !answer.has("etag"), "{shown}");
        }
    }
    for odd in ["/b/open/../closed/k", "/b/open/%2E%2E/closed/k", "/b//closed/k", "/b/./closed/k"] {
        let answer = ask(cache.address, of_reader("GET", odd)).await;
        assert!(400 <= answer.status && !answer.text().contains(SECRET), "{odd}: {answer:?}");
    }
}

#[tokio::test]
async fn a_host_that_may_be_a_bucket_to_the_origin_is_refused() {
    let (_origin, cache) = worlds().await;
    assert_eq!(get(cache.address, "/b/closed/k").await.text(), SECRET);
    cache.change_terms(|runtime_config| runtime_config.domains = Domains::default());
    let refused = get(cache.address, "/b/closed/k").await;
    assert_eq!((refused.status, refused.code().as_str()), (403, "AccessDenied"));
    for host in ["127.0.0.1", "127.0.0.1:9000", "[::1]:9000"] {
        let mut named = Ask::new("GET", "/b/closed/k");
        named.head.headers.insert("host", host.parse().unwrap());
        assert_eq!(ask(cache.address, named).await.text(), SECRET, "{host}");
    }
    for host in ["evil.example.com", "b", "127.0.0.1.example.com", "a@127.0.0.1"] {
        let mut named = Ask::new("GET", "/b/closed/k");
        named.head.headers.insert("host", host.parse().unwrap());
        assert_eq!(ask(cache.address, named).await.status, 403, "{host}");
    }
}

#[tokio::test]
async fn what_somebody_adds_to_a_signed_request_does_not_reach_the_origin() {
    let (origin, cache) = worlds().await;
    let asked = || origin.gateway.stats().requests().map(|(_, _, n)| n).sum::<u64>();
    let answer = async |wire: &str| {
        let mut connection = Connection::open(cache.address).await;
        connection.send(wire.as_bytes()).await;
        connection.answer(&Method::PUT).await.unwrap()
    };
    let url = "http://gateway/b/open/w".parse().unwrap();
    let url = signer(ACCESS_KEY, SECRET_KEY).presign(now(), &Method::PUT, &url, 60);
    let url = Ask::new("PUT", url.strip_prefix("http://gateway").unwrap());
    for wire in [Ask::new("PUT", "/b/open/w").signed(), url.with("content-length", "0").plain()] {
        let wire = String::from_utf8(wire).unwrap();
        assert_eq!(answer(&wire).await.status, 200, "{wire}");
        let before = asked();
        for line in ["x-amz-copy-source: b/closed/k", "x-amz-acl: public-read"] {
            let refused = answer(&wire.replacen("\r\n", &format!("\r\n{line}\r\n"), 1)).await;
            assert_eq!((refused.status, refused.code().as_str()), (403, "AccessDenied"), "{line}");
            assert!(refused.text().contains("<HeadersNotSigned>"), "{}", refused.text());
        }
        let names = "X-Amz-SignedHeaders=";
        let twice = wire.replace(names, &format!("{names}a&{names}"));
        let twice = twice.replace(",SignedHeaders=", ",SignedHeaders=a,SignedHeaders=");
        assert_eq!(answer(&twice).await.status, 400, "{twice}");
        assert_eq!(asked(), before, "the origin was asked");
    }
}

#[tokio::test]
async fn what_changes_at_the_origin_is_seen_at_once() {
    let (origin, cache) = worlds().await;
    let read = || ask(cache.address, of_reader("GET", "/b/open/k"));
    assert_eq!(read().await.text(), "one");
    origin.put("open/k", "another");
    let changed = read().await;
    assert_eq!(said(&changed), (200, "BYPASS", "another".into()));
    assert_eq!(changed.header("x-cache-reason"), "not-confirmed");
    let is_cached_again = async { while read().await.header("x-cache") != "REVALIDATED" {} };
    is_cached_again.await;
    assert_eq!(read().await.text(), "another");
    std::fs::remove_file(origin.path("open/k")).unwrap();
    let gone = read().await;
    assert_eq!((gone.status, gone.code().as_str()), (404, "NoSuchKey"));
    // The origin evaluates the client's own conditions.
    origin.put("open/k", "third");
    let etag = read().await.header("etag").to_owned();
    let known =
        ask(cache.address, of_reader("GET", "/b/open/k").with("if-none-match", &etag)).await;
    assert_eq!((known.status, known.header("x-cache"), known.body.len()), (304, "BYPASS", 0));
    assert_eq!(known.header("x-cache-reason"), "origin-authorizes");
    // A request for a part has its reason as well.
    let part = ask(cache.address, of_reader("GET", "/b/open/k?partNumber=1")).await;
    assert_eq!(part.header("x-cache-reason"), "part-number");
    // The header is signed, so it cannot be dropped.
    let unknown = ask(cache.address, of_reader("GET", "/b/open/k").with("x-amz-new", "1")).await;
    assert_eq!((unknown.status, unknown.code().as_str()), (400, "InvalidArgument"));
    let of_sdk = of_reader("GET", "/b/open/k").with("x-amz-checksum-crc32", "AAAAAA==");
    let is_hit = async {
        while read().await.header("x-cache") != "REVALIDATED" {}
        ask(cache.address, of_sdk).await.header("x-cache") == "REVALIDATED"
    };
    assert!(is_hit.await);
    let other = ask(cache.address, of_reader("GET", "/b/open/k").with("if-match", "\"x\"")).await;
    assert_eq!(other.status, 412);
}

#[tokio::test]
async fn writes_go_as_they_are_signed_and_remove_what_they_change() {
    let (origin, cache) = worlds().await;
    for text in ["first", "second"] {
        let put = ask(cache.address, Ask::new("PUT", "/b/open/w").body(text)).await;
        assert_eq!((put.status, put.header("x-cache")), (200, "BYPASS"), "{}", put.text());
        assert_eq!(get(cache.address, "/b/open/w").await.text(), text);
        cache.settle().await;
        assert_eq!(said(&get(cache.address, "/b/open/w").await), (200, "REVALIDATED", text.into()));
    }
    // Metadata names may contain underscores, unless an origin obeys the metadata as a command.
    let with = |name| Ask::new("PUT", "/b/open/named").with(name, "true").body("third");
    assert_eq!(ask(cache.address, with("x-amz-meta-a_b")).await.status, 200);
    for order in ["x_amz_acl", "x-amz-meta-snowball_auto_extract", "x_amz_meta_a"] {
        let order = ask(cache.address, with(order)).await;
        assert_eq!((order.status, order.code().as_str()), (400, "InvalidArgument"));
    }
    let removals = cache.gateway.stats().removals.get();
    let refused = ask(cache.address, of_reader("PUT", "/b/open/w").body("not mine")).await;
    assert_eq!((refused.status, refused.code().as_str()), (403, "AccessDenied"));
    let stranger = Ask::new("DELETE", "/b/open/w").plain();
    let mut connection = Connection::open(cache.address).await;
    connection.send(&stranger).await;
    assert_eq!(connection.answer(&Method::DELETE).await.unwrap().status, 403);
    assert_eq!(cache.gateway.stats().removals.get(), removals, "who is refused removes nothing");
    assert_eq!(get(cache.address, "/b/open/w").await.header("x-cache"), "REVALIDATED");
    assert_eq!(ask(cache.address, Ask::new("DELETE", "/b/open/w")).await.status, 204);
    assert_eq!(get(cache.address, "/b/open/w").await.status, 404);
    let list = get(cache.address, "/b?list-type=2&prefix=open%2F").await;
    assert!(list.text().contains("<Key>open/k</Key>"), "{}", list.text());
    assert_eq!(ask(cache.address, of_reader("GET", "/b?list-type=2")).await.status, 403);
    assert_eq!(origin.outcomes(CacheStatus::Stale), 0);
}

#[tokio::test]
async fn a_real_server_judges_as_it_does_without_a_cache() {
    let Some(server) = VersityGw::start("judge").await else { return };
    server.add_user("reader", "readersecret").await;
    let cache = World::judged_by(server.origin(versitygw::SECRET_KEY)).await;
    let of_root = |method: &str, uri: &str| {
        Ask::new(method, uri).signed_by(versitygw::ACCESS_KEY).signed_with(versitygw::SECRET_KEY)
    };
    let of_user = |method: &str, uri: &str| {
        Ask::new(method, uri).signed_by("reader").signed_with("readersecret")
    };
    assert_eq!(ask(cache.address, of_root("PUT", "/bucket")).await.status, 200);
    let bytes = pattern(300_000, 1);
    for key in ["open/k", "closed/k"] {
        let uri = format!("/bucket/{key}");
        assert_eq!(ask(cache.address, of_root("PUT", &uri).body(bytes.clone())).await.status, 200);
        assert!(ask(cache.address, of_root("GET", &uri)).await.body == bytes);
    }
    cache.settle().await;
    let denied = ask(cache.address, of_user("GET", "/bucket/open/k")).await;
    assert_eq!((denied.status, denied.code().as_str()), (403, "AccessDenied"));
    let policy = r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"reader",
        "Action":"s3:GetObject","Resource":"arn:aws:s3:::bucket/open/*"}]}"#;
    let put = ask(cache.address, of_root("PUT", "/bucket?policy").body(policy)).await;
    assert!(put.status < 300, "{}", put.text());
    for (range, wanted) in [("bytes=0-299999", &bytes[..]), ("bytes=5-", &bytes[5..])] {
        let hit = ask(cache.address, of_user("GET", "/bucket/open/k").with("range", range)).await;
        assert_eq!((hit.status, hit.header("x-cache")), (206, "REVALIDATED"), "{}", hit.text());
        assert!(hit.body == wanted);
    }
    for request in [
        of_user("GET", "/bucket/closed/k"),
        of_user("GET", "/bucket/open/k").signed_with("wrong"),
        of_user("GET", "/bucket/open/k").signed_by("nobody"),
        of_user("DELETE", "/bucket/open/k"),
    ] {
        let answer = ask(cache.address, request).await;
        // This server answers 404 to an unknown key.
        assert!(matches!(answer.status, 403 | 404), "{}", answer.text());
        assert!(answer.body.len() < 2000, "no byte of the object");
    }
    let hit = ask(cache.address, of_root("GET", "/bucket/closed/k")).await;
    assert_eq!(hit.header("x-cache"), "REVALIDATED");
    assert!(hit.body == bytes);
    let new = pattern(1000, 2);
    assert_eq!(
        ask(cache.address, of_root("PUT", "/bucket/open/k").body(new.clone())).await.status,
        200
    );
    assert!(ask(cache.address, of_user("GET", "/bucket/open/k")).await.body == new);
}
