//! Backing file format tests: golden bytes of version 1, and files that are refused.

use super::*;

/// Header as version 1 wrote it. Never edit these bytes: a new version adds its own.
const HEADER_GOLDEN_V1: [u8; HEADER_BYTES] = [
    0x5A, 0x4E, 0x4C, 0x44, 0x52, 0x49, 0x56, 0x45, 1, 0, 0, 0, 8, 0, 0, 0, 0, 0x35, 4, 0, 0x7A,
    0x6E, 0x35, 0x34, 0x30, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x38, 0x27, 0x0D, 0xB8,
];

/// Table entry as version 1 wrote it: zone 3 with 275,712 blocks, finished.
const ENTRY_GOLDEN_V1: [u8; ENTRY_BYTES] =
    [0, 0x35, 4, 0, 1, 0, 0, 0, 3, 0, 0, 0, 0x58, 0x36, 0xCC, 4];

fn zn540(zone_count: u32) -> BackingLayout {
    let Some(Model::Zoned(mut profile)) = Model::by_name("zn540") else { panic!("there is one") };
    profile.geometry.zone_count = zone_count;
    BackingLayout::of(&Model::Zoned(profile))
}

fn check(header: [u8; HEADER_BYTES]) -> Result<(), String> {
    zn540(8).check(&header)
}

#[test]
fn version_1_reads_and_writes_the_golden_bytes() {
    assert_eq!(zn540(8).header(), HEADER_GOLDEN_V1);
    assert_eq!(check(HEADER_GOLDEN_V1), Ok(()));
    let kept = ZoneImage { data: Blocks(275_712), is_finished: true };
    assert_eq!(entry(ZoneId(3), kept), ENTRY_GOLDEN_V1);
    assert_eq!(zn540(8).kept(ZoneId(3), &ENTRY_GOLDEN_V1), Some(kept));
}

#[test]
fn parts_lie_where_the_format_says() {
    let layout = zn540(904);
    assert_eq!(place_of(ZoneId(0)), 4096);
    assert_eq!(layout.position(Lba(0)), 1 << 20, "after a table of 14 KiB");
    let second = layout.geometry().zone_start(ZoneId(1)) + Blocks(2);
    assert_eq!(layout.position(second), (1 << 20) + (1077 << 20) + 8192);
    assert_eq!(layout.size(), Bytes::mib(1 + 904 * 1077));
}

#[test]
fn what_is_not_this_drive_is_refused_and_named() {
    let says = |text: &str| Err(text.to_owned());
    let foreign =
        "is not the backing file of a modelled drive: name another with backing=, or delete it";
    assert_eq!(check([0; HEADER_BYTES]), says(foreign));
    let mut damaged = zn540(8).header();
    damaged[13] ^= 1;
    assert_eq!(check(damaged), says(foreign));
    let mut other = zn540(8).header();
    other[8] = 2;
    assert_eq!(
        check(other),
        says(
            "is the backing file of a modelled drive in format version 2, which this program \
             cannot read: use the program that wrote it, or delete the file"
        )
    );
    assert_eq!(
        check(zn540(16).header()),
        says(
            "is the backing file of another modelled drive, zn540 with 16 zones of 1077MiB: use \
             this spec, or name another file with backing="
        )
    );
}

#[test]
fn an_entry_is_only_its_own_zones() {
    let (layout, kept) = (zn540(8), ZoneImage { data: Blocks(7), is_finished: false });
    let good = entry(ZoneId(2), kept);
    assert_eq!(layout.kept(ZoneId(2), &good), Some(kept));
    assert_eq!(layout.kept(ZoneId(3), &good), None);
    for at in 0..ENTRY_BYTES {
        let mut bad = good;
        bad[at] ^= 0x10;
        assert_eq!(layout.kept(ZoneId(2), &bad), None, "byte {at}");
    }
    assert_eq!(layout.kept(ZoneId(2), &[0; ENTRY_BYTES]), Some(ZoneImage::default()));
    let too_much = entry(ZoneId(2), ZoneImage { data: Blocks(1 << 20), is_finished: false });
    assert_eq!(layout.kept(ZoneId(2), &too_much), None);
}
