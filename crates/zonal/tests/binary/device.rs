//! Tests of `zonal device` and `zonal inspect`: their output, and that reading changes nothing.
//! Also tests of `serve` and `bench` on devices that do not match their specs.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::harness::{
    ACCESS_KEY, DEVICE, SECRET_KEY, TestFolder, Zonal, check_failure, folder, noise, run,
};

#[track_caller]
fn json(place: &Path, words: &[&str]) -> Vec<Value> {
    let output = run(place, words);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let values = serde_json::Deserializer::from_slice(&output.stdout).into_iter();
    values.collect::<Result<_, _>>().unwrap()
}

#[test]
fn a_device_is_formatted_once_and_again_only_when_its_loss_is_meant() {
    let folder = folder();
    let here = folder.path();
    let said = "flash: does not exist: to create a file, add its size";
    check_failure(here, &["device", "info", "file:flash"], (2, said));
    let spec = "file:flash?size=64MiB&zone=4MiB";
    let info = &json(here, &["device", "format", spec, "--shards", "3", "--json"])[0];
    assert_eq!((&info["holds"], &info["log"]["shards"]), (&"log".into(), &3.into()));
    assert_eq!(info["log"]["zones"], serde_json::json!({ "empty": 16 }));
    let id = info["log"]["id"].clone();

    let said = format!("{spec} holds log {} of 3 shards: 0 records", id.as_str().unwrap());
    check_failure(here, &["device", "format", spec], (2, &said));
    assert_eq!(json(here, &["device", "info", spec, "--json"])[0]["log"]["id"], id);
    let info = &json(here, &["device", "format", spec, "--yes", "--json"])[0];
    assert_ne!(info["log"]["id"], id, "another log");
}

/// Formats a device at a terminal with `answer` as input; returns exit code and output.
fn format_at_terminal(folder: &Path, spec: &str, answer: &str) -> (Option<i32>, String) {
    let command = format!("{} device format '{spec}'", env!("CARGO_BIN_EXE_zonal"));
    let mut terminal = Command::new("script");
    terminal.args(["--quiet", "--return", "--command", &command, "/dev/null"]).current_dir(folder);
    terminal.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut terminal = terminal.spawn().unwrap();
    terminal.stdin.take().unwrap().write_all(answer.as_bytes()).unwrap();
    let output = terminal.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn at_a_terminal_the_operator_is_asked_before_anything_is_lost() {
    let folder = folder();
    let here = folder.path();
    let spec = "file:flash?size=64MiB&zone=4MiB";
    let id = json(here, &["device", "format", spec, "--json"])[0]["log"]["id"].clone();
    for answer in ["no\n", "\n", "y\n"] {
        let (code, said) = format_at_terminal(here, spec, answer);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("This data will be lost. Type yes to continue: "), "{said}");
        assert!(said.contains(&format!("zonal: aborted: {spec} is unchanged")), "{said}");
        assert_eq!(json(here, &["device", "info", spec, "--json"])[0]["log"]["id"], id);
    }
    let (code, said) = format_at_terminal(here, spec, "yes\n");
    assert_eq!(code, Some(0), "{said}");
    assert_ne!(json(here, &["device", "info", spec, "--json"])[0]["log"]["id"], id, "another log");
}

#[test]
fn what_was_cached_can_be_seen_while_it_is_served_and_after() {
    let place = TestFolder::new();
    place.object("a", &noise(3 << 20, 1));
    let zonal = place.start(&["--chunk", "256KiB", "--shards", "2"]);
    assert_eq!(zonal.s3().get("/bucket/a").unwrap().status, 200);
    let info = &json(place.path(), &["device", "info", DEVICE, "--json"])[0];
    assert_eq!(info["holds"], "log", "looking at a device in use is allowed");
    zonal.stop();

    let before = fs::read(place.path().join("flash")).unwrap();
    let info = &json(place.path(), &["device", "info", DEVICE, "--json"])[0];
    let zones = json(place.path(), &["inspect", DEVICE, "--records", "--json"]);
    assert_eq!(zones.len(), 32);
    let records: Vec<&Value> =
        zones.iter().filter_map(|zone| zone["record_list"].as_array()).flatten().collect();
    let of_kind = |kind: &str| records.iter().filter(|record| record["kind"] == kind).count();
    assert_eq!((of_kind("head"), of_kind("piece")), (1, 12));
    // The shutdown wrote a policy checkpoint.
    assert_eq!(records.len(), 13 + of_kind("order"));
    assert_eq!(info["log"]["records"], records.len());

    let filled = zones.iter().find(|zone| zone["records"] != 0).unwrap();
    let number = filled["zone"].to_string();
    let one = &json(place.path(), &["inspect", DEVICE, "--zone", &number, "--json"])[0];
    assert!(one["segment_list"][0]["records"].as_u64() <= one["records"].as_u64());
    let table = run(place.path(), &["inspect", DEVICE]).stdout;
    assert_eq!(String::from_utf8(table).unwrap().lines().count(), 33, "a heading and the zones");
    check_failure(place.path(), &["inspect", DEVICE, "--zone", "32"], (2, DEVICE));
    assert!(fs::read(place.path().join("flash")).unwrap() == before, "nothing was written");
}

