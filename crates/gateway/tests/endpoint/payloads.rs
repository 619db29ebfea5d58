//! Payload integrity: the body is the signed one, and no signed header is lost.

use http::Method;
use zonal_host::Freshness;
use zonal_s3::sigv4::{
    ALGORITHM, EMPTY_SHA256, Scope, SigningKey, canonical_request, encode_query_value, sha256_hex,
    string_to_sign,
};

use crate::client::{ACCESS_KEY, Answer, Ask, Connection, REGION, SECRET_KEY, ask, get, now};
use crate::world::World;

/// Sends a presigned PUT of `body` whose URL states a payload hash, as some SDKs do.
async fn put_presigned(world: &World, hash: &str, body: &str) -> Answer {
    let timestamp = now().to_string();
    let scope = Scope { date: &timestamp[..8], region: REGION, service: "s3" };
    let credential = encode_query_value(&format!("{ACCESS_KEY}/{scope}"));
    let query = format!(
        "X-Amz-Algorithm={ALGORITHM}&X-Amz-Content-Sha256={hash}&X-Amz-Credential={credential}\
         &X-Amz-Date={timestamp}&X-Amz-Expires=60&X-Amz-SignedHeaders=host"
    );
    let canonical = canonical_request("PUT", "/b/k", &query, &[("host", b"gateway")], hash);
    let text = string_to_sign(&timestamp, &scope, &canonical);
    let signature = SigningKey::derive(SECRET_KEY, &scope).sign(&text);
    let put = Ask::new("PUT", &format!("/b/k?{query}&X-Amz-Signature={signature}"));
    let put = put.with("content-length", &body.len().to_string());
    let mut connection = Connection::open(world.address).await;
    connection.send(&[&put.plain(), body.as_bytes()].concat()).await;
    connection.answer(&Method::PUT).await.expect("an answer")
}

/// The payload hash in the query of a presigned URL was not verified: the gateway ignored it, and
/// no origin saw it.
#[tokio::test]
async fn a_presigned_url_that_states_a_hash_stores_only_that_body() {
    let world = World::start(Freshness::Immutable).await;
    let wrong = put_presigned(&world, &sha256_hex(b"right"), "wrong").await;
    assert_eq!((wrong.status, &*wrong.code()), (400, "XAmzContentSHA256Mismatch"));
    assert!(!world.path("k").exists());
    let right = put_presigned(&world, &sha256_hex(b"right"), "right").await;
    assert_eq!(right.status, 200, "{}", right.text());
    assert_eq!(get(world.address, "/b/k").await.text(), "right");
    let chunks = put_presigned(&world, "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", "5\r\nwrong").await;
    assert_eq!(chunks.status, 400, "{}", chunks.text());
    assert_eq!(get(world.address, "/b/k").await.text(), "right");
}

#[tokio::test]
async fn a_body_that_was_not_signed_is_not_stored() {
    let world = World::start(Freshness::Immutable).await;
    for hash in [&*sha256_hex(b"right"), EMPTY_SHA256] {
        let put = Ask::new("PUT", "/b/k").body("wrong").stating(hash);
        let wrong = ask(world.address, put).await;
        assert_eq!((wrong.status, &*wrong.code()), (400, "XAmzContentSHA256Mismatch"));
    }
    assert!(!world.path("k").exists());
    let put = Ask::new("PUT", "/b/k").body("right").stating(&sha256_hex(b"right"));
    assert_eq!(ask(world.address, put).await.status, 200);
    let list = "<Delete><Object><Key>k</Key></Object></Delete>";
    let delete = Ask::new("POST", "/b?delete").body(list).stating(&sha256_hex(b"another"));
    let removals = world.gateway.stats().removals.get();
    let wrong = ask(world.address, delete).await;
    assert_eq!((wrong.status, &*wrong.code()), (400, "XAmzContentSHA256Mismatch"));
    assert_eq!(world.gateway.stats().removals.get(), removals, "nothing was done about it");
}

/// Headers that `Connection` names are not forwarded, and `Connection` is not signed. Added on the
/// way, it turned a conditional PUT into an overwrite and a copy into an empty object, and switched
/// off the check of the body.
#[tokio::test]
async fn no_header_that_decides_is_lost_on_the_way() {
    let world = World::start(Freshness::Immutable).await;
    world.put("k", "old");
    for (name, value) in
        [("if-none-match", "*"), ("x-amz-copy-source", "/b/other"), ("x-amz-meta-a", "1")]
    {
        let put = Ask::new("PUT", "/b/k").with(name, value).body("new");
        let lost = ask(world.address, put.with("connection", name)).await;
        assert_eq!((lost.status, &*lost.code()), (400, "InvalidArgument"), "{name}");
        assert_eq!(std::fs::read(world.path("k")).unwrap(), b"old", "{name}");
    }
    let put = Ask::new("PUT", "/b/k").with("connection", "keep-alive, x-hop").with("x-hop", "1");
    assert_eq!(ask(world.address, put.body("new")).await.status, 200);
}
