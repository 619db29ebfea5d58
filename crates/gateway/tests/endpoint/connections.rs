//! Connections: many clients, slow clients, and shutdown.

use std::time::Duration;

use http::Method;
use tokio::net::TcpStream;
use zonal_gateway::Limits;
use zonal_host::Freshness;

use crate::client::{Ask, Connection, ask, get};
use crate::world::{World, eventually, pattern};

const SHORT: Duration = Duration::from_millis(100);
const MIB: usize = 1 << 20;

/// A client that has begun to download a large object and reads no more.
async fn stopped_reader(world: &World) -> Connection {
    let mut connection = Connection::open(world.address).await;
    connection.send(&Ask::new("GET", "/b/big").signed()).await;
    assert_eq!(connection.head().await.unwrap().status, 200);
    connection
}

#[tokio::test]
async fn one_connection_too_many_is_told_so_while_all_others_are_busy() {
    let limits = Limits { connections_max: 2, ..Limits::default() };
    let world = World::with_limits(Freshness::Immutable, limits).await;
    world.put("k", "hello");
    world.put("big", pattern(24 * MIB, 0));
    let first = stopped_reader(&world).await;
    let _second = stopped_reader(&world).await;
    let mut third = Connection::open(world.address).await;
    third.send(&Ask::new("GET", "/b/k").signed()).await;
    let refused = third.answer(&Method::GET).await.unwrap();
    assert_eq!((refused.status, refused.code().as_str()), (503, "SlowDown"));
    assert_eq!(third.until_closed().await, "");
    drop(first);
    let stats = world.gateway.stats();
    eventually("a place is free", || stats.connections_open() == 1).await;
    assert_eq!(get(world.address, "/b/k").await.text(), "hello");
    assert_eq!(stats.connections_refused.get(), 1);
}

/// As many silent clients as connections locked everybody else out for 75 s.
#[tokio::test]
async fn silent_clients_lock_nobody_out() {
    let limits = Limits { connections_max: 8, ..Limits::default() };
    let world = World::with_limits(Freshness::Immutable, limits).await;
    world.put("k", "hello");
    world.put("big", pattern(24 * MIB, 0));
    let mut busy = stopped_reader(&world).await;
    let mut silent = Vec::new();
    for n in 0..7_u64 {
        let mut connection = Connection::open(world.address).await;
        if n % 2 == 0 {
            // It was of use once, and is kept for later.
            assert_eq!(connection.ask(Ask::new("GET", "/b/k")).await.text(), "hello");
        }
        let opened = || world.gateway.stats().connections_accepted.get() == 2 + n;
        eventually("it is accepted", opened).await;
        // The order of waits counts in milliseconds.
        tokio::time::sleep(Duration::from_millis(5)).await;
        silent.push(connection);
    }
    let mut newcomers = Vec::new();
    for _ in 0..3 {
        let mut newcomer = Connection::open(world.address).await;
        assert_eq!(newcomer.ask(Ask::new("GET", "/b/k")).await.text(), "hello");
        newcomers.push(newcomer);
    }
    for evicted in silent.drain(..3) {
        assert_eq!(evicted.until_closed().await, "");
    }
    for mut kept in silent {
        assert_eq!(kept.ask(Ask::new("GET", "/b/k")).await.text(), "hello");
    }
    let stats = world.gateway.stats();
    assert_eq!((stats.connections_evicted.get(), stats.connections_refused.get()), (3, 0));
    assert!(busy.read_more().await, "a running response goes on");
}

#[tokio::test]
async fn a_running_upload_is_never_closed_for_another_connection() {
    let limits = Limits { connections_max: 1, ..Limits::default() };
    let world = World::with_limits(Freshness::Immutable, limits).await;
    let wire = Ask::new("PUT", "/b/k").body("0123456789").signed();
    let mut slow = Connection::open(world.address).await;
    slow.send(&wire[..wire.len() - 1]).await;
    eventually("it has begun", || world.gateway.stats().removals.get() == 1).await;
    for _ in 0..3 {
        assert_eq!(get(world.address, "/b/k").await.status, 503);
    }
    slow.send(&wire[wire.len() - 1..]).await;
    assert_eq!(slow.answer(&Method::PUT).await.unwrap().status, 200);
    assert_eq!(world.gateway.stats().connections_evicted.get(), 0);
}

