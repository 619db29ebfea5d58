//! Cache bypass: the headers that SDKs send do not cause one, and each bypass has its reason.

use std::sync::{Arc, Mutex};

use http::Method;
use zonal_base::Nanos;
use zonal_gateway::{BypassReason, CacheStatus, Caching, VendorHeaders};
use zonal_host::Freshness;

use crate::bad_origins::{Step, scripted, send};
use crate::client::{Answer, Ask, Connection, ask, get, presigned};
use crate::world::{REVALIDATE, World, eventually};

const MD5: &str = "\"5d41402abc4b2a76b9719d911017c592\"";

/// An S3 endpoint whose objects all contain `hello`.
#[derive(Clone, Default)]
struct Store(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    heads: Vec<String>,
    /// ETag of all objects. Empty: no ETag is sent.
    etag: String,
    /// Selects the request heads that are answered 403.
    refused: Option<fn(&str) -> bool>,
}

impl Store {
    async fn world(&self, freshness: Freshness) -> World {
        let store = self.clone();
        let origin = scripted(move |head| store.answer(head)).await;
        World::over_origin(origin, freshness).await
    }

    fn with_etag(etag: &str) -> Self {
        let store = Self::default();
        store.set_etag(etag);
        store
    }

    fn set_etag(&self, etag: &str) {
        etag.clone_into(&mut self.0.lock().unwrap().etag);
    }

    fn refuse(&self, refused: fn(&str) -> bool) {
        self.0.lock().unwrap().refused = Some(refused);
    }

    /// The request heads since the last call.
    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap().heads)
    }

    fn answer(&self, head: &str) -> Vec<Step> {
        let mut inner = self.0.lock().unwrap();
        inner.heads.push(head.to_owned());
        if head.contains(" /b/") && inner.refused.is_some_and(|refused| refused(head)) {
            let document = "<Error><Code>AccessDenied</Code></Error>";
            let length = document.len();
            let head_only = head.starts_with("HEAD");
            let document = if head_only { "" } else { document };
            return send(&format!(
                "HTTP/1.1 403 Forbidden\r\ncontent-length: {length}\r\n\r\n{document}"
            ));
        }
        if inner.etag.is_empty() {
            return send("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello");
        }
        let etag = &inner.etag;
        let range = head.split("range: bytes=").nth(1).and_then(|rest| rest.lines().next());
        match range.and_then(|range| range.split_once('-')) {
            Some((first, last)) => {
                let (first, last) =
                    (first.parse::<usize>().unwrap(), last.parse().unwrap_or(4).min(4));
                let part = &"hello"[first..=last];
                let length = part.len();
                send(&format!(
                    "HTTP/1.1 206 Partial Content\r\netag: {etag}\r\ncontent-range: bytes {first}-{last}/5\r\n\
                     content-length: {length}\r\n\r\n{part}"
                ))
            }
            None => send(&format!(
                "HTTP/1.1 200 OK\r\netag: {etag}\r\nx-amz-checksum-crc32: NhCmhg==\r\ncontent-length: 5\r\n\r\nhello"
            )),
        }
    }
}

#[track_caller]
fn is(answer: &Answer, cache: &str, reason: &str) {
    let said = (answer.status, answer.header("x-cache"), answer.header("x-cache-reason"));
    assert_eq!(said, (200, cache, reason), "{}", answer.text());
}

/// Sends a presigned GET: its head has no signature.
async fn presigned_get(world: &World, path: &str) -> Answer {
    let mut connection = Connection::open(world.address).await;
    connection.send(&presigned(path)).await;
    connection.answer(&Method::GET).await.unwrap()
}

