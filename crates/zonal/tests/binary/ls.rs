//! Tests of `zonal cache ls` and `zonal cache show` with a running server.

use std::io::Write;
use std::net::TcpStream;
use std::process::Output;
use std::time::Instant;

use serde_json::Value;

use crate::harness::{PATIENCE, TestFolder, Zonal, check_failure, noise};
use crate::http;

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Rows of a listing without its last line, sorted by name.
#[track_caller]
fn rows(place: &TestFolder, zonal: &Zonal, words: &[&str]) -> Vec<String> {
    let output = place.cache(zonal, "ls", words);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = text(&output);
    let mut rows: Vec<String> = text.lines().map(|row| row.trim().to_owned()).collect();
    rows.sort_unstable();
    rows
}

const WORDS: [&str; 4] = ["--freshness", "immutable", "--shards", "2"];

fn filled(place: &TestFolder) -> Zonal {
    std::fs::create_dir(place.path().join("origin/bucket/dim")).unwrap();
    place.object("dim/a", &noise(1 << 20, 1));
    place.object("dim/b", &noise(40 << 20, 2));
    place.object("other", &noise(1000, 3));
    let zonal = place.start(&WORDS);
    zonal.store("/bucket/dim/a");
    zonal.store("/bucket/other");
    let part = zonal.s3().get_with("/bucket/dim/b", "range: bytes=0-8388607\r\n").unwrap();
    assert_eq!(part.status, 206);
    assert_eq!(place.cache(&zonal, "pin", &["bucket/other"]).status.code(), Some(0));
    zonal.await_metric("zonal_cache_backlog_bytes", 0);
    zonal
}

#[test]
fn cached_objects_are_listed_below_a_prefix_also_after_a_restart() {
    let place = TestFolder::new();
    let mut zonal = filled(&place);
    for _ in 0..2 {
        let dim =
            ["1.0 MiB   100 %     0 %  bucket/dim/a", "40.0 MiB    20 %     0 %  bucket/dim/b"];
        assert_eq!(rows(&place, &zonal, &["bucket/dim/"]), dim);
        let other = "1000 B   100 %   100 %  bucket/other";
        assert_eq!(rows(&place, &zonal, &["bucket/o"]), [other]);
        assert_eq!(rows(&place, &zonal, &["bucket/x", "none/"]), [""; 0]);
        assert_eq!(rows(&place, &zonal, &[]), [dim[0], other, dim[1]]);
        zonal.stop();
        zonal = place.start(&WORDS);
    }
    let all = place.cache(&zonal, "ls", &["bucket/", "bucket/dim/"]).stderr;
    let all = String::from_utf8(all).unwrap();
    let sum = "3 objects of 41.0 MiB: 9.0 MiB on flash, 1000 B of it pinned; 0 B in memory only";
    assert_eq!(all.lines().last(), Some(sum));
    assert_eq!(place.cache(&zonal, "purge", &["--prefix", "bucket/dim/"]).status.code(), Some(0));
    assert_eq!(rows(&place, &zonal, &["bucket/"]).len(), 1, "what was purged is not listed");
    zonal.stop();
}

#[test]
fn an_object_shows_its_ranges_its_zones_and_its_freshness() {
    let place = TestFolder::new();
    let zonal = filled(&place);
    let whole = place.cache(&zonal, "show", &["bucket/other"]);
    let told = text(&whole);
    assert_eq!(whole.status.code(), Some(0), "{told}");
    assert!(told.starts_with("bucket/other: 1000 B, 100 % cached\n"), "{told}");
    assert!(told.contains("immutable: always fresh; confirmed "), "{told}");
    assert!(told.contains("  bytes      0-999: zone ") && told.ends_with(", pinned\n"), "{told}");

    let part = place.cache(&zonal, "show", &["--json", "bucket/dim/b", "bucket/never"]);
    assert_eq!(part.status.code(), Some(1));
    let lines = text(&part);
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let cached = &lines[0]["object"]["cached"];
    assert_eq!(cached["size"], 40 << 20);
    let ranges = cached["ranges"].as_array().unwrap();
    let number = |range: &Value, field: &str| range[field].as_u64().unwrap();
    let len = |range: &Value| number(range, "last") - number(range, "first") + 1;
    assert_eq!(ranges.iter().map(len).sum::<u64>(), 8 << 20, "{cached}");
    assert!(ranges.is_sorted_by_key(|range| number(range, "first")));
    let zones: Value = serde_json::from_str(&zonal.admin("/api/v1/zones").text()).unwrap();
    let shards = zones["shards"].as_array().unwrap();
    let zones: Vec<&Value> =
        shards.iter().flat_map(|shard| shard["zones"].as_array().unwrap()).collect();
    for range in ranges {
        let zone = zones[usize::try_from(number(range, "zone")).unwrap()];
        assert!(len(range) <= number(zone, "live_bytes"), "{range} {zone}");
    }
    assert_eq!(lines[1]["object"]["cached"], Value::Null);
    assert_eq!(lines[2]["sum"]["objects_whole"], 0);
    zonal.stop();
}

/// One listing runs at a time: one whose client has gone must not keep the others out.
#[test]
fn a_listing_ends_with_its_client() {
    let place = TestFolder::new();
    let zonal = filled(&place);
    let begin = Instant::now();
    for body in ["", "none/\t*\n", "bucket/dim/\t*\n"] {
        let mut client = TcpStream::connect(zonal.admin).unwrap();
        let head = format!("content-length: {}\r\n\r\n{body}", body.len());
        client
            .write_all(format!("POST /cache/list HTTP/1.1\r\nhost: localhost\r\n{head}").as_bytes())
            .unwrap();
        drop(client);
        while http::post(zonal.admin, "/cache/list", "", b"").unwrap().status == 409 {
            assert!(begin.elapsed() < PATIENCE, "{body:?} is still being listed");
        }
    }
    zonal.stop();
}

#[test]
fn a_list_that_cannot_be_meant_is_refused() {
    let place = TestFolder::new();
    let zonal = place.start(&WORDS);
    let admin = zonal.admin.to_string();
    let words = |action, name| ["cache", action, "--admin", &admin, name].map(str::to_owned);
    for (action, name, said) in [
        ("ls", "bucket", r#""bucket": write BUCKET/PREFIX, or BUCKET/ for the whole bucket"#),
        ("ls", "s3://bucket/a", "remove s3://: write bucket/a"),
        ("show", "bucket/", r#""bucket/": write BUCKET/KEY"#),
        ("show", "bucket/a\t0-1", "an object in a list cannot contain tabs"),
        ("show", "a/b\nc/d", r#""a/b\nc/d": an object in a list cannot contain line ends"#),
        ("purge", "a/b\r", r#""a/b\r": an object in a list cannot contain line ends"#),
    ] {
        let words = words(action, name);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        check_failure(place.path(), &words, (2, said));
    }
    let listed = http::post(zonal.admin, "/cache/list", "origin: http://a\r\n", b"").unwrap();
    assert_eq!(listed.status, 403, "names of objects are no business of web pages");
    zonal.stop();
}