#[tokio::test]
async fn one_address_leaves_connections_to_others() {
    let limits = Limits { connections_per_address: 2, ..Limits::default() };
    let world = World::with_limits(Freshness::Immutable, limits).await;
    world.put("k", "hello");
    world.put("big", pattern(24 * MIB, 0));
    let mut other = Connection::open_from([127, 0, 0, 2], world.address).await;
    assert_eq!(other.ask(Ask::new("GET", "/b/k")).await.text(), "hello");
    let _busy = stopped_reader(&world).await;
    let idle = Connection::open(world.address).await;
    // The third connection of this address takes the place of its idle one.
    let _second_busy = stopped_reader(&world).await;
    assert_eq!(idle.until_closed().await, "");
    let mut refused = Connection::open(world.address).await;
    refused.send(&Ask::new("GET", "/b/k").signed()).await;
    assert_eq!(refused.answer(&Method::GET).await.unwrap().status, 503);
    assert_eq!(other.ask(Ask::new("GET", "/b/k")).await.text(), "hello");
    assert_eq!(world.gateway.stats().connections_refused_by_address.get(), 1);
}

/// Clients that break off in any phase leave no place behind.
#[tokio::test]
async fn places_come_back_however_a_connection_ends() {
    let limits = Limits { connections_max: 4, ..Limits::default() };
    let world = World::with_limits(Freshness::Immutable, limits).await;
    world.put("k", "hello");
    world.put("big", pattern(24 * MIB, 0));
    for _ in 0..5 {
        let silent = Connection::open(world.address).await;
        let mut begun = Connection::open(world.address).await;
        begun.send(b"GET /b/k HTTP/1.1\r\nhost: a\r\n").await;
        let busy = stopped_reader(&world).await;
        drop((silent, begun, busy));
        let stats = world.gateway.stats();
        eventually("all are closed", || stats.connections_open() == 0).await;
    }
    let _all = [stopped_reader(&world).await, stopped_reader(&world).await];
    let _more = [stopped_reader(&world).await, stopped_reader(&world).await];
    assert_eq!(world.gateway.stats().connections_refused.get(), 0);
}

#[tokio::test]
async fn slow_readers_hold_a_few_pieces_and_bother_nobody() {
    let world = World::start(Freshness::Immutable).await;
    let bytes = pattern(24 * MIB, 0);
    world.put("big", &bytes);
    world.put("k", "hello");
    let mut slow = Vec::new();
    for _ in 0..8 {
        let mut connection = Connection::open(world.address).await;
        connection.send(&Ask::new("GET", "/b/big").signed()).await;
        assert_eq!(connection.head().await.unwrap().status, 200);
        slow.push(connection);
    }
    for _ in 0..50 {
        assert_eq!(get(world.address, "/b/k").await.text(), "hello");
    }
    world.settle().await;
    let held = world.buffers_in_use().await;
    assert!(held <= 8 * 8, "{held} buffers for 8 readers");
    let mut body = Vec::new();
    for mut connection in slow {
        body = vec![0; 0];
        while connection.read_more().await && body.len() < 64 {
            body.push(0);
        }
    }
    drop(body);
    assert!(get(world.address, "/b/big").await.body == bytes);
}

