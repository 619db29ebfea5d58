//! Tests of `zonal cache purge` with a running server.

use std::fs;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::process::Output;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use zonal_base::Rng;

use crate::harness::{ACCESS_KEY, SECRET_KEY, TestFolder, Zonal, check_failure, folder, noise};
use crate::http::{self, S3};

fn purge(place: &TestFolder, zonal: &Zonal, words: &[&str]) -> Output {
    place.cache(zonal, "purge", words)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Checks exit code and output of a purge.
#[track_caller]
fn check(output: &Output, code: i32, (stdout, stderr): (&str, &str)) {
    assert_eq!(text(&output.stderr), stderr);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(code), stdout));
}

/// Reads an object; returns its `X-Cache` and its content.
#[track_caller]
fn read(zonal: &Zonal, key: &str) -> (String, Vec<u8>) {
    let answer = zonal.s3().get(&format!("/bucket/{key}")).unwrap();
    assert_eq!(answer.status, 200, "{answer:?}");
    (answer.header("x-cache").to_owned(), answer.body)
}

fn found(how: &str, content: &[u8]) -> (String, Vec<u8>) {
    (how.to_owned(), content.to_vec())
}

#[test]
fn what_was_purged_is_fetched_again_also_after_a_crash_and_the_rest_stays() {
    let place = TestFolder::new();
    let keys = ["a", "b c", "kept"];
    let [old, new] = [1, 2].map(|seed| noise(100_000, seed));
    keys.iter().for_each(|key| place.object(key, &old));
    let words = ["--freshness", "immutable"];
    let first = place.start(&words);
    for key in ["a", "b%20c", "kept"] {
        assert_eq!(read(&first, key), found("MISS", &old));
        assert_eq!(read(&first, key), found("HIT", &old));
    }
    first.await_metric("zonal_cache_admitted_bytes_total", 300_000);
    keys.iter().for_each(|key| place.object(key, &new));
    fs::write(place.path().join("list"), "bucket/b c\n\nbucket/never seen\n").unwrap();
    let output = purge(&place, &first, &["bucket/a", "--list", "list"]);
    let told = "bucket/a: removed\n\
                bucket/b c: removed\n\
                bucket/never seen: removed\n\
                removed 3 of 3 objects from the cache\n";
    check(&output, 0, (told, ""));
    first.kill();

    let second = place.start(&words);
    assert_eq!(read(&second, "kept"), found("HIT", &old));
    assert_eq!(read(&second, "a"), found("MISS", &new));
    assert_eq!(read(&second, "b%20c"), found("MISS", &new));
    let output = purge(&place, &second, &["bucket/kept", "--json"]);
    let report = "{\"object\":{\"name\":\"bucket/kept\",\"removed\":true,\"why\":null}}\n\
                  {\"sum\":{\"objects\":1,\"objects_removed\":1,\"prefixes\":0,\"prefixes_removed\":0}}\n";
    check(&output, 0, (report, ""));
    assert_eq!(read(&second, "kept"), found("MISS", &new));
    second.stop();
}

