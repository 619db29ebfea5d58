//! Tests of zones that are lost, or replaced by an older state, while the cache is stopped.

use std::fs;

use crate::harness::{TestFolder, Zonal, noise};

const OPTIONS: [&str; 4] = ["--freshness", "immutable", "--shards", "1"];

/// Zone size of the harness's device.
const ZONE: usize = 8 << 20;

/// Reads an object. Returns its text, or the status, and `X-Cache`.
fn read(zonal: &Zonal, key: &str) -> (String, String) {
    let answer = zonal.s3().get(&format!("/bucket/{key}")).unwrap();
    let found = answer.header("x-cache").to_owned();
    match answer.status {
        200 => (answer.text(), found),
        status => (status.to_string(), found),
    }
}

/// Caches objects, and changes and removes some of them after a restart. Returns the device before
/// and after the changes.
fn devices(place: &TestFolder) -> [Vec<u8>; 2] {
    let device = place.path().join("flash");
    for key in ["kept", "changed", "removed"] {
        place.object(key, b"old");
    }
    let zonal = place.start(&OPTIONS);
    for key in ["kept", "changed", "removed"] {
        zonal.store(&format!("/bucket/{key}"));
    }
    zonal.stop();
    let before = fs::read(&device).unwrap();
    let zonal = place.start(&OPTIONS);
    assert_eq!(zonal.s3().put("/bucket/changed", b"new").unwrap().status, 200);
    assert_eq!(zonal.s3().delete("/bucket/removed").unwrap().status, 204);
    zonal.stop();
    [before, fs::read(&device).unwrap()]
}

#[test]
fn an_older_zone_is_noticed_and_the_origin_confirms_what_is_cached() {
    let place = TestFolder::new();
    let device = place.path().join("flash");
    let [before, after] = devices(&place);
    let zones = before.chunks(ZONE).zip(after.chunks(ZONE)).enumerate();
    let changed: Vec<usize> = zones.filter(|(_, (old, new))| old != new).map(|(n, _)| n).collect();
    // A stop writes to two zones. The last segment of the second has no records, and nobody misses
    // it.
    assert_eq!(changed.len(), 2);
    for (zone, losses) in changed.into_iter().zip([1, 0]) {
        let mut damaged = after.clone();
        damaged[zone * ZONE..][..ZONE].copy_from_slice(&before[zone * ZONE..][..ZONE]);
        fs::write(&device, damaged).unwrap();
        let zonal = place.start(&OPTIONS);
        let found = zonal.metric("zonal_device_losses_total");
        assert_eq!(found, losses, "zone {zone}: {}", zonal.log());
        let first = if losses == 0 { "HIT" } else { "REVALIDATED" };
        assert_eq!(read(&zonal, "kept"), ("old".into(), first.into()), "zone {zone}");
        assert_eq!(read(&zonal, "kept"), ("old".into(), "HIT".into()), "zone {zone}");
        assert_eq!(zonal.metric("zonal_cache_suspect_heads_confirmed_total"), losses);
        if losses == 1 {
            zonal.await_log(&format!("zone lost path=flash shard=0 zone={zone} "));
        }
        assert_eq!(read(&zonal, "removed").0, "404", "zone {zone}");
        assert_eq!(read(&zonal, "changed").0, "new", "zone {zone}");
        zonal.stop();
        // What was confirmed stays confirmed.
        let zonal = place.start(&OPTIONS);
        assert_eq!(zonal.metric("zonal_device_losses_total"), 0, "zone {zone}: {}", zonal.log());
        assert_eq!(read(&zonal, "kept"), ("old".into(), "HIT".into()), "zone {zone}");
        zonal.stop();
    }
}

#[test]
fn what_is_suspect_stays_suspect_over_restarts_and_is_not_served_without_the_origin() {
    let place = TestFolder::new();
    let device = place.path().join("flash");
    let [_, mut damaged] = devices(&place);
    let used = damaged.chunks(ZONE).rposition(|zone| zone[..4] == *b"ZSEG").unwrap();
    damaged[used * ZONE..][..ZONE].fill(0);
    fs::write(&device, damaged).unwrap();
    for losses in [1, 0] {
        let zonal = place.start(&OPTIONS);
        assert_eq!(zonal.metric("zonal_device_losses_total"), losses, "{}", zonal.log());
        // The bound goes with what is written next.
        place.object("other", &noise(100_000, losses));
        assert_eq!(zonal.s3().delete("/bucket/other").unwrap().status, 204);
        zonal.stop();
    }
    let zonal = place.start(&["--freshness", "ttl=1h", "--shards", "1"]);
    let only = zonal.s3().get_with("/bucket/kept", "cache-control: only-if-cached\r\n").unwrap();
    assert_eq!(only.status, 504, "{only:?}");
    let (text, found) = read(&zonal, "kept");
    assert!(text == "old" && found != "HIT", "{text} {found}");
    zonal.stop();
}

/// Regression: the position of a zone told the zone size, and the start was refused with advice to
/// erase the device.
#[test]
fn exchanged_zones_do_not_hide_the_zone_size() {
    let place = TestFolder::new();
    let device = place.path().join("flash");
    let contents: Vec<Vec<u8>> = (0..12).map(|seed| noise(3 << 20, seed)).collect();
    for (n, content) in contents.iter().enumerate() {
        place.object(&n.to_string(), content);
    }
    let zonal = place.start(&OPTIONS);
    (0..contents.len()).for_each(|n| zonal.store(&format!("/bucket/{n}")));
    zonal.stop();
    let mut damaged = fs::read(&device).unwrap();
    let (front, second) = damaged.split_at_mut(2 * ZONE);
    front[ZONE..].swap_with_slice(&mut second[..ZONE]);
    assert!(front[ZONE..].starts_with(b"ZSEG") && second.starts_with(b"ZSEG"));
    fs::write(&device, damaged).unwrap();
    let zonal = place.start(&OPTIONS);
    assert_eq!(zonal.metric("zonal_device_losses_total"), 1, "{}", zonal.log());
    for (n, content) in contents.iter().enumerate() {
        let answer = zonal.s3().get(&format!("/bucket/{n}")).unwrap();
        assert!(answer.status == 200 && answer.body == *content, "{n}: {}", zonal.log());
    }
    zonal.stop();
}