#[tokio::test]
async fn what_the_sdks_say_of_each_read_keeps_none_from_the_cache() {
    let store = Store::with_etag(MD5);
    let world = store.world(REVALIDATE).await;
    // Headers of the SDKs for Java, JavaScript and C++, of load balancers, and of tracing.
    let headers = [
        ("x-amz-te", "append-md5"),
        ("x-amz-checksum-crc32", "AAAAAA=="),
        ("x-amz-checksum-mode", "ENABLED"),
        ("x-amz-sdk-checksum-algorithm", "CRC32"),
        ("x-amz-trace-id", "Root=1-2-3"),
        ("x-amzn-trace-id", "Root=1-2-3"),
        ("x-amz-api-version", "2006-03-01"),
        ("x-amz-user-agent", "aws-sdk-js/3"),
        ("x-amz-request-payer", "requester"),
        ("x-amz-meta-purpose", "none"),
        ("amz-sdk-request", "attempt=1; max=3"),
    ];
    let read = |path: &'static str| {
        let request = Ask::new("GET", path);
        headers.iter().fold(request, |request, (name, value)| request.with(name, value))
    };
    is(&ask(world.address, read("/b/k")).await, "MISS", "");
    world.settle().await;
    is(&ask(world.address, read("/b/k")).await, "REVALIDATED", "");
    let query = "x-id=GetObject&x-amz-checksum-mode=ENABLED&x-amz-user-agent=js&x-amz-sdk-checksum-algorithm=CRC32\
                 &X-Amz-Checksum-Crc32=AAAAAA%3D%3D&x-amz-te=append-md5&x-amz-request-payer=requester";
    let answer = presigned_get(&world, &format!("/b/k?{query}")).await;
    is(&answer, "REVALIDATED", "");
    assert_eq!(answer.header("x-amz-checksum-crc32"), "NhCmhg==");
    let answer = presigned_get(&world, "/b/k?x-id=GetObject").await;
    assert!(!answer.has("x-amz-checksum-crc32"));
    let asked = store.asked().concat();
    assert!(!asked.contains("x-amz-te") && !asked.contains("AAAAAA"), "{asked}");
    assert!(asked.contains("x-amz-request-payer: requester"), "{asked}");
    assert_eq!(world.outcomes(CacheStatus::Bypass), 0);
}

#[tokio::test]
async fn every_bypass_has_its_reason() {
    let world = World::start(REVALIDATE).await;
    for key in ["k", "never/k"] {
        world.put(key, "hello");
    }
    let ours = |uri: &str| Ask::new("GET", uri);
    let cases = [
        (ours("/b/k").with("x-amz-unheard-of", "1"), "unknown-header; name=x-amz-unheard-of"),
        (ours("/b/k?x-amz-unheard-of=1"), "unknown-header; name=x-amz-unheard-of"),
        (ours("/b/k").with("x-goog-user-project", "p"), "unknown-header; name=x-goog-user-project"),
        (
            ours("/b/k").with("x-amz-server-side-encryption-customer-algorithm", "AES256"),
            "customer-key",
        ),
        (ours("/b/k?versionId=null"), "version-id"),
        (ours("/b/k?partNumber=2"), "part-number"),
        (ours("/b/never/k"), "keep-never"),
        (ours("/none/k"), "not-found"),
        (ours("/b?list-type=2"), "operation"),
        (Ask::new("PUT", "/b/new").body("x"), "operation"),
        (ours("/"), "operation"),
    ];
    let mut bypassed = 0;
    for (request, reason) in cases {
        let answer = ask(world.address, request).await;
        let said = (answer.header("x-cache"), answer.header("x-cache-reason"));
        assert_eq!(said, ("BYPASS", reason), "{}", answer.text());
        bypassed += 1;
    }
    world.gateway.set_caching(Caching::Off);
    is(&get(world.address, "/b/k").await, "BYPASS", "caching-off");
    let counted: Vec<_> = world.gateway.stats().bypasses().filter(|(_, n)| *n != 0).collect();
    assert_eq!(counted.iter().map(|(_, n)| n).sum::<u64>(), bypassed + 1);
    assert_eq!(world.outcomes(CacheStatus::Bypass), bypassed + 1);
    assert!(counted.contains(&(BypassReason::UnknownHeader, 3)), "{counted:?}");
}

#[tokio::test]
async fn a_header_that_is_said_to_be_harmless_is_dropped() {
    let store = Store::with_etag(MD5);
    let world = store.world(Freshness::Immutable).await;
    let read = || Ask::new("GET", "/b/k").with("x-amz-new", "1");
    is(&ask(world.address, read()).await, "BYPASS", "unknown-header; name=x-amz-new");
    world.change_terms(|runtime_config| {
        runtime_config.vendor_headers =
            VendorHeaders::default().with_harmless("x-amz-new").unwrap();
    });
    is(&ask(world.address, read()).await, "MISS", "");
    is(&ask(world.address, read()).await, "HIT", "");
    let write = Ask::new("PUT", "/b/k").with("x-amz-new", "1").body("x");
    assert_eq!(ask(world.address, write).await.status, 400, "a write would be another one");
    assert!(!store.asked().concat().contains("x-amz-new"));
}

#[tokio::test]
async fn a_read_of_an_object_without_an_etag_costs_one_request() {
    let store = Store::default();
    let world = store.world(REVALIDATE).await;
    is(&get(world.address, "/b/k").await, "BYPASS", "no-etag");
    store.asked();
    for _ in 0..4 {
        is(&get(world.address, "/b/k").await, "BYPASS", "no-etag");
    }
    assert_eq!(store.asked().len(), 4);
    for n in 0..100 {
        is(&get(world.address, &format!("/b/{n}")).await, "BYPASS", "no-etag");
    }
    assert_eq!(store.asked().len(), 100);
    // An answer with an ETag ends that.
    store.set_etag(MD5);
    is(&get(world.address, "/b/k").await, "BYPASS", "no-etag");
    is(&get(world.address, "/b/k").await, "MISS", "");
    let weak = Store::with_etag("W/\"1\"");
    let world = weak.world(REVALIDATE).await;
    for _ in 0..3 {
        is(&get(world.address, "/b/k").await, "BYPASS", "no-etag");
    }
    assert_eq!(weak.asked().len(), 3);
}

