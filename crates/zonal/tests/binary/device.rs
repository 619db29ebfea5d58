//! `zonal device` and `zonal inspect`: what they show, and that looking changes nothing.

use std::fs;

use serde_json::Value;

use crate::harness::{DEVICE, Place, check_failure, folder, noise, run};

#[track_caller]
fn json(place: &std::path::Path, words: &[&str]) -> Vec<Value> {
    let output = run(place, words);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let values = serde_json::Deserializer::from_slice(&output.stdout).into_iter();
    values.collect::<Result<_, _>>().unwrap()
}

#[test]
fn a_device_is_formatted_once_and_again_only_when_its_loss_is_meant() {
    let folder = folder();
    let here = folder.path();
    let said = "flash: does not exist: to make a file, say how large it shall be";
    check_failure(here, &["device", "info", "file:flash"], (1, said));
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

#[test]
fn what_was_cached_can_be_seen_while_it_is_served_and_after() {
    let place = Place::new();
    place.object("a", &noise(3 << 20, 1));
    let zonal = place.start(&["--chunk", "256KiB", "--shards", "2"]);
    assert_eq!(zonal.s3().get("/bucket/a").unwrap().status, 200);
    let info = &json(place.path(), &["device", "info", DEVICE, "--json"])[0];
    assert_eq!(info["holds"], "log", "looking at a device in use is allowed");
    zonal.stop();

    let before = fs::read(place.path().join("flash")).unwrap();
    let info = &json(place.path(), &["device", "info", DEVICE, "--json"])[0];
    assert_eq!(info["log"]["records"], 13, "a head and twelve pieces");
    let zones = json(place.path(), &["inspect", DEVICE, "--records", "--json"]);
    assert_eq!(zones.len(), 32);
    let records: Vec<&Value> =
        zones.iter().filter_map(|zone| zone["record_list"].as_array()).flatten().collect();
    let of_kind = |kind: &str| records.iter().filter(|record| record["kind"] == kind).count();
    assert_eq!((of_kind("head"), of_kind("piece"), records.len()), (1, 12, 13));

    let filled = zones.iter().find(|zone| zone["records"] != 0).unwrap();
    let number = filled["zone"].to_string();
    let one = &json(place.path(), &["inspect", DEVICE, "--zone", &number, "--json"])[0];
    assert!(one["segment_list"][0]["records"].as_u64() <= one["records"].as_u64());
    let table = run(place.path(), &["inspect", DEVICE]).stdout;
    assert_eq!(String::from_utf8(table).unwrap().lines().count(), 33, "a heading and the zones");
    check_failure(place.path(), &["inspect", DEVICE, "--zone", "32"], (2, DEVICE));
    assert!(fs::read(place.path().join("flash")).unwrap() == before, "nothing was written");
}
