//! Tests of readahead: which ranges are detected as a scan, which are not, and how much is prefetched.

use super::*;
use zonal_base::Rng;

const MIB: u64 = 1 << 20;
const SIZE: u64 = 1024 * MIB;
const LEAST: Bytes = Bytes::kib(256);

fn scans() -> SequentialDetector {
    SequentialDetector::new(Bytes::mib(16))
}

/// Reads ranges of 1 MiB, by number, and returns the ranges to prefetch.
fn asked(
    scans: &mut SequentialDetector,
    numbers: impl IntoIterator<Item = u64>,
) -> Vec<Range<u64>> {
    let range = |number: u64| number * MIB..(number + 1) * MIB;
    let note = |number| scans.note(1, &range(number), (SIZE, LEAST), Nanos(number));
    numbers.into_iter().filter_map(note).map(|prefetch| prefetch.bytes).collect()
}

fn mib(ranges: &[Range<u64>]) -> Vec<Range<u64>> {
    ranges.iter().map(|range| range.start / MIB..range.end / MIB).collect()
}

#[test]
fn the_third_range_opens_a_scan_and_the_window_doubles_to_its_bound() {
    let ahead = asked(&mut scans(), 10..50);
    assert_eq!(mib(&ahead[..5]), [13..14, 14..16, 16..19, 19..25, 25..37]);
    let after: Vec<_> = ahead[5..].iter().map(|range| (range.end - range.start) / MIB).collect();
    assert!(after.iter().all(|len| *len == 8), "half a window at a time: {after:?}");
    let joined: Vec<_> = ahead.windows(2).map(|two| two[1].start - two[0].end).collect();
    assert!(joined.iter().all(|gap| *gap == 0), "nothing twice, nothing left out");
}

#[test]
fn one_range_alone_or_two_are_no_scan() {
    for ranges in [vec![0], vec![7], vec![7, 8], vec![7, 7, 7], vec![9, 8, 7, 6], vec![0, 2, 4, 6]]
    {
        assert_eq!(asked(&mut scans(), ranges.clone()), [], "{ranges:?}");
    }
}

#[test]
fn ranges_that_overtake_each_other_are_one_scan() {
    for ranges in [
        vec![1, 0, 2, 3, 5, 4, 6],
        vec![0, 2, 1, 3, 4, 5, 6],
        vec![0, 1, 3, 2, 5, 4, 6],
        vec![0, 1, 2, 4, 5, 3, 6],
        vec![0, 3, 1, 2, 4, 5, 6],
    ] {
        let ahead = asked(&mut scans(), ranges.clone());
        assert!(ahead.last().is_some_and(|range| 7 * MIB < range.end), "{ranges:?}: {ahead:?}");
    }
}

#[test]
fn parallel_ranges_of_any_slight_disorder_are_followed_to_the_end() {
    for seed in 0..500 {
        let mut rng = Rng::new(seed);
        let mut numbers: Vec<u64> = (0..256).collect();
        // Each range is overtaken by up to three others.
        numbers.sort_by_cached_key(|number| number * 4 + rng.below(12));
        let mut scans = scans();
        let ahead = asked(&mut scans, numbers.iter().copied());
        let sum: u64 = ahead.iter().map(|range| range.end - range.start).sum();
        assert!(200 * MIB < sum && sum <= 300 * MIB, "seed {seed}: {} MiB", sum / MIB);
        assert!(scans.open_count(Nanos(300)) <= 2, "seed {seed}");
    }
}

#[test]
fn random_ranges_are_not_fetched_ahead_of() {
    let mut accidents = 0;
    for seed in 0..200 {
        let (mut scans, mut rng) = (scans(), Rng::new(seed));
        // Of a thousand ranges three may come in order by accident; the detector then prefetches one.
        let aligned: Vec<u64> = (0..2000).map(|_| rng.below(1000)).collect();
        accidents +=
            asked(&mut scans, aligned).iter().map(|range| range.end - range.start).sum::<u64>()
                / MIB;
        for at in 0..2000 {
            let start = rng.below(SIZE - MIB);
            let range = start..start + 1 + rng.below(MIB);
            let prefetch = scans.note(rng.below(50), &range, (SIZE, LEAST), Nanos(at));
            assert!(prefetch.is_none(), "seed {seed}: {prefetch:?}");
        }
    }
    assert!(accidents <= 40, "{accidents} of 400,000");
}

