//! Tests of a cache on a zoned drive, under a real kernel. `ZONAL_TEST_ZONED_DEVICE` names the
//! drive to overwrite, `ZONAL_TEST_ZONED_OPTIONS` the options of its spec. `make test-zoned` boots
//! kernels with such drives and runs these tests there.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::harness::{TestFolder, Zonal, check_failure, folder, noise, run};

/// Formats the drive and returns its spec; `None` if no drive is named.
pub(crate) fn formatted() -> Option<String> {
    let Ok(path) = std::env::var("ZONAL_TEST_ZONED_DEVICE") else {
        println!("skipped: ZONAL_TEST_ZONED_DEVICE names no drive to overwrite");
        return None;
    };
    let spec = match std::env::var("ZONAL_TEST_ZONED_OPTIONS") {
        Ok(options) => format!("zns:{path}?{options}"),
        Err(_) => format!("zns:{path}"),
    };
    let folder = folder();
    json(folder.path(), &["device", "format", &spec, "--yes", "--shards", "1", "--json"]);
    Some(spec)
}

pub(crate) fn json(place: &Path, words: &[&str]) -> Value {
    let output = run(place, words);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

const OBJECTS: usize = 60;

/// Content of an object: about 128 KiB.
fn content(object: usize) -> Vec<u8> {
    noise((128 << 10) - object, object as u64)
}

/// Reads every object; returns how many came from the cache.
fn read_all(zonal: &Zonal) -> usize {
    let read = |object: &usize| {
        let answer = zonal.s3().get(&format!("/bucket/{object}")).unwrap();
        assert_eq!(answer.status, 200, "object {object}");
        assert!(answer.body == content(*object), "object {object} is not as at the origin");
        answer.header("x-cache") == "HIT"
    };
    (0..OBJECTS).filter(read).count()
}

fn place() -> TestFolder {
    let place = TestFolder::new();
    for object in 0..OBJECTS {
        place.object(&object.to_string(), &content(object));
    }
    place
}

/// Flags of a cache that writes everything read to flash and holds nothing in memory.
const WORDS: [&str; 10] = [
    "--freshness",
    "immutable",
    "--chunk",
    "64KiB",
    "--policy",
    "zone-lru",
    "--shards",
    "1",
    "--dram",
    "0B",
];

#[test]
fn a_zoned_drive_is_told_as_it_is_and_never_written_over_unasked() {
    let Some(spec) = formatted() else { return };
    let here = folder();
    let info = json(here.path(), &["device", "info", &spec, "--json"]);
    assert_eq!(
        (&info["spec"], &info["holds"]),
        (&spec.as_str().into(), &"nothing".into()),
        "{info}"
    );
    let zones = info["zone_count"].as_u64().unwrap();
    assert_eq!(info["kernel"]["zoned"]["states"]["empty"], zones, "{info}");
    assert!(info["kernel"]["kernel"].as_str().is_some_and(|kernel| !kernel.is_empty()), "{info}");
    println!("{}", String::from_utf8(run(here.path(), &["device", "info", &spec]).stdout).unwrap());

    // First with a cache on the drive, then with a block of foreign data.
    let place = place();
    let zonal = place.start_on(&spec, &WORDS);
    read_all(&zonal);
    assert_eq!(read_all(&zonal), OBJECTS);
    let in_use = ["device", "format", &spec, "--yes"];
    let said = format!("{}: in use: stop the other process", spec.trim_start_matches("zns:"));
    check_failure(here.path(), &in_use, (1, &said));
    zonal.stop();
    let format = ["device", "format", &spec];
    check_failure(here.path(), &format, (2, &format!("{spec} holds log ")));
    assert_eq!(json(here.path(), &["device", "info", &spec, "--json"])["holds"], "log");
    let lines = String::from_utf8(run(here.path(), &["inspect", &spec]).stdout).unwrap();
    assert_eq!(lines.lines().count() as u64, zones + 1, "{lines}");
    let zonal = place.start_on(&spec, &WORDS);
    assert_eq!(read_all(&zonal), OBJECTS, "a restart loses nothing");
    zonal.stop();
}

#[test]
fn what_somebody_else_wrote_to_a_zoned_drive_is_foreign() {
    let Some(spec) = formatted() else { return };
    let path = spec.trim_start_matches("zns:").to_owned();
    let here = folder();
    write_block(&path);
    let info = json(here.path(), &["device", "info", &spec, "--json"]);
    assert_eq!(info["holds"], "foreign", "{info}");
    let format = ["device", "format", &spec];
    let said = format!(
        "{spec} holds data of another program: 1 of its zones contain data, the first is zone "
    );
    check_failure(here.path(), &format, (2, &said));
    let formatted = json(here.path(), &["device", "format", &spec, "--yes", "--json"]);
    assert_eq!(formatted["holds"], "nothing");
}

/// Writes a block of foreign data at the start of the drive's first sequential zone.
fn write_block(path: &str) {
    let output = std::process::Command::new("dd")
        .args(["if=/dev/urandom", "bs=4096", "count=1", "oflag=direct", "conv=notrunc"])
        .arg(format!("seek={}", first_block(path)))
        .arg(format!("of={path}"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// Block number of the first sequential zone, behind the conventional ones.
fn first_block(path: &str) -> u64 {
    let here = folder();
    let info = json(here.path(), &["device", "info", &format!("zns:{path}"), "--json"]);
    let conventional = info["kernel"]["zoned"]["conventional_zones"].as_u64().unwrap();
    conventional * info["zone_size_bytes"].as_u64().unwrap() / 4096
}

/// `ZONAL_TEST_NULL_BLK` is the configfs folder of a Linux null_blk drive, which can set zones
/// offline or read-only.
#[test]
fn zones_that_go_away_under_a_cache_cost_hits_and_nothing_else() {
    let Ok(settings) = std::env::var("ZONAL_TEST_NULL_BLK") else {
        return println!(
            "skipped: ZONAL_TEST_NULL_BLK names no drive whose zones can be taken away"
        );
    };
    let Some(spec) = formatted() else { return };
    let here = folder();
    let zone = json(here.path(), &["device", "info", &spec, "--json"])["zone_size_bytes"].clone();
    let take = |number: u64, how: &str| {
        let sector = number * zone.as_u64().unwrap() / 512;
        fs::write(PathBuf::from(&settings).join(how), sector.to_string()).unwrap();
    };
    let place = place();
    let zonal = place.start_on(&spec, &WORDS);
    read_all(&zonal);
    assert_eq!(read_all(&zonal), OBJECTS);
    take(0, "zone_offline");
    take(1, "zone_readonly");
    // The response begins before its bytes are read from flash, so unreadable bytes show only here.
    read_all(&zonal);
    assert!(0 < zonal.metric("zonal_cache_damaged_total"), "nothing lay in the zone");
    // The bytes fetched again are in another zone.
    assert_eq!(read_all(&zonal), OBJECTS);
    assert!(zonal.admin("/readyz").text().contains("\"isolated_devices\":[]"));
    zonal.stop();
    let zonal = place.start_on(&spec, &WORDS);
    let metrics = zonal.admin("/metrics").text();
    let retired =
        |line: &&str| line.starts_with("zonal_device_zones{") && line.contains("\"retired\"");
    let retired = metrics.lines().find(retired).unwrap_or_default();
    assert!(retired.ends_with(" 1"), "the one that is offline: {retired}");
    read_all(&zonal);
    assert_eq!(read_all(&zonal), OBJECTS);
    zonal.stop();
    // null_blk restores a zone on a second write.
    take(0, "zone_offline");
    take(1, "zone_readonly");
}
