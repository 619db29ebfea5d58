//! Tests of `zonal cache off` and `on` with a running server.

use std::fs;

use rustix::process::Signal;
use serde_json::Value;

use crate::harness::{TestFolder, Zonal, noise};
use crate::http;

#[track_caller]
fn check(zonal: &Zonal, key: &str, how: &str, content: &[u8]) {
    let answer = zonal.s3().get(&format!("/bucket/{key}")).unwrap();
    assert_eq!((answer.status, answer.header("x-cache")), (200, how), "{key}");
    assert!(answer.body == content, "{key}");
}

#[test]
fn off_reads_go_to_the_origin_and_what_is_written_meanwhile_is_not_served_stale() {
    let place = TestFolder::new();
    let [old, new] = [1, 2].map(|seed| noise(50_000, seed));
    for key in ["written", "removed", "kept"] {
        place.object(key, &old);
    }
    let keys = "[[key]]\naccess-key = 'reader'\nsecret-key = 'secret'\n";
    fs::write(place.path().join("keys.toml"), keys).unwrap();
    let words = ["--freshness", "immutable", "--keys-file", "keys.toml"];
    let zonal = place.start(&words);
    for key in ["written", "removed", "kept"] {
        check(&zonal, key, "MISS", &old);
        check(&zonal, key, "HIT", &old);
    }
    let said = |zonal: &Zonal, action: &str| {
        let output = place.cache(zonal, action, &[]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(said(&zonal, "off"), "the cache is off\n");
    assert_eq!(said(&zonal, "off"), "the cache was off already\n");
    assert_eq!(zonal.metric("zonal_gateway_cache_off"), 1);
    let readiness = zonal.admin("/readyz");
    let body: Value = serde_json::from_slice(&readiness.body).unwrap();
    assert_eq!((readiness.status, &body["cache_off"]), (200, &Value::Bool(true)), "{body}");
    zonal.await_log("cache switched off");

    let fetched = zonal.metric("zonal_cache_pieces_total");
    check(&zonal, "kept", "BYPASS", &old);
    assert_eq!(zonal.s3().put("/bucket/written", &new).unwrap().status, 200);
    assert_eq!(zonal.s3().delete("/bucket/removed").unwrap().status, 204);
    check(&zonal, "written", "BYPASS", &new);
    assert_eq!(zonal.metric("zonal_cache_pieces_total"), fetched, "the cache was not asked");

    zonal.signal(Signal::HUP);
    zonal.await_metric("zonal_config_reloads_total", 1);
    check(&zonal, "kept", "BYPASS", &old);

    let output = place.cache(&zonal, "on", &["--json"]);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&json["cache"], &json["was"]), (&Value::from("on"), &Value::from("off")));
    check(&zonal, "kept", "HIT", &old);
    check(&zonal, "written", "MISS", &new);
    assert_eq!(zonal.s3().get("/bucket/removed").unwrap().status, 404);
    assert_eq!(zonal.metric("zonal_gateway_cache_off"), 0);
    zonal.await_log("cache switched on");

    assert_eq!(said(&zonal, "off"), "the cache is off\n");
    zonal.kill();
    let zonal = place.start(&words);
    assert_eq!(said(&zonal, "on"), "the cache was on already\n");
    check(&zonal, "kept", "HIT", &old);
    zonal.stop();
}

#[test]
fn only_who_means_it_switches() {
    let place = TestFolder::new();
    let zonal = place.start(&[]);
    assert_eq!(zonal.admin("/cache/off").status, 405);
    let page = http::post(zonal.admin, "/cache/off", "origin: http://page\r\n", b"").unwrap();
    assert_eq!(page.status, 403);
    assert_eq!(zonal.metric("zonal_gateway_cache_off"), 0);
    zonal.stop();
}
