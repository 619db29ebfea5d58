//! Tests of `zonal cache pin` and `unpin` with a running server.

use std::fs;
use std::process::Output;

use rustix::process::Signal;
use serde_json::Value;

use crate::harness::{ACCESS_KEY, SECRET_KEY, TestFolder, Zonal, check_failure, folder, noise};

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Checks exit code and output of a command.
#[track_caller]
fn check(output: &Output, code: i32, (stdout, stderr): (&str, &str)) {
    assert_eq!(text(&output.stderr), stderr);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(code), stdout));
}

/// Pinned bytes of an object, once all data read is on flash.
fn pinned(place: &TestFolder, zonal: &Zonal, key: &str) -> u64 {
    let output = place.cache(zonal, "warm", &["--json", &format!("bucket/{key}")]);
    let report = text(&output.stdout);
    let told: Value = serde_json::from_str(report.lines().next().unwrap()).unwrap();
    told["object"]["pinned"].as_u64().unwrap_or_else(|| panic!("{report}"))
}

fn pins(place: &TestFolder) -> String {
    fs::read_to_string(place.path().join("zonal-data/pins")).unwrap()
}

#[test]
fn what_is_pinned_stays_so_over_versions_and_restarts_until_it_is_released() {
    let place = TestFolder::new();
    fs::create_dir(place.path().join("origin/bucket/p")).unwrap();
    let (size, piece) = (1 << 20, 256 << 10);
    place.object("a", &noise(size, 1));
    place.object("p/x", &noise(100_000, 2));
    let zonal = place.start(&[]);
    // Data cached before is pinned in place.
    assert_eq!(zonal.s3().get_with("/bucket/a", "range: bytes=0-9\r\n").unwrap().status, 206);
    zonal.await_metric("zonal_cache_admitted_bytes_total", piece);
    let output = place.cache(&zonal, "pin", &["bucket/a", "--prefix", "bucket/p/"]);
    let told = "bucket/a: 1.0 MiB of 1.0 MiB pinned (256.0 KiB on flash before, 768.0 KiB \
                fetched)\nbucket/p/x: 97.7 KiB of 97.7 KiB pinned (0 B on flash before, 97.7 KiB \
                fetched)\nbucket/p/*: 1 objects listed\npinned 2 of 2 objects, 1.1 MiB of 1.1 MiB \
                (256.0 KiB on flash before, 865.7 KiB fetched)\n";
    check(&output, 0, (told, ""));
    assert_eq!(pins(&place), "bucket/a\nbucket/p/\t*\n");
    let table = text(&place.cache(&zonal, "stats", &[]).stdout);
    assert!(table.contains("; pin commands: 1 objects and 1 prefixes\n"), "{table}");
    let bound = zonal.metric("zonal_cache_pinned_max_bytes");
    let bytes = zonal.metric("zonal_cache_pinned_bytes");
    assert!(size as u64 + 100_000 < bytes && bytes < bound, "{bytes} of {bound}");

    // A pin applies to the name, not to a version; a prefix also pins later objects below it.
    place.object("a", &noise(2 * size, 3));
    place.object("p/y", &noise(5000, 4));
    for key in ["a", "p/y"] {
        assert_eq!(zonal.s3().get(&format!("/bucket/{key}")).unwrap().status, 200);
    }
    assert_eq!(pinned(&place, &zonal, "a"), 2 * size as u64);
    assert_eq!(pinned(&place, &zonal, "p/y"), 5000);
    zonal.kill();

    let zonal = place.start(&[]);
    assert_eq!(pinned(&place, &zonal, "a"), 2 * size as u64);
    let output = place.cache(&zonal, "unpin", &["bucket/a", "bucket/p/x"]);
    let told = "bucket/a: unpinned, 2.0 MiB released\n\
                bucket/p/x: still pinned by the prefix bucket/p/\n\
                unpinned 1 of 2 objects (2.0 MiB released)\n";
    check(&output, 1, (told, "zonal: 1 of 2 objects are still pinned\n"));
    assert_eq!((pinned(&place, &zonal, "a"), pinned(&place, &zonal, "p/x")), (0, 100_000));
    let output = place.cache(&zonal, "unpin", &["--prefix", "bucket/", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let sum = text(&output.stdout).lines().last().unwrap().to_owned();
    let sum: Value = serde_json::from_str(&sum).unwrap();
    assert_eq!((&sum["sum"]["objects"], &sum["sum"]["released"]), (&3.into(), &105_000.into()));
    assert_eq!(pins(&place), "");
    zonal.stop();

    let zonal = place.start(&[]);
    assert_eq!(zonal.metric("zonal_cache_pinned_bytes"), 0, "nothing is to be pinned");
    zonal.stop();
}

#[test]
fn what_is_not_pinned_has_its_reason() {
    let place = TestFolder::new();
    place.object("large", &noise(8 << 20, 1));
    place.object("kept", b"out");
    let words = ["--keep-rule", "bucket/kept=never", "--keep-pinned", "1%", "--shards", "1"];
    let zonal = place.start(&[&words[..], &["--policy", "zone-fifo"]].concat());
    let output = place.cache(&zonal, "pin", &["bucket/large", "bucket/kept", "bucket/none"]);
    let said = text(&output.stdout);
    let reasons = [
        "bucket/large: ",
        " of 8.0 MiB pinned (0 B on flash before, 8.0 MiB fetched): pin limit reached: ",
        " (keep.pinned) are in use; on flash, but not fully pinned\n",
        "bucket/kept: 0 B of 0 B pinned (0 B on flash before, 0 B fetched): not cached: a keep \
         rule says never",
        "bucket/none: 0 B of 0 B pinned (0 B on flash before, 0 B fetched): not found\n",
    ];
    assert!(reasons.iter().all(|reason| said.contains(reason)), "{said}");
    let error = "zonal: 3 of 3 objects are not, or not fully, pinned: their pins stay and apply on \
                 the next read\n";
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(1), error));

    // Regression: data that the policy refused for want of room was reported as "only in memory".
    let table = text(&place.cache(&zonal, "stats", &[]).stdout);
    let most = zonal.metric("zonal_cache_pinned_max_bytes");
    assert!(
        table.contains(&format!(" of {:.1} MiB allowed, ", most as f64 / 1048576.0)),
        "{table}"
    );
    zonal.await_log(&format!("pinned_max_bytes={most}"));

    let prefixes = (0..65).map(|n| format!("bucket/{n}\t*\n")).collect::<String>();
    fs::write(place.path().join("list"), prefixes).unwrap();
    let output = place.cache(&zonal, "pin", &["--list", "list"]);
    let error = "zonal: too many pins, 3 objects and 65 prefixes: the limits are 100000 and 64; \
                 use shorter prefixes, or keep.rules\n";
    check(&output, 2, ("", error));
    zonal.stop();
}

