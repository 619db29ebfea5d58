//! Clients that send malformed requests, or requests with a wrong signature.

use http::Method;
use zonal_host::Freshness;
use zonal_s3::sigv4::Timestamp;

use crate::client::{Ask, Connection, ask, get, now};
use crate::world::World;

#[tokio::test]
async fn garbage_is_refused_and_nobody_else_notices() {
    let world = World::start(Freshness::Immutable).await;
    world.put("k", "hello");
    let long_line = [b"GET /".to_vec(), vec![b'a'; 100_000]].concat();
    let many_headers = b"a: b\r\n".repeat(1000);
    let many_headers = [b"GET / HTTP/1.1\r\n".to_vec(), many_headers].concat();
    for garbage in [
        &b"\0\0\0\0\r\n\r\n"[..],
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET\r\n\r\n",
        b"GET /b/k HTTP/9.9\r\n\r\n",
        b"GET /b/k HTTP/1.1\r\nhost: a\r\ncontent-length: x\r\n\r\n",
        b"GET /b/k HTTP/1.1\r\nno colon\r\n\r\n",
        b"POST /b/k HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        &long_line,
        &many_headers,
    ] {
        let mut connection = Connection::open(world.address).await;
        connection.send(garbage).await;
        let shown = String::from_utf8_lossy(&garbage[..garbage.len().min(60)]).into_owned();
        let answer = tokio::time::timeout(std::time::Duration::from_secs(5), async {
            match connection.head().await {
                Some(answer) => answer.status,
                None => 0,
            }
        });
        let status =
            answer.await.unwrap_or_else(|_| panic!("{shown:?} is neither answered nor cut"));
        assert!(status == 0 || (400..500).contains(&status), "{shown:?}: {status}");
    }
    assert_eq!(get(world.address, "/b/k").await.text(), "hello");
}

#[tokio::test]
async fn heads_have_a_size() {
    let world = World::start(Freshness::Immutable).await;
    world.put("k", "hello");
    let with = |bytes: usize| Ask::new("GET", "/b/k").with("x-long", &"a".repeat(bytes));
    assert_eq!(ask(world.address, with(8 << 10)).await.status, 200);
    assert_eq!(ask(world.address, with(17 << 10)).await.status, 431);
    let mut many = Ask::new("GET", "/b/k");
    for _ in 0..260 {
        many = many.with("a", "b");
    }
    assert_eq!(ask(world.address, many).await.status, 431);
}

#[tokio::test]
async fn strangers_are_told_why_and_nothing_else() {
    let world = World::start(Freshness::Immutable).await;
    world.put("k", "hello");
    assert_eq!(get(world.address, "/b/k").await.status, 200);
    let shifted = |seconds: i64| {
        let unix = now().unix_seconds().checked_add_signed(seconds).unwrap();
        Timestamp::from_unix_seconds(unix)
    };
    let signed = |ask: Ask| ask.signed();
    for (wire, status, code) in [
        (Ask::new("GET", "/b/k").plain(), 403, "AccessDenied"),
        (signed(Ask::new("GET", "/b/k").signed_with("x")), 403, "SignatureDoesNotMatch"),
        (signed(Ask::new("GET", "/b/k").signed_at(shifted(-1000))), 403, "RequestTimeTooSkewed"),
        (signed(Ask::new("GET", "/b/k").signed_at(shifted(1000))), 403, "RequestTimeTooSkewed"),
        (signed(Ask::new("GET", "/b/none").signed_with("x")), 403, "SignatureDoesNotMatch"),
        (signed(Ask::new("GET", "/")), 200, ""),
        (Ask::new("GET", "/").plain(), 403, "AccessDenied"),
        (Ask::new("DELETE", "/b/k").plain(), 403, "AccessDenied"),
        (Ask::new("OPTIONS", "/b/k").plain(), 403, "AccessDenied"),
        (signed(Ask::new("PATCH", "/b/k")), 405, "MethodNotAllowed"),
        (signed(Ask::new("GET", "/b/%zz")), 400, "InvalidURI"),
        (signed(Ask::new("GET", "/b%2Fx/k")), 400, "InvalidBucketName"),
        (signed(Ask::new("GET", "//k")), 400, "InvalidBucketName"),
    ] {
        let mut connection = Connection::open(world.address).await;
        connection.send(&wire).await;
        let answer = connection.answer(&Method::GET).await.unwrap();
        let line = String::from_utf8_lossy(&wire[..30]).into_owned();
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{line}");
        assert!(!answer.text().contains("hello"));
        if status != 200 {
            assert_eq!(answer.header("content-type"), "application/xml");
        }
    }
    let mut head = Connection::open(world.address).await;
    head.send(&Ask::new("HEAD", "/b/k").plain()).await;
    head.send(&Ask::new("GET", "/b/k").signed()).await;
    assert_eq!(head.answer(&Method::HEAD).await.unwrap().status, 403);
    assert_eq!(head.answer(&Method::GET).await.unwrap().text(), "hello");
    let refusals: Vec<_> =
        world.gateway.stats().refusals().filter(|(_, count)| *count != 0).collect();
    let expected = [("AccessDenied", 5), ("RequestTimeTooSkewed", 2), ("SignatureDoesNotMatch", 2)];
    assert_eq!(refusals, expected);
    assert!(std::fs::exists(world.path("k")).unwrap());
}

#[tokio::test]
async fn a_stranger_cannot_remove_what_is_cached() {
    let world = World::start(Freshness::Immutable).await;
    world.put("k", "hello");
    assert_eq!(get(world.address, "/b/k").await.status, 200);
    for (method, uri) in [("PUT", "/b/k"), ("DELETE", "/b/k"), ("POST", "/b?delete")] {
        let answer = ask(world.address, Ask::new(method, uri).signed_with("x")).await;
        assert_eq!(answer.status, 403);
    }
    assert_eq!(world.gateway.stats().removals.get(), 0);
}

#[tokio::test]
async fn a_refused_upload_is_told_so_though_nobody_read_it() {
    let world = World::start(Freshness::Immutable).await;
    let ask = Ask::new("PUT", "/b/k").body(vec![0; 16 << 20]).signed_with("x");
    let answer = crate::client::ask(world.address, ask).await;
    assert_eq!((answer.status, answer.code().as_str()), (403, "SignatureDoesNotMatch"));
}
