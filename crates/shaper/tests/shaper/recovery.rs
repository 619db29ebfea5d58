//! What opening reads.

use zonal_base::{Blocks, Bytes, Contents, Rng};
use zonal_shaper::Settings;

use crate::rig::{Drives, Rig, Shape, export, mib};

/// Opening reads the headers, and what was written since the last flush: half a percent and a constant, however large the
/// devices are.
#[test]
fn opening_reads_headers_and_what_was_not_flushed() {
    let shape = Shape { zone: Blocks(960), buffer_zones: 6, capacity_zones: 64 };
    let drives = Drives::new(shape, Contents::Bytes);
    let settings = Settings { flush_every: Bytes::mib(2), ..Settings::default() };
    let user = settings.exportable(&drives.layout(), 1).0 * 8 / 10;
    let mut rig = Rig::open(drives, settings, export(Blocks(user)));
    let mut next = 0;
    rig.write(user, move || {
        next += 1;
        next - 1
    });
    let mut rng = Rng::new(3);
    rig.write(user / 2, move || rng.below(user));
    let before = rig.shaper.tenant_stats()[0].1;
    let rig = Rig::open(rig.kill(), settings, export(Blocks(user)));
    let (recovery, after) = (rig.shaper.recovery(), rig.shaper.tenant_stats()[0].1);
    assert_eq!(after.mapped_blocks, before.mapped_blocks);
    let written = Blocks(user).bytes().0;
    println!("{} MiB written: {recovery:?}", mib(written));
    assert_eq!(recovery.torn_blocks, 0);
    // Two tiers, and what each writes while a flush is under way.
    assert!(recovery.verified_bytes <= 4 * settings.flush_every.0, "{recovery:?}");
    // In the buffer, where segments are short, all of it is read; of the capacity tier the headers and the first 32 blocks of
    // each zone.
    let buffer = Blocks(shape.zone.0 * u64::from(shape.buffer_zones)).bytes().0;
    let firsts = Blocks(33 * u64::from(shape.capacity_zones)).bytes().0;
    let limit = buffer + firsts + written / 100 + recovery.verified_bytes;
    assert!(recovery.read_bytes <= limit, "{recovery:?}, at most {limit}");
}
