//! Reference policies against simple models, and rules that hold for all policies.

use std::collections::VecDeque;

use zonal_base::{Bytes, Rng};
use zonal_lab::trace::{
    Capacity, Contender, Format, NEVER, Op, ReplayOutcome, Request, Room, Trace, make, replay,
};

const ALL: [&str; 7] = ["lru", "fifo", "clock", "sieve", "s3-fifo", "arc", "belady"];

/// Requests for a few objects, with some invalidations and with next positions.
fn requests(seed: u64, count: u32) -> Vec<Request> {
    let mut rng = Rng::new(seed);
    let mut requests: Vec<Request> = (0..count)
        .map(|time_s| {
            let id = rng.below(8) * rng.below(8);
            let op = if rng.below(10) == 0 { Op::Invalidate } else { Op::Read };
            // Sizes change, as in real traces.
            let size = 1 + rng.below(40);
            Request { op, ..Request::read(id, size, time_s) }
        })
        .collect();
    for at in 0..requests.len() {
        let id = requests[at].id;
        let next = requests[at + 1..].iter().position(|later| later.id == id);
        let next = next.map(|after| at + 1 + after).filter(|next| requests[*next].op == Op::Read);
        requests[at].next = next.map_or(NEVER, zonal_base::low_u32);
    }
    requests
}

const CAPACITIES: [Capacity; 4] = [
    Capacity::Objects(1),
    Capacity::Objects(7),
    Capacity::Objects(20),
    Capacity::Bytes(Bytes(200)),
];

fn contender(policy: &str, capacity: Capacity) -> Box<dyn Contender> {
    make(policy, Room { capacity, zones: 1 }).expect("a known policy")
}

/// A list with the newest object in front; each entry is marked when touched.
struct Model {
    policy: &'static str,
    capacity: Capacity,
    list: VecDeque<(u64, u64, bool)>,
    /// SIEVE only: the object at the hand.
    hand: Option<u64>,
}

impl Model {
    fn read(&mut self, request: &Request) -> ReplayOutcome {
        if let Some(at) = self.position(request.id) {
            match self.policy {
                "lru" => {
                    let object = self.list.remove(at).expect("it was found");
                    self.list.push_front(object);
                }
                _ => self.list[at].2 = true,
            }
            return ReplayOutcome::Hit;
        }
        let weight = self.capacity.weight(request.size);
        if self.capacity.amount() < weight {
            return ReplayOutcome::Miss;
        }
        while self.capacity.amount() < self.list.iter().map(|object| object.1).sum::<u64>() + weight
        {
            self.evict();
        }
        self.list.push_front((request.id, weight, false));
        ReplayOutcome::Miss
    }

    fn position(&self, id: u64) -> Option<usize> {
        self.list.iter().position(|object| object.0 == id)
    }

    fn evict(&mut self) {
        match self.policy {
            "clock" => {
                while let Some((id, weight, true)) = self.list.back().copied() {
                    self.list.pop_back();
                    self.list.push_front((id, weight, false));
                }
                self.list.pop_back();
            }
            "sieve" => {
                let oldest = self.list.len() - 1;
                let mut at = self.hand.and_then(|id| self.position(id)).unwrap_or(oldest);
                while self.list[at].2 {
                    self.list[at].2 = false;
                    at = at.checked_sub(1).unwrap_or(oldest);
                }
                self.hand = at.checked_sub(1).map(|newer| self.list[newer].0);
                self.list.remove(at);
            }
            _ => drop(self.list.pop_back()),
        }
    }

    fn invalidate(&mut self, id: u64) {
        if let Some(at) = self.position(id) {
            if self.hand == Some(id) {
                self.hand = at.checked_sub(1).map(|newer| self.list[newer].0);
            }
            self.list.remove(at);
        }
    }
}

#[test]
fn simple_policies_do_what_their_models_do() {
    for policy in ["lru", "fifo", "clock", "sieve"] {
        for capacity in CAPACITIES {
            for seed in 0..20 {
                let mut subject = contender(policy, capacity);
                let mut model = Model { policy, capacity, list: VecDeque::new(), hand: None };
                for (at, request) in requests(seed, 2000).iter().enumerate() {
                    if request.op == Op::Invalidate {
                        subject.invalidate(request.id);
                        model.invalidate(request.id);
                        continue;
                    }
                    let (here, there) = (subject.read(request), model.read(request));
                    assert_eq!(here, there, "{policy} at {capacity}, seed {seed}, request {at}");
                }
            }
        }
    }
}

#[test]
fn what_was_invalidated_is_a_miss() {
    for policy in ALL {
        for capacity in CAPACITIES {
            let mut subject = contender(policy, capacity);
            let mut stale = std::collections::BTreeSet::new();
            for request in requests(3, 5000) {
                if request.op == Op::Invalidate {
                    subject.invalidate(request.id);
                    stale.insert(request.id);
                } else {
                    let outcome = subject.read(&request);
                    assert!(
                        outcome == ReplayOutcome::Miss || !stale.contains(&request.id),
                        "{policy}"
                    );
                    stale.remove(&request.id);
                }
            }
        }
    }
}

#[test]
fn nobody_misses_less_than_who_knows_the_future() {
    for capacity in [1, 7, 20].map(Capacity::Objects) {
        for seed in 0..10 {
            let requests = requests(seed, 2000);
            let misses = |policy| {
                let mut tally = zonal_lab::trace::ReplayTally::default();
                contender(policy, capacity).run(&requests, &mut tally);
                tally.requests - tally.hits
            };
            let best = misses("belady");
            for policy in ALL {
                assert!(best <= misses(policy), "{policy} at {capacity}, seed {seed}");
            }
        }
    }
}

#[test]
fn an_object_larger_than_the_room_is_not_kept_and_drives_nothing_out() {
    for policy in ALL {
        let mut subject = contender(policy, Capacity::Bytes(Bytes(100)));
        let request = |id, size, next| Request { next, ..Request::read(id, size, 0) };
        subject.read(&request(1, 5, 2));
        subject.read(&request(2, 101, 3));
        assert_eq!(subject.read(&request(1, 5, NEVER)), ReplayOutcome::Hit, "{policy}");
        assert_eq!(subject.read(&request(2, 101, NEVER)), ReplayOutcome::Miss, "{policy}");
        assert_eq!(subject.flash().filled, 5, "{policy}");
    }
}

#[test]
fn a_trace_that_is_replayed_on_nobody_ends() {
    let trace = Trace::new("nowhere".into(), Format::Text);
    assert_eq!(replay(&trace, Vec::new(), &|_| ()), Ok(Vec::new()));
}
