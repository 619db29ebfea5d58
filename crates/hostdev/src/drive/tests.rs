//! Tests: open, lock, claim and divide a device, and the errors of each step.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;

use super::*;
use crate::tests::{Bench, claimed};

#[test]
fn shares_cover_every_zone_once() {
    let whole = Geometry {
        kind: DeviceKind::Zoned,
        zone_count: 11,
        zone_size: Blocks(512),
        zone_capacity: Blocks(500),
        max_open_zones: Some(7),
        max_active_zones: Some(14),
    };
    let mut next = 0;
    for (shard, zone_count) in [(0, 4), (1, 4), (2, 3)] {
        let (first, share) = share(&whole, shard, 3).unwrap();
        assert_eq!((first, share.zone_count), (ZoneId(next), zone_count));
        assert_eq!((share.max_open_zones, share.max_active_zones), (Some(2), Some(4)));
        next += zone_count;
    }
    assert_eq!(next, whole.zone_count);
    assert_eq!(share(&whole, 0, 1), Some((ZoneId(0), whole)));
    assert_eq!(share(&whole, 0, 8), None, "seven open zones are not enough for eight shards");
    assert_eq!(share(&Geometry { max_open_zones: None, ..whole }, 0, 12), None);
}

#[test]
fn two_cannot_have_one_device() {
    let bench = Bench::new();
    let spec = bench.spec("size=4MiB&zone=1MiB");
    let drive = claimed(&spec);
    assert!(matches!(Drive::open(&spec), Err(OpenError::InUse { .. })));
    let shard = drive.shard(&bench.options()).unwrap();
    drop(drive);
    assert!(matches!(Drive::open(&spec), Err(OpenError::InUse { .. })), "a shard is still there");
    drop(shard);
    Drive::open(&spec).unwrap();
}

#[test]
fn a_file_is_allocated_whole_and_keeps_its_content_and_size() {
    let bench = Bench::new();
    bench.drive("size=16MiB&zone=1MiB");
    let metadata = fs::metadata(bench.path()).unwrap();
    assert!(16 << 20 <= metadata.blocks() * 512, "every byte has its place on the disk");
    assert_eq!((metadata.len(), metadata.mode() & 0o777), (16 << 20, 0o600));
    assert_eq!(bench.drive("zone=4MiB").geometry().zone_count, 4, "the size it has");
    let refused = Drive::open(&bench.spec("size=8MiB&zone=1MiB")).unwrap_err();
    let says = "has a size of 16MiB, not 8MiB: omit size= to keep its contents, or delete the file";
    assert_eq!(refused.to_string(), format!("{}: {says}", bench.path().display()));
    let refused = Drive::open(&bench.spec("size=32MiB&zone=1MiB")).unwrap_err().to_string();
    let restore = format!("fallocate -l 32MiB {}", bench.path().display());
    assert!(refused.contains("a size of 16MiB, not 32MiB") && refused.contains(&restore));
    assert_eq!(fs::metadata(bench.path()).unwrap().len(), 16 << 20, "nothing was touched");
}

#[test]
fn what_cannot_be_a_device_is_refused_with_a_reason() {
    let bench = Bench::new();
    let open = |text: &str| Drive::open(&text.parse().unwrap()).and_then(Drive::claim);
    let missing = open(&format!("file:{}", bench.path().display()));
    assert!(matches!(missing, Err(OpenError::Missing { .. })));
    assert!(!bench.path().exists());
    let huge = open(&format!("file:{}?size=1048576TiB&zone=4GiB", bench.path().display()));
    let Err(OpenError::DiskTooSmall { needed, .. }) = huge else { panic!("{huge:?}") };
    assert_eq!(needed, Bytes(1 << 60));
    assert!(!bench.path().exists(), "no half a file is left");
    let folder = open(&format!("file:{}", bench.folder.path().display()));
    assert!(matches!(folder, Err(OpenError::WrongKind { .. })), "{folder:?}");
    fs::write(bench.path(), [0; 4096]).unwrap();
    let not_a_drive = open(&format!("block:{}", bench.path().display()));
    assert!(matches!(not_a_drive, Err(OpenError::WrongKind { .. })));
    let no_zone = open(&format!("file:{}?zone=1MiB", bench.path().display()));
    assert!(matches!(no_zone, Err(OpenError::ZoneCount { .. })));
    let drive = {
        fs::remove_file(bench.path()).unwrap();
        bench.drive("size=2MiB&zone=1MiB")
    };
    let thirds = drive.shard(&ShardOptions { shard_count: 3, ..bench.options() });
    assert!(matches!(thirds, Err(OpenError::TooManyShards { shards: 3, .. })));
}

