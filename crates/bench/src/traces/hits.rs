//! Cost of a hit in the policy alone: the two calls of the cache.

use zonal_base::{Bytes, Nanos, Rng, ZoneId, index, low_u32};
use zonal_lab::bench::process_cpu;
use zonal_policy::{ChunkLocation, Layout, NAMES, PolicyTag, Spec};

use crate::compare::samples::{Goal, Row, Samples};

/// A seventh of a ZN540 with chunks of 64 KiB: larger than a core's caches for every policy's
/// order.
const ZONES: u32 = 128;
const CHUNKS_PER_ZONE: u32 = 17_232;
const CHUNK: Bytes = Bytes::kib(64);

/// Hits of a round, uniform over all chunks.
const HITS: u64 = 2_000_000;

pub(super) fn rows(rounds: u32) -> Result<Vec<Row>, String> {
    let mut samples = NAMES.map(|_| Samples::default());
    for (name, samples) in NAMES.iter().zip(&mut samples) {
        let spec: Spec = name.parse().map_err(|error| format!("{error}"))?;
        let mut full = Full::of(&spec);
        (0..rounds).for_each(|_| samples.push(full.hit()));
    }
    let rows = NAMES.iter().zip(samples).map(|(name, samples)| {
        let measure = format!("one hit, the policy's part: {name}");
        Row::new(&measure, "ns", samples, Goal::AtMost(200.0))
    });
    Ok(rows.collect())
}

/// A policy on full flash, except for the zones that are always open.
struct Full {
    policy: Box<dyn zonal_policy::Policy>,
    zones: u32,
    marks: Vec<PolicyTag>,
    rng: Rng,
}

impl Full {
    fn of(spec: &Spec) -> Self {
        let zone_capacity = Bytes(CHUNK.0 * u64::from(CHUNKS_PER_ZONE));
        let layout = Layout { zone_count: ZONES, zone_capacity, busy_zones: 3 };
        let mut policy = spec.policy(&layout);
        let zones = ZONES - layout.busy_zones;
        for zone in 0..zones {
            for number in 0..CHUNKS_PER_ZONE {
                policy.on_insert(&place(zone, number), Nanos(0));
            }
            policy.on_sealed(ZoneId(zone), Nanos(0));
        }
        let marks =
            vec![PolicyTag::default(); index(u64::from(zones) * u64::from(CHUNKS_PER_ZONE))];
        Self { policy, zones, marks, rng: Rng::new(1) }
    }

    /// CPU nanoseconds per hit.
    fn hit(&mut self) -> f64 {
        let start = process_cpu();
        let mut held = 0u64;
        for _ in 0..HITS {
            let at = index(self.rng.below(self.marks.len() as u64));
            let (zone, number) = (at / CHUNKS_PER_ZONE as usize, at % CHUNKS_PER_ZONE as usize);
            debug_assert!(zone < self.zones as usize);
            let (place, mark) = (place(low_u32(zone), low_u32(number)), self.marks[at]);
            held += u64::from(self.policy.holds(&place, mark));
            self.marks[at] = self.policy.on_access(&place, mark, Nanos(0));
        }
        // Prevents the optimizer from removing the call.
        std::hint::black_box(held);
        (process_cpu() - start).as_nanos() as f64 / HITS as f64
    }
}

const fn place(zone: u32, number: u32) -> ChunkLocation {
    let offset = Bytes(number as u64 * CHUNK.0);
    ChunkLocation { zone: ZoneId(zone), number, offset, len: CHUNK }
}