#[test]
fn the_file_may_be_edited_and_must_be_writable() {
    let place = TestFolder::new();
    place.object("a", &noise(1000, 1));
    let file = place.path().join("pins");
    fs::write(&file, "bucket\n").unwrap();
    let words = ["serve", "--keep-pins-file", "pins"];
    check_failure(place.path(), &words, (2, "keep.pins-file: pins: line 1: \"bucket\": write"));
    fs::write(&file, "").unwrap();
    let zonal = place.start(&["--keep-pins-file", "pins"]);
    fs::write(&file, "bucket/a\n").unwrap();
    zonal.signal(Signal::HUP);
    zonal.await_metric("zonal_config_reloads_total", 1);
    assert_eq!(pinned(&place, &zonal, "a"), 1000);
    zonal.stop();

    let zonal = place.start(&["--keep-pins-file", "no/such/pins"]);
    let output = place.cache(&zonal, "pin", &["bucket/a"]);
    let error = text(&output.stderr);
    assert!(error.contains("answered 500: no/such/pins cannot be written: "), "{error}");
    assert_eq!((output.status.code(), pinned(&place, &zonal, "a")), (Some(1), 0));
    zonal.stop();
}

/// Regression: two servers in one folder, each with its own device, overwrote each other's pins.
#[test]
fn one_server_pins_in_a_folder() {
    let place = TestFolder::new();
    place.object("a", &noise(1000, 1));
    place.object("b", &noise(1000, 2));
    let second = |more: &[&'static str]| -> Vec<&'static str> {
        let device = ["--device", "file:other?size=256MiB&zone=8MiB", "--origin", "file:origin"];
        let keys = ["--access-key", ACCESS_KEY, "--secret-key", SECRET_KEY];
        [&device[..], &keys, more].concat()
    };
    let serve = ["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
    // Without pins both may start; the first to pin takes the file.
    let (one, other) = (place.start(&[]), Zonal::start(place.path(), &second(&[])));
    assert_eq!(place.cache(&one, "pin", &["bucket/a"]).status.code(), Some(0));
    let refused = place.cache(&other, "pin", &["bucket/b"]);
    let why = "the pins file zonal-data/pins is in use by another zonal: stop it";
    assert!(text(&refused.stderr).contains(why), "{}", text(&refused.stderr));
    assert_eq!((refused.status.code(), pins(&place).as_str()), (Some(1), "bucket/a\n"));
    other.stop();
    check_failure(place.path(), &[&serve[..], &second(&[])].concat(), (1, why));
    let elsewhere = second(&["--keep-pins-file", "pins"]);
    Zonal::start(place.path(), &elsewhere).stop();
    one.stop();
    Zonal::start(place.path(), &second(&[])).stop();

    // A server that keeps more files in the folder locks it from the start.
    let all = Zonal::start(place.path(), &[]);
    let why = "the data directory zonal-data is in use by another zonal: stop it, or name another";
    check_failure(place.path(), &[&serve[..], &second(&[])].concat(), (1, why));
    all.stop();
}

#[test]
fn what_cannot_be_meant_is_said() {
    let folder = folder();
    let said = "a byte range cannot be pinned: name the whole object";
    for action in ["pin", "unpin"] {
        check_failure(folder.path(), &["cache", action, "b/a\t0-9"], (2, said));
        check_failure(folder.path(), &["cache", action, "a"], (2, "\"a\": write BUCKET/KEY"));
    }
}
