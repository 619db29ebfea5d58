//! Tests of the accounts by bucket and prefix, `/api/v1/prefixes`.

use std::fs;
use std::time::Instant;

use serde_json::{Value, json};

use crate::harness::{PATIENCE, TestFolder, Zonal, check_failure, noise};
use crate::http::{self, S3};

const WORDS: [&str; 4] = ["--freshness", "immutable", "--shards", "2"];

impl Zonal {
    fn prefixes(&self) -> Value {
        let answer = self.admin("/api/v1/prefixes");
        assert_eq!(answer.status, 200, "{}", answer.text());
        serde_json::from_str(&answer.text()).unwrap()
    }
}

fn row<'a>(prefixes: &'a Value, name: &str) -> &'a Value {
    let mut rows = prefixes["prefixes"].as_array().unwrap().iter();
    rows.find(|row| row["name"] == name).unwrap_or_else(|| panic!("{name} in {prefixes}"))
}

fn names(prefixes: &Value) -> Vec<&str> {
    let rows = prefixes["prefixes"].as_array().unwrap().iter();
    rows.map(|row| row["name"].as_str().unwrap()).collect()
}

/// An origin with three prefixes, and a server that has read from each.
fn read_from(place: &TestFolder, more: &[&str]) -> Zonal {
    for folder in ["logs/2026", "img"] {
        fs::create_dir_all(place.path().join("origin/bucket").join(folder)).unwrap();
    }
    for (key, bytes) in [("logs/2026/a", 3 << 20), ("logs/b", 1 << 20), ("img/x", 500), ("top", 7)]
    {
        place.object(key, &noise(bytes, 1));
    }
    let zonal = place.start(&[&WORDS, more].concat());
    for path in ["logs/2026/a", "logs/b", "logs/b", "logs/b", "img/x", "top"] {
        assert_eq!(zonal.s3().get(&format!("/bucket/{path}")).unwrap().status, 200);
        zonal.await_metric("zonal_cache_backlog_bytes", 0);
    }
    zonal
}

#[test]
fn each_prefix_has_its_requests_its_savings_and_its_cached_bytes() {
    let place = TestFolder::new();
    let zonal = read_from(&place, &[]);
    let prefixes = zonal.prefixes();
    assert_eq!((&prefixes["by"], &prefixes["currency"]), (&json!("prefix"), &json!("USD")));
    assert_eq!(names(&prefixes), ["bucket/logs/", "bucket/", "bucket/img/"]);
    let logs = row(&prefixes, "bucket/logs/");
    let expected = json!({
        "name": "bucket/logs/",
        "requests": 4,
        "reads": 4,
        "served_by_cache": 2,
        "served_bytes": 6 << 20,
        "origin_requests": 2,
        "origin_bytes": 4 << 20,
        "saved_requests": 2,
        "saved_bytes": 2 << 20,
        "saved_cost": 2.0 / 1e6 * 0.4,
        "earlier_requests_max": 0,
        "resident_bytes": 4 << 20,
        "resident_error_bytes": 0,
    });
    assert_eq!(*logs, expected);
    assert_eq!(row(&prefixes, "bucket/img/")["resident_bytes"], 500);
    assert_eq!(prefixes["sample"]["is_whole"], true);
    assert_eq!(
        (&prefixes["sample"]["objects"], &prefixes["others"]["requests"]),
        (&json!(4), &json!(0))
    );

    // The sums are those of the whole.
    let stats: Value = serde_json::from_str(&zonal.admin("/stats").text()).unwrap();
    let sum = |field: &str| {
        let rows = prefixes["prefixes"].as_array().unwrap().iter();
        rows.map(|row| row[field].as_i64().unwrap()).sum::<i64>()
    };
    assert_eq!(sum("saved_requests"), stats["savings"]["requests"].as_i64().unwrap());
    assert_eq!(sum("saved_bytes"), stats["savings"]["bytes"].as_i64().unwrap());
    zonal.stop();

    // What is cached is known without a request.
    let zonal = place.start(&WORDS);
    let prefixes = zonal.prefixes();
    assert_eq!(names(&prefixes), ["bucket/logs/", "bucket/img/", "bucket/"]);
    let logs = row(&prefixes, "bucket/logs/");
    assert_eq!((&logs["requests"], &logs["resident_bytes"]), (&json!(0), &json!(4 << 20)));
    zonal.stop();
}

