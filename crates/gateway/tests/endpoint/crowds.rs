//! Fairness: clients that occupy resources must not delay others.

use std::time::Duration;

use http::Method;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use zonal_gateway::{Access, AccessKeys, AccessRules, Limits};
use zonal_host::Freshness;

use crate::client::{ACCESS_KEY, Ask, Connection, SECRET_KEY, ask, get};
use crate::world::{REVALIDATE, World, eventually, pattern, slowness};

const MIB: usize = 1 << 20;
const SHORT: Duration = Duration::from_millis(100);

/// Deadline of every operation that must succeed.
const SOON: Duration = Duration::from_secs(60);

/// Limits of an origin with one permit of each kind.
fn one_place() -> zonal_origin::OriginLimits {
    zonal_origin::OriginLimits {
        concurrent_reads: 1,
        concurrent_forwards: 1,
        ..zonal_origin::OriginLimits::default()
    }
}

/// A client that requested a large object and stopped reading held an origin permit until it was
/// cut off after 30 s. As many such clients as permits blocked all other clients, even for cached
/// objects.
#[tokio::test]
async fn a_reader_that_stops_holds_up_neither_hits_nor_misses() {
    let world = World::with_all_limits(REVALIDATE, Limits::default(), one_place()).await;
    let bytes = pattern(32 * MIB, 0);
    world.put("big", &bytes);
    world.put("cached", "hello");
    world.put("other", "there");
    assert_eq!(get(world.address, "/b/cached").await.text(), "hello");
    let mut stopped = Connection::open(world.address).await;
    stopped.send(&Ask::new("GET", "/b/big").signed()).await;
    let head = stopped.head().await.unwrap();
    assert_eq!(head.status, 200);
    let hit = timeout(SOON, get(world.address, "/b/cached")).await.expect("a hit");
    assert_eq!((hit.header("x-cache"), hit.text().as_str()), ("REVALIDATED", "hello"));
    let miss = timeout(SOON, get(world.address, "/b/other")).await.expect("a miss");
    assert_eq!((miss.header("x-cache"), miss.text().as_str()), ("MISS", "there"));
    assert_eq!(timeout(SOON, get(world.address, "/b/none")).await.expect("a 404").status, 404);
    let answer = stopped.finish(head, &Method::GET).await;
    assert!(answer.body == bytes, "it goes on where it stopped");
}

/// A few slow uploads blocked lists, deletes, and the 404 of a missing object.
#[tokio::test]
async fn slow_uploads_hold_up_nothing_but_uploads() {
    let limits = Limits { writes_max: 1, wait: SHORT, ..Limits::default() };
    let world = World::with_all_limits(Freshness::Immutable, limits, one_place()).await;
    world.put("k", "hello");
    let mut slow = Connection::open(world.address).await;
    let wire = Ask::new("PUT", "/b/slow").body("0123456789").signed();
    slow.send(&wire[..wire.len() - 5]).await;
    let received = || world.gateway.stats().removals.get();
    eventually("the upload is under way", || received() == 1).await;
    for (method, path, status) in [
        ("GET", "/", 200),
        ("GET", "/b?list-type=2", 200),
        ("GET", "/b/none", 404),
        ("DELETE", "/b/k", 204),
    ] {
        let answer = timeout(SOON, ask(world.address, Ask::new(method, path))).await;
        assert_eq!(answer.expect("an answer").status, status, "{method} {path}");
    }
    let put = || ask(world.address, Ask::new("PUT", "/b/other").body("other"));
    let refused = timeout(SOON, put()).await.expect("an answer");
    assert_eq!((refused.status, refused.code().as_str()), (503, "SlowDown"));
    slow.send(&wire[wire.len() - 5..]).await;
    assert_eq!(slow.answer(&Method::PUT).await.unwrap().status, 200);
    assert_eq!(put().await.status, 200);
}

/// A second access key, with the same secret.
const OTHER: &str = "OTHER";

fn two_keys(world: &World) {
    world.change_terms(|terms| {
        let everything = || AccessRules::all(Access::ReadWrite);
        terms.access_keys = AccessKeys::default().with(ACCESS_KEY, SECRET_KEY, everything()).with(
            OTHER,
            SECRET_KEY,
            everything(),
        );
    });
}

/// A slow upload under this key and from this address, whose last byte is missing.
async fn slow_upload(world: &World, from: [u8; 4], key: &'static str, n: u64) -> Connection {
    let before = world.gateway.stats().removals.get();
    let mut slow = Connection::open_from(from, world.address).await;
    let ask = Ask::new("PUT", &format!("/b/slow{n}")).signed_by(key).signed_with(SECRET_KEY);
    let wire = ask.body("0123456789").signed();
    slow.send(&wire[..wire.len() - 1]).await;
    eventually("it has a permit", || world.gateway.stats().removals.get() == before + 1).await;
    slow
}

