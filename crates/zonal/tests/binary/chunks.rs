//! Tests of chunk sizes by prefix: one node caches some objects in small chunks and others in large
//! ones.

use std::fs;
use std::ops::Range;
use std::time::Instant;

use rustix::process::Signal;

use crate::harness::{
    ACCESS_KEY, DEVICE, PATIENCE, SECRET_KEY, TestFolder, Zonal, check_failure, noise,
};

const TAKEN: &str = "reload applied: the new configuration is in use";
const REFUSED: &str = "zonal_config_reloads_refused_total";
const FETCHES: &str = "zonal_cache_fetches_total";
const FETCHED: &str = "zonal_cache_fetched_bytes_total";
const ADMITTED: &str = "zonal_cache_admitted_bytes_total";

const KIB: usize = 1 << 10;
const OBJECT: usize = 5 << 20;

/// A test folder with a configuration file and objects, and the content of the objects.
struct Cut {
    place: TestFolder,
    content: Vec<u8>,
}

impl Cut {
    fn new() -> Self {
        let (place, content) = (TestFolder::new(), noise(OBJECT, 1));
        for prefix in ["lake", "media", "rest"] {
            for name in ["a", "b"] {
                place.object(&format!("{prefix}-{name}"), &content);
            }
        }
        Self { place, content }
    }

    /// Writes a configuration that admits everything and never revalidates.
    fn write(&self, chunk: &str, rules: &str) {
        let config = format!(
            "[endpoint]\naccess-key = '{ACCESS_KEY}'\nsecret-key = '{SECRET_KEY}'\n\
             [[origin]]\nspec = 'file:origin'\n[freshness]\ndefault = 'immutable'\n\
             [[device]]\nspec = '{DEVICE}'\npolicy = 'zone-fifo'\nprefetch = '0B'\ndram = '0B'\n\
             chunk = '{chunk}'\n[chunk]\nrules = [{rules}]\n"
        );
        fs::write(self.place.path().join("zonal.toml"), config).unwrap();
    }

    fn start(&self) -> Zonal {
        Zonal::start(self.place.path(), &["--config", "zonal.toml"])
    }

    /// Reads a range of an object. Checks its bytes, the number of origin requests for it, and the
    /// bytes fetched.
    #[track_caller]
    fn check(&self, zonal: &Zonal, (key, range): (&str, Range<usize>), expected: (u64, usize)) {
        let (fetches, bytes) = (expected.0, expected.1 as u64);
        let before = (zonal.metric(FETCHES), zonal.metric(FETCHED), zonal.metric(ADMITTED));
        let header = format!("range: bytes={}-{}\r\n", range.start, range.end - 1);
        let answer = zonal.s3().get_with(&format!("/bucket/{key}"), &header).unwrap();
        assert_eq!(answer.status, 206, "{key}");
        assert!(answer.body == self.content[range], "other bytes of {key}");
        // The response may end before the rest of its chunk has arrived.
        zonal.await_metric(ADMITTED, before.2 + bytes);
        let asked = (zonal.metric(FETCHES) - before.0, zonal.metric(FETCHED) - before.1);
        assert_eq!(asked, (fetches, bytes), "requests and bytes for {key}");
    }
}

const RULES: &str = "{ prefix = 'bucket/lake', chunk = '64KiB' }, \
                     { prefix = 'bucket/media', chunk = '1MiB' }";

/// One byte in the second chunk of 256 KiB.
const BYTE: Range<usize> = 300 * KIB..300 * KIB + 1;

#[test]
fn a_small_read_fetches_the_chunk_of_its_prefix_and_a_whole_one_is_one_request() {
    let cut = Cut::new();
    cut.write("256KiB", RULES);
    let zonal = cut.start();
    for (prefix, chunk) in [("lake", 64 * KIB), ("rest", 256 * KIB), ("media", 1024 * KIB)] {
        let key = format!("{prefix}-a");
        cut.check(&zonal, (&key, BYTE), (1, chunk));
        cut.check(&zonal, (&key, BYTE), (0, 0));
        // Cached chunks are not fetched again: one request for the range before them, if any, and
        // one for the range behind.
        let requests = if chunk < BYTE.start { 2 } else { 1 };
        cut.check(&zonal, (&key, 0..OBJECT), (requests, OBJECT - chunk));
        cut.check(&zonal, (&key, 0..OBJECT), (0, 0));
        cut.check(&zonal, (&format!("{prefix}-b"), 0..OBJECT), (1, OBJECT));
    }
    zonal.stop();
}

