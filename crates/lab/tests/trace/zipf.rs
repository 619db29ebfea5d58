//! Generated trace: a million requests, exactly Zipf 0.99 over 100,000 objects.
//!
//! The trace has the distribution of `z99_1M` in expected_objects.csv, but another seed. Its miss
//! ratios must therefore agree within chance: half a point.

use zonal_base::Rng;
use zonal_lab::trace::{Capacity, Format, Room, Trace, make, replay};
use zonal_lab::{Distribution, Draw};

use crate::files::write;

/// Policies with their miss ratios at 8,212 objects in libCacheSim.
const EXPECTED: [(&str, f64); 7] = [
    ("lru", 0.2985),
    ("fifo", 0.3355),
    ("clock", 0.2899),
    ("sieve", 0.2506),
    ("s3-fifo", 0.2483),
    ("arc", 0.2514),
    ("belady", 0.1786),
];

#[test]
fn another_trace_of_the_same_distribution_misses_as_often() {
    let draw = Draw::new(Distribution::Zipf { theta: 0.99 }, 100_000, 42);
    let mut rng = Rng::new(42);
    let bytes: Vec<u8> = (0..1_000_000).flat_map(|_| draw.key(&mut rng).to_le_bytes()).collect();
    let trace = Trace::new(write("zipf.u64le", &bytes), Format::U64Le);
    let room = Room { capacity: Capacity::Objects(8212), zones: 1 };
    let contenders = EXPECTED.map(|(policy, _)| make(policy, room).unwrap());
    let tallies = replay(&trace, contenders.into(), &|_| ()).unwrap();
    for ((policy, expected), tally) in EXPECTED.iter().zip(tallies) {
        let off = (tally.miss_ratio() - expected).abs();
        assert!(off < 0.005, "{policy}: {:.4}, not about {expected:.4}", tally.miss_ratio());
    }
}
