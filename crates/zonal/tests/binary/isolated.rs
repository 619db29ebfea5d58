//! Tests of a hanging device: its isolation as clients and operators see it.

use std::fs;
use std::time::{Duration, Instant};

use super::harness::{PATIENCE, TestFolder, Zonal, noise};

/// A modelled drive with a fault while the file asks for it.
const DEVICE: &str = "emulator:p5800x-optane?size=256MiB&zone=8MiB&backing=drive&trouble=trouble";

const OTHER: &str = "emulator:p5800x-optane?size=256MiB&zone=8MiB&backing=other";

const OBJECTS: u64 = 12;

/// Read timeout of the device; longer than a busy machine delays a thread.
const READ_PATIENCE: Duration = Duration::from_millis(500);

fn start(place: &TestFolder) -> Zonal {
    let more = ["--device", OTHER, "--freshness", "immutable", "--shards", "1", "--dram", "0B"];
    let patience = ["--device-patience", "500ms", "--device-rejoin", "1s", "--prefetch", "0B"];
    place.start_on(DEVICE, &[&more[..], &patience].concat())
}

/// Reads all objects; returns how many came from the cache, and the time of the slowest.
fn read_all(zonal: &Zonal, contents: &[Vec<u8>]) -> (usize, Duration) {
    let (mut hits, mut slowest) = (0, Duration::ZERO);
    for (number, content) in contents.iter().enumerate() {
        let begun = Instant::now();
        let answer = zonal.s3().get(&format!("/bucket/{number}")).unwrap();
        slowest = slowest.max(begun.elapsed());
        assert!(answer.status == 200 && answer.body == *content, "object {number}");
        hits += usize::from(answer.header("x-cache") == "HIT");
    }
    (hits, slowest)
}

fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_device_that_hangs_costs_nobody_more_than_its_patience_and_comes_back_without_a_restart() {
    let place = TestFolder::new();
    let mut contents: Vec<Vec<u8>> = (0..OBJECTS).map(|seed| noise(300_000, seed)).collect();
    for (number, content) in contents.iter().enumerate() {
        place.object(&number.to_string(), content);
    }
    let zonal = start(&place);
    eventually("all of it is cached", || read_all(&zonal, &contents).0 == contents.len());

    fs::write(place.path().join("trouble"), "hangs").unwrap();
    let readiness = || zonal.admin("/readyz").text();
    eventually("it is isolated", || {
        let (_, slowest) = read_all(&zonal, &contents);
        assert!(slowest < READ_PATIENCE * 4, "a client waited for {slowest:?}");
        readiness().contains("\"isolated_devices\":[\"emulator:p5800x")
    });
    assert!(
        readiness().contains("\"ready\":true")
            && zonal.metric("zonal_device_isolated{device=\"0\"") == 1
    );
    let table = String::from_utf8(place.cache(&zonal, "stats", &[]).stdout).unwrap();
    assert!(table.contains("1 shard, 1 ISOLATED"), "{table}");
    assert_eq!(zonal.log().matches("device isolated:").count(), 1, "{}", zonal.log());
    // Writes continue: the other device records the invalidations that the isolated one misses.
    contents[0] = noise(300_000, 99);
    contents[1] = noise(300_000, 98);
    for (number, content) in contents.iter().enumerate().take(2) {
        assert_eq!(zonal.s3().put(&format!("/bucket/{number}"), content).unwrap().status, 200);
    }
    let (hits, slowest) = read_all(&zonal, &contents);
    assert!(0 < hits && slowest < READ_PATIENCE, "{hits} hits, the slowest took {slowest:?}");

    fs::remove_file(place.path().join("trouble")).unwrap();
    eventually("it is used again", || readiness().contains("\"isolated_devices\":[]"));
    // The log line follows the readmission of the device.
    eventually("that is logged", || zonal.log().contains("device readmitted: in use again"));
    let events = zonal.admin("/api/v1/events").text();
    let happened = ["device-isolated\",\"device\":0", "device-readmitted\",\"device\":0"];
    let places = happened.map(|what| events.find(what).unwrap_or_else(|| panic!("{events}")));
    assert!(places.is_sorted(), "{events}");
    eventually("all of it is cached again", || read_all(&zonal, &contents).0 == contents.len());
    zonal.stop();
}
