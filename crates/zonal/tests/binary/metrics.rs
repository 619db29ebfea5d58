//! Tests of `/metrics`: `docs/metrics.md` documents exactly the exported metrics, and their values
//! are right.

use std::collections::BTreeSet;

use crate::harness::{TestFolder, noise};

const PAGE: &str = include_str!("../../../../docs/metrics.md");

/// Names of the exported metric families.
pub(crate) fn exported(text: &str) -> BTreeSet<&str> {
    let families = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    families.map(|family| family.split(' ').next().unwrap()).collect()
}

/// Metric names documented in the sections whose titles satisfy `is_wanted`.
pub(crate) fn documented(is_wanted: impl Fn(&str) -> bool) -> BTreeSet<&'static str> {
    let sections = PAGE.split("\n## ").filter(|section| is_wanted(section.lines().next().unwrap()));
    let rows = sections.flat_map(str::lines).filter_map(|line| line.strip_prefix("| `"));
    rows.map(|row| row.split(['`', '{']).next().unwrap()).collect()
}

#[test]
fn every_metric_is_documented_and_every_documented_metric_is_there() {
    let place = TestFolder::new();
    let zonal = place.start(&[]);
    let text = zonal.admin("/metrics").text();
    assert_eq!(exported(&text), documented(|title| title != "The block device"));
    let kinds =
        text.lines().filter_map(|line| line.strip_prefix("zonal_origin_errors_total{kind=\""));
    let kinds: Vec<&str> = kinds.map(|rest| rest.split('"').next().unwrap()).collect();
    assert_eq!(kinds.len(), PAGE.matches("\n- `").count());
    for kind in kinds {
        assert!(PAGE.contains(&format!("\n- `{kind}`: ")), "{kind} is not explained");
    }
}

#[test]
fn hits_misses_and_bytes_are_counted_where_they_happen() {
    let place = TestFolder::new();
    place.object("a", &noise(1 << 20, 1));
    let zonal = place.start(&["--freshness", "immutable"]);
    let s3 = zonal.s3();
    for _ in 0..3 {
        assert_eq!(s3.get("/bucket/a").unwrap().status, 200);
    }
    assert_eq!(zonal.metric("zonal_gateway_outcomes_total{x_cache=\"MISS\"}"), 1);
    assert_eq!(zonal.metric("zonal_gateway_outcomes_total{x_cache=\"HIT\"}"), 2);
    let requests = "zonal_gateway_requests_total{operation=\"GetObject\",status=\"2xx\"}";
    assert_eq!(zonal.metric(requests), 3);
    assert_eq!(zonal.metric("zonal_origin_heads_total"), 0);
    assert_eq!(zonal.metric("zonal_origin_gets_total"), 1);
    assert_eq!(zonal.metric("zonal_origin_received_bytes_total"), 1 << 20);
    assert_eq!(zonal.metric("zonal_cache_served_bytes_total"), 3 << 20);
    zonal.await_metric("zonal_cache_admitted_bytes_total", 1 << 20);
    // Regression: a missing object was counted as two failed requests.
    assert_eq!(s3.get("/bucket/none").unwrap().status, 404);
    assert_eq!(zonal.metric("zonal_origin_errors_total"), 0);
    assert_eq!(zonal.metric("zonal_cache_fetch_errors_total"), 0);
    assert_eq!(zonal.metric("zonal_origin_trouble"), 0);
    let intruder = crate::http::S3::new(zonal.endpoint, "NOBODY", "x");
    assert_eq!(intruder.get("/bucket/a").unwrap().status, 403);
    assert_eq!(zonal.metric("zonal_gateway_refusals_total{code=\"InvalidAccessKeyId\"}"), 1);
}

#[test]
fn latencies_are_counted_by_what_the_response_waited_for() {
    let place = TestFolder::new();
    place.object("a", &noise(1 << 20, 1));
    let zonal = place.start(&["--freshness", "immutable", "--dram", "0"]);
    let s3 = zonal.s3();
    assert_eq!(s3.get("/bucket/a").unwrap().status, 200);
    zonal.await_metric("zonal_cache_admitted_bytes_total", 1 << 20);
    zonal.await_metric("zonal_cache_backlog_bytes", 0);
    for _ in 0..2 {
        assert_eq!(s3.get("/bucket/a").unwrap().status, 200);
    }
    let intruder = crate::http::S3::new(zonal.endpoint, "NOBODY", "x");
    assert_eq!(intruder.get("/bucket/a").unwrap().status, 403);
    assert_eq!(s3.put("/bucket/b", b"new").unwrap().status, 200);
    for part in ["first", "last"] {
        let count = |operation: &str, path: &str| {
            let name = format!("zonal_gateway_{part}_byte_seconds_count");
            zonal.metric(&format!("{name}{{operation=\"{operation}\",path=\"{path}\"}}"))
        };
        assert_eq!(count("GetObject", "origin"), 1, "{part}");
        assert_eq!(count("GetObject", "flash"), 2, "{part}");
        assert_eq!(count("GetObject", "dram"), 0, "{part}");
        assert_eq!(count("GetObject", "head"), 1, "{part}: the refusal");
        assert_eq!(count("PutObject", "forwarded"), 1, "{part}");
    }
    assert_eq!(zonal.metric("zonal_shard_queue_seconds_count"), 3);
    let get = "zonal_origin_request_seconds_count{origin=";
    assert_eq!(zonal.metric(get), 2, "a GET and a PUT");
    let text = zonal.admin("/metrics").text();
    let reads = "zonal_device_command_seconds_count{device=\"0\",command=\"read\"} ";
    let reads = text.lines().find_map(|line| line.strip_prefix(reads)).unwrap();
    assert!(2 <= reads.parse::<u64>().unwrap(), "{reads}");
    let build = format!("zonal_build_info{{version=\"{}\"}} 1", env!("CARGO_PKG_VERSION"));
    assert!(text.lines().any(|line| line == build), "{text}");
}

/// The rules of `promtool check metrics`.
#[test]
fn names_and_help_texts_are_as_prometheus_wants_them() {
    let place = TestFolder::new();
    let zonal = place.start(&[]);
    let text = zonal.admin("/metrics").text();
    for described in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = described.split_once(' ').unwrap();
        let help = format!("# HELP {name} ");
        let helps: Vec<_> = text.lines().filter_map(|line| line.strip_prefix(&help)).collect();
        assert!(matches!(helps[..], [help] if !help.is_empty()), "{name}: {helps:?}");
        assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
        let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        assert!(name.chars().all(legal), "{name}");
        let words: Vec<&str> = name.split('_').collect();
        for unit in ["ms", "us", "ns", "milliseconds", "minutes", "hours", "kib", "mib", "percent"]
        {
            assert!(!words.contains(&unit), "{name} is not in a base unit");
        }
        let last = words[words.len() - 1];
        assert!(!["bucket", "count", "sum", "counter", "gauge", "histogram"].contains(&last));
    }
}
