//! Tests of the flash model: equivalence with reference policies, and invariants at every step.

use proptest::prelude::*;
use zonal_base::Rng;
use zonal_policy::Promotion;

use super::*;
use crate::trace::reference;
use crate::{Distribution, Draw};

fn read(id: u64, size: u64) -> Request {
    Request::read(id, size, 0)
}

fn contender(spec: &str, capacity: Capacity, zones: u32) -> Result<Box<dyn Contender>, String> {
    make(&spec.parse().unwrap(), Room { capacity, zones })
}

fn flash(spec: &str, capacity: Capacity, zones: u32) -> Box<dyn Contender> {
    contender(spec, capacity, zones).unwrap()
}

/// Misses on a Zipf 0.99 workload of 20,000 objects.
fn zipf_misses(contender: &mut dyn Contender) -> u32 {
    const REQUESTS: u32 = 300_000;
    let draw = Draw::new(Distribution::Zipf { theta: 0.99 }, 20_000, 1);
    let mut rng = Rng::new(1);
    let mut is_missed = || contender.read(&read(draw.key(&mut rng), 4096)) == ReplayOutcome::Miss;
    (0..REQUESTS).map(|_| u32::from(is_missed())).sum()
}

/// Zipf misses of several contenders.
fn misses<const N: usize>(contenders: [Box<dyn Contender>; N]) -> [u32; N] {
    contenders.map(|mut contender| zipf_misses(contender.as_mut()))
}

fn on_zones(spec: &str, objects: u64, zones: u32) -> Box<dyn Contender> {
    flash(spec, Capacity::Objects(objects), zones)
}

fn on_objects(name: &str, objects: u64) -> Box<dyn Contender> {
    let make = reference::ALL.iter().find(|(known, _)| *known == name).unwrap().1;
    make(Capacity::Objects(objects))
}

#[test]
fn zone_fifo_is_within_0_3_points_of_fifo() {
    let [zones, objects] = misses([on_zones("zone-fifo", 2000, 50), on_objects("fifo", 2000)]);
    assert!(zones.abs_diff(objects) < 900, "{zones} and {objects} misses of 300000");
}

#[test]
fn chunk_lru_with_ample_spare_space_is_lru() {
    let [zones, objects] =
        misses([on_zones("chunk-lru?spare=50%", 4000, 50), on_objects("lru", 2000)]);
    assert_eq!(zones, objects);
}

#[test]
fn chunk_lru_in_place_is_lru() {
    let [slots, objects] =
        misses([on_zones("chunk-lru?place=slots", 2000, 50), on_objects("lru", 2000)]);
    assert_eq!(slots, objects);
}

#[test]
fn region_fifo_in_place_is_within_0_3_points_of_fifo() {
    // Three objects per region.
    let [regions, objects] =
        misses([on_zones("region-fifo?place=slots", 9600, 50), on_objects("fifo", 9600)]);
    assert!(regions.abs_diff(objects) < 900, "{regions} and {objects} misses of 300000");
}

#[test]
fn region_lru_in_place_misses_less_than_region_fifo() {
    let [lru, fifo] = misses([
        on_zones("region-lru?place=slots&regions=4", 2000, 50),
        on_zones("region-fifo?place=slots&regions=4", 2000, 50),
    ]);
    assert!(lru < fifo, "{lru} and {fifo}");
}

#[test]
fn in_place_nothing_is_written_again() {
    for name in ["chunk-lru", "region-fifo", "region-lru"] {
        let mut slots = flash(&format!("{name}?place=slots&admit=all"), Capacity::Objects(2000), 5);
        let misses = zipf_misses(slots.as_mut());
        assert_eq!(slots.flash(), FlashBytes { filled: misses.into(), moved: 0 }, "{name}");
    }
}

#[test]
fn direct_is_zone_lru() {
    let [direct, zone_lru] = misses([on_zones("direct", 2000, 50), on_zones("zone-lru", 2000, 50)]);
    assert_eq!(direct, zone_lru);
}

#[test]
fn zdrop_without_a_vop_part_is_greedy_cleaning() {
    let [zdrop, region_lru] =
        misses([on_zones("zdrop?vop=0%", 2000, 50), on_zones("region-lru", 2000, 50)]);
    assert_eq!(zdrop, region_lru);
}

#[test]
fn zdrop_that_drops_everything_writes_nothing_again() {
    let mut zdrop = flash("zdrop", Capacity::Objects(2000), 50);
    zipf_misses(zdrop.as_mut());
    assert_eq!(zdrop.flash().moved, 0);
    assert!(2000 < zdrop.flash().filled);
}

#[test]
fn flow_misses_less_than_zone_fifo_for_a_fraction_of_its_writes() {
    let (mut flow, mut fifo) = (
        flash("flow", Capacity::Objects(2000), 50),
        flash("zone-fifo", Capacity::Objects(2000), 50),
    );
    let misses = [zipf_misses(flow.as_mut()), zipf_misses(fifo.as_mut())];
    let written = |flash: FlashBytes| flash.filled + flash.moved;
    assert!(misses[0] * 10 < misses[1] * 9, "{misses:?}");
    assert!(written(flow.flash()) * 2 < written(fifo.flash()));
}

