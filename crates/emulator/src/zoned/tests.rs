//! The zoned drive keeps the contract of a device, and takes as long as the drive that was measured.

mod reference;
mod rig;

use alloc::boxed::Box;

use zonal_base::Blocks;
use zonal_device::{Geometry, Kind, conformance};

use super::*;
use crate::payload::{Memory, Tags};

fn small(zone_size: u64, zone_capacity: u64, open: Option<u32>, active: Option<u32>) -> Geometry {
    Geometry {
        kind: Kind::Zoned,
        zone_count: 5,
        zone_size: Blocks(zone_size),
        zone_capacity: Blocks(zone_capacity),
        max_open_zones: open,
        max_active_zones: active,
    }
}

#[test]
fn keeps_the_device_contract() {
    let limits = [(None, None), (Some(2), Some(3)), (Some(3), Some(3)), (Some(2), Some(2))];
    for (zone_size, zone_capacity) in [(16, 12), (16, 16), (200, 150), (8, 8)] {
        for (open, active) in limits {
            let geometry = small(zone_size, zone_capacity, open, active);
            let make = || {
                let profile = Profile { geometry, queue_depth: 256, ..Profile::zn540() };
                ZonedDrive::new(profile, 7, Box::new(Memory::new(&geometry)))
            };
            conformance::run_all(make, |_| panic!("it always knows when it will answer"));
            let make = || {
                let profile = Profile { geometry, queue_depth: 8, ..Profile::zn540() };
                ZonedDrive::new(profile, 8, Box::new(Tags::new(&geometry)))
            };
            conformance::run_all(make, |_| panic!("it always knows when it will answer"));
        }
    }
}

#[test]
fn one_seed_is_one_history() {
    let history = |seed| {
        let mut rig = rig::Rig::new(Profile::zn540(), seed);
        let outcome = rig.load(rig::Job::Append, (4, 8), 4, 2_000);
        (rig.now, rig.drive.next_event(), outcome.mean_us.to_bits())
    };
    assert_eq!(history(42), history(42));
    assert_ne!(history(42), history(43), "the seed must matter, or this test proves nothing");
}
