//! Writes: requests that change objects are forwarded, and cached objects are invalidated before
//! and after.

use std::time::Duration;

use http::Method;
use zonal_gateway::Limits;
use zonal_host::Freshness;
use zonal_s3::sigv4::{
    EMPTY_SHA256, STREAMING_SIGNED_PAYLOAD, Scope, Signature, SigningKey, encode_path, sha256_hex,
};

use crate::client::{
    ACCESS_KEY, Answer, Ask, Connection, REGION, SECRET_KEY, ask, get, now, signer,
};
use crate::world::{REVALIDATE, World, eventually, pattern};

#[tokio::test]
async fn a_read_after_an_acknowledged_write_sees_it() {
    let world = World::start(Freshness::Immutable).await;
    let mut connection = Connection::open(world.address).await;
    for round in 0..20 {
        let bytes = pattern(1000 + round, round);
        let put = connection.ask(Ask::new("PUT", "/b/k").body(bytes.clone())).await;
        assert_eq!((put.status, put.header("x-cache")), (200, "BYPASS"), "{}", put.text());
        let answer = connection.ask(Ask::new("GET", "/b/k")).await;
        assert!(answer.body == bytes, "round {round}: {}", answer.header("x-cache"));
        assert_eq!(answer.header("etag"), put.header("etag"));
        assert_eq!(connection.ask(Ask::new("GET", "/b/k")).await.header("x-cache"), "HIT");
    }
    assert_eq!(connection.ask(Ask::new("DELETE", "/b/k")).await.status, 204);
    assert_eq!(connection.ask(Ask::new("GET", "/b/k")).await.status, 404);
    assert_eq!(world.gateway.stats().removals.get(), 2 * 21);
}

/// Caches `keys` with `immutable` freshness, then changes them at the origin without the gateway.
async fn cached_and_changed(world: &World, keys: &[&str]) {
    for key in keys {
        let uri = format!("/b/{}", encode_path(key));
        world.put(key, "old");
        assert_eq!(get(world.address, &uri).await.text(), "old");
        world.settle().await;
        world.put(key, "new!");
        assert_eq!(get(world.address, &uri).await.text(), "old");
    }
}

#[tokio::test]
async fn whatever_the_origin_says_to_a_write_what_is_cached_is_gone() {
    let world = World::start(Freshness::Immutable).await;
    for (n, (method, query)) in [
        ("PUT", "?tagging"),
        ("PUT", "?acl"),
        ("PUT", "?renameObject"),
        ("DELETE", "?tagging"),
        ("POST", "?uploadId=1"),
        ("POST", "?restore"),
    ]
    .into_iter()
    .enumerate()
    {
        let (key, uri) = (format!("k{n}"), format!("/b/k{n}"));
        cached_and_changed(&world, &[&key]).await;
        let write = ask(world.address, Ask::new(method, &format!("{uri}{query}"))).await;
        assert_eq!(write.header("x-cache"), "BYPASS", "{method} {query}: {}", write.text());
        assert_eq!(get(world.address, &uri).await.text(), "new!", "{method} {query}");
    }
    cached_and_changed(&world, &["k"]).await;
    for (method, query) in [("PUT", "?uploadId=1&partNumber=1"), ("POST", "?uploads")] {
        let harmless = ask(world.address, Ask::new(method, &format!("/b/k{query}"))).await;
        assert_eq!(harmless.header("x-cache"), "BYPASS");
        assert_eq!(get(world.address, "/b/k").await.text(), "old", "{method} {query}");
    }
}

#[tokio::test]
async fn the_objects_that_a_body_names_are_removed() {
    let world = World::start(Freshness::Immutable).await;
    cached_and_changed(&world, &["a", "b c", "d&e", "kept"]).await;
    let body = "<Delete><Object><Key>a</Key></Object><Object><Key>b c</Key></Object>\
                <Object><Key>d&amp;e</Key></Object></Delete>";
    let answer = ask(world.address, Ask::new("POST", "/b?delete").body(body)).await;
    assert_eq!(answer.header("x-cache"), "BYPASS");
    for uri in ["/b/a", "/b/b%20c", "/b/d&e"] {
        assert_ne!(get(world.address, uri).await.text(), "old", "{uri}");
    }
    assert_eq!(get(world.address, "/b/kept").await.text(), "old");
    assert_eq!(world.gateway.stats().removals.get(), 6);
}