#[tokio::test]
async fn an_expected_owner_is_confirmed_by_the_origin_and_remembered() {
    let store = Store::with_etag(MD5);
    let world = store.world(Freshness::Ttl(Nanos::secs(3600))).await;
    let read = |owner| Ask::new("GET", "/b/k").with("x-amz-expected-bucket-owner", owner);
    is(&ask(world.address, read("111122223333")).await, "MISS", "");
    let asked = store.asked();
    let with_owner = |head: &&String| head.contains("x-amz-expected-bucket-owner: 111122223333");
    assert_eq!(asked.iter().filter(with_owner).count(), 1, "{asked:?}");
    is(&ask(world.address, read("111122223333")).await, "HIT", "");
    assert_eq!(store.asked(), [""; 0]);
    // A cached object is not served if the expected owner is another account.
    store.refuse(|head| head.contains("bucket-owner:") && !head.contains("111122223333"));
    let answer = ask(world.address, read("444455556666")).await;
    assert_eq!((answer.status, answer.header("x-cache-reason")), (403, "bucket-owner"));
    is(&ask(world.address, read("111122223333")).await, "HIT", "");
    // `no-cache` makes the gateway ask the origin about the owner again.
    store.asked();
    let now = read("111122223333").with("cache-control", "no-cache");
    assert_eq!(ask(world.address, now).await.status, 200);
    assert!(store.asked().iter().any(|head| with_owner(&head)));
    // The bucket changes its owner. A read that is not cached must not use the earlier
    // confirmation.
    store.refuse(|head| head.contains("x-amz-expected-bucket-owner: 111122223333"));
    is(&ask(world.address, read("111122223333")).await, "HIT", "");
    let new = Ask::new("GET", "/b/new").with("x-amz-expected-bucket-owner", "111122223333");
    let answer = ask(world.address, new).await;
    assert_eq!((answer.status, answer.header("x-cache-reason")), (403, "bucket-owner"));
    assert_eq!(ask(world.address, read("111122223333")).await.status, 403, "it is withdrawn");
}

#[tokio::test]
async fn where_the_requester_pays_our_own_requests_say_so() {
    let store = Store::with_etag(MD5);
    store.refuse(|head| !head.contains("x-amz-request-payer: requester"));
    let world = store.world(REVALIDATE).await;
    let answer = get(world.address, "/b/k").await;
    assert_eq!((answer.status, answer.header("x-cache-reason")), (403, "denied"));
    let read = || Ask::new("GET", "/b/k").with("x-amz-request-payer", "requester");
    is(&ask(world.address, read()).await, "MISS", "");
    is(&ask(world.address, read()).await, "REVALIDATED", "");
    let owned = read().with("x-amz-expected-bucket-owner", "111122223333");
    is(&ask(world.address, owned).await, "REVALIDATED", "");
}

#[tokio::test]
async fn nobody_has_us_pay_who_may_not_read() {
    let store = Store::with_etag(MD5);
    store.refuse(|head| head.contains("x-amz-request-payer: requester"));
    let origin = store.clone();
    let world = World::judged_by(scripted(move |head| origin.answer(head)).await).await;
    let read = || Ask::new("GET", "/b/k");
    let answer = ask(world.address, read().with("x-amz-request-payer", "requester")).await;
    assert_eq!(answer.status, 403);
    store.asked();
    assert_eq!(ask(world.address, Ask::new("GET", "/b/other")).await.status, 200);
    assert!(!store.asked().concat().contains("x-amz-request-payer"));
}

#[tokio::test]
async fn an_origin_that_judges_and_begins_to_send_etags_is_believed() {
    let store = Store::default();
    let origin = store.clone();
    let world = World::judged_by(scripted(move |head| origin.answer(head)).await).await;
    for n in 0..40 {
        is(&get(world.address, &format!("/b/{n}")).await, "BYPASS", "no-etag");
    }
    store.set_etag(MD5);
    is(&get(world.address, "/b/0").await, "BYPASS", "no-etag");
    is(&get(world.address, "/b/0").await, "BYPASS", "not-confirmed");
}