/// 300 uploads at a byte per second held all permits.
#[tokio::test]
async fn slow_uploads_of_one_client_leave_permits_to_others() {
    let limits = Limits { writes_max: 4, writes_per_client: 2, wait: SHORT, ..Limits::default() };
    let world = World::with_limits(Freshness::Immutable, limits).await;
    two_keys(&world);
    let (here, there, elsewhere) = ([127, 0, 0, 1], [127, 0, 0, 2], [127, 0, 0, 3]);
    let put = |from: [u8; 4], key: &'static str| {
        let address = world.address;
        async move {
            let ask = Ask::new("PUT", "/b/k").signed_by(key).signed_with(SECRET_KEY).body("x");
            Connection::open_from(from, address).await.ask(ask).await.status
        }
    };
    let mut slow = vec![slow_upload(&world, here, ACCESS_KEY, 0).await];
    slow.push(slow_upload(&world, there, ACCESS_KEY, 1).await);
    assert_eq!(put(elsewhere, ACCESS_KEY).await, 503, "the key has its share");
    assert_eq!(put(elsewhere, OTHER).await, 200);
    slow.push(slow_upload(&world, here, OTHER, 2).await);
    assert_eq!(put(here, OTHER).await, 503, "the address has its share");
    assert_eq!(put(elsewhere, OTHER).await, 200);
    let parts = Ask::new("PUT", "/b/k?partNumber=1&uploadId=1").body("x");
    assert_eq!(ask(world.address, parts).await.status, 503, "parts count as well");
    let stats = world.gateway.stats();
    assert_eq!((stats.writes_refused.get(), stats.writes_refused_by_client.get()), (3, 3));
    drop(slow);
    eventually("uploads have ended", || world.gateway.stats().connections_open() == 0).await;
    while put(here, ACCESS_KEY).await != 200 {}
}

/// Uploads that wait for a permit held connections, until reads found none.
#[tokio::test]
async fn uploads_leave_half_of_the_connections_to_reads() {
    let limits = Limits { connections_max: 4, writes_max: 1, ..Limits::default() };
    let world = World::with_limits(Freshness::Immutable, limits).await;
    world.put("k", "hello");
    let _slow = slow_upload(&world, [127, 0, 0, 1], ACCESS_KEY, 0).await;
    let (began_at, mut uploads) = (std::time::Instant::now(), JoinSet::new());
    for _ in 0..2 {
        let address = world.address;
        uploads.spawn(async move { ask(address, Ask::new("PUT", "/b/k").body("x")).await });
    }
    // One of them waits, the other finds the queue full.
    let refused = uploads.join_next().await.unwrap().unwrap();
    assert_eq!((refused.status, refused.code().as_str()), (503, "SlowDown"));
    assert!(began_at.elapsed() < Limits::default().wait, "at once");
    assert_eq!(get(world.address, "/b/k").await.text(), "hello");
}

/// Lists of objects to delete that arrived slowly held connections, until reads found none.
#[tokio::test]
async fn slow_documents_leave_half_of_the_connections_to_reads() {
    let limits = Limits { connections_max: 4, ..Limits::default() };
    let world = World::with_limits(Freshness::Immutable, limits).await;
    world.put("k", "hello");
    let document = || Ask::new("POST", "/b?delete=").body(vec![b' '; 100]);
    let stats = world.gateway.stats();
    let mut slow = Vec::new();
    for _ in 0..3 {
        let mut connection = Connection::open(world.address).await;
        let wire = document().signed();
        connection.send(&wire[..wire.len() - 1]).await;
        slow.push(connection);
    }
    eventually("the third is refused", || stats.writes_refused.get() == 1).await;
    assert_eq!(get(world.address, "/b/k").await.text(), "hello");
    drop(slow);
    eventually("their places are free", || stats.connections_open() == 0).await;
    assert_eq!(ask(world.address, document()).await.code(), "MalformedXML");
}

/// A client that disconnects while it waits for a permit leaves no place in the queue behind.
#[tokio::test]
async fn a_client_that_goes_away_while_it_waits_leaves_no_place_behind() {
    let limits = Limits { connections_max: 4, writes_max: 1, ..Limits::default() };
    let world = World::with_limits(Freshness::Immutable, limits).await;
    let _slow = slow_upload(&world, [127, 0, 0, 1], ACCESS_KEY, 0).await;
    let stats = world.gateway.stats();
    let wire = || Ask::new("PUT", "/b/k").body("x").signed();
    // The queue has two places. One of two clients waits in the second, the other is refused.
    let mut both = Vec::new();
    for _ in 0..2 {
        let mut connection = Connection::open(world.address).await;
        connection.send(&wire()).await;
        both.push(connection);
    }
    eventually("one is refused", || stats.writes_refused.get() == 1).await;
    drop(both);
    eventually("both have gone", || stats.connections_open() == 1).await;
    let mut next = Connection::open(world.address).await;
    next.send(&wire()).await;
    let at_once = timeout(SHORT * slowness().await, next.answer(&Method::PUT)).await;
    assert!(at_once.is_err(), "it waits in the place that came back");
}