/// Runs `serve` on a device that it must refuse.
#[track_caller]
fn check_serve(place: &Path, device: &str, more: &[&str], (code, said): (i32, &str)) {
    fs::create_dir_all(place.join("origin")).unwrap();
    let words = ["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--device", device];
    let named = ["--origin", "file:origin", "--access-key", "a", "--secret-key", "b"];
    check_failure(place, &[&words[..], &named, more].concat(), (code, said));
}

/// Regression: only the start of each zone was checked, and other data in a file was overwritten.
#[test]
fn what_lies_between_the_starts_of_zones_is_not_written_over() {
    let folder = folder();
    let here = folder.path();
    let file = File::create(here.join("part")).unwrap();
    file.set_len(1 << 30).unwrap();
    for zone in 0..16 {
        file.write_all_at(b"somebody's", (zone << 26) + (1 << 20)).unwrap();
    }
    file.write_all_at(b"last nine", (1 << 30) - 9).unwrap();
    let before = fs::read(here.join("part")).unwrap();

    let shown = "at byte 1048576: \"somebody\\'s\\x00";
    let info = &json(here, &["device", "info", "file:part", "--json"])[0];
    assert_eq!(info["holds"], "foreign");
    assert!(info["about"].as_str().unwrap().contains(shown), "{info}");
    let said = format!("part: holds data that is not a cache ({shown}");
    check_serve(here, "file:part", &[], (2, &said));
    let format = ["device", "format", "file:part"];
    check_failure(here, &format, (2, "file:part holds data of another program: at byte 1048576"));
    assert!(fs::read(here.join("part")).unwrap() == before, "nothing was written");

    // The operator's consent (`--yes`) allows it.
    let format = ["device", "format", "file:part?zone=64MiB", "--yes", "--json"];
    assert_eq!(json(here, &format)[0]["holds"], "log");
}

/// Regression: a file system created over a former cache was taken for damage, and overwritten.
#[test]
fn a_file_system_that_was_made_over_a_cache_is_somebody_elses() {
    let folder = folder();
    let here = folder.path();
    json(here, &["device", "format", "file:flash?size=64MiB&zone=4MiB", "--json"]);
    let file = File::options().write(true).open(here.join("flash")).unwrap();
    file.write_all_at(&[0; 1024], 0).unwrap();
    let spec = "file:flash?zone=4MiB";
    let info = &json(here, &["device", "info", spec, "--json"])[0];
    assert_eq!(info["holds"], "log", "a damaged block costs a zone and not the cache");
    file.write_all_at(b"\x53\xEF", 0x438).unwrap();
    let what = "an ext2, ext3 or ext4 file system, written over a cache";
    check_serve(here, spec, &[], (2, &format!("flash: holds data that is not a cache ({what})")));
}

/// Regression: the file was created before it was found to be too small, and its size broke the
/// next attempt.
#[test]
fn a_start_that_fails_leaves_no_device_behind() {
    let folder = folder();
    let here = folder.path();
    let too_few = "small: a shard would have 1 zone and needs 4: use fewer shards, a larger device (of a file write a larger size=) or smaller zones (zone=)";
    check_serve(here, "file:small?size=64MiB", &[], (2, too_few));
    check_failure(here, &["device", "format", "file:small?size=64MiB"], (2, too_few));
    let shards = ["--shards", "3"];
    let too_few = "small: a shard would have 2 zones and needs 4: use fewer shards, a larger device (of a file write a larger size=) or smaller zones (zone=)";
    check_serve(here, "file:small?size=512MiB", &shards, (2, too_few));
    let chunk = ["--chunk", "32MiB"];
    check_serve(here, "file:small?size=64MiB&zone=8MiB", &chunk, (2, "small: the chunk size must"));
    // This error occurs after the first device has been created.
    let second = ["--device", "file:nowhere/small?size=512MiB"];
    let no_folder =
        "nowhere/small: the directory nowhere does not exist: create it, or name another path";
    check_serve(here, "file:small?size=512MiB", &second, (2, no_folder));
    assert!(!here.join("small").exists());
    // Existing files stay.
    File::create(here.join("small")).unwrap().set_len(64 << 20).unwrap();
    let too_few = "small: a shard would have 1 zone and needs 4";
    check_serve(here, "file:small", &[], (2, too_few));
    assert_eq!(fs::metadata(here.join("small")).unwrap().len(), 64 << 20);
}

