//! Trace replay: which requests the feed makes, and when they are due.

use std::path::PathBuf;

use tempfile::TempDir;
use zonal_base::{Bytes, Nanos, Rng};

use super::{Ask, Feed, Load, Recording, SECOND_MAX, What};
use crate::{Pace, Recorded};

fn file(folder: &TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).expect("a temporary file");
    path
}

/// All requests of a trace, and the error that ended it.
fn asked(recorded: &Recorded) -> (Vec<Ask>, Option<String>) {
    let recording = Recording::open(recorded, Bytes::kib(64)).expect("it is there");
    let (feed, mut chance) = (Feed::new(Load::Recorded(Box::new(recording))), Rng::new(1));
    let asks = std::iter::from_fn(|| feed.next(&mut chance)).collect();
    assert!(feed.failure().is_some() || 0.999 < feed.done());
    (asks, feed.failure())
}

fn dues(recorded: &Recorded) -> Vec<u64> {
    let (asks, failure) = asked(recorded);
    assert_eq!(failure, None);
    asks.iter().map(|ask| ask.due.expect("it is paced").0).collect()
}

#[test]
fn objects_have_their_sizes_in_whole_blocks_and_copies_have_objects_of_their_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = file(&folder, "sizes.text-size", b"1 0\n2 4096\n1 4097\n");
    let one = Recorded::new(path, None);
    let (asks, failure) = asked(&one);
    let object =
        |id, kib| Ask { what: What::Object(id, Bytes::kib(kib), (0, kib << 10)), due: None };
    assert_eq!((asks, failure), (vec![object(1, 4), object(2, 4), object(1, 8)], None));
    let path = file(&folder, "copies.text-size", b"1 0\n2 4096\n1 4097\n");
    let (asks, _) = asked(&Recorded { copies: 3, ..Recorded::new(path, None) });
    let ids: Vec<u64> = asks
        .iter()
        .map(|ask| match ask.what {
            What::Object(id, ..) => id,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(ids.len(), 9);
    assert_eq!(ids[..3], ids[6..], "the same object in each copy");
    let mut distinct = ids;
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), 6);
}

#[test]
fn a_sample_is_of_objects_and_all_requests_for_each() {
    let folder = tempfile::tempdir().expect("a folder");
    let lines: String = (0..9000).map(|n| format!("{} 1\n", n % 3000)).collect();
    let path = file(&folder, "sampled.text-size", lines.as_bytes());
    let (asks, _) = asked(&Recorded { sample: 10, ..Recorded::new(path, None) });
    let mut ids: Vec<String> = asks.iter().map(|ask| format!("{:?}", ask.what)).collect();
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(count, 3 * ids.len());
    // 300 of 3,000 are expected; the bound is four standard deviations.
    assert!(ids.len().abs_diff(300) < 66, "{}", ids.len());
}

#[test]
fn numbers_are_keys_and_writes_are_removals() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = file(&folder, "keys.u32le", &[7, 0, 0, 0, 9, 0, 0, 0]);
    let (asks, _) = asked(&Recorded::new(path, None));
    assert_eq!(asks.iter().map(|ask| ask.what).collect::<Vec<_>>(), [What::Key(7), What::Key(9)]);
    let path = file(&folder, "some.u32le", &[7, 0, 0, 0, 9, 0, 0, 0]);
    let (asks, _) = asked(&Recorded { requests: Some(1), ..Recorded::new(path, None) });
    assert_eq!(asks.len(), 1);
    let path = file(&folder, "written.twitter", b"0,7,1,1,1,get,0\n0,7,1,0,1,delete,0\n");
    let (asks, _) = asked(&Recorded::new(path, None));
    assert_eq!(asks[1].what, What::Removal(7));
}

#[test]
fn requests_of_a_second_are_spread_over_it_and_times_count_from_the_first() {
    let folder = tempfile::tempdir().expect("a folder");
    let recorded = |name, lines: &str, times| {
        let path = file(&folder, name, lines.as_bytes());
        Recorded { pace: Pace::Times(times), ..Recorded::new(path, None) }
    };
    let lines = "100 a 1\n100 b 1\n101 c 1\n103 d 1\n102 e 1\n";
    const MS: u64 = 1_000_000;
    // A request recorded out of order is not due before the previous one.
    let expected = [0, 500, 1000, 3000, 3000];
    assert_eq!(dues(&recorded("real.text-size", lines, 1.0)), expected.map(|ms| ms * MS));
    let tenth = expected.map(|ms| ms * MS / 10);
    assert_eq!(dues(&recorded("fast.text-size", lines, 10.0)), tenth);
}

#[test]
fn a_long_second_is_spread_evenly_however_it_is_read() {
    let folder = tempfile::tempdir().expect("a folder");
    // More than one batch, less than the held maximum.
    const COUNT: usize = 100_000;
    const { assert!(COUNT < SECOND_MAX && super::BATCH < COUNT) };
    let lines = "5 a 1\n".repeat(COUNT) + "6 b 1\n";
    let path = file(&folder, "long.text-size", lines.as_bytes());
    let dues = dues(&Recorded { pace: Pace::Times(1.0), ..Recorded::new(path, None) });
    assert_eq!(dues.len(), COUNT + 1);
    let step = Nanos::secs(1).0 / COUNT as u64;
    assert!(dues.windows(2).all(|pair| (pair[1] - pair[0]).abs_diff(step) <= 1));
}

#[test]
fn a_trace_that_breaks_off_or_has_no_times_is_a_failure() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = file(&folder, "cut.u32le", &[7, 0, 0, 0, 9, 0]);
    let (_, failure) = asked(&Recorded::new(path, None));
    let why = failure.expect("half a record");
    assert!(why.ends_with("byte 6: the file ends after 2 bytes of a record of 4"), "{why}");
    let path = file(&folder, "timeless.text-size", b"a 1\nb 1\n");
    let (_, failure) = asked(&Recorded { pace: Pace::Times(1.0), ..Recorded::new(path, None) });
    let why = failure.expect("no times");
    assert!(why.ends_with("all requests have the same time: omit pace"), "{why}");
}
