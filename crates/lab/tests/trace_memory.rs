//! What policies take for each object, by counting what is allocated.

use std::alloc::System;

use cap::Cap;
use zonal_base::{Bytes, Rng};
use zonal_lab::trace::{Capacity, NEVER, Op, Request, Room, Tally, make};
use zonal_lab::{Distribution, Draw};

/// Refuses nothing: it is here to count.
#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

const OBJECTS: u64 = 100_000;

/// Bytes for each object that is cached, when the cache is full and has evicted for a while. Twenty-four are
/// enough for each object that is remembered; S3-FIFO and ARC remember nearly as many ghosts as they have objects.
const LIMITS: [(&str, f64); 7] = [
    ("lru", 24.0),
    ("fifo", 24.0),
    ("clock", 24.0),
    ("sieve", 24.0),
    ("s3-fifo", 1.9 * 24.0),
    ("arc", 2.0 * 24.0),
    ("belady", 24.0),
];

/// Policies on zones that take more where objects have sizes.
const MORE: [(&str, f64); 1] = [("flow", 27.5)];

/// In slots, where objects count as one and where they have sizes.
const IN_SLOTS: [(&str, [f64; 2]); 3] = [
    ("chunk-lru?place=slots", [33.0, 38.0]),
    ("region-fifo?place=slots", [24.0, 24.0]),
    ("region-lru?place=slots", [24.0, 24.0]),
];

/// A million requests for ten times as many objects as there is room for, with what comes next.
fn requests() -> Vec<Request> {
    let draw = Draw::new(Distribution::Zipf { theta: 0.99 }, OBJECTS * 10, 1);
    let mut rng = Rng::new(1);
    let request = |id| Request { id, size: 4096, time_s: 0, next: NEVER, op: Op::Read };
    let mut requests: Vec<_> = (0..1_000_000).map(|_| request(draw.key(&mut rng))).collect();
    let mut next = vec![NEVER; zonal_base::index(OBJECTS * 10)];
    for (position, request) in requests.iter_mut().enumerate().rev() {
        let id = zonal_base::index(request.id);
        request.next = next[id];
        next[id] = zonal_base::low_u32(position);
    }
    requests
}

// The only test of this program: another thread's memory would be counted, too.
#[test]
fn an_object_takes_no_more_memory_than_its_policy_may() {
    let requests = requests();
    for (policy, most) in LIMITS {
        check(policy, Capacity::Objects(OBJECTS), most, &requests);
    }
    for policy in zonal_policy::NAMES {
        let most = MORE.iter().find(|(name, _)| *name == policy).map_or(24.0, |(_, most)| *most);
        check(policy, Capacity::Objects(OBJECTS), 24.0, &requests);
        check(policy, Capacity::Bytes(Bytes::kib(4 * OBJECTS)), most, &requests);
    }
    for (policy, [counted, sized]) in IN_SLOTS {
        check(policy, Capacity::Objects(OBJECTS), counted, &requests);
        check(policy, Capacity::Bytes(Bytes::kib(4 * OBJECTS)), sized, &requests);
    }
}

#[track_caller]
fn check(policy: &str, capacity: Capacity, most: f64, requests: &[Request]) {
    let before = ALLOCATOR.allocated();
    let mut contender = make(policy, Room { capacity, zones: 50 }).expect("there is room");
    contender.run(requests, &mut Tally::default());
    let each = (ALLOCATOR.allocated() - before) as f64 / OBJECTS as f64;
    eprintln!("{policy}, {capacity}: {each:.1} bytes for each object that is cached");
    assert!(each <= most, "{policy}, {capacity}: {each:.1}, more than {most}");
}