#[test]
fn memory_is_bounded_and_a_scan_is_found_among_many_objects() {
    let (mut scans, mut rng) = (scans(), Rng::new(7));
    let mut ahead = 0;
    for number in 0..500 {
        // 20 objects read two ranges in order for each of ours, 20 more at random.
        for other in 0..20 {
            let version = 1000 + rng.below(100_000);
            let first = rng.below(100) * MIB;
            for range in [first..first + MIB, first + MIB..first + 2 * MIB] {
                scans.note(version, &range, (SIZE, LEAST), Nanos(number));
            }
            scans.note(other << 32, &(first..first + 1), (SIZE, LEAST), Nanos(number));
        }
        ahead += asked(&mut scans, [number]).len();
        let known: usize = scans.known.iter().map(|known| known.scans.len()).sum();
        let room: usize = scans.known.iter().map(|known| known.scans.capacity()).sum();
        assert!(known <= room && room <= GROUPS * GROUP * SCANS_MAX);
        assert_eq!((scans.ends.len(), scans.known.len()), (ENDS, GROUPS * GROUP));
    }
    assert!(60 <= ahead, "half a window at a time: {ahead}");
}

#[test]
fn readers_of_one_object_have_a_scan_each() {
    let mut scans = scans();
    let ahead = asked(&mut scans, (0..20).flat_map(|number| [number, number + 500]));
    assert_eq!(scans.open_count(Nanos(520)), 2);
    let far = ahead.iter().filter(|range| 500 * MIB < range.start).count();
    assert!(5 <= far && 5 <= ahead.len() - far, "{ahead:?}");
}

#[test]
fn what_was_wasted_closes_a_scan_until_it_begins_anew() {
    let mut scans = scans();
    let note = |scans: &mut SequentialDetector, number: u64| {
        scans.note(1, &(number * MIB..(number + 1) * MIB), (SIZE, LEAST), Nanos(number))
    };
    let opened = (0..20).filter_map(|number| note(&mut scans, number)).last().unwrap();
    opened.wasted.add(Bytes(1));
    assert!(note(&mut scans, 20).is_none() && note(&mut scans, 21).is_none());
    assert_eq!(scans.open_count(Nanos(21)), 0);
    assert_eq!(note(&mut scans, 22).unwrap().bytes, 23 * MIB..24 * MIB, "the window collapsed");
}

#[test]
fn a_scan_ends_with_its_object_and_after_a_long_silence() {
    let mut scans = scans();
    let size = 10 * MIB + 5;
    let mut ahead = Vec::new();
    for number in 0..=10 {
        let range = number * MIB..size.min((number + 1) * MIB);
        ahead.extend(
            scans.note(1, &range, (size, LEAST), Nanos(number)).map(|prefetch| prefetch.bytes),
        );
    }
    assert_eq!(ahead.last().map(|range| range.end), Some(size));
    assert_eq!(scans.open_count(Nanos(10)), 0);
    assert_eq!(
        scans.note(1, &(0..size), (size, LEAST), Nanos(11)).map(|prefetch| prefetch.bytes),
        None
    );

    asked(&mut scans, 0..5);
    assert_eq!(scans.open_count(Nanos(5)), 1);
    assert_eq!(scans.open_count(Nanos(5) + SILENCE_MAX), 0);
}

#[test]
fn without_a_window_nothing_is_looked_at() {
    let mut scans = SequentialDetector::new(Bytes(0));
    assert_eq!(asked(&mut scans, 0..100), []);
    assert_eq!(scans.open_count(Nanos(0)), 0);
}