#[test]
fn a_device_that_was_divided_otherwise_says_how_and_what_to_write() {
    let folder = folder();
    let here = folder.path();
    let spec = "file:flash?size=1GiB&zone=64MiB";
    json(here, &["device", "format", spec, "--shards", "3", "--json"]);
    let shards = ["--shards", "2"];
    let said = format!(
        "flash: was formatted for 3 shards, not 2: write --shards 3, or omit --shards, or erase \
         it: zonal device format '{spec}' --yes --shards 2"
    );
    check_serve(here, spec, &shards, (2, &said));
    let said = "flash: was formatted with zones of 64MiB, not 32MiB: write zone=64MiB, or erase";
    check_serve(here, "file:flash?zone=32MiB", &[], (2, said));
    let said = "flash: was formatted with zones of 64MiB, not 128MiB: write zone=64MiB, or erase";
    check_serve(here, "file:flash?zone=128MiB", &[], (2, said));

    let info = &json(here, &["device", "info", "file:flash?zone=32MiB", "--json"])[0];
    let warning = "it was formatted with zones of 64MiB, not 32MiB: write zone=64MiB";
    assert_eq!((&info["warnings"][0], &info["zone_count"]), (&warning.into(), &16.into()));
    assert_eq!(info["log"]["zones"], serde_json::json!({ "empty": 16 }), "shown as it is");
    let output = run(here, &["inspect", "file:flash?zone=32MiB"]);
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 17);
    assert!(String::from_utf8(output.stderr).unwrap().contains(warning));

    let file = File::options().write(true).open(here.join("flash")).unwrap();
    file.set_len((15 << 26) + 12345).unwrap();
    let said = "flash: was formatted with 6 zones in shard 0, not 5: restore the original size";
    check_serve(here, "file:flash", &[], (2, said));
    let info = &json(here, &["device", "info", "file:flash", "--json"])[0];
    assert!(
        info["warnings"][0].as_str().unwrap().starts_with("it was formatted with 6 zones"),
        "{info}"
    );
    assert_eq!(info["idle_bytes"], 12345);
}

/// Regression: the device was opened with zones of 64 MiB, and refused.
#[test]
fn a_device_that_is_named_without_zones_is_taken_in_those_it_was_formatted_with() {
    let place = TestFolder::new();
    place.object("a", &noise(30 << 20, 1));
    let here = place.path();
    for (device, zone, count) in [("small", "4MiB", 32), ("large", "128MiB", 8)] {
        let size = if device == "small" { "128MiB" } else { "1GiB" };
        let format = format!("file:{device}?size={size}&zone={zone}");
        json(here, &["device", "format", &format, "--shards", "1", "--json"]);
        let spec = format!("file:{device}");
        let info = &json(here, &["device", "info", &spec, "--json"])[0];
        assert_eq!((&info["zone_count"], &info["holds"]), (&count.into(), &"log".into()));
        assert_eq!(info["warnings"], serde_json::json!([]), "{info}");
        assert_eq!(json(here, &["inspect", &spec, "--json"]).len(), count);
        let words = ["--freshness", "immutable", "--policy", "zone-fifo"];
        let zonal = place.start_on(&spec, &words);
        zonal.store("/bucket/a");
        zonal.stop();
        let zonal = place.start_on(&spec, &words);
        let answer = zonal.s3().get("/bucket/a").unwrap();
        assert_eq!((answer.status, answer.header("x-cache")), (200, "HIT"), "{device}");
        zonal.stop();
    }
}

/// Regression: zones with records do not state their size; opened with another size, the cache was
/// lost silently.
#[test]
fn zones_with_records_are_known_by_their_places() {
    let place = TestFolder::new();
    place.object("a", &noise(30 << 20, 1));
    let device = ["--device", "file:places?size=64MiB&zone=8MiB", "--shards", "1"];
    let keys = ["--access-key", ACCESS_KEY, "--secret-key", SECRET_KEY];
    let words = [&device[..], &keys, &["--origin", "file:origin"]].concat();
    let zonal = Zonal::start(place.path(), &words);
    assert_eq!(zonal.s3().get("/bucket/a").unwrap().status, 200);
    zonal.stop();
    let zones = json(place.path(), &["inspect", "file:places?zone=8MiB", "--json"]);
    assert!(zones[..2].iter().all(|zone| zone["records"] != 0), "{zones:?}");
    let said = "places: was formatted with zones of 8MiB, not 4MiB: write zone=8MiB, or erase";
    check_serve(place.path(), "file:places?zone=4MiB", &[], (2, said));
}

#[test]
fn a_device_that_is_not_there_is_explained() {
    let folder = folder();
    let here = folder.path();
    let said = "nosuch: does not exist yet: `zonal device format`, `zonal serve` and `zonal-lab bench` create";
    check_failure(here, &["device", "info", "file:nosuch?size=1GiB"], (2, said));
    check_failure(here, &["inspect", "file:nosuch?size=1GiB"], (2, said));
    let said = "/dev/nosuch: does not exist: name a device that `lsblk -p` lists";
    check_failure(here, &["device", "info", "block:/dev/nosuch"], (2, said));
    check_failure(here, &["device", "format", "block:/dev/nosuch"], (2, said));
    check_serve(here, "block:/dev/nosuch", &[], (2, said));
    symlink("nowhere", here.join("link")).unwrap();
    let said = "link: is a dangling symbolic link: create or mount its target, or name another";
    check_serve(here, "file:link?size=1GiB", &[], (2, said));
}