/// Changed chunk rules do not invalidate cached objects: each keeps the chunk size with which it
/// was cached.
#[test]
fn what_is_cached_stays_cut_as_it_is_over_restarts_with_other_rules() {
    let cut = Cut::new();
    cut.write("256KiB", RULES);
    let zonal = cut.start();
    let short = OBJECT - 70 * KIB..OBJECT - 60 * KIB;
    cut.check(&zonal, ("lake-a", short.clone()), (1, 128 * KIB));
    cut.check(&zonal, ("media-a", short.clone()), (1, 1024 * KIB));
    zonal.stop();

    let other = "{ prefix = 'bucket/lake', chunk = '1MiB' }, \
                 { prefix = 'bucket/media', chunk = '16KiB' }";
    for (chunk, rules) in [("256KiB", other), ("1MiB", ""), ("64KiB", RULES)] {
        cut.write(chunk, rules);
        let zonal = cut.start();
        for key in ["lake-a", "media-a"] {
            cut.check(&zonal, (key, short.clone()), (0, 0));
        }
        zonal.stop();
    }

    // Without a rule for large chunks there are no buffers for them, so their data is fetched again
    // in smaller chunks.
    cut.write("256KiB", "");
    let zonal = cut.start();
    cut.check(&zonal, ("lake-a", short.clone()), (0, 0));
    cut.check(&zonal, ("media-a", short), (1, 1024 * KIB));
    cut.check(&zonal, ("media-a", 0..OBJECT), (1, OBJECT - 1024 * KIB));
    zonal.stop();
}

#[test]
fn rules_are_read_again_and_hold_for_what_comes_then() {
    let cut = Cut::new();
    cut.write("256KiB", RULES);
    let zonal = cut.start();
    cut.check(&zonal, ("lake-a", BYTE), (1, 64 * KIB));

    cut.write("256KiB", "{ prefix = 'bucket/lake', chunk = '1MiB' }");
    zonal.signal(Signal::HUP);
    let begin = Instant::now();
    while !zonal.log().contains(TAKEN) {
        assert!(begin.elapsed() < PATIENCE, "not taken: {}", zonal.log());
    }
    cut.check(&zonal, ("lake-a", BYTE), (0, 0));
    let next = BYTE.start + 64 * KIB..BYTE.end + 64 * KIB;
    cut.check(&zonal, ("lake-a", next), (1, 64 * KIB));
    cut.check(&zonal, ("lake-b", BYTE), (1, 1024 * KIB));
    cut.check(&zonal, ("media-a", BYTE), (1, 256 * KIB));

    let purge = cut.place.cache(&zonal, "purge", &["bucket/lake-a"]);
    assert!(purge.status.success(), "{purge:?}");
    cut.check(&zonal, ("lake-a", BYTE), (1, 1024 * KIB));
    zonal.stop();
}

#[test]
fn a_rule_that_the_node_cannot_follow_is_refused_at_the_start_and_later() {
    let cut = Cut::new();
    let zone = "{ prefix = 'bucket/', chunk = '16MiB' }";
    let said = "chunk.rules: bucket/: 16MiB: a chunk must fit into a zone, and the smallest zones \
                hold 8MiB: write a smaller power of two";
    cut.write("256KiB", zone);
    let words = ["--config", "zonal.toml", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
    check_failure(cut.place.path(), &[&["serve"], &words[..]].concat(), (2, said));
    assert!(!cut.place.path().join("flash").exists(), "the device that it made is gone again");

    cut.write("256KiB", "{ prefix = 'bucket/lake', chunk = '512KiB' }");
    let zonal = cut.start();
    let large =
        "{ prefix = 'bucket/lake', chunk = '64KiB' }, { prefix = 'bucket/', chunk = '1MiB' }";
    let mistakes = [
        (zone, said),
        (
            large,
            "chunk.rules: bucket/: 1MiB: the buffers of this process hold chunks of at most \
             512KiB: restart to use larger chunks",
        ),
    ];
    for (n, (rules, said)) in mistakes.into_iter().enumerate() {
        cut.write("256KiB", rules);
        zonal.signal(Signal::HUP);
        zonal.await_metric(REFUSED, n as u64 + 1);
        zonal.await_log(said);
    }
    // The previous rules stay in force.
    cut.check(&zonal, ("lake-a", BYTE), (1, 512 * KIB));
    zonal.stop();
}