#[tokio::test]
async fn a_reader_that_stops_is_cut_off() {
    let limits = Limits { write: SHORT, ..Limits::default() };
    let world = World::with_limits(Freshness::Immutable, limits).await;
    world.put("big", pattern(24 * MIB, 0));
    let mut connection = Connection::open(world.address).await;
    connection.send(&Ask::new("GET", "/b/big").signed()).await;
    let stats = world.gateway.stats();
    eventually("the reader is cut off", || stats.connections_timed_out.get() == 1).await;
    let answer = connection.answer(&Method::GET).await.unwrap();
    assert!(answer.cut, "what it has not read it will never get");
    eventually("its buffers are back", || stats.connections_open() == 0).await;
}

#[tokio::test]
async fn who_asks_nothing_or_does_not_finish_asking_is_cut_off() {
    let limits = Limits { idle: SHORT, head: SHORT, ..Limits::default() };
    let world = World::with_limits(Freshness::Immutable, limits).await;
    world.put("k", "hello");
    let silent = Connection::open(world.address).await;
    assert_eq!(silent.until_closed().await, "");
    let mut slow = Connection::open(world.address).await;
    slow.send(b"GET /b/k HTTP/1.1\r\nhost: a\r\nx-slow:").await;
    slow.until_closed().await;
    let mut kept = Connection::open(world.address).await;
    assert_eq!(kept.ask(Ask::new("GET", "/b/k")).await.status, 200);
    assert_eq!(kept.until_closed().await, "");
    assert_eq!(world.gateway.stats().connections_timed_out.get(), 3);
}

#[tokio::test]
async fn at_the_end_what_is_under_way_may_finish() {
    let mut world = World::start(Freshness::Immutable).await;
    let bytes = pattern(16 * MIB, 0);
    world.put("big", &bytes);
    let idle = Connection::open(world.address).await;
    let mut busy = Connection::open(world.address).await;
    busy.send(&Ask::new("GET", "/b/big").signed()).await;
    let answer = busy.head().await.unwrap();
    assert_eq!(answer.status, 200);
    let stopped = world.stop();
    assert_eq!(idle.until_closed().await, "");
    eventually_refused(world.address).await;
    let answer = busy.finish(answer, &Method::GET).await;
    assert!(answer.body == bytes, "the answer went on to its end");
    assert_eq!(busy.until_closed().await, "");
    stopped.await;
}

/// Waits until connections are refused.
async fn eventually_refused(address: std::net::SocketAddr) {
    let refused = async {
        while TcpStream::connect(address).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), refused).await.expect("nobody listens");
}

/// Regression: a connection that had sent nothing yet was closed at once, and its request was lost.
#[tokio::test]
async fn the_first_request_of_a_connection_is_answered_after_the_stop_has_begun() {
    let mut world = World::start(Freshness::Immutable).await;
    world.put("k", "hello");
    let mut new = Connection::open(world.address).await;
    let stats = world.gateway.stats().clone();
    eventually("it is accepted", || stats.connections_accepted.get() == 1).await;
    let stopped = world.stop();
    eventually_refused(world.address).await;
    new.send(&Ask::new("GET", "/b/k").signed()).await;
    let answer = new.answer(&Method::GET).await.unwrap();
    assert_eq!((answer.status, answer.text().as_str()), (200, "hello"));
    stopped.await;
}

#[tokio::test]
async fn the_end_does_not_wait_for_ever() {
    let limits = Limits { drain: SHORT, ..Limits::default() };
    let mut world = World::with_limits(Freshness::Immutable, limits).await;
    world.put("big", pattern(24 * MIB, 0));
    let mut stuck = Connection::open(world.address).await;
    stuck.send(&Ask::new("GET", "/b/big").signed()).await;
    assert_eq!(stuck.head().await.unwrap().status, 200);
    world.stop().await;
    while stuck.read_more().await {}
}

#[tokio::test]
async fn an_answer_that_closes_says_so() {
    let world = World::start(Freshness::Immutable).await;
    world.put("k", "hello");
    let close = Ask::new("GET", "/b/k").with("connection", "close");
    let answer = ask(world.address, close).await;
    assert_eq!((answer.header("connection"), answer.text().as_str()), ("close", "hello"));
}