#[tokio::test]
async fn the_first_part_of_an_object_without_parts_is_all_of_it() {
    let store = Store::with_etag(MD5);
    let world = store.world(Freshness::Immutable).await;
    get(world.address, "/b/k").await;
    for method in ["GET", "HEAD"] {
        let part = Ask::new(method, "/b/k?partNumber=1").with("x-amz-checksum-mode", "ENABLED");
        let part = ask(world.address, part).await;
        let said = (part.status, part.header("x-cache"), part.header("content-range"));
        assert_eq!(said, (206, "HIT", "bytes 0-4/5"), "{method}");
        let said = (part.header("content-length"), part.header("x-amz-checksum-crc32"));
        assert_eq!(said, ("5", "NhCmhg=="));
    }
    for request in [
        Ask::new("GET", "/b/k?partNumber=2"),
        Ask::new("GET", "/b/k?partNumber=1").with("range", "bytes=0-1"),
    ] {
        assert_eq!(ask(world.address, request).await.header("x-cache-reason"), "part-number");
    }
    let parts = Store::with_etag("\"5d41402abc4b2a76b9719d911017c592-2\"");
    let world = parts.world(Freshness::Immutable).await;
    for _ in 0..2 {
        for method in ["GET", "HEAD"] {
            let part = ask(world.address, Ask::new(method, "/b/k?partNumber=1")).await;
            assert_eq!((part.status, part.header("x-cache-reason")), (200, "part-number"));
        }
    }
}

#[tokio::test]
async fn a_presigned_write_is_not_held_to_the_checksum_of_nothing() {
    let store = Store::with_etag(MD5);
    let world = store.world(REVALIDATE).await;
    let checksums = "x-amz-checksum-crc32=AAAAAA%3D%3D&x-amz-sdk-checksum-algorithm=CRC32";
    for query in [
        format!("{checksums}&x-id=PutObject"),
        format!("{checksums}&partNumber=1&uploadId=1&x-id=UploadPart"),
    ] {
        let put = Ask::new("PUT", &format!("/b/k?{query}")).body("real bytes");
        assert_eq!(ask(world.address, put).await.status, 200, "{query}");
        let asked = store.asked().concat();
        assert!(asked.contains("PUT /b/k") && !asked.contains("crc32"), "{asked}");
        assert!(!asked.to_lowercase().contains("sdk-checksum"), "{asked}");
    }
    // The same checksum as a header is forwarded.
    let put = Ask::new("PUT", "/b/k").with("x-amz-checksum-crc32", "AAAAAA==").body("real bytes");
    ask(world.address, put).await;
    assert!(store.asked().concat().contains("x-amz-checksum-crc32: AAAAAA=="));
}

#[tokio::test]
async fn a_client_of_another_region_is_told_the_right_one() {
    let world = World::start(REVALIDATE).await;
    let elsewhere = |method: &str, uri: &str| {
        let wire = String::from_utf8(Ask::new(method, uri).signed()).unwrap();
        wire.replace("/us-east-1/", "/eu-west-3/")
    };
    for (method, uri) in [("HEAD", "/b/k"), ("HEAD", "/b"), ("GET", "/b/k")] {
        let mut connection = Connection::open(world.address).await;
        connection.send(elsewhere(method, uri).as_bytes()).await;
        let answer = connection.answer(&method.parse().unwrap()).await.unwrap();
        let said = (answer.status, answer.header("x-amz-bucket-region"));
        assert_eq!(said, (400, "us-east-1"), "{method} {uri}");
    }
    let answer = ask(world.address, Ask::new("HEAD", "/b")).await;
    assert_eq!((answer.status, answer.header("x-amz-bucket-region")), (200, "us-east-1"));
}

#[tokio::test]
async fn reasons_of_origins_that_refuse_the_cache() {
    let origin = scripted(|_| send("HTTP/1.1 418 Teapot\r\ncontent-length: 0\r\n\r\n")).await;
    let world = World::over_origin(origin, REVALIDATE).await;
    let refused = get(world.address, "/b/k").await;
    assert_eq!((refused.status, refused.header("x-cache-reason")), (418, "origin-status"));
    let long = "x".repeat(10 << 10);
    let origin = scripted(move |_| {
        send(&format!(
            "HTTP/1.1 200 OK\r\netag: \"e\"\r\ncontent-language: {long}\r\ncontent-length: 5\r\n\r\nhello"
        ))
    });
    let world = World::over_origin(origin.await, REVALIDATE).await;
    is(&get(world.address, "/b/k").await, "BYPASS", "headers-too-long");
    let mut world = World::start(REVALIDATE).await;
    world.put("k", "hello");
    world.lose_cache().await;
    is(&get(world.address, "/b/k").await, "BYPASS", "cache-lost");
    eventually("the answer is counted", || world.outcomes(CacheStatus::Bypass) == 1).await;
}
