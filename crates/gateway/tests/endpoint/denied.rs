//! Unauthorized requests, for objects that are cached and objects that are not. None is served or
//! reaches the origin, and the error does not depend on what exists.

use http::Method;
use zonal_gateway::{Access, AccessRules, CacheStatus, Domains};
use zonal_host::Freshness;
use zonal_s3::sigv4::Timestamp;

use crate::client::{ACCESS_KEY, Ask, Connection, ask, get, now, presigned, signer};
use crate::world::World;

const LIMITED: &str = "AKIALIMITED";
const LIMITED_SECRET: &str = "limited/secret";

/// Domain for virtual-hosted style.
const DOMAIN: &str = "s3.test";

/// Object content that must not leak.
const SECRET: &str = "THE SECRET";

/// Reads `b/pub/` except `b/pub/private/`; writes `b/in/`.
fn limited() -> AccessRules {
    AccessRules::all(Access::None)
        .with("b/pub/", Access::Read)
        .with("b/pub/private/", Access::None)
        .with("b/in/", Access::Write)
}

async fn world() -> World {
    let world = World::start(Freshness::Immutable).await;
    for key in ["private/cached", "private/other", "pub/private/cached", "pub/private/other"] {
        world.put(key, SECRET);
    }
    world.put("pub/open", "open");
    for key in ["private/cached", "pub/private/cached"] {
        assert_eq!(get(world.address, &format!("/b/{key}")).await.text(), SECRET);
    }
    world.settle().await;
    world.change_terms(|runtime_config| {
        runtime_config.domains = Domains::default().with(DOMAIN).unwrap();
        runtime_config.access_keys =
            runtime_config.access_keys.clone().with(LIMITED, LIMITED_SECRET, limited());
    });
    world
}

fn of_limited(method: &str, uri: &str) -> Ask {
    Ask::new(method, uri).signed_by(LIMITED).signed_with(LIMITED_SECRET)
}

fn shifted(seconds: i64) -> Timestamp {
    Timestamp::from_unix_seconds(now().unix_seconds().checked_add_signed(seconds).unwrap())
}

/// The URL of a presigned GET.
fn presigned_by(access_key: &str, secret: &str, path: &str, at: Timestamp) -> String {
    let url = format!("http://gateway{path}").parse().unwrap();
    let url = signer(access_key, secret).presign(at, &Method::GET, &url, 60);
    url.strip_prefix("http://gateway").unwrap().to_owned()
}

