//! The engine on the model of the ZN540: right bytes, reclaim, and equal seeds.

use zonal_base::{Bytes, Nanos};
use zonal_emulator::{Profile, Tags, ZonedDrive};

use super::{Outcome, Settings, Simulated};
use crate::{Distribution, Draw};

fn run(seed: u64) -> (Outcome, u64, u64) {
    let mut profile = Profile::zn540();
    profile.geometry.zone_count = 6;
    let geometry = profile.geometry;
    let drive = ZonedDrive::new(profile, seed, Box::new(Tags::new(&geometry)));
    let settings = Settings {
        chunk: Bytes::kib(256),
        policy: "zone-lru".parse().unwrap(),
        tasks: 16,
        origin_latency: Nanos::millis(10),
        seed,
    };
    let mut simulated = Simulated::start(drive, &settings).expect("the settings fit");
    // Twice what the drive holds.
    let chunks = 2 * 6 * geometry.zone_capacity.bytes().0 / settings.chunk.0;
    let draw = Draw::new(Distribution::Zipf { theta: 0.9 }, chunks, seed);
    let outcome = simulated.gets(4 * chunks, draw).expect("every byte is right");
    let stats = simulated.cache().stats();
    (outcome, stats.damaged, stats.evicted)
}

#[test]
fn a_cache_on_a_model_hits_misses_and_reclaims_and_every_tag_is_right() {
    let (outcome, damaged, evicted) = run(1);
    assert!(outcome.hits * 10 > outcome.gets * 3, "{outcome:?}");
    assert!(outcome.hits * 10 < outcome.gets * 9, "{outcome:?}");
    assert!(damaged == 0 && 0 < evicted, "{damaged} damaged, {evicted} evicted");
    let again = run(1).0;
    assert_eq!((again.hits, again.took), (outcome.hits, outcome.took), "one seed, one history");
    assert_ne!(run(2).0.took, outcome.took);
}
