//! Tests of `/metrics`: `docs/metrics.md` documents exactly the exported metrics, and their values
//! are right.

use std::collections::BTreeSet;

use crate::harness::{TestFolder, noise};

const PAGE: &str = include_str!("../../../../docs/metrics.md");

/// Exported metric names.
pub(crate) fn exported(text: &str) -> BTreeSet<&str> {
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    samples.map(|line| line.split(['{', ' ']).next().unwrap()).collect()
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