/// A byte now and then kept an upload alive for ever, because each silence was short.
#[tokio::test]
async fn an_upload_that_trickles_is_given_up() {
    let limits = Limits { upload: SHORT, ..Limits::default() };
    let world = World::with_limits(Freshness::Immutable, limits).await;
    let wire = Ask::new("PUT", "/b/k").body(vec![b'a'; 1000]).signed();
    let mut connection = Connection::open(world.address).await;
    connection.send(&wire[..wire.len() - 1000]).await;
    let stats = world.gateway.stats();
    let ended = || stats.requests().map(|(_, _, n)| n).sum::<u64>() == 1;
    let trickle = async {
        while !ended() {
            connection.send(b"a").await;
            sleep(SHORT / 4).await;
        }
    };
    timeout(SOON, trickle).await.expect("it is given up");
    let answer = connection.answer(&Method::PUT).await.unwrap();
    assert_eq!(answer.status, 400, "{}", answer.text());
    assert!(!world.path("k").exists());
}

/// An upload that waits for the origin is not the client's fault.
#[tokio::test]
async fn an_upload_that_moves_may_take_longer_than_a_silence() {
    let silence = SHORT * slowness().await;
    let limits = Limits { upload: silence, ..Limits::default() };
    let world = World::with_limits(Freshness::Immutable, limits).await;
    let bytes = pattern(64 << 10, 0);
    let wire = Ask::new("PUT", "/b/k").body(bytes.clone()).signed();
    let mut connection = Connection::open(world.address).await;
    for piece in wire.chunks(wire.len() / 20) {
        connection.send(piece).await;
        sleep(silence / 5).await;
    }
    assert_eq!(connection.answer(&Method::PUT).await.unwrap().status, 200);
    assert!(std::fs::read(world.path("k")).unwrap() == bytes);
}

/// The bodies of incomplete DeleteObjects requests filled the memory: 1.2 GB for 300 clients.
#[tokio::test]
async fn documents_that_are_read_whole_are_bounded_together() {
    let limits = Limits { wait: SHORT, ..Limits::default() };
    let world = World::with_limits(Freshness::Immutable, limits).await;
    let document = |bytes: usize| Ask::new("POST", "/b?delete=").body(vec![b' '; bytes]);
    let mut unfinished = Vec::new();
    two_keys(&world);
    for (from, key) in [([127, 0, 0, 1], ACCESS_KEY), ([127, 0, 0, 2], OTHER)].repeat(20) {
        let wire = document(2 * MIB).signed_by(key).signed_with(SECRET_KEY).signed();
        let mut connection = Connection::open_from(from, world.address).await;
        connection.send(&wire[..wire.len() - 2 * MIB]).await;
        unfinished.push(connection);
    }
    let stats = world.gateway.stats();
    let answered = || stats.requests().map(|(_, _, n)| n).sum::<u64>();
    eventually("those beyond 32 MiB of a client are refused", || answered() == 40 - 32).await;
    let mut answers = JoinSet::new();
    for mut connection in unfinished {
        answers.spawn(async move { connection.answer(&Method::POST).await });
    }
    for _ in 32..40 {
        let answer = timeout(SOON, answers.join_next()).await.expect("an answer in time");
        let answer = answer.unwrap().unwrap().expect("an answer");
        assert_eq!((answer.status, answer.code().as_str()), (503, "SlowDown"));
    }
    assert_eq!(answered(), 40 - 32);
    drop(answers);
    eventually("their places are free", || stats.connections_open() == 0).await;
    assert_eq!(ask(world.address, document(100)).await.code(), "MalformedXML");
    let too_long = timeout(SOON, ask(world.address, document(2 * MIB + 1))).await.unwrap();
    assert_eq!(too_long.code(), "MaxMessageLengthExceeded");
}

#[tokio::test]
async fn a_document_that_does_not_come_is_given_up() {
    let limits = Limits { upload: 2 * SHORT, ..Limits::default() };
    let world = World::with_limits(Freshness::Immutable, limits).await;
    let wire = Ask::new("POST", "/b?delete=").body(vec![b' '; MIB]).signed();
    let mut connection = Connection::open(world.address).await;
    connection.send(&wire[..wire.len() - MIB]).await;
    let stats = world.gateway.stats();
    let ended = || stats.requests().map(|(_, _, n)| n).sum::<u64>() == 1;
    let steady = async {
        while !ended() {
            // Fast enough for an upload, but too slow for a body that is read whole.
            connection.send(&[b' '; 2048]).await;
            sleep(SHORT / 4).await;
        }
    };
    timeout(SOON, steady).await.expect("it is given up");
    let answer = connection.answer(&Method::POST).await.unwrap();
    assert_eq!((answer.status, answer.code().as_str()), (400, "RequestTimeout"));
}