#[test]
fn a_sketch_admits_less_than_half_of_what_is_missed() {
    let mut sketch = flash("zone-fifo?admit=sketch", Capacity::Objects(2000), 50);
    let misses = zipf_misses(sketch.as_mut());
    assert!(sketch.flash().filled * 2 < misses.into(), "{misses}");
}

#[test]
fn too_few_zones_are_refused_with_what_is_needed() {
    let refused = |spec: &str, objects, zones| {
        contender(spec, Capacity::Objects(objects), zones).err().unwrap()
    };
    assert!(refused("zone-lru", 100, 2).contains("needs at least 3 zones"));
    assert!(refused("chunk-lru", 100, 4).contains("needs at least 5 zones"));
    assert!(refused("zone-lru", 10, 20).contains("none of them empty"));
    assert!(refused("region-lru?place=slots", 100, 4).contains("none empty"));
}

#[test]
fn zones_that_offsets_do_not_reach_are_refused_with_how_many_there_must_be() {
    let of = |zones| contender("zone-lru", Capacity::Bytes(Bytes::kib(1000 << 20)), zones);
    assert!(of(249).err().unwrap().contains("use 250 zones"));
    assert!(of(250).is_ok());
}

#[test]
fn so_many_zones_that_each_has_room_for_nothing_are_refused_before_they_are_made() {
    let spec = "region-lru?regions=1024";
    assert!(contender(spec, Capacity::Objects(100), u32::MAX).is_err());
}

/// Zones of 100 that two records do not fill.
#[test]
fn reclaim_gains_something_when_records_leave_much_of_a_zone_free() {
    let settings = zonal_policy::NAMES.iter().map(|name| (*name).to_owned());
    let tight = ["chunk-lru?spare=0%", "region-lru?spare=0%&regions=1", "zlru?spare=0%&vop=100%"];
    for spec in settings.chain(tight.map(str::to_owned)).chain(["flow?rewrite=100%".to_owned()]) {
        for zones in [5, 6, 40] {
            let capacity = Capacity::Bytes(Bytes(u64::from(zones) * 100));
            let mut flash = flash(&spec, capacity, zones);
            let mut rng = Rng::new(1);
            for _ in 0..3000 {
                let id = rng.below(u64::from(zones) * 3);
                flash.read(&read(id, 51 + id % 50));
            }
            let FlashBytes { filled, moved } = flash.flash();
            assert!(moved < filled * 20, "{spec}, {zones} zones: {moved} after {filled}");
        }
    }
}

/// The live data of the emptiest zones are objects of which no two fit into one zone. Without a
/// limit, this trace rewrites them from zone to zone for ever.
#[test]
fn reclaim_ends_when_objects_are_nearly_as_large_as_zones() {
    const SEED: u64 = 13;
    let draw = Draw::new(Distribution::Zipf { theta: 0.8 }, 2000, SEED);
    for spec in zonal_policy::NAMES {
        let mut flash = flash(spec, Capacity::Bytes(Bytes(50 * 1024)), 50);
        let mut rng = Rng::new(SEED);
        for _ in 0..20_000 {
            let id = draw.key(&mut rng);
            let random = zonal_base::mix64(id + SEED * 100_000);
            let octave = 1 << (random % 10);
            let size = (octave + (random >> 16) % octave).min(1020);
            flash.read(&read(id, size));
        }
    }
}

fn step() -> impl Strategy<Value = (u64, u32, bool)> {
    // Sizes exceed a zone at times; one step in ten invalidates.
    (0..60u64, prop_oneof![9 => 1..40u32, 1 => 40..400u32], prop::bool::weighted(0.1))
}

type Steps = [(u64, u32, bool)];

/// Runs all steps and checks the store after each.
fn walk<S: Store>(spec: &str, room: Room, store: S, (steps, check): (&Steps, fn(&mut S))) {
    let mut flash = Flash::new(&spec.parse().unwrap(), room, store);
    for (id, size, is_invalidation) in steps {
        match is_invalidation {
            true => flash.invalidate(*id),
            false => {
                flash.read(&read(*id, (*size).into()));
            }
        }
        check(&mut flash.store);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn every_byte_is_live_or_free_or_invalid(
        steps in prop::collection::vec(step(), 1..600),
        zones in 5..12u32,
        in_objects: bool,
    ) {
        let capacity = match in_objects {
            true => Capacity::Objects(u64::from(zones) * 4),
            false => Capacity::Bytes(Bytes(u64::from(zones) * 100)),
        };
        let room = Room { capacity, zones };
        for name in zonal_policy::NAMES {
            let log = log(&name.parse().unwrap(), capacity, zones).unwrap();
            walk(name, room, log, (&steps, FlashLog::check));
        }
        for promotion in [Promotion::Never, Promotion::Access] {
            let regions = Regions::new(promotion, capacity, zones * 2).unwrap();
            walk("region-lru", room, regions, (&steps, Regions::check));
        }
    }

    #[test]
    fn every_slot_is_used_or_free(
        steps in prop::collection::vec((0..60u64, 1..40_000u32, prop::bool::weighted(0.1)), 1..600),
        slots in 1..12u64,
        in_objects: bool,
    ) {
        let capacity = match in_objects {
            true => Capacity::Objects(slots),
            false => Capacity::Bytes(Bytes::kib(4 * slots)),
        };
        let room = Room { capacity, zones: 1 };
        walk("chunk-lru", room, Chunks::new(capacity).unwrap(), (&steps, Chunks::check));
    }
}