#[test]
fn a_prefix_is_all_that_is_cached_below_it_whatever_the_origin_has() {
    let place = TestFolder::new();
    fs::create_dir(place.path().join("origin/bucket/p")).unwrap();
    let keys = ["p/1 +é", "p/gone", "p2", "q"];
    keys.iter().for_each(|key| place.object(key, b"old"));
    let uris = ["p/1%20%2B%C3%A9", "p/gone", "p2", "q"];
    let words = ["--freshness", "immutable"];
    let zonal = place.start(&words);
    for uri in uris {
        assert_eq!(read(&zonal, uri), found("MISS", b"old"));
    }
    zonal.await_metric("zonal_cache_admitted_bytes_total", 12);
    keys.iter().for_each(|key| place.object(key, b"new"));
    fs::remove_file(place.path().join("origin/bucket/p/gone")).unwrap();
    let output = purge(&place, &zonal, &["--prefix", "bucket/p/", "bucket/never seen"]);
    let told = "bucket/never seen: removed\n\
                bucket/p/*: removed\n\
                removed 1 of 1 objects and 1 of 1 prefixes from the cache\n";
    check(&output, 0, (told, ""));
    zonal.kill();

    let zonal = place.start(&words);
    assert_eq!(zonal.s3().get("/bucket/p/gone").unwrap().status, 404);
    assert_eq!(read(&zonal, uris[0]), found("MISS", b"new"));
    for uri in &uris[2..] {
        assert_eq!(read(&zonal, uri), found("HIT", b"old"), "{uri}");
    }
    let output = purge(&place, &zonal, &["--prefix", "bucket/", "--json"]);
    let report = "{\"prefix\":{\"name\":\"bucket/\",\"removed\":true,\"why\":null}}\n\
                  {\"sum\":{\"objects\":0,\"objects_removed\":0,\"prefixes\":1,\"prefixes_removed\":1}}\n";
    check(&output, 0, (report, ""));
    for uri in &uris[2..] {
        assert_eq!(read(&zonal, uri), found("MISS", b"new"), "{uri}");
    }
    zonal.stop();
}

#[test]
fn what_is_purged_needs_no_origin() {
    let place = TestFolder::new();
    let dead = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let origin = format!("s3:http://{dead}?region=us-east-1");
    let words = ["--device", "file:flash?size=256MiB&zone=8MiB", "--origin", &origin];
    let keys = ["--access-key", ACCESS_KEY, "--secret-key", SECRET_KEY];
    let unsigned = ["--origin-credentials", "anonymous"];
    let zonal = Zonal::start(place.path(), &[&words[..], &keys, &unsigned].concat());
    let output = purge(&place, &zonal, &["bucket/a", "--prefix", "bucket/p/"]);
    let told = "bucket/a: removed\n\
                bucket/p/*: removed\n\
                removed 1 of 1 objects and 1 of 1 prefixes from the cache\n";
    check(&output, 0, (told, ""));
    zonal.stop();
}

#[test]
fn what_cannot_be_meant_or_reached_is_said() {
    let folder = folder();
    let here = folder.path();
    fs::write(here.join("list"), "bucket/a\nbucket\n").unwrap();
    fs::write(here.join("part"), "bucket/a\t0-9\n").unwrap();
    let fails = |words: &[&str], code, said: &str| {
        check_failure(here, &[&["cache", "purge"], words].concat(), (code, said));
    };
    fails(&["--list", "list"], 2, "list: line 2: \"bucket\": write BUCKET/KEY");
    fails(&["--list", "part"], 2, "a byte range cannot be purged");
    fails(&[], 2, "the list is empty: name objects");
    fails(&["a"], 2, "\"a\": write BUCKET/KEY");
    let write = "write BUCKET/PREFIX, or BUCKET/ for the whole bucket";
    fails(&["--prefix", "bucket"], 2, &format!("--prefix \"bucket\": {write}"));
    fails(&["--prefix", "/p"], 2, &format!("--prefix \"/p\": {write}"));
    let long = format!("b/{}", "p".repeat(4095));
    fails(&["--prefix", &long], 2, "--prefix a prefix is limited to 4096 bytes, this one has 4097");
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let said = format!("cannot reach the admin endpoint at {free}: ");
    fails(&["b/a", "--admin", &free], 1, &said);
}

