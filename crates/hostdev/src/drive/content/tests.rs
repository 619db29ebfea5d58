//! Blank check tests: content in a file, and on a device that is too large to be read in full.

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::*;
use crate::tests::Bench;

/// Blank check of a file of `size` bytes, with `bytes` at `at`.
fn seen(size: u64, at: u64, bytes: &[u8]) -> Content {
    let bench = Bench::new();
    let file = File::create(bench.path()).unwrap();
    file.set_len(size).unwrap();
    file.write_all_at(bytes, at).unwrap();
    Drive::open(&bench.spec("zone=1MiB")).unwrap().content().unwrap()
}

#[test]
fn one_byte_anywhere_in_a_file_is_content() {
    let size = 16 << 20;
    for at in [0, 1, 4095, (5 << 20) + (512 << 10) + 3, size - 9, size - 1] {
        let expected = format!("at byte {at}: \"x");
        match seen(size, at, b"x") {
            Content::Something(what) => assert!(what.starts_with(&expected), "{what}"),
            other => panic!("at byte {at}: {other:?}"),
        }
    }
    // Content after the last whole zone counts, too.
    let tail = seen(size + 100, size + 99, b"x");
    assert_eq!(tail, Content::Something(format!("at byte {}: \"x\"", size + 99)));
    assert_eq!(seen(size, 0x438, b"\x53\xEF"), named("an ext2, ext3 or ext4 file system"));
    let second = "the second copy of a GPT partition table";
    assert_eq!(seen(size, size - 512, b"EFI PART"), named(second));
}

fn named(what: &str) -> Content {
    Content::Something(what.into())
}

#[test]
fn holes_zeros_and_preallocated_space_are_blank() {
    assert_eq!(seen(16 << 20, 0, b""), Content::Blank, "a hole");
    assert_eq!(seen(16 << 20, 3 << 20, &vec![0; 2 << 20]), Content::Blank, "zeros");
    let bench = Bench::new();
    let spec = bench.spec("size=16MiB&zone=1MiB");
    let drive = Drive::open(&spec).unwrap();
    assert_eq!(drive.content().unwrap(), Content::Blank, "not made yet");
    let drive = drive.claim().unwrap();
    assert_eq!(drive.content().unwrap(), Content::Blank, "preallocated");
    assert_eq!(drive.written(), Some(Vec::new()), "and never read");
}

#[test]
fn a_device_too_large_to_be_read_is_looked_at_in_every_zone() {
    let bench = Bench::new();
    let file = File::create(bench.path()).unwrap();
    let (size, zone) = (1 << 30, 16 << 20);
    file.set_len(size + 4096).unwrap();
    let drive = Drive::open(&bench.spec("zone=16MiB")).unwrap();
    assert_eq!(drive.first_byte_in_samples().unwrap(), None);
    let clear = |at| file.write_all_at(&[0], at).unwrap();
    // Magic numbers and tables at both ends, and the start of each zone.
    let ends = [0, 4096, 65536, 512 << 10, size - (512 << 10), size + 4095];
    for at in ends.into_iter().chain((0..64).map(|n| n * zone)) {
        file.write_all_at(b"x", at).unwrap();
        assert_eq!(drive.first_byte_in_samples().unwrap(), Some(at));
        clear(at);
    }
    // In a full zone at least one sample finds content.
    file.write_all_at(&vec![1; 16 << 20], 7 * zone + 4096).unwrap();
    let found = drive.first_byte_in_samples().unwrap().unwrap();
    assert!((7 * zone + 4096..8 * zone + 4096).contains(&found), "{found}");
    file.write_all_at(&vec![1; 16 << 20], 3 * zone + 4096).unwrap();
    let found = drive.first_byte_in_samples().unwrap().unwrap();
    assert!((3 * zone + 4096..4 * zone + 4096).contains(&found), "the first of them: {found}");
}

#[test]
fn the_first_zone_that_has_an_answer_gives_it() {
    let bench = Bench::new();
    let file = File::create(bench.path()).unwrap();
    file.set_len(4096 << 20).unwrap();
    let drive = Drive::open(&bench.spec("zone=1MiB")).unwrap();
    let look = |zone: ZoneId, block: &[u8]| (block[0] != 0).then_some((zone, block[0]));
    assert_eq!(drive.first_of_zones(look), None);
    for (zone, byte) in [(4095, 9), (2000, 8), (1, 7)] {
        file.write_all_at(&[byte], zone << 20).unwrap();
        let zone = ZoneId(u32::try_from(zone).unwrap());
        assert_eq!(drive.first_of_zones(look), Some((zone, byte)));
    }
}
