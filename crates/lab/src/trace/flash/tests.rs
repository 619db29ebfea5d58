//! Policies on zones against simpler things that they must equal, and what holds after every step.

use proptest::prelude::*;
use zonal_base::Rng;

use super::*;
use crate::trace::{Op, reference};
use crate::{Distribution, Draw};

const NEVER: u32 = crate::trace::NEVER;

fn read(id: u64, size: u32) -> Request {
    Request { id, size, time_s: 0, next: NEVER, op: Op::Read }
}

fn flash(spec: &str, capacity: Capacity, zones: u32) -> Flash {
    let spec: Spec = spec.parse().unwrap();
    Flash::new(&spec, capacity, zones).unwrap()
}

/// Misses on zipf 0.99 over 20,000 objects.
fn zipf_misses(contender: &mut dyn Contender) -> u32 {
    const REQUESTS: u32 = 300_000;
    let draw = Draw::new(Distribution::Zipf { theta: 0.99 }, 20_000, 1);
    let mut rng = Rng::new(1);
    let mut is_missed = || contender.read(&read(draw.key(&mut rng), 4096)) == Outcome::Miss;
    (0..REQUESTS).map(|_| u32::from(is_missed())).sum()
}

/// Misses of some contenders there.
fn misses<const N: usize>(contenders: [Box<dyn Contender>; N]) -> [u32; N] {
    contenders.map(|mut contender| zipf_misses(contender.as_mut()))
}

fn on_zones(spec: &str, objects: u64, zones: u32) -> Box<dyn Contender> {
    Box::new(flash(spec, Capacity::Objects(objects), zones))
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
    zipf_misses(&mut zdrop);
    assert_eq!(zdrop.flash().moved, 0);
    assert!(2000 < zdrop.flash().filled);
}

#[test]
fn flow_misses_less_than_zone_fifo_for_a_fraction_of_its_writes() {
    let (mut flow, mut fifo) = (
        flash("flow", Capacity::Objects(2000), 50),
        flash("zone-fifo", Capacity::Objects(2000), 50),
    );
    let misses = [zipf_misses(&mut flow), zipf_misses(&mut fifo)];
    let written = |flash: FlashBytes| flash.filled + flash.moved;
    assert!(misses[0] * 10 < misses[1] * 9, "{misses:?}");
    assert!(written(flow.flash()) * 2 < written(fifo.flash()));
}

#[test]
fn a_sketch_admits_less_than_half_of_what_is_missed() {
    let mut sketch = flash("zone-fifo?admit=sketch", Capacity::Objects(2000), 50);
    let misses = zipf_misses(&mut sketch);
    assert!(sketch.flash().filled * 2 < misses.into(), "{misses}");
}

#[test]
fn too_few_zones_are_refused_with_what_is_needed() {
    let refused = |spec: &str, objects, zones| {
        let spec: Spec = spec.parse().unwrap();
        Flash::new(&spec, Capacity::Objects(objects), zones).err().unwrap()
    };
    assert!(refused("zone-lru", 100, 2).contains("needs 3 zones at least"));
    assert!(refused("chunk-lru", 100, 4).contains("needs 5 zones at least"));
    assert!(refused("zone-lru", 10, 20).contains("room for something in each"));
}

fn step() -> impl Strategy<Value = (u64, u32, bool)> {
    // Sizes up to more than a zone takes; one step in ten invalidates.
    (0..60u64, prop_oneof![9 => 1..40u32, 1 => 40..400u32], prop::bool::weighted(0.1))
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
        for name in zonal_policy::NAMES {
            let mut flash = flash(name, capacity, zones);
            for (id, size, is_invalidation) in &steps {
                match is_invalidation {
                    true => flash.invalidate(*id),
                    false => {
                        flash.read(&read(*id, *size));
                    }
                }
                flash.log.check();
            }
        }
    }
}