#[test]
fn the_admin_endpoint_bounds_lists_and_purges_one_at_once() {
    let place = TestFolder::new();
    let zonal = place.start(&[]);
    let post = |headers: &str, body: &[u8]| {
        let answer = http::post(zonal.admin, "/cache/purge", headers, body).unwrap();
        (answer.status, answer.text())
    };
    assert_eq!(zonal.admin("/cache/purge").status, 405);
    assert_eq!(post("", b"").0, 400);
    let said = "a byte range cannot be purged: name the whole object\n";
    assert_eq!(post("", b"bucket/a\t0-9\n"), (400, said.to_owned()));
    assert_eq!(post("origin: http://page\r\n", b"bucket/a\n").0, 403);
    assert_eq!(post("", "b/a\n".repeat(100_001).as_bytes()).0, 413);

    let mut large = TcpStream::connect(zonal.admin).unwrap();
    let head = "POST /cache/purge HTTP/1.1\r\nhost: localhost\r\ncontent-length: 20000000\r\n\r\n";
    large.write_all(head.as_bytes()).unwrap();
    // Wait until the first command runs: its list is incomplete, and it holds the only permit.
    while post("", b"bucket/a\n").0 != 409 {}
    drop(large);
    while post("", b"bucket/a\n").0 == 409 {}
    let (status, report) = post("", b"bucket/a\n");
    assert_eq!((status, report.lines().count()), (200, 2), "{report}");
    zonal.stop();
}

/// Objects in the test under load.
const OBJECTS: u64 = 120;

/// Rounds of the test under load: new versions at the origin, a purge, a kill.
const ROUNDS: u64 = 4;

/// Content of a version: its number, then noise specific to it.
fn content(object: u64, version: u64) -> Vec<u8> {
    let mut content = noise(30_000, object << 32 | version);
    content[..8].copy_from_slice(&version.to_le_bytes());
    content
}

/// The version in a response; `None` if the response broke off or there was none. Checks that it is
/// whole and not older than `oldest`.
#[track_caller]
fn seen(s3: &S3, object: u64, oldest: u64) -> Option<u64> {
    let answer = s3.get(&format!("/bucket/{object}")).ok()?;
    if answer.status != 200 {
        return None;
    }
    let version = u64::from_le_bytes(answer.body[..8].try_into().unwrap());
    assert!(oldest <= version, "object {object}: version {version} came back after {oldest}");
    assert!(answer.body == content(object, version), "object {object}: torn");
    Some(version)
}

/// Under `immutable` the cache never revalidates, so an old version read after a purge came from
/// the cache.
#[test]
fn what_was_purged_under_load_does_not_come_back_after_a_kill() {
    let place = TestFolder::new();
    let bucket = place.path().join("origin/bucket");
    let publish = |version| {
        for object in 0..OBJECTS {
            let new = place.path().join("new");
            fs::write(&new, content(object, version)).unwrap();
            fs::rename(&new, bucket.join(object.to_string())).unwrap();
        }
    };
    let mut old_hits = 0;
    for version in 1..=ROUNDS {
        if version == 1 {
            publish(version);
        }
        let zonal = place.start(&["--freshness", "immutable"]);
        let (s3, oldest, killed) = (zonal.s3(), AtomicU64::new(version), AtomicBool::new(false));
        for object in 0..OBJECTS {
            assert_eq!(seen(&s3, object, version), Some(version), "nothing newer is there");
        }
        publish(version + 1);
        thread::scope(|scope| {
            for thread in 0..3 {
                let (s3, oldest, killed) = (&s3, &oldest, &killed);
                scope.spawn(move || {
                    let mut rng = Rng::new(version << 8 | thread);
                    while !killed.load(Ordering::SeqCst) {
                        // Load before the request: a purge that ends meanwhile applies only to the
                        // next read.
                        let oldest = oldest.load(Ordering::SeqCst);
                        seen(s3, rng.below(OBJECTS), oldest);
                    }
                });
            }
            old_hits += (0..OBJECTS).filter(|of| seen(&s3, *of, version) == Some(version)).count();
            let output = purge(&place, &zonal, &["--prefix", "bucket/"]);
            assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
            oldest.store(version + 1, Ordering::SeqCst);
            // New data is partly on flash and partly still in memory at the kill.
            thread::sleep(Duration::from_millis(100 * version));
            killed.store(true, Ordering::SeqCst);
            zonal.kill();
        });
    }
    // Otherwise the purges had nothing to remove.
    assert!(ROUNDS * OBJECTS < 2 * old_hits as u64, "{old_hits} old versions were seen");
}
