//! Tests of the advice on made traces, whose curves are known.

use std::path::PathBuf;

use tempfile::TempDir;
use zonal_base::{Bytes, Nanos};

use super::choice::{Advice, Basis, SizeCost};
use super::{Egress, Prices, Question, Sample};
use crate::Distribution;
use crate::bench::Progress;
use crate::made::{Drifting, Made, Maker, Output};
use crate::trace::Trace;

fn question(trace: Trace) -> Question {
    Question {
        trace,
        requests: None,
        lookups: None,
        size: Bytes::kib(4),
        capacity: None,
        dram: Bytes::mib(64),
        tasks: 16,
        origin_latency: Nanos::millis(40),
        prices: Prices::read(None).expect("built in"),
        origin: "s3-standard".into(),
        egress: Egress::Internet,
        reads_per_s: None,
        seed: 1,
        at_once: 2,
        commit: "test".into(),
    }
}

/// A made access log: popularity, keys, requests.
fn log(folder: &TempDir, popularity: Distribution, (keys, requests): (u64, u64)) -> Trace {
    let path = folder.path().join("made.s3-log");
    let drawn = Drifting::new(popularity, (keys, 1), 0.0, Bytes::kib(256));
    let made = Made { maker: Maker::Drawn(drawn), requests, requests_per_s: 10, seed: 7 };
    let output: Output = path.to_str().expect("text").parse().expect("a name that says it");
    made.write(&output, &Progress::hidden()).expect("it is written");
    find(path)
}

fn find(path: PathBuf) -> Trace {
    Trace::find(&[path], None).expect("it is recognized")
}

fn text(folder: &TempDir, text: &str) -> Trace {
    let path = folder.path().join("made.text-size");
    std::fs::write(&path, text).expect("a temporary file");
    find(path)
}

fn sample(question: &Question) -> Sample {
    question.sample(&Progress::hidden()).expect("it is long enough")
}

fn advise(question: &Question) -> Advice {
    question.advise(&sample(question), &Progress::hidden()).expect("it runs")
}

/// Misses of each size with one question, and with another.
fn pairs<'a>(
    one: &'a Advice,
    other: &'a Advice,
) -> impl Iterator<Item = (&'a SizeCost, &'a SizeCost)> {
    one.sizes.iter().filter_map(|row| {
        let is_it = |other: &&SizeCost| other.estimate.size == row.estimate.size;
        other.sizes.iter().find(is_it).map(|other| (row, other))
    })
}

#[test]
fn of_uniform_reads_a_cache_hits_the_share_that_it_holds() {
    let folder = tempfile::tempdir().expect("a folder");
    // 16 GiB of objects.
    let advice = advise(&question(log(&folder, Distribution::Uniform, (65_536, 400_000))));
    let whole = advice.sizes.last().expect("there are sizes").estimate.size as f64;
    for row in advice.sizes.iter().filter(|row| row.estimate.is_filled) {
        let (share, hits) = (row.estimate.size as f64 / whole, 1.0 - row.estimate.misses);
        assert!((hits - share).abs() < 0.03, "{hits} of {share}");
    }
    let last = &advice.sizes.last().expect("there are sizes").estimate;
    assert!(last.misses < 0.06, "{last:?}");
}

#[test]
fn a_sampled_curve_is_within_a_point_of_the_exact_one() {
    let folder = tempfile::tempdir().expect("a folder");
    for theta in [0.7, 1.0] {
        let exact = question(log(&folder, Distribution::Zipf { theta }, (100_000, 500_000)));
        let sampled = Question { lookups: Some(300_000), ..exact.clone() };
        let (exact, sampled) = (advise(&exact), advise(&sampled));
        assert!(sampled.rate < 0.5 && exact.rate == 1.0, "{}", sampled.rate);
        let mut count = 0;
        for (one, other) in pairs(&exact, &sampled) {
            let (a, b) = (&one.estimate, &other.estimate);
            // An interval misses one value in twenty.
            let near = |a: f64, b: f64, error: f64| (a - b).abs() < (1.5 * error).max(0.01);
            assert!(near(a.misses, b.misses, b.misses_error), "{theta}: {a:?}, {b:?}");
            assert!(near(a.byte_misses, b.byte_misses, b.byte_misses_error), "{theta}");
            assert!(b.misses_error < 0.02, "{theta}: {b:?}");
            count += 1;
        }
        assert!(5 <= count, "{count} sizes in common");
        assert_eq!(exact.choice.estimate.policy, sampled.choice.estimate.policy);
    }
}

