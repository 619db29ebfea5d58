//! Tests of scrubs of a running cache.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::process::Output;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::{TestFolder, Zonal, noise, run};

const OPTIONS: [&str; 6] = ["--freshness", "immutable", "--shards", "1", "--dram", "0B"];

fn scrub(place: &TestFolder, zonal: &Zonal) -> (Option<i32>, Value) {
    let output = place.cache(zonal, "scrub", &["--json"]);
    let document = serde_json::from_slice(&output.stdout);
    (output.status.code(), document.unwrap_or_else(|why| panic!("{why}: {output:?}")))
}

/// Flips a bit of the device. `find`: what the byte is `behind` bytes after.
fn damage(place: &TestFolder, find: &[u8], behind: usize) {
    let device = place.path().join("flash");
    let bytes = fs::read(&device).unwrap();
    let at = bytes.windows(find.len()).position(|part| part == find).expect("it is on flash");
    let at = at + behind;
    let file = File::options().write(true).open(&device).unwrap();
    file.write_all_at(&[bytes[at] ^ 1], at as u64).unwrap();
    file.sync_all().unwrap();
}

#[test]
fn a_scrub_finds_a_damaged_record_and_a_damaged_header() {
    let place = TestFolder::new();
    let contents = [noise(300_000, 1), noise(300_000, 2)];
    for (key, content) in ["a", "b"].iter().zip(&contents) {
        place.object(key, content);
    }
    let zonal = place.start(&OPTIONS);
    zonal.store("/bucket/a");
    zonal.store("/bucket/b");
    zonal.await_metric("zonal_cache_admitted_bytes_total", 600_000);
    let (code, intact) = scrub(&place, &zonal);
    assert_eq!((code, intact["damaged_records"].as_u64()), (Some(0), Some(0)), "{intact}");
    assert!(Some(600_000) < intact["read_bytes"].as_u64(), "{intact}");
    assert_eq!(intact["zones"], intact["zones_done"]);

    damage(&place, &contents[0][1000..1064], 500);
    let (code, found) = scrub(&place, &zonal);
    assert_eq!((code, found["damaged_records"].as_u64()), (Some(1), Some(1)), "{found}");
    assert_eq!(found["damaged_zones"].as_array().unwrap().len(), 1, "{found}");
    zonal.await_log("a scrub found damage");
    let answer = zonal.s3().get("/bucket/a").unwrap();
    assert_eq!(answer.header("x-cache"), "MISS");
    assert!(answer.body == contents[0]);
    zonal.store("/bucket/a");
    assert_eq!(scrub(&place, &zonal).0, Some(0), "what was damaged is not there any more");

    damage(&place, b"ZSEG", 100);
    let (code, found) = scrub(&place, &zonal);
    assert_eq!((code, found["damaged_metadata"].as_u64()), (Some(1), Some(1)), "{found}");
    assert_eq!(zonal.metric("zonal_scrub_damaged"), 1);
    zonal.stop();
}

#[test]
fn there_is_one_scrub_at_a_time_and_a_stop_does_not_wait_for_it() {
    let place = TestFolder::new();
    place.object("large", &noise(60 << 20, 1));
    let zonal = place.start(&[&OPTIONS[..], &["--scrub-rate", "1MiB"]].concat());
    zonal.store("/bucket/large");
    let admin = zonal.admin.to_string();
    let place = &place;
    std::thread::scope(|scope| {
        let words = ["cache", "scrub", "--admin", &admin];
        let first = scope.spawn(move || run(place.path(), &words));
        zonal.await_metric("zonal_scrub_running", 1);
        let second = run(place.path(), &words);
        check(&second, &format!("{admin} answered 409: another scrub is running"));
        let begin = Instant::now();
        zonal.stop();
        // The scrub alone would take a minute.
        assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
        let first = first.join().unwrap();
        assert_eq!(first.status.code(), Some(1), "{first:?}");
    });
}

#[track_caller]
fn check(output: &Output, said: &str) {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && error.contains(said), "{output:?}");
}
