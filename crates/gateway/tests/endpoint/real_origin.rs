//! Copies and deletes at a real S3 server, if its binary is installed: a folder origin supports
//! neither.

use zonal_gateway::Domains;
use zonal_host::Freshness;

use crate::client::{Answer, Ask, ask, get};
use crate::versitygw::{SECRET_KEY, VersityGw};
use crate::world::World;

/// A gateway with `immutable` freshness, and a bucket at its origin.
async fn start(server: &VersityGw) -> World {
    let world = World::over_origin(server.origin(SECRET_KEY), Freshness::Immutable).await;
    send(&world, Ask::new("PUT", "/bucket")).await;
    world
}

/// Sends a request that must succeed.
async fn send(world: &World, request: Ask) -> Answer {
    let answer = ask(world.address, request).await;
    assert!(answer.status < 300, "{}: {}", answer.status, answer.text());
    answer
}

/// Stores an object and reads it until it is cached.
async fn cached(world: &World, uri: &str, text: &str) {
    send(world, Ask::new("PUT", uri).body(text)).await;
    assert_eq!(get(world.address, uri).await.text(), text, "{uri}");
    assert_eq!(get(world.address, uri).await.header("x-cache"), "HIT", "{uri}");
}

#[tokio::test]
async fn a_copy_is_seen_by_the_next_read() {
    let Some(server) = VersityGw::start("copy").await else { return };
    let world = start(&server).await;
    cached(&world, "/bucket/from", "new").await;
    cached(&world, "/bucket/to", "old").await;
    let copy =
        send(&world, Ask::new("PUT", "/bucket/to").with("x-amz-copy-source", "/bucket/from")).await;
    assert!(copy.text().contains("<CopyObjectResult"), "{}", copy.text());
    assert_eq!(get(world.address, "/bucket/to").await.text(), "new");
    assert_eq!(get(world.address, "/bucket/from").await.text(), "new");
    // In virtual-hosted style, the copy source still contains its bucket.
    world.change_terms(|runtime_config| {
        runtime_config.domains = Domains::default().with("s3.test").unwrap()
    });
    cached(&world, "/bucket/from", "newer").await;
    let copy = Ask::new("PUT", "/to").at("bucket.s3.test");
    send(&world, copy.with("x-amz-copy-source", "bucket/from")).await;
    assert_eq!(get(world.address, "/bucket/to").await.text(), "newer");
}

/// The cache took the line end in a key literally; the server read it as a line feed, as XML
/// requires. The server deleted the object, and the cache went on serving it.
#[tokio::test]
async fn a_deletion_of_many_is_seen_by_the_next_read() {
    let Some(server) = VersityGw::start("delete").await else { return };
    let world = start(&server).await;
    let deleted = ["/bucket/a%20b", "/bucket/c%26d", "/bucket/e%0Af", "/bucket/%C3%A9"];
    for uri in deleted.into_iter().chain(["/bucket/kept"]) {
        cached(&world, uri, "old").await;
    }
    let keys = ["a b", "c&amp;d", "e\r\nf", "<![CDATA[\u{e9}]]>"];
    let objects = keys.map(|key| format!("<Object><Key>{key}</Key></Object>")).concat();
    let delete = Ask::new("POST", "/bucket?delete").body(format!("<Delete>{objects}</Delete>"));
    // S3 requires a checksum of the list: this is the CRC-32 of these keys.
    let answer = send(&world, delete.with("x-amz-checksum-crc32", "MfqjeQ==")).await;
    assert_eq!(answer.text().matches("<Deleted>").count(), 4, "{}", answer.text());
    for uri in deleted {
        assert_eq!(get(world.address, uri).await.status, 404, "{uri}");
    }
    assert_eq!(get(world.address, "/bucket/kept").await.header("x-cache"), "HIT");
}
