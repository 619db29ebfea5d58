//! Tests of the documents under `/api/v1/`.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{TestFolder, Zonal, noise};
use crate::http;
use crate::viewer::{PATIENCE, Viewer, without_nulls};

fn document(zonal: &Zonal, path: &str) -> Value {
    let answer = zonal.admin(path);
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    serde_json::from_str(&answer.text()).unwrap()
}

/// Reads more than fits onto a device of 12 zones, so that zones are emptied.
fn overfilled(place: &TestFolder) -> Zonal {
    let device = "file:flash?size=96MiB&zone=8MiB";
    let zonal = place.start_on(device, &["--freshness", "immutable", "--policy", "zone-fifo"]);
    for n in 0..40 {
        let key = format!("{n}");
        place.object(&key, &noise(4 << 20, n));
        assert_eq!(zonal.s3().get(&format!("/bucket/{key}")).unwrap().status, 200);
        // A full queue would refuse some.
        if n % 8 == 7 {
            zonal.await_metric("zonal_cache_backlog_bytes", 0);
        }
    }
    await_true(|| {
        zonal.metric("zonal_device_zones{device=\"0\",shard=\"0\",use=\"reclaiming\"}") == 0
    });
    zonal
}

#[track_caller]
fn await_true(is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn events_tell_the_life_of_each_zone_and_why_it_was_emptied() {
    let place = TestFolder::new();
    let zonal = overfilled(&place);
    let events = document(&zonal, "/api/v1/events");
    let events = events["events"].as_array().unwrap();
    let of = |name: &str| events.iter().filter(|event| event["event"] == name).collect::<Vec<_>>();
    let resets = of("zone-reset");
    assert!(5 <= resets.len());
    assert_eq!(resets.len() as u64, zonal.metric("zonal_device_zones_reset_total"));
    let mut ids: Vec<_> = events.iter().map(|event| event["id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), events.len());

    let zone = &resets[0]["zone"];
    let life: Vec<_> = events.iter().filter(|event| event["zone"] == *zone).collect();
    let names: Vec<_> = life.iter().take(5).map(|event| &event["event"]).collect();
    let expected =
        ["zone-opened", "zone-sealed", "victim-chosen", "victim-rewritten", "zone-reset"];
    assert_eq!(names, expected);
    assert!(life.is_sorted_by_key(|event| event["at_ns"].as_u64()));
    assert_eq!(life[0]["stream"], "fill");

    for victim in of("victim-chosen") {
        assert_eq!(victim["scored_by"], json!(["sequence"]));
        let score = victim["score"][0].as_u64().unwrap();
        let beaten = victim["beaten"].as_array().unwrap();
        assert_eq!(beaten.len() as u64 + 1, victim["candidates"].as_u64().unwrap().min(8));
        assert!(beaten.iter().all(|other| score < other["score"][0].as_u64().unwrap()), "{victim}");
    }
    zonal.stop();
}

#[test]
fn one_zone_has_its_contents_its_rank_and_its_events() {
    let place = TestFolder::new();
    let zonal = overfilled(&place);
    let zones = document(&zonal, "/api/v1/zones");
    let zones = zones["shards"][0]["zones"].as_array().unwrap();
    let mut ranks = Vec::new();
    for zone in zones {
        let story = document(&zonal, &format!("/api/v1/zones/{}", zone["zone"]));
        for field in ["use", "sequence", "written_bytes", "records", "live_records", "live_bytes"] {
            assert_eq!(story[field], zone[field], "{field} of {story}");
        }
        let parts = ["heads", "pieces", "evicted"].map(|part| &story["contents"][part]);
        let sum = |field: &str| parts.iter().map(|part| part[field].as_u64().unwrap()).sum::<u64>();
        // The roster is neither a head nor a piece.
        assert!(zone["live_records"].as_u64().unwrap() - sum("records") <= 1, "{story}");
        assert!(sum("bytes") <= zone["live_bytes"].as_u64().unwrap(), "{story}");
        let events = story["events"].as_array().unwrap();
        assert!(events.iter().all(|event| event["zone"] == zone["zone"]), "{story}");
        ranks.extend(story["rank"].as_u64().map(|rank| (rank, zone["sequence"].as_u64())));
    }
    ranks.sort_unstable();
    let sealed = zones.iter().filter(|zone| zone["use"] == "sealed").count() as u64;
    assert!(ranks.iter().map(|(rank, _)| *rank).eq(1..=sealed), "{ranks:?}");
    assert!(ranks.is_sorted_by_key(|(_, sequence)| *sequence), "first in, first out: {ranks:?}");

    for (path, status, said) in [
        ("/api/v1/zones/12", 404, "device 0 has no zone 12"),
        ("/api/v1/zones/0?device=1", 404, "device 1 has no zone 0"),
        ("/api/v1/zones/x", 400, "the number of a zone"),
        ("/api/v1/zones/+1", 400, "the number of a zone"),
        ("/api/v1/zones/0?shard=1", 400, "?device=D"),
        ("/api/v1/nothing", 404, "/api/v1/zones"),
    ] {
        let answer = zonal.admin(path);
        assert_eq!(answer.status, status, "{path}");
        assert!(answer.text().contains(said), "{path}: {}", answer.text());
    }
    zonal.stop();
}

#[test]
fn devices_and_origins_tell_their_state() {
    let place = TestFolder::new();
    place.object("a", &noise(1 << 20, 1));
    let zonal = place.start(&["--policy", "flow?budget=1MiB/s", "--shards", "1"]);
    assert_eq!(zonal.s3().get("/bucket/a").unwrap().status, 200);
    let devices = document(&zonal, "/api/v1/devices");
    let device = &devices["devices"][0];
    assert_eq!((&device["state"], &device["kind"]), (&json!("in-use"), &json!("conventional")));
    assert_eq!(device["policy"], "flow?budget=1MiB/s");
    assert_eq!(device["wear"]["budget_bytes_per_day"].as_u64(), Some(86_400 << 20));
    assert_eq!(device["wear"]["percentage_used"], Value::Null, "a file");
    assert_eq!(device["zones"], 32);
    assert_eq!(device["zone_bytes"].as_u64(), Some(8 << 20));
    let origins = document(&zonal, "/api/v1/origins");
    let origin = &origins["origins"][0];
    assert_eq!((&origin["state"], &origin["trouble"]), (&json!("healthy"), &Value::Null));
    assert!(origin["p50_ns"].as_u64() <= origin["p99_ns"].as_u64(), "{origin}");
    let stats = document(&zonal, "/stats");
    assert_eq!(stats["origins"][0]["name"], origin["name"]);
    zonal.stop();
}

#[test]
fn viewers_see_the_state_and_then_what_changes() {
    let place = TestFolder::new();
    let zonal = place.start(&["--freshness", "immutable", "--shards", "2"]);
    let mut viewers = [0; 2].map(|_| Viewer::connect(zonal.admin));
    for viewer in &viewers {
        assert_eq!(
            (&viewer.document["kind"], &viewer.document["ready"]),
            (&json!("cache"), &json!(true))
        );
        assert_eq!(viewer.document["trouble"], json!([]));
    }
    for key in ["a", "b", "c"] {
        place.object(key, &noise(5 << 20, key.len() as u64));
        assert_eq!(zonal.s3().get(&format!("/bucket/{key}")).unwrap().status, 200);
    }
    zonal.await_metric("zonal_cache_backlog_bytes", 0);
    // The first have the past, which is empty.
    let events = [0; 2].map(|_| viewers[0].next("events"));
    assert_eq!((&events[0], &events[1][0]["event"]), (&json!([]), &json!("zone-opened")));
    for viewer in &mut viewers {
        let begin = Instant::now();
        let mut zones = Vec::new();
        while viewer.document["answers"]["miss"] != 3 || viewer.zones() != zones {
            assert!(begin.elapsed() < PATIENCE, "{}", viewer.document);
            viewer.next("patch");
            let shards = document(&zonal, "/api/v1/zones");
            let shards = shards["shards"].as_array().unwrap();
            zones = shards.iter().flat_map(|of| of["zones"].as_array().unwrap().clone()).collect();
            zones.iter_mut().for_each(without_nulls);
        }
        let missed = &viewer.document["requests"]["GetObject origin"];
        assert_eq!(missed["count"], 3);
        let buckets = missed["buckets"].as_object().unwrap();
        assert_eq!(buckets.values().map(|count| count.as_u64().unwrap()).sum::<u64>(), 3);
    }
    // When nothing happens, a patch has little more than the time.
    viewers[0].next("patch");
    let patch = viewers[0].next("patch");
    assert!(patch["at_ns"].is_u64() && patch.get("zones").is_none(), "{patch}");
    zonal.stop();
}

#[test]
fn there_are_sixteen_viewers_at_most_and_metrics_have_room() {
    let place = TestFolder::new();
    let zonal = place.start(&[]);
    let viewers: Vec<Viewer> = (0..16).map(|_| Viewer::connect(zonal.admin)).collect();
    let other_site =
        "GET /api/v1/live HTTP/1.1\r\nhost: localhost\r\nsec-fetch-site: cross-site\r\n\r\n";
    assert_eq!(http::ask(zonal.admin, other_site).unwrap().status, 403);
    let written = http::post(zonal.admin, "/api/v1/live", "", b"").unwrap();
    assert_eq!((written.status, written.header("allow")), (405, "GET, HEAD"));
    let refused = zonal.admin("/api/v1/live");
    assert_eq!(refused.status, 503);
    assert!(refused.text().contains("16 viewers are connected"), "{}", refused.text());
    assert_eq!(zonal.admin("/metrics").status, 200);
    drop(viewers);
    let begin = Instant::now();
    while http::begin_get(zonal.admin, "/api/v1/live").unwrap().status() != 200 {
        assert!(begin.elapsed() < PATIENCE, "the permits of closed viewers come back");
        std::thread::sleep(Duration::from_millis(50));
    }
    zonal.stop();
}

#[test]
fn history_has_what_each_interval_added() {
    let place = TestFolder::new();
    place.object("a", &noise(1 << 20, 1));
    let zonal = place.start(&["--freshness", "immutable"]);
    let begin = Instant::now();
    let history = loop {
        assert_eq!(zonal.s3().get("/bucket/a").unwrap().status, 200);
        let history = document(&zonal, "/api/v1/history");
        if !history["spans"][0]["points"].as_array().unwrap().is_empty() {
            break history;
        }
        assert!(begin.elapsed() < PATIENCE, "{history}");
        std::thread::sleep(Duration::from_millis(100));
    };
    let fields: Vec<_> = history["fields"].as_array().unwrap().iter().collect();
    let point = &history["spans"][0]["points"][0];
    let value = |name: &str| {
        let place = fields.iter().position(|field| *field == name).unwrap();
        point["values"][place].as_f64().unwrap()
    };
    let reads = value("reads");
    assert!(1.0 <= reads && reads <= zonal.metric("zonal_gateway_requests_total") as f64);
    assert!(value("served_by_cache") <= reads);
    assert!(value("p50_ns") <= value("p99_ns"));
    let cells = point["heat"].as_array().unwrap();
    assert_eq!(cells.iter().map(|cell| cell[2].as_f64().unwrap()).sum::<f64>(), reads);
    assert_eq!(history["paths"].as_array().unwrap().len(), 7);
    assert_eq!(history["spans"][1]["interval_ns"], 60_000_000_000_u64);
    zonal.stop();
}