#[test]
fn what_a_trace_asks_for_is_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut lines = String::new();
    for number in 0..2000_u32 {
        lines.push_str(&format!("{} {} {}\n", number / 10, number % 100, 4097));
    }
    let trace = text(&folder, &lines);
    let survey = sample(&question(trace.clone())).survey;
    assert_eq!((survey.reads, survey.objects, survey.largest), (2000, 100, 4097));
    assert_eq!((survey.read_bytes, survey.seconds), (2000 * 4097, 199));
    let few = Question { requests: Some(1000), ..question(trace.clone()) };
    assert_eq!(sample(&few).survey.reads, 1000);
    let short = Question { requests: Some(999), ..question(trace) };
    let why = short.sample(&Progress::hidden()).expect_err("it is short");
    assert!(why.contains("not enough to advise on: 999 reads of 100 different chunks"), "{why}");
}

#[test]
fn a_trace_that_fills_nothing_is_said_to_be_short_and_not_extrapolated() {
    let folder = tempfile::tempdir().expect("a folder");
    let advice = advise(&question(log(&folder, Distribution::Uniform, (4000, 6000))));
    assert!(!advice.choice.estimate.is_filled);
    assert_eq!((advice.choice.years, advice.choice.written_a_day), (None, None));
    assert!(advice.basis.name.contains("the time of the trace"), "{}", advice.basis.name);
    let said = advice.sentences.join(" ");
    assert!(said.contains("too short to fill this cache"), "{said}");
    // Beside what is read, a cache needs the zones that it keeps empty, and no more.
    let most = advice.footprint + Bytes::mib(8 * 64).0;
    assert!(advice.choice.estimate.size < most, "{}", advice.choice.estimate.size);
}

#[test]
fn all_requests_to_the_origin_are_counted_at_each_freshness() {
    let folder = tempfile::tempdir().expect("a folder");
    let advice = advise(&question(log(&folder, Distribution::Zipf { theta: 0.9 }, (4000, 40_000))));
    let of = |rule: &str| {
        let cost = advice.freshness.iter().find(|cost| cost.rule == rule).expect("a rule");
        cost.confirmations
    };
    let hits = 1.0 - advice.sizes.last().expect("there are sizes").estimate.misses;
    assert!((of("revalidate") - hits).abs() < 1e-9);
    assert_eq!(of("immutable"), 0.0);
    let costs: Vec<f64> = advice.freshness.iter().map(|cost| cost.confirmations).collect();
    assert!(costs.is_sorted_by(|a, b| a >= b), "{costs:?}");
    // No writes in the log: nobody knows whether objects change.
    assert_ne!(advice.choice.freshness, "immutable");
}

#[test]
fn the_first_row_of_each_table_is_the_advice() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = log(&folder, Distribution::Zipf { theta: 0.8 }, (20_000, 200_000));
    for capacity in [None, Some(Bytes::mib(2048))] {
        let advice = advise(&Question { capacity, ..question(trace.clone()) });
        let chosen = &advice.choice;
        assert_eq!(advice.policies[0].estimate.policy, chosen.estimate.policy);
        assert_eq!(advice.chunks[0].estimate.chunk, chosen.estimate.chunk);
        assert_eq!(advice.drives[0].name, chosen.drive);
        let sum = |row: &SizeCost| row.origin_cost + row.drive_cost;
        let most = capacity.map_or(u64::MAX, |capacity| capacity.0);
        let allowed = || advice.sizes.iter().filter(|row| row.estimate.size <= most);
        let least = allowed().map(sum).fold(f64::MAX, f64::min);
        let best = allowed().find(|row| sum(row) == least).expect("there is one");
        assert_eq!(best.estimate.size, chosen.estimate.size);
        if capacity.is_some() {
            assert!(advice.basis.name == "a month" && chosen.years.is_some());
            assert!(most < advice.sizes.last().expect("there are sizes").estimate.size);
        }
    }
}

