//! Tests of a cache on a modelled drive, in real time.

use std::fs;
use std::path::Path;
use std::time::Instant;

use crate::harness::{PATIENCE, TestFolder, Zonal, check_failure, folder, noise, run};

/// Smallest possible cache on this model: it takes 4.2 GiB of disk or memory, of which little is
/// written.
const ZONED: &str = "emulator:zn540?zones=4&backing=drive";

/// Device for two shards.
const CONVENTIONAL: &str = "emulator:sn540?size=256MiB&zone=8MiB&backing=drive";

const SHARDS: [(&str, &str); 2] = [(ZONED, "1"), (CONVENTIONAL, "2")];

/// Waits until `count` records are on flash, as a reader of the device in use sees them.
#[track_caller]
fn await_records(place: &TestFolder, device: &str, count: u64) {
    let begin = Instant::now();
    while records(place, device) != count {
        assert!(begin.elapsed() < PATIENCE, "{} records of {count}", records(place, device));
    }
}

fn records(place: &TestFolder, device: &str) -> u64 {
    let text = printed(place.path(), &["device", "info", device, "--json"]);
    let info: serde_json::Value = serde_json::from_str(&text).unwrap();
    info["log"]["records"].as_u64().unwrap_or(0)
}

fn contents() -> Vec<Vec<u8>> {
    let sizes = [1, 4096, 70_000, 3 << 20];
    sizes.iter().zip(0..).map(|(bytes, seed)| noise(*bytes, seed)).collect()
}

#[track_caller]
fn check_from(first: usize, zonal: &Zonal, contents: &[Vec<u8>], cached: &str) {
    for (n, content) in contents.iter().enumerate().skip(first) {
        let answer = zonal.s3().get(&format!("/bucket/{n}")).unwrap();
        assert_eq!((answer.status, answer.header("x-cache")), (200, cached), "object {n}");
        assert!(answer.body == *content);
    }
}

#[test]
fn what_a_modelled_drive_holds_is_found_after_a_stop_and_after_a_kill() {
    for (device, shards) in SHARDS {
        let (place, contents) = (TestFolder::new(), contents());
        for (n, content) in contents.iter().enumerate() {
            place.object(&n.to_string(), content);
        }
        let start = || place.start_on(device, &["--shards", shards, "--freshness", "immutable"]);
        let first = start();
        check_from(0, &first, &contents, "MISS");
        assert_eq!(first.s3().put("/bucket/0", b"new").unwrap().status, 200);
        first.stop();

        let second = start();
        check_from(1, &second, &contents, "HIT");
        let before = records(&place, device);
        assert_eq!(second.s3().get("/bucket/0").unwrap().text(), "new");
        place.object("last", b"last");
        assert_eq!(second.s3().get("/bucket/last").unwrap().text(), "last");
        // A head and a piece of each of the two objects written.
        await_records(&place, device, before + 4);
        second.kill();

        let third = start();
        check_from(1, &third, &contents, "HIT");
        for (path, content) in [("/bucket/0", "new"), ("/bucket/last", "last")] {
            let answer = third.s3().get(path).unwrap();
            assert_eq!((answer.text().as_str(), answer.header("x-cache")), (content, "HIT"));
        }
        third.stop();
    }
}

#[test]
fn a_modelled_drive_in_memory_serves_and_is_gone_with_the_process() {
    let place = TestFolder::new();
    place.object("a", b"content");
    let serve = || place.start_on("emulator:sn540?size=256MiB", &["--freshness", "immutable"]);
    for _ in 0..2 {
        let zonal = serve();
        let asked = ["MISS", "HIT"].map(|cached| {
            let answer = zonal.s3().get("/bucket/a").unwrap();
            (answer.text(), answer.header("x-cache") == cached)
        });
        assert_eq!(asked, [("content".to_owned(), true), ("content".to_owned(), true)]);
        zonal.stop();
    }
    assert_eq!(entries(place.path()), ["log", "origin"]);
}

#[test]
fn what_a_modelled_drive_holds_is_shown_and_formatted_away() {
    let (place, contents) = (TestFolder::new(), contents());
    for (n, content) in contents.iter().enumerate() {
        place.object(&n.to_string(), content);
    }
    for (device, shards) in SHARDS {
        let words = ["--shards", shards, "--freshness", "immutable"];
        let zonal = place.start_on(device, &words);
        check_from(0, &zonal, &contents, "MISS");
        // Four heads, twelve pieces of the largest object and one of each other.
        await_records(&place, device, 4 + 12 + 3);
        // These commands read the device while the server uses it.
        let text = printed(place.path(), &["device", "info", device]);
        assert!(text.contains("engine         model, its bytes in a file"), "{text}");
        assert!(text.contains("holds          log "), "{text}");
        let text = printed(place.path(), &["inspect", device]);
        assert!(text.lines().any(|line| line.contains(" open ")), "{text}");
        zonal.stop();
        let format = ["device", "format", device];
        check_failure(place.path(), &format, (2, &format!("{device} holds log ")));
        printed(place.path(), &["device", "format", device, "--yes"]);
        assert_eq!(records(&place, device), 0);
        fs::remove_file(place.path().join("drive")).unwrap();
    }
}

#[test]
fn a_modelled_drive_that_cannot_be_is_refused_and_nothing_is_changed() {
    let folder = folder();
    let here = folder.path();
    let serve = |spec| ["serve", "--origin", "file:.", "--device", spec];
    let too_small = "zn540: a shard would have ";
    check_failure(here, &serve("emulator:zn540?zones=2"), (2, too_small));
    check_failure(
        here,
        &serve("emulator:zn541"),
        (2, "device.spec: device \"emulator:zn541\": unknown model \"zn541\""),
    );
    check_failure(
        here,
        &["device", "info", ZONED],
        (2, "drive: does not exist yet: `zonal device format`"),
    );
    check_failure(
        here,
        &["device", "format", "emulator:zn540?zones=4"],
        (2, "emulator:zn540?zones=4 is in memory, so formatting it has no lasting effect"),
    );
    let whole = "zn540: needs up to 950.79GiB of memory, and ";
    check_failure(here, &serve("emulator:zn540"), (2, whole));
    let shown = printed(here, &["device", "info", "emulator:zn540"]);
    assert!(shown.contains("zones          904 of 1077MiB"), "looking takes no memory: {shown}");
    fs::write(here.join("drive"), "mine").unwrap();
    for command in ["info", "format"] {
        let said = "drive: is not the backing file of a modelled drive: name another with backing=";
        check_failure(here, &["device", command, ZONED], (2, said));
    }
    assert_eq!(fs::read(here.join("drive")).unwrap(), b"mine");
    let away = format!("{}&backing=away/drive", "emulator:zn540?zones=4");
    check_failure(
        here,
        &["device", "format", &away],
        (2, "away/drive: the directory away does not"),
    );
    assert_eq!(entries(here), ["drive"]);
}

#[track_caller]
fn printed(folder: &Path, words: &[&str]) -> String {
    let output = run(folder, words);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{words:?} said {error}");
    String::from_utf8(output.stdout).unwrap()
}

fn entries(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