#[track_caller]
fn check_refused(opened: Result<Drive, OpenError>, says: &str) {
    let said = opened.expect_err("it is refused").to_string();
    assert!(said.contains(says), "{said}");
}

#[test]
fn a_refusal_says_what_to_do() {
    let bench = Bench::new();
    let folder = bench.folder.path().display();
    let open = |text: String| Drive::open(&text.parse().unwrap());
    let look = |text: String| Drive::open_read_only(&text.parse().unwrap());
    check_refused(
        open(format!("file:{folder}/a/b?size=64MiB")),
        "/a does not exist: create it, or",
    );
    check_refused(look(format!("file:{folder}/a?size=64MiB")), "does not exist yet");
    check_refused(look(format!("file:{folder}/a")), "does not exist: to create a file, add");
    check_refused(look(format!("block:{folder}/a")), "that `lsblk -p` lists");
    check_refused(open(format!("block:{folder}/a")), "that `lsblk -p` lists");
    check_refused(open(format!("zns:{folder}/a")), "that `lsblk -p` lists");
    check_refused(open(format!("zns:{folder}")), "zns:/dev/NAME for a zoned one");
    File::create(bench.path()).unwrap();
    check_refused(open(format!("file:{folder}/device")), "is empty: add its size");
    check_refused(open(format!("file:{folder}/device/a?size=64MiB")), "correct the path");
    check_refused(open("file:/proc/device?size=64MiB".into()), "another");
    fs::write(bench.path(), [0; 4096]).unwrap();
    check_refused(open(format!("zns:{folder}/device")), "is not a block device");
    check_refused(look(format!("zns:{folder}/device")), "is not a block device");
    check_refused(open(format!("file:{folder}/device")), "has a size of 4KiB, less than one zone");
    std::os::unix::fs::symlink("nowhere", bench.folder.path().join("link")).unwrap();
    check_refused(open(format!("file:{folder}/link?size=64MiB")), "is a dangling symbolic link");
}

#[test]
fn a_file_that_was_made_goes_with_the_drive_unless_it_is_kept() {
    let bench = Bench::new();
    let spec = bench.spec("size=4MiB&zone=1MiB");
    // Before and after the preallocation.
    drop(Drive::open(&spec).unwrap());
    assert!(!bench.path().exists());
    let drive = Drive::open(&spec).and_then(Drive::claim).unwrap();
    assert_eq!(fs::metadata(bench.path()).unwrap().len(), 4 << 20);
    drop(drive);
    assert!(!bench.path().exists());
    // An existing empty file belongs to the user: it is never removed.
    File::create(bench.path()).unwrap();
    drop(Drive::open(&spec).and_then(Drive::claim).unwrap());
    assert_eq!(fs::metadata(bench.path()).unwrap().len(), 0, "as it was");
    drop(claimed(&spec));
    assert_eq!(fs::metadata(bench.path()).unwrap().len(), 4 << 20);
    drop(Drive::open(&spec).and_then(Drive::claim).unwrap());
    assert_eq!(fs::metadata(bench.path()).unwrap().len(), 4 << 20, "it was there before");
}

#[test]
fn opening_a_file_does_not_fill_its_holes() {
    let bench = Bench::new();
    File::create(bench.path()).unwrap().set_len(16 << 20).unwrap();
    let drive = Drive::open(&bench.spec("zone=1MiB")).unwrap();
    assert_eq!(fs::metadata(bench.path()).unwrap().blocks(), 0);
    drop(drive.claim().unwrap());
    assert!(16 << 20 <= fs::metadata(bench.path()).unwrap().blocks() * 512);
}