/// Requests for an object without the right to it, in every form.
#[expect(clippy::too_many_lines, reason = "a table of requests")]
fn requests_for(key: &str) -> Vec<Vec<u8>> {
    let path = format!("/b/{key}");
    let get = || Ask::new("GET", &path);
    let pub_less = key.trim_start_matches("pub/");
    let source = |name: &'static str| {
        of_limited("PUT", "/b/in/copy").with(name, &format!("/b/{key}")).signed()
    };
    let theirs = |method: &str, uri: &str| of_limited(method, uri).signed();
    let url = |at| presigned_by(ACCESS_KEY, crate::client::SECRET_KEY, &path, at);
    let changed = |from: &str, to: &str| {
        let url = url(now());
        assert!(url.contains(from), "{url}");
        Ask::new("GET", &url.replace(from, to)).plain()
    };
    let open = String::from_utf8(presigned("/b/pub/open")).unwrap();
    let at = |host: &str| {
        let ask = Ask::new("GET", &format!("/{key}")).at(host);
        String::from_utf8(ask.signed()).unwrap()
    };
    let in_line = |host: &str| at(host).replace("GET /", "GET http://b.s3.test/").into_bytes();
    let elsewhere = |from: &str| at(from).replace(from, "b.s3.test").into_bytes();
    let second = |host: &str| format!("HTTP/1.1\r\nhost: {host}\r\n");
    let theirs_at = |host: &str, method: &str, uri: &str| of_limited(method, uri).at(host).signed();
    let mut moved = get();
    moved.head.headers.insert("x-amz-meta-a", "1".parse().unwrap());
    let signed = String::from_utf8(get().with("range", "bytes=0-3").signed()).unwrap();
    vec![
        // No key, an unknown key, or a wrong secret.
        get().plain(),
        Ask::new("HEAD", &path).plain(),
        get().signed_with("wrong").signed(),
        get().signed_by("AKIANOBODY").signed(),
        get().signed_by(LIMITED).signed(),
        get().signed_by(ACCESS_KEY).signed_with(LIMITED_SECRET).signed(),
        get().with("authorization", "AWS AKIATEST:c2ln").plain(),
        get().with("authorization", "Basic QUtJQVRFU1Q6").plain(),
        get().with("authorization", "Bearer AKIATEST").plain(),
        get().with("authorization", "").plain(),
        // Signed in the future, or expired.
        get().signed_at(shifted(-1000)).signed(),
        get().signed_at(shifted(1000)).signed(),
        Ask::new("GET", &url(shifted(-100))).plain(),
        Ask::new("GET", &url(shifted(2000))).plain(),
        // Changed after signing.
        changed("X-Amz-Expires=60", "X-Amz-Expires=61"),
        changed("X-Amz-Expires=60", "X-Amz-Expires=-1"),
        changed("X-Amz-Expires=60", "X-Amz-Expires=604801"),
        changed("X-Amz-Signature=", "X-Amz-Signature=0"),
        changed("X-Amz-SignedHeaders=host", "X-Amz-SignedHeaders="),
        changed("?", "?response-content-type=a%2Fb&"),
        changed("?", "?versionId=1&"),
        changed("&X-Amz-Signature=", "&X-Amz-Security-Token=t&X-Amz-Signature="),
        open.replace("/b/pub/open", &path).into_bytes(),
        signed.replace("GET ", "HEAD ").into_bytes(),
        signed.replace("host: gateway", "host: elsewhere").into_bytes(),
        signed.replace("HTTP/1.1\r\n", "HTTP/1.1\r\nx-amz-copy-source: /b/k\r\n").into_bytes(),
        signed.replace(&path, &format!("/b//{key}")).into_bytes(),
        signed.replace(&path, &format!("/b/./{key}")).into_bytes(),
        signed.replace(&path, &format!("{path}?versionId=1")).into_bytes(),
        signed.replace("HTTP/1.1\r\n", "HTTP/1.1\r\nconnection: x-amz-date\r\n").into_bytes(),
        moved.plain(),
        // A key with rights to other objects only.
        theirs("GET", &path),
        theirs("HEAD", &path),
        of_limited("GET", &path).with("range", "bytes=0-0").signed(),
        of_limited("GET", &path).with("if-none-match", "*").signed(),
        theirs("GET", &format!("{path}?versionId=null")),
        theirs("GET", &format!("{path}?partNumber=1")),
        theirs("GET", &format!("{path}?response-content-type=text%2Fplain")),
        theirs("GET", &format!("{path}?tagging")),
        theirs("GET", &format!("{path}?acl")),
        theirs("GET", &format!("{path}?attributes")),
        theirs("GET", &format!("{path}?uploadId=1")),
        theirs("POST", &format!("{path}?select&select-type=2")),
        theirs("PUT", &path),
        theirs("DELETE", &path),
        theirs("POST", &format!("{path}?uploads")),
        theirs("POST", &format!("{path}?restore")),
        theirs("PUT", &format!("{path}?acl")),
        source("x-amz-copy-source"),
        of_limited("PUT", "/b/in/part?uploadId=1&partNumber=1")
            .with("x-amz-copy-source", &format!("b/{}", key.replace('/', "%2F")))
            .signed(),
        theirs("PUT", &format!("/b/in/copy?x-amz-copy-source=%2Fb%2F{key}")),
        theirs("PUT", &format!("/b/in/copy?X-Amz-Copy-Source=%2Fb%2F{key}")),
        of_limited("PUT", "/b/in/copy?renameObject")
            .with("x-amz-rename-source", &format!("/b/{key}"))
            .signed(),
        // Names that an origin might take for the object's.
        theirs("GET", &format!("/b/pub//{pub_less}")),
        theirs("GET", &format!("/b/pub/./{pub_less}")),
        theirs("GET", &format!("/b/pub/%2e/{pub_less}")),
        theirs("GET", &format!("/b/pub/x/../{pub_less}")),
        theirs("GET", &format!("/b/pub/x/%2e%2e/{pub_less}")),
        theirs("GET", &format!("/b/pub/..%2F{key}")),
        theirs("GET", &format!("/b/pub%2F..%2F{key}")),
        theirs("GET", &format!("/b//{key}")),
        theirs("GET", &format!("/b/%2F{key}")),
        theirs("GET", &format!("/b/{}", key.replace('/', "%2F"))),
        theirs("GET", &format!("/b/{}", key.replace('r', "%72"))),
        theirs("GET", &format!("/b%2F{key}")),
        theirs("GET", &format!("/../b/{key}")),
        theirs("GET", &format!("/./b/{key}")),
        theirs("GET", &format!("//b/{key}")),
        of_limited("GET", &format!("http://elsewhere/b/{key}")).signed(),
        // The bucket in the `Host` header, which is signed, and in other places that can name a
        // host.
        Ask::new("GET", &format!("/{key}")).at("b.s3.test").plain(),
        elsewhere("c.s3.test"),
        elsewhere("s3.test"),
        elsewhere("gateway"),
        in_line("c.s3.test"),
        in_line("gateway"),
        at("b.s3.test").replace("HTTP/1.1\r\n", &second("b.s3.test")).into_bytes(),
        at("c.s3.test").replace("HTTP/1.1\r\n", &second("b.s3.test")).into_bytes(),
        signed.replace("host: gateway", "host: b.s3.test").into_bytes(),
        signed.replace("host: gateway", "host: s3.test").into_bytes(),
        signed.replace("host: gateway", "host: gateway.").into_bytes(),
        open.replace("host: gateway", "host: b.s3.test").replace("/b/pub/open", &path).into_bytes(),
        open.replace("host: gateway", "host: b.s3.test").into_bytes(),
        theirs_at("b.s3.test", "GET", &format!("/{key}")),
        theirs_at("B.S3.Test", "GET", &format!("/{key}")),
        theirs_at("b.s3.test.", "GET", &format!("/{key}")),
        theirs_at("b.s3.test:9000", "GET", &format!("/{key}")),
        theirs_at("b.s3.test", "GET", &format!("http://b.s3.test/{key}")),
        theirs_at("b.s3.test", "GET", &path),
        theirs_at("b.s3.test", "GET", &format!("/../b/{key}")),
        theirs_at("b.s3.test", "GET", &format!("/pub/../{key}")),
        theirs_at("b.s3.test", "GET", &format!("/pub//{pub_less}")),
        theirs_at("b.s3.test", "GET", &format!("//{key}")),
        theirs_at("b.s3.test", "GET", "/"),
        theirs_at("b.s3.test", "GET", "/?list-type=2&prefix=p"),
        theirs_at("b.s3.test", "PUT", &format!("/{key}")),
        theirs_at("b.s3.test", "DELETE", &format!("/{key}")),
        theirs_at("c.s3.test", "GET", &path),
        theirs_at("pub.s3.test", "GET", &format!("/b/{key}")),
        theirs_at("..s3.test", "GET", &path),
        theirs_at(".s3.test", "GET", &path),
        theirs_at("b/pub.s3.test", "GET", &format!("/../{key}")),
        theirs_at("b%2Fpub.s3.test", "GET", &format!("/{key}")),
        theirs_at("x@b.s3.test", "GET", &format!("/{key}")),
        theirs_at("b.s3.test.elsewhere", "GET", &path),
        theirs_at("bs3.test", "GET", &path),
        of_limited("GET", &path).at("pub.s3.test").with("x-forwarded-host", "b.s3.test").signed(),
        of_limited("GET", "/pub/open")
            .at("c.s3.test")
            .with("x-forwarded-host", "b.s3.test")
            .signed(),
        of_limited("PUT", "/in/copy")
            .at("b.s3.test")
            .with("x-amz-copy-source", &format!("/b/{key}"))
            .signed(),
        // Lists that would show the object.
        theirs("GET", "/?acl"),
        theirs("GET", "/b"),
        theirs("GET", "/b?list-type=2"),
        theirs("GET", "/b?prefix=p"),
        theirs("GET", "/b?prefix=pub%2F"),
        theirs("GET", "/b?prefix=pub%2Fprivate%2F&delimiter=%2F"),
        theirs("GET", "/b?prefix=pub%2Fopen&prefix="),
        theirs("GET", "/b?prefix=pub%2Fopen%2F..%2F"),
        theirs("GET", "/b?versions"),
        theirs("GET", "/b?uploads"),
        theirs("GET", "/b?location&versions"),
    ]
}

