//! Memory of the policies per object, measured with a counting allocator.

use std::alloc::System;

use cap::Cap;
use zonal_base::{Bytes, Rng};
use zonal_lab::trace::{Capacity, NEVER, ReplayTally, Request, Room, make};
use zonal_lab::{Distribution, Draw};

/// Allocator that counts and never refuses.
#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

const OBJECTS: u64 = 100_000;

/// Maximum bytes per cached object, including ghosts, when the cache is full and has evicted for a
/// while.
const MOST: f64 = 24.0;

/// Maximum with object sizes, for the policies that keep nearly as many ghosts as objects: their
/// ghosts have sizes, too.
const MORE_WITH_SIZES: [(&str, f64); 2] = [("s3-fifo", 36.0), ("arc", 38.0)];

const REFERENCES: [&str; 7] = ["lru", "fifo", "clock", "sieve", "s3-fifo", "arc", "belady"];

const IN_SLOTS: [&str; 3] =
    ["chunk-lru?place=slots", "region-fifo?place=slots", "region-lru?place=slots"];

/// A million requests, with next positions, for ten times as many objects as fit.
fn requests() -> Vec<Request> {
    let draw = Draw::new(Distribution::Zipf { theta: 0.99 }, OBJECTS * 10, 1);
    let mut rng = Rng::new(1);
    let request = |id| Request::read(id, 4096, 0);
    let mut requests: Vec<_> = (0..1_000_000).map(|_| request(draw.key(&mut rng))).collect();
    let mut next = vec![NEVER; zonal_base::index(OBJECTS * 10)];
    for (position, request) in requests.iter_mut().enumerate().rev() {
        let id = zonal_base::index(request.id);
        request.next = next[id];
        next[id] = zonal_base::low_u32(position);
    }
    requests
}

// The only test of this program: memory of another thread would be counted, too.
#[test]
fn an_object_takes_no_more_memory_than_its_policy_may() {
    let requests = requests();
    for policy in REFERENCES.iter().chain(&zonal_policy::NAMES).chain(&IN_SLOTS) {
        let more = MORE_WITH_SIZES.iter().find(|(name, _)| name == policy);
        check(policy, Capacity::Objects(OBJECTS), MOST, &requests);
        let most = more.map_or(MOST, |(_, most)| *most);
        check(policy, Capacity::Bytes(Bytes::kib(4 * OBJECTS)), most, &requests);
    }
}

#[track_caller]
fn check(policy: &str, capacity: Capacity, most: f64, requests: &[Request]) {
    let before = ALLOCATOR.allocated();
    let mut contender = make(policy, Room { capacity, zones: 50 }).expect("there is room");
    contender.run(requests, &mut ReplayTally::default());
    let each = (ALLOCATOR.allocated() - before) as f64 / OBJECTS as f64;
    eprintln!("{policy}, {capacity}: {each:.1} bytes for each object that is cached");
    assert!(each <= most, "{policy}, {capacity}: {each:.1}, more than {most}");
}
