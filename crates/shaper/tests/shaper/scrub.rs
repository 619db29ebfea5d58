//! Scrubs: they find what is damaged, and nothing else.

use zonal_base::{Blocks, Bytes, Contents, ZoneId};
use zonal_shaper::{Scrub, Settings};

use crate::rig::{Drives, Rig, Shape, export, in_order};

const ZONE: Blocks = Blocks(960);

/// All data are on the capacity device, in order and in full segments: a header, the block of its
/// echo if it has one, and its data.
fn filled() -> Rig {
    let shape = Shape { zone: ZONE, buffer_zones: 6, capacity_zones: 64 };
    let drives = Drives::new(shape, Contents::Bytes);
    let mut rig = Rig::open(drives, Settings::default(), export(Blocks(20_000)));
    for _ in 0..2 {
        rig.write(20_000, in_order());
    }
    rig
}

#[test]
fn a_scrub_finds_nothing_on_intact_devices_and_keeps_to_its_rate() {
    let mut rig = filled();
    let begun = rig.now();
    let scrub = rig.scrub(Bytes::mib(16)).unwrap();
    assert!(scrub.is_clean() && !scrub.is_running, "{scrub:?}");
    assert_eq!((scrub.zones, scrub.zones_done), (70, 70));
    // Tables and trim bitmaps are verified, too.
    assert!((20_000..20_100).contains(&scrub.blocks), "{scrub:?}");
    let seconds = rig.now().since(begun).0 as f64 / 1e9;
    let rate = scrub.read_bytes as f64 / seconds;
    let limit = Bytes::mib(16).0 as f64;
    assert!(limit * 0.9 < rate && rate < limit + 1.0, "{rate} bytes a second");
}

#[test]
fn a_scrub_counts_flipped_bits_damaged_headers_and_blocks_that_cannot_be_read() {
    let mut rig = filled();
    let clean = rig.scrub(Bytes::mib(256)).unwrap();
    // Somewhere in the second segment of a full zone.
    rig.flip_bit(ZoneId(30), 300);
    let scrub = rig.scrub(Bytes::mib(256)).unwrap();
    assert_eq!(scrub, Scrub { corrupt_blocks: 1, ..clean });
    assert_eq!(rig.stats().0.checksum_errors, 1);

    rig.flip_bit(ZoneId(31), 0);
    let scrub = rig.scrub(Bytes::mib(256)).unwrap();
    // The blocks behind the header are found by the map.
    assert_eq!((scrub.corrupt_blocks, scrub.damaged_metadata), (1, 1), "{scrub:?}");
    assert!(clean.blocks - 10 <= scrub.blocks && scrub.blocks <= clean.blocks, "{scrub:?}");

    rig.make_unreadable(32..33);
    let scrub = rig.scrub(Bytes::mib(256)).unwrap();
    assert_eq!((scrub.corrupt_blocks, scrub.unreadable_blocks), (1, 10), "{scrub:?}");
}