#[tokio::test]
async fn none_is_served_and_none_gets_to_the_origin() {
    let world = world().await;
    let bypassed = || world.outcomes(CacheStatus::Bypass);
    let (before, gone) = (bypassed(), world.gateway.stats().removals.get());
    let mut denied = 0;
    for key in ["private/cached", "private/other", "pub/private/cached", "pub/private/other"] {
        for wire in requests_for(key) {
            let line = String::from_utf8_lossy(&wire).into_owned();
            let method = line.split(' ').next().unwrap().parse::<Method>().unwrap();
            let mut connection = Connection::open(world.address).await;
            connection.send(&wire).await;
            let answer = connection.answer(&method).await.unwrap();
            // 501 is the answer to an unknown operation.
            let is_refused = (400..500).contains(&answer.status) || answer.status == 501;
            assert!(is_refused, "{}: {line}", answer.status);
            assert!(!answer.text().contains(SECRET), "{line}");
            assert!(!answer.has("x-cache") && !answer.has("etag"), "{line}");
            denied += 1;
        }
    }
    assert!(4 * 100 <= denied, "{denied}");
    assert_eq!((bypassed(), world.gateway.stats().removals.get()), (before, gone));
    assert!(!world.path("in").exists());
}

#[tokio::test]
async fn what_is_there_is_not_told() {
    let world = world().await;
    let mut seen = Vec::new();
    for key in ["private/cached", "private/other", "private/none"] {
        let answer = ask(world.address, of_limited("GET", &format!("/b/{key}"))).await;
        let request_id = answer.header("x-amz-request-id").to_owned();
        let text = answer.text().replace(&request_id, "ID").replace(key, "KEY");
        seen.push((answer.status, text));
    }
    assert_eq!(seen[0].0, 403);
    assert!(seen.iter().all(|one| *one == seen[0]), "{seen:?}");
}