#[test]
fn an_interrupted_question_is_answered_by_what_is_known() {
    let folder = tempfile::tempdir().expect("a folder");
    let question = question(log(&folder, Distribution::Zipf { theta: 0.8 }, (20_000, 200_000)));
    let progress = Progress::hidden();
    let sample = question.sample(&progress).expect("it is long enough");
    progress.stop().store(true, std::sync::atomic::Ordering::Relaxed);
    let advice = question.advise(&sample, &progress).expect("something is known");
    assert!(advice.is_cut && advice.runs.is_empty());
    // Of a part of the sample, from an empty cache on: more misses, and never none.
    let misses = advice.choice.estimate.misses;
    assert!((0.01..0.99).contains(&misses), "{misses}");
    assert!(advice.sentences[0].starts_with("Interrupted: from what is known by now, Recommended"));
}

#[test]
fn a_large_object_is_sampled_by_parts() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut lines = String::new();
    // Two objects of 64 GiB are most of the bytes: by objects, half of the samples would miss them.
    for number in 0..3000_u64 {
        let (id, size) = match number % 300 {
            0 => (number / 300 % 2, 64_u64 << 30),
            _ => (2 + number % 100, 1 << 20),
        };
        lines.push_str(&format!("{} {id} {size}\n", number / 10));
    }
    let question = question(text(&folder, &lines));
    let exact = sample(&Question { lookups: Some(u64::MAX), ..question.clone() });
    let sampled = sample(&Question { lookups: Some(50_000), ..question });
    assert!(sampled.rate() < 0.1, "{}", sampled.rate());
    let bytes = |sample: &Sample| sample.footprint(Bytes::mib(1)).1.0 as f64;
    let ratio = bytes(&sampled) / bytes(&exact);
    assert!((0.8..1.2).contains(&ratio), "{ratio}");
}

#[test]
fn objects_whose_sizes_alternate_are_run_to_the_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut lines = String::new();
    for number in 0..20_000_u64 {
        let size = if number * 7919 % 13 < 6 { 50_000 } else { 90_000 };
        lines.push_str(&format!("{} {} {size}\n", number / 10, number * 31 % 200));
    }
    let advice = advise(&question(text(&folder, &lines)));
    assert_eq!(advice.runs.len(), 2);
}

#[test]
fn a_load_that_reads_nothing_twice_needs_no_cache() {
    let folder = tempfile::tempdir().expect("a folder");
    let lines: String =
        (0..20_000).map(|number| format!("{} {number} 100000\n", number / 10)).collect();
    let advice = advise(&question(text(&folder, &lines)));
    assert!(advice.sentences[0].starts_with("Recommended: no cache."), "{}", advice.sentences[0]);
    assert!(!advice.choice.pays);
}

#[test]
fn a_rate_that_is_given_is_the_time_of_a_trace_without_times() {
    let folder = tempfile::tempdir().expect("a folder");
    let lines: String = (0..7200).map(|number| format!("{} 300000\n", number % 5000)).collect();
    let question = Question { reads_per_s: Some(2.0), ..question(text(&folder, &lines)) };
    let sample = sample(&question);
    let basis = Basis::per_month(&question, &sample).of_trace(&sample);
    assert_eq!((basis.name.as_str(), basis.reads), ("1.0 h, the time of the trace", 7200.0));
}