#[tokio::test]
async fn a_list_of_objects_that_cannot_be_read_is_not_forwarded() {
    let world = World::start(Freshness::Immutable).await;
    let post = |body: Vec<u8>| ask(world.address, Ask::new("POST", "/b?delete").body(body));
    let malformed = post(b"<Delete><Object>".to_vec()).await;
    assert_eq!((malformed.status, malformed.code().as_str()), (400, "MalformedXML"));
    let long = post(vec![b' '; (2 << 20) + 1]).await;
    assert_eq!((long.status, long.code().as_str()), (400, "MaxMessageLengthExceeded"));
    let form = ask(world.address, Ask::new("POST", "/b").body("x")).await;
    assert_eq!((form.status, form.code().as_str()), (501, "NotImplemented"));
    assert_eq!(world.gateway.stats().removals.get(), 0);
}

#[tokio::test]
async fn what_was_cached_during_a_write_is_removed_though_its_client_went_away() {
    let world = World::start(Freshness::Immutable).await;
    world.put("k", "old");
    let mut connection = Connection::open(world.address).await;
    let wire = Ask::new("PUT", "/b/k").body(vec![b'x'; 1 << 20]).signed();
    connection.send(&wire[..wire.len() / 2]).await;
    let stats = world.gateway.stats();
    eventually("the removal before", || stats.removals.get() == 1).await;
    assert_eq!(get(world.address, "/b/k").await.text(), "old");
    drop(connection);
    eventually("the removal after", || stats.removals.get() == 2).await;
    world.put("k", "new!");
    assert_eq!(get(world.address, "/b/k").await.text(), "new!");
}

#[tokio::test]
async fn a_client_may_ask_before_it_sends_its_body() {
    let world = World::start(Freshness::Immutable).await;
    let asks = || Ask::new("PUT", "/b/k").with("expect", "100-continue").body("hello");
    let wire = asks().signed();
    let (head, body) = wire.split_at(wire.len() - 5);
    let mut connection = Connection::open(world.address).await;
    connection.send(head).await;
    assert_eq!(connection.head().await.unwrap().status, 100);
    connection.send(body).await;
    assert_eq!(connection.answer(&Method::PUT).await.unwrap().status, 200);
    assert_eq!(get(world.address, "/b/k").await.text(), "hello");

    let wire = asks().signed_with("wrong").signed();
    let mut connection = Connection::open(world.address).await;
    connection.send(&wire[..wire.len() - 5]).await;
    let refused = connection.head().await.unwrap();
    assert_eq!(refused.status, 403, "no 100 Continue for strangers");
}

#[tokio::test]
async fn a_write_that_would_leave_old_bytes_on_flash_is_not_made() {
    let mut world = World::start(Freshness::Immutable).await;
    world.put("k", "old");
    world.lose_cache().await;
    let put = ask(world.address, Ask::new("PUT", "/b/k").body("new")).await;
    assert_eq!((put.status, put.code().as_str()), (503, "ServiceUnavailable"));
    assert_eq!(std::fs::read(world.path("k")).unwrap(), b"old");
    assert_eq!(world.gateway.stats().removals_failed.get(), 1);
    let objects = "<Object><Key>k</Key></Object>".repeat(1000);
    let list = format!("<Delete>{objects}</Delete>");
    let delete = ask(world.address, Ask::new("POST", "/b?delete").body(list)).await;
    assert_eq!((delete.status, delete.code().as_str()), (503, "ServiceUnavailable"));
    let stats = world.gateway.stats();
    assert_eq!((stats.removals.get(), stats.removals_failed.get()), (1001, 1001), "of objects");
}

