//! Tests of the documents under `/api/v1/` of a block device.

use std::time::Instant;

use serde_json::{Value, json};

use super::{Block, DEVICES, TestFolder};
use crate::harness::{metric, noise};
use crate::http;
use crate::nbd::Command;
use crate::viewer::{PATIENCE, Viewer, without_nulls};

const MIB: u64 = 1 << 20;

impl Block {
    fn document(&self, path: &str) -> Value {
        let answer = self.ask(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        serde_json::from_str(&answer.text()).unwrap()
    }

    fn zones(&self) -> Vec<Value> {
        let zones = self.document("/api/v1/zones");
        let tiers = zones["tiers"].as_array().unwrap();
        tiers.iter().flat_map(|tier| tier["zones"].as_array().unwrap().clone()).collect()
    }

    fn events(&self, name: &str) -> Vec<Value> {
        let events = self.document("/api/v1/events");
        let mut events = events["events"].as_array().unwrap().clone();
        events.retain(|event| event["event"] == name);
        events
    }
}

/// Overwrites an export of two thirds of the capacity at random, so that both tiers are emptied.
fn overwritten(place: &TestFolder) -> Block {
    let block = Block::start(place, &[&DEVICES[..], &["--export", "vm=80MiB"]].concat());
    let mut client = block.client("vm");
    let begin = Instant::now();
    let mut n = 0;
    while metric(block.admin, "zonal_block_zones_reset_total{tier=\"capacity\"}") < 3 {
        assert!(begin.elapsed() < PATIENCE, "garbage collection has nothing to do");
        for _ in 0..40 {
            n += 1;
            let at = if n <= 80 { n - 1 } else { n * 37 % 80 };
            client.carry_out(Command::Write, at * MIB, &noise(1 << 20, n)).unwrap();
        }
    }
    client.carry_out(Command::Flush, 0, &[]).unwrap();
    block
}

fn check_victim(victim: &Value) {
    let (score, beaten) = (&victim["score"], victim["beaten"].as_array().unwrap());
    assert_eq!(beaten.len() as u64 + 1, victim["candidates"].as_u64().unwrap().min(8));
    let figures = |score: &Value| [0, 1, 2].map(|n| score[n].as_u64().unwrap_or(0) as f64);
    match victim["cause"].as_str().unwrap() {
        "compaction" => {
            assert_eq!(
                (&victim["tier"], &victim["scored_by"]),
                (&json!("buffer"), &json!(["sequence"]))
            );
            let is_younger = |other: &Value| figures(score)[0] < figures(&other["score"])[0];
            assert!(beaten.iter().all(is_younger), "{victim}");
        }
        _ => {
            let expected = json!(["gained bytes", "moved bytes", "age"]);
            assert_eq!((&victim["tier"], &victim["scored_by"]), (&json!("capacity"), &expected));
            let worth = |score: &Value| {
                let [gained, moved, age] = figures(score);
                gained * age / moved
            };
            let is_worse = |other: &Value| worth(&other["score"]) <= worth(score) * 1.000_001;
            assert!(beaten.iter().all(is_worse), "{victim}");
        }
    }
}

#[test]
fn events_and_zones_are_those_that_the_metrics_count() {
    let place = TestFolder::new();
    let block = overwritten(&place);
    let victims = block.events("victim-chosen");
    victims.iter().for_each(check_victim);
    for cause in ["compaction", "collection"] {
        assert!(victims.iter().any(|victim| victim["cause"] == cause), "{cause}");
    }
    let moved = block.events("victim-moved");
    assert!(moved.iter().any(|of| of["bytes"] != 0 && of["into"][0].is_u64()), "{moved:?}");
    assert!(moved.iter().any(|of| of["retained_bytes"].is_u64()));
    let begin = Instant::now();
    loop {
        let (zones, resets) = (block.zones(), block.events("zone-reset").len() as u64);
        let counted = ["empty", "open", "full", "emptying", "retired", "unreadable"].map(|of| {
            let metrics = ["buffer", "capacity"].map(|tier| {
                metric(block.admin, &format!("zonal_block_zones{{tier=\"{tier}\",use=\"{of}\"}}"))
            });
            (zones.iter().filter(|zone| zone["use"] == of).count() as u64, metrics[0] + metrics[1])
        });
        let counted_resets = metric(block.admin, "zonal_block_zones_reset_total");
        // Garbage collection goes on.
        if counted.iter().all(|(here, there)| here == there) && resets == counted_resets {
            break;
        }
        assert!(begin.elapsed() < PATIENCE, "{counted:?}, {resets} resets of {counted_resets}");
    }
    block.stop();
}

#[test]
fn one_zone_has_its_rank_and_its_events() {
    let place = TestFolder::new();
    let block = overwritten(&place);
    let begin = Instant::now();
    while block.zones().iter().any(|zone| zone["use"] == "emptying") {
        assert!(begin.elapsed() < PATIENCE);
    }
    for (tier, cause) in [("buffer", "compaction"), ("capacity", "collection")] {
        let mut ranks = Vec::new();
        let zones = block.document("/api/v1/zones");
        let zones = zones["tiers"].as_array().unwrap().iter().find(|of| of["tier"] == tier);
        let zones = zones.unwrap()["zones"].as_array().unwrap();
        for zone in zones {
            let story = block.document(&format!("/api/v1/zones/{}?tier={tier}", zone["zone"]));
            for field in ["use", "stream", "sequence", "written_bytes", "live_bytes"] {
                assert_eq!(story[field], zone[field], "{field} of {story}");
            }
            assert_eq!((&story["tier"], &story["cause"]), (&json!(tier), &json!(cause)));
            let events = story["events"].as_array().unwrap();
            let is_its = |event: &Value| event["zone"] == zone["zone"] && event["tier"] == tier;
            assert!(events.iter().all(is_its), "{story}");
            ranks.extend(story["rank"].as_u64());
        }
        ranks.sort_unstable();
        assert!(ranks.iter().copied().eq(1..=ranks.len() as u64), "{tier}: {ranks:?}");
    }
    for (path, status, said) in [
        ("/api/v1/zones/32", 404, "the capacity tier has no zone 32"),
        ("/api/v1/zones/8?tier=buffer", 404, "the buffer tier has no zone 8"),
        ("/api/v1/zones/x", 400, "the number of a zone"),
        ("/api/v1/zones/+1", 400, "the number of a zone"),
        ("/api/v1/zones/0?tier=dram", 400, "?tier=buffer"),
        ("/api/v1/zones/0?device=0", 400, "?tier=buffer"),
        ("/api/v1/devices", 404, "/api/v1/zones"),
    ] {
        let answer = block.ask(path);
        assert_eq!(answer.status, status, "{path}");
        assert!(answer.text().contains(said), "{path}: {}", answer.text());
    }
    block.stop();
}

#[test]
fn viewers_see_the_state_and_what_changes_and_a_stop_does_not_wait_for_them() {
    let place = TestFolder::new();
    let block = Block::start(&place, &[&DEVICES[..], &["--export", "vm=32MiB,me"]].concat());
    let mut viewers = [0; 2].map(|_| Viewer::connect(block.admin));
    for viewer in &viewers {
        let document = &viewer.document;
        assert_eq!((&document["kind"], &document["ready"]), (&json!("block"), &json!(true)));
        assert_eq!((&document["trouble"], &document["single_device"]), (&json!([]), &json!(false)));
        let buffer = &document["tiers"]["buffer"];
        assert_eq!(
            (&buffer["device"], &buffer["kind"]),
            (&json!(DEVICES[3]), &json!("conventional"))
        );
        assert_eq!(
            (&buffer["low_water_zones"], &buffer["zone_bytes"]),
            (&json!(2), &json!(2 * MIB))
        );
    }
    let mut client = block.client("vm");
    for n in 0..5 {
        client.carry_out(Command::Write, n * MIB, &noise(1 << 20, n)).unwrap();
    }
    for viewer in &mut viewers {
        let begin = Instant::now();
        loop {
            let mut zones = block.zones();
            zones.iter_mut().for_each(without_nulls);
            zones.sort_by_key(|zone| zone["zone"].as_u64());
            let writes = &viewer.document["requests"]["write vm"];
            if writes["count"] == 5 && viewer.zones() == zones {
                break;
            }
            assert!(begin.elapsed() < PATIENCE, "{}", viewer.document);
            viewer.next("patch");
        }
        assert_eq!(viewer.document["exports"]["vm"]["written_bytes"], 5 * MIB);
        assert_eq!(viewer.document["tenants"]["me"]["user_written_bytes"], 5 * MIB);
        assert_eq!(viewer.document["connections"]["open"], 1);
    }
    viewers[0].next("patch");
    let patch = viewers[0].next("patch");
    assert!(patch["at_ns"].is_u64() && patch.get("zones").is_none(), "{patch}");

    let other_site =
        "GET /api/v1/live HTTP/1.1\r\nhost: localhost\r\nsec-fetch-site: cross-site\r\n\r\n";
    assert_eq!(http::ask(block.admin, other_site).unwrap().status, 403);
    let other_page =
        "GET /api/v1/live HTTP/1.1\r\nhost: localhost\r\norigin: http://localhost:1\r\n\r\n";
    assert_eq!(http::ask(block.admin, other_page).unwrap().status, 403);
    let posted = http::post(block.admin, "/api/v1/live", "", b"").unwrap();
    assert_eq!((posted.status, posted.header("allow")), (405, "GET, HEAD"));
    assert!(block.ask("/ui/").text().contains("<title>Zonal</title>"));
    drop(client);
    block.stop();
}

#[test]
fn history_and_latencies_are_of_the_requests() {
    let place = TestFolder::new();
    let block = Block::start(&place, &[&DEVICES[..], &["--export", "vm=32MiB"]].concat());
    let mut client = block.client("vm");
    let begin = Instant::now();
    let mut writes = 0;
    let history = loop {
        client.carry_out(Command::Write, 0, &noise(4096, writes)).unwrap();
        writes += 1;
        let history = block.document("/api/v1/history");
        if !history["spans"][0]["points"].as_array().unwrap().is_empty() {
            break history;
        }
        assert!(begin.elapsed() < PATIENCE, "{history}");
        std::thread::sleep(std::time::Duration::from_millis(100));
    };
    let fields: Vec<_> = history["fields"].as_array().unwrap().iter().collect();
    let point = &history["spans"][0]["points"][0];
    let value = |name: &str| {
        let place = fields.iter().position(|field| *field == name).unwrap();
        point["values"][place].as_f64().unwrap()
    };
    let written = value("writes");
    assert!((1.0..=writes as f64).contains(&written), "{written} of {writes}");
    assert!(value("p50_ns") <= value("p99_ns"));
    assert!(value("buffer_bytes") >= written * 4096.0);
    let cells = point["heat"].as_array().unwrap();
    assert_eq!(cells.iter().map(|cell| cell[2].as_f64().unwrap()).sum::<f64>(), written);
    assert_eq!(history["paths"], json!(["read", "write", "trim", "flush"]));

    let latencies = block.document("/api/v1/latency");
    let of = |part: &str, name: &str, of: &str| {
        let rows = latencies[part].as_array().unwrap().iter();
        rows.filter(|row| row[name] == of)
            .map(|row| row["latency"]["count"].as_u64().unwrap())
            .sum::<u64>()
    };
    assert_eq!(of("requests", "operation", "write"), writes);
    assert!(0 < of("commands", "command", "write"), "{latencies}");
    block.stop();
}
