//! Memory of a thousand idle connections, measured in a process of its own.

#[cfg(test)]
#[expect(dead_code, reason = "shared with the tests of the endpoint, which use all of it")]
#[path = "../endpoint/client.rs"]
mod client;
#[cfg(test)]
#[expect(dead_code, reason = "shared with the tests of the endpoint, which use all of it")]
#[path = "../endpoint/world.rs"]
mod world;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use zonal_host::Freshness;

use crate::client::{Ask, Connection, get};
use crate::world::{World, eventually};

/// Number of connections.
const COUNT: u64 = 1000;

/// Maximum memory of one connection in bytes, both ends included: hyper's first read buffer is 8
/// KiB, and a task is about as large.
const EACH_BYTES_MAX: u64 = 40 << 10;

/// Resident memory of this process, in bytes.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux has it");
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.expect("its second number") * 4096
}

#[tokio::test]
async fn a_thousand_idle_connections_cost_little_and_bother_nobody() {
    // Both ends of each connection are in this process.
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    let world = World::start(Freshness::Immutable).await;
    world.put("k", "hello");
    assert_eq!(get(world.address, "/b/k").await.text(), "hello");
    let before = resident_bytes();
    let mut idle = Vec::new();
    for _ in 0..COUNT {
        let mut connection = Connection::open(world.address).await;
        assert_eq!(connection.ask(Ask::new("GET", "/b/k")).await.status, 200);
        idle.push(connection);
    }
    let each = resident_bytes().saturating_sub(before) / COUNT;
    assert!(each < EACH_BYTES_MAX, "{each} bytes for each idle connection");
    assert_eq!(get(world.address, "/b/k").await.text(), "hello");
    let stats = world.gateway.stats();
    assert!(COUNT <= stats.connections_open());
    drop(idle);
    eventually("all connections are closed", || stats.connections_open() == 0).await;
}