#[test]
fn writes_count_and_requests_that_are_refused_take_no_rows() {
    let place = TestFolder::new();
    let zonal = read_from(&place, &[]);
    assert_eq!(zonal.s3().put("/bucket/img/new", &noise(1000, 2)).unwrap().status, 200);
    assert_eq!(zonal.s3().get("/bucket?list-type=2").unwrap().status, 200);
    let other = S3::new(zonal.endpoint, "somebody", "else");
    assert_eq!(other.get("/elsewhere/x/y").unwrap().status, 403);
    assert_eq!(http::get(zonal.endpoint, "/elsewhere/x/y").unwrap().status, 403);
    let prefixes = zonal.prefixes();
    let img = row(&prefixes, "bucket/img/");
    assert_eq!((&img["requests"], &img["reads"]), (&json!(2), &json!(1)));
    assert_eq!(row(&prefixes, "bucket/")["requests"], 2);
    assert!(!names(&prefixes).iter().any(|name| name.starts_with("elsewhere")), "{prefixes}");
    zonal.stop();
}

#[test]
fn accounts_are_kept_by_what_is_configured() {
    let place = TestFolder::new();
    for (by, expected) in [
        ("bucket", vec!["bucket/"]),
        ("prefix:2", vec!["bucket/logs/", "bucket/", "bucket/img/", "bucket/logs/2026/"]),
        ("object", vec!["bucket/logs/b", "bucket/img/x", "bucket/logs/2026/a", "bucket/top"]),
    ] {
        let zonal = read_from(&place, &["--accounts-by", by]);
        let prefixes = zonal.prefixes();
        assert_eq!((names(&prefixes), &prefixes["by"]), (expected, &json!(by)));
        zonal.stop();
        fs::remove_file(place.path().join("flash")).unwrap();
    }
    let words = ["serve", "--accounts-by", "key"];
    check_failure(
        place.path(),
        &words,
        (2, "accounts.by: \"key\": write bucket, prefix, prefix:N"),
    );
}

/// More objects than a sample visits.
#[test]
fn cached_bytes_of_many_objects_are_estimated_with_an_error() {
    let place = TestFolder::new();
    let counts = [("many", 4000_u64, 2000_usize), ("few", 1000, 3000)];
    for (folder, count, bytes) in counts {
        fs::create_dir(place.path().join("origin/bucket").join(folder)).unwrap();
        (0..count).for_each(|n| place.object(&format!("{folder}/{n}"), &noise(bytes, n)));
    }
    let zonal = place.start(&WORDS);
    for (folder, ..) in counts {
        let warmed = place.cache(&zonal, "warm", &["--prefix", &format!("bucket/{folder}/")]);
        assert_eq!(warmed.status.code(), Some(0), "{warmed:?}");
    }
    let begin = Instant::now();
    let prefixes = loop {
        let prefixes = zonal.prefixes();
        if prefixes["sample"]["is_whole"] == false {
            break prefixes;
        }
        assert!(begin.elapsed() < PATIENCE, "{prefixes}");
        std::thread::sleep(std::time::Duration::from_millis(100));
    };
    let sample = &prefixes["sample"];
    let objects = sample["objects"].as_u64().unwrap();
    assert!((1000..=4096).contains(&objects), "{sample}");
    assert!(sample["cached_objects"].as_u64().unwrap().abs_diff(5000) <= 250, "{sample}");
    for (folder, count, bytes) in counts {
        let row = row(&prefixes, &format!("bucket/{folder}/"));
        let (exact, found) = (count * bytes as u64, row["resident_bytes"].as_u64().unwrap());
        let error = row["resident_error_bytes"].as_u64().unwrap();
        assert!(0 < error && error < exact / 5, "{row}");
        assert!(found.abs_diff(exact) < 5 * error, "{exact}: {row}");
        assert_eq!(row["origin_bytes"], exact);
    }
    zonal.stop();
}