#[tokio::test]
async fn a_write_goes_on_without_flash_when_the_origin_is_asked_before_every_read() {
    let mut world = World::start(REVALIDATE).await;
    world.put("k", "old");
    world.lose_cache().await;
    assert_eq!(ask(world.address, Ask::new("PUT", "/b/k").body("new")).await.status, 200);
    assert_eq!(get(world.address, "/b/k").await.text(), "new");
    assert_eq!(world.gateway.stats().removals_failed.get(), 2);
}

/// A PUT in signed chunks. `tamper` changes the bytes that are sent.
async fn put_chunks(world: &World, tamper: impl FnOnce(&mut Vec<u8>)) -> Answer {
    let (data, signed_at) = ([pattern(70_000, 3), pattern(10, 4)], now());
    let decoded: usize = data.iter().map(Vec::len).sum();
    let mut ask = Ask::new("PUT", "/b/k")
        .with("content-encoding", "aws-chunked")
        .with("x-amz-decoded-content-length", &decoded.to_string());
    let encoded: usize =
        data.iter().map(|data| format!("{:x}", data.len()).len() + 85 + data.len()).sum();
    ask = ask.with("content-length", &(encoded + 86).to_string());
    signer(ACCESS_KEY, SECRET_KEY).sign(signed_at, &mut ask.head, STREAMING_SIGNED_PAYLOAD);
    let authorization = ask.head.headers["authorization"].to_str().unwrap();
    let seed = &authorization[authorization.len() - 64..];
    let timestamp = signed_at.to_string();
    let scope = Scope { date: &timestamp[..8], region: REGION, service: "s3" };
    let key = SigningKey::derive(SECRET_KEY, &scope);
    let mut before = Signature::parse(seed).unwrap().to_string();
    let mut wire = ask.plain();
    for data in data.iter().map(Vec::as_slice).chain([&b""[..]]) {
        let hash = sha256_hex(data);
        let text = format!(
            "AWS4-HMAC-SHA256-PAYLOAD\n{timestamp}\n{scope}\n{before}\n{EMPTY_SHA256}\n{hash}"
        );
        before = key.sign(&text).to_string();
        wire.extend(format!("{:x};chunk-signature={before}\r\n", data.len()).into_bytes());
        wire.extend_from_slice(data);
        wire.extend_from_slice(b"\r\n");
    }
    tamper(&mut wire);
    let mut connection = Connection::open(world.address).await;
    connection.send(&wire).await;
    connection.answer(&Method::PUT).await.expect("an answer")
}

#[tokio::test]
async fn signed_chunks_are_checked_on_their_way() {
    let world = World::start(Freshness::Immutable).await;
    let put = put_chunks(&world, |_| {}).await;
    assert_eq!(put.status, 200, "{}", put.text());
    let expected = [pattern(70_000, 3), pattern(10, 4)].concat();
    assert!(std::fs::read(world.path("k")).unwrap() == expected);
    std::fs::remove_file(world.path("k")).unwrap();
    let tampered = put_chunks(&world, |wire| {
        let middle = wire.len() / 2;
        wire[middle] ^= 1;
    })
    .await;
    assert_eq!((tampered.status, &*tampered.code()), (403, "SignatureDoesNotMatch"));
    assert!(!world.path("k").exists());
}

#[tokio::test]
async fn an_upload_that_stops_is_given_up() {
    let limits = Limits { upload: Duration::from_millis(100), ..Limits::default() };
    let world = World::with_limits(Freshness::Immutable, limits).await;
    let wire = Ask::new("PUT", "/b/k").body("0123456789").signed();
    let mut connection = Connection::open(world.address).await;
    connection.send(&wire[..wire.len() - 5]).await;
    let answer = connection.answer(&Method::PUT).await.unwrap();
    assert_eq!(answer.status, 400, "{}", answer.text());
    assert_eq!(connection.until_closed().await, "");
    assert!(!world.path("k").exists());
}
