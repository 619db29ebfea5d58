//! Objects are drawn as in CacheBench, and invalid files are refused with a position.

use std::path::PathBuf;

use super::*;

fn popularity(text: &str) -> Result<Popularity, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

fn sizes(text: &str) -> Sizes {
    serde_json::from_str(text).expect("sizes")
}

const fn keys(count: u64) -> (Option<u64>, KeyGen) {
    (Some(count), KeyGen::Current)
}

/// One key for each object.
const ALL: (Option<u64>, KeyGen) = (None, KeyGen::Current);

const TWO_SIZES: &str = r#"{"valSizeRange": [100, 1000], "valSizeRangeProbability": [3, 1]}"#;

#[test]
fn buckets_and_sizes_are_drawn_by_their_weights() {
    let text =
        r#"{"popularityBuckets": [100000, 900000, 9000000], "popularityWeights": [5, 3, 2]}"#;
    let popularity = popularity(text).expect("it is right");
    // Ten times as many keys as objects.
    let drawn = CacheBench::new(&popularity, sizes(TWO_SIZES), keys(100_000_000));
    let (mut rng, mut seen, mut large) = (Rng::new(1), [0_u32; 3], 0_u32);
    const DRAWS: u32 = 200_000;
    for _ in 0..DRAWS {
        let (key, size) = drawn.draw(&mut rng);
        seen[usize::from(1_000_000 <= key) + usize::from(10_000_000 <= key)] += 1;
        large += u32::from(10_000_000 <= key && size == 1000);
        assert_eq!(size, drawn.size(key));
        assert!(key < drawn.keys());
    }
    for (seen, share) in seen.iter().zip([0.5, 0.3, 0.2]) {
        let share_seen = f64::from(*seen) / f64::from(DRAWS);
        // Five standard deviations, and 1/2048 for a range that two buckets share.
        assert!((share_seen - share).abs() < 0.0056 + 1.0 / 2048.0, "{share_seen} of {share}");
    }
    let large = f64::from(large) / f64::from(seen[2]);
    // A quarter of 40,000 draws, within five standard deviations.
    assert!((large - 0.25).abs() < 0.011, "{large}");
}

#[test]
fn ranges_are_those_that_cachebench_makes() {
    let two = [(1, 1024.0), (2048, 1024.0)];
    let of = |keys, keygen| {
        let ranges = ranges(&two, (keys, keygen));
        ranges.iter().map(|Range { first, count }| (*first, *count)).collect::<Vec<_>>()
    };
    // One object gets half of all draws: it has 1024 ranges, each with a separate key. 2048 objects
    // share the other half in pairs, except what each range cuts off.
    let one_each = of(2050, KeyGen::Current);
    assert_eq!(one_each.len(), 2048);
    assert_eq!((one_each[0], one_each[1], one_each[1023]), ((0, 1), (1, 1), (1023, 1)));
    assert_eq!(one_each[1024], (1024, 2));
    let keys: u64 = one_each[1024..].iter().map(|(_, count)| count).sum();
    assert!((1900..=2048).contains(&keys), "{keys}");
    // Ten keys for each object. In CacheBench's first version ranges begin as if there were one.
    assert_eq!(of(20_491, KeyGen::Current)[1023..1025], [(10_230, 10), (10_240, 20)]);
    assert_eq!(of(20_491, KeyGen::Legacy)[1023..1025], [(1023, 10), (1024, 20)]);
}

#[test]
fn sizes_are_points_or_ranges() {
    let popularity = popularity(r#"{"popularityBuckets": [1000], "popularityWeights": [1.0]}"#)
        .expect("it is right");
    let points = CacheBench::new(&popularity, sizes(TWO_SIZES), ALL);
    assert!((1000..=1000 + 2048).contains(&points.keys()), "{}", points.keys());
    assert!((0..1000).all(|key| [100, 1000].contains(&points.size(key))));
    let ranges = sizes(r#"{"valSizeRange": [100, 200, 300], "valSizeRangeProbability": [1, 1]}"#);
    let ranges = CacheBench::new(&popularity, ranges, ALL);
    let mean: u32 = (0..1000).map(|key| ranges.size(key)).sum::<u32>() / 1000;
    assert!((0..1000).all(|key| (100..300).contains(&ranges.size(key))));
    assert!((190..210).contains(&mean), "{mean}");
    let nothing = sizes(r#"{"valSizeRange": [0], "valSizeRangeProbability": [1]}"#);
    assert_eq!(CacheBench::new(&popularity, nothing, ALL).size(7), 1);
}

#[test]
fn what_is_no_distribution_is_refused_with_line_and_column() {
    #[track_caller]
    fn check(text: &str, expected: &str) {
        let folder = tempfile::tempdir().expect("a folder");
        let [path, sizes] = ["pop.json", "sizes.json"].map(|name| folder.path().join(name));
        fs::write(&path, text).expect("a file");
        fs::write(&sizes, TWO_SIZES).expect("a file");
        let refused = CacheBench::read(&path, &sizes, ALL);
        let why = refused.map(drop).expect_err("it is none");
        let name = path.display().to_string();
        assert_eq!(why.strip_prefix(&name), Some(expected), "{why}");
    }
    check(
        "{\"popularityBuckets\": [1],\n \"popularityWeights\": [1, -2]}",
        ", line 2, column 29: -2 is negative: write 0 or more",
    );
    check(
        "{\"popularityBuckets\": [1, -1]}",
        ", line 1, column 28: invalid value: integer `-1`, expected u64",
    );
    check("{\"popularityBuckets\": [1]}", ", line 1, column 26: missing field `popularityWeights`");
    check("{\n\"popularityBuckets\": [1", ", line 2, column 23: EOF while parsing a list");
    check(
        "{\"popularityBuckets\": [1], \"popularityWeights\": [1, 2]}",
        ", line 1, column 2: popularityBuckets has 1 values and popularityWeights 2: write equally \
         many",
    );
    check(
        "{\"popularityBuckets\": [1],\n  \"popularityWeights\": [0]}",
        ", line 2, column 3: popularityWeights add up to 0",
    );
    let absent = CacheBench::read(&PathBuf::from("absent.json"), &PathBuf::from("s.json"), ALL);
    assert!(absent.map(drop).expect_err("there is none").starts_with("absent.json: "));
    let too_many = r#"{"valSizeRange": [1, 2], "valSizeRangeProbability": [1, 1, 1]}"#;
    let why = serde_json::from_str::<Sizes>(too_many).map(drop).expect_err("too many").to_string();
    assert!(why.contains("write equally many, or one more size"), "{why}");
}
