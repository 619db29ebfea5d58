//! The conventional drive of the simulation.

use zonal_base::{Blocks, Bytes, index};
use zonal_device::Geometry;
use zonal_emulator::ftl::FtlConfig;
use zonal_emulator::{ConventionalProfile, Profile};

/// Blocks per superblock (erase unit): few, so that a small drive has enough superblocks for
/// garbage collection.
const SUPERBLOCK: u32 = 32;

/// Profile of an SN540, scaled down to these zones.
pub(super) fn profile(geometry: Geometry) -> ConventionalProfile {
    let sn540 = ConventionalProfile::sn540();
    let user = Blocks(u64::from(geometry.zone_count) * geometry.zone_size.0);
    let user_units = zonal_base::low_u32(index(user.0));
    // A tenth is overprovisioned, in addition to the free superblocks that garbage collection
    // needs.
    let superblock_count = user_units.div_ceil(SUPERBLOCK) * 11 / 10 + 7;
    let ftl = FtlConfig {
        unit: Bytes::kib(4).blocks_ceil(),
        user_units,
        superblock_units: SUPERBLOCK,
        superblock_count,
        free_min: 2,
    };
    let drive = Profile { geometry, queue_depth: super::QUEUE_DEPTH, ..sn540.drive };
    ConventionalProfile { drive, ftl: Some(ftl), user, ..sn540 }
}