#[tokio::test]
async fn a_key_may_do_what_it_was_given() {
    let world = world().await;
    for _ in 0..2 {
        assert_eq!(ask(world.address, of_limited("GET", "/b/pub/open")).await.text(), "open");
    }
    let list = ask(world.address, of_limited("GET", "/b?prefix=pub%2Fopen")).await;
    assert!(list.status == 200 && list.text().contains("<Key>pub/open</Key>"), "{list:?}");
    let by_host = of_limited("GET", "/pub/open").at("b.s3.test");
    assert_eq!(ask(world.address, by_host).await.text(), "open");
    let put = of_limited("PUT", "/b/in/new").body("new");
    assert_eq!(ask(world.address, put).await.status, 200);
    assert_eq!(std::fs::read(world.path("in/new")).unwrap(), b"new");
    assert_eq!(ask(world.address, of_limited("GET", "/b/in/new")).await.status, 403);
    assert_eq!(ask(world.address, of_limited("DELETE", "/b/in/new")).await.status, 204);
}

#[tokio::test]
async fn a_key_that_is_taken_away_is_let_in_no_more() {
    let world = world().await;
    let mut connection = Connection::open(world.address).await;
    assert_eq!(connection.ask(of_limited("GET", "/b/pub/open")).await.status, 200);
    world.change_terms(|runtime_config| {
        let nothing = AccessRules::all(Access::None);
        runtime_config.access_keys =
            runtime_config.access_keys.clone().with(LIMITED, LIMITED_SECRET, nothing);
    });
    let answer = connection.ask(of_limited("GET", "/b/pub/open")).await;
    assert_eq!((answer.status, answer.code().as_str()), (403, "AccessDenied"));
    // After the key's secret changes, signatures made with the old one are invalid.
    world.change_terms(|runtime_config| {
        runtime_config.access_keys =
            runtime_config.access_keys.clone().with(LIMITED, "another", limited());
    });
    let answer = connection.ask(of_limited("GET", "/b/pub/open")).await;
    assert_eq!((answer.status, answer.code().as_str()), (403, "SignatureDoesNotMatch"));
    let signed = of_limited("GET", "/b/pub/open").signed_with("another");
    assert_eq!(connection.ask(signed).await.status, 200);
}
