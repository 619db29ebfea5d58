//! Tests of the advice on synthetic traces: replays agree with counts by hand, and with runs.

use std::fmt::Write as _;
use std::path::PathBuf;

use tempfile::TempDir;
use zonal_base::{Bytes, Nanos, Rng};

use super::cut::Cut;
use super::{Advice, Final, Question, Replayed, Survey, advice, finals, sweep};
use crate::bench::Progress;
use crate::experiment::Campaign;
use crate::trace::{Capacity, Room, Skipped, TimeUnit, make, replay};
use crate::{Distribution, Draw, Recorded};

fn file(folder: &TempDir, name: &str, text: &str) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, text).expect("a temporary file");
    path
}

fn question(trace: PathBuf) -> Question {
    Question {
        recorded: Recorded::new(trace, None),
        size: Bytes::kib(4),
        drive: "zn540".parse().expect("ours"),
        capacity: Some(Bytes::mib(17 << 10)),
        dram: Bytes::mib(64),
        // Few tasks: replays have no time, so they miss the limits of a drive under load.
        tasks: 4,
        origin_latency: Nanos::millis(40),
        price: 0.4,
        reads_per_s: None,
        dwpd: 1.0,
        seed: 1,
        at_once: 2,
        commit: "test".into(),
    }
}

const READS: u64 = 9_000;

/// Reads of objects of 4 MiB, a hundred per second: slightly more than the cache holds.
fn popular() -> String {
    let draw = Draw::new(Distribution::Zipf { theta: 0.5 }, 8_000, 5);
    let (mut chance, mut text) = (Rng::new(3), String::new());
    for n in 0..READS {
        let id = draw.key(&mut chance);
        writeln!(text, "{} {id} {}", n / 100, 4 << 20).expect("memory");
    }
    text
}

#[test]
fn what_a_trace_asks_for_is_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let lines =
        "10,a,1,4095,1,get,0\n20,b,0,4097,1,get,0\n30,a,0,0,1,delete,0\n40,a,0,9000,1,get,0\n";
    let path = file(&folder, "counted.twitter", lines);
    let of = |copies, requests| {
        let mut question = question(path.clone());
        question.recorded.copies = copies;
        question.recorded.requests = requests;
        Survey::of(&question, &Progress::hidden()).expect("it is there")
    };
    let blocks = |blocks: u64| blocks * 4096;
    let once = Survey {
        requests: 4,
        reads: 3,
        removals: 1,
        read_bytes: blocks(1 + 2 + 3),
        objects: 2,
        footprint: blocks(2 + 3),
        largest: blocks(3),
        seconds: 30,
        time_unit: TimeUnit::Seconds,
        skipped: Skipped::default(),
    };
    assert_eq!(of(1, None), once);
    let three = of(3, None);
    assert_eq!((three.reads, three.objects, three.seconds), (9, 6, 30));
    assert_eq!(three.reads_per_s(), Some(0.3));
    assert_eq!(of(1, Some(1)).reads, 1);
    let why = Survey::of(
        &question(file(&folder, "none.twitter", "1,a,1,1,1,delete,0\n")),
        &Progress::hidden(),
    );
    assert!(why.expect_err("no reads").ends_with("no reads, only 1 writes or deletions"));
}

/// Counts of both halves of a trace, in a cache that holds everything.
fn counted(name: &str, text: &str, chunk: Bytes) -> super::cut::Counts {
    let folder = tempfile::tempdir().expect("a folder");
    let question = question(file(&folder, name, text));
    let survey = Survey::of(&question, &Progress::hidden()).expect("it is there");
    let room = Room { capacity: Capacity::Bytes(Bytes::mib(1 << 10)), zones: 8 };
    let inner = make("zone-fifo", room).expect("ours");
    let recorded = question.recorded.clone();
    let (cut, counts) = Cut::new(inner, recorded, (question.size, chunk), survey.requests);
    let trace = question.recorded.file();
    replay(&trace, vec![Box::new(cut)], &|_| ()).expect("it is there");
    *counts.lock().expect("nobody panicked")
}

#[test]
fn objects_are_cut_and_missing_neighbours_are_one_request() {
    // Five chunks; the same again; a larger object of the same name, whose first four chunks are
    // the same except the first.
    let text = "1 a 300000\n2 a 300000\n3 a 400000\n4 b 40000000\n";
    let counts = counted("cut.text-size", text, Bytes::kib(64));
    let [first, second] = counts.halves;
    assert_eq!((first.reads, first.hits, first.fetches), (2, 1, 1));
    // The last chunk of `a` has a new length, and two are new: one run at the end. `b` has more
    // than a stripe.
    assert_eq!((second.reads, second.hits, second.fetches), (2, 0, 1 + 2));
    assert_eq!((first.moved, second.moved), (0, 0));
    // 296 KiB, their descriptors, and the head.
    let descriptors = 4 * (2 * (36 + 8)) + 2 * (36 + 8);
    assert_eq!(first.filled, (296 << 10) + descriptors + 112 + 80);
    assert_eq!(counts.whole().reads, 4);
}

#[test]
fn more_room_hits_more_often() {
    let folder = tempfile::tempdir().expect("a folder");
    let question = question(file(&folder, "rooms.text-size", &popular()));
    let survey = Survey::of(&question, &Progress::hidden()).expect("it is there");
    let rows = sweep::replay(&question, &survey, &Progress::hidden()).expect("it is there");
    let (whole, half) = (&rows[0], &rows[1]);
    let of = |row: &Replayed| (row.policy.clone(), row.chunk);
    assert_eq!((of(whole), whole.zones / 2), (of(half), half.zones));
    assert!(half.hit_ratio + 0.02 < whole.hit_ratio, "{half:?} and {whole:?}");
    assert!(rows.iter().all(|one| one.sample == 1));
}

#[test]
fn advice_is_of_runs_that_agree_with_replays_and_is_the_same_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let question = question(file(&folder, "popular.text-size", &popular()));
    let survey = question.survey(&Progress::hidden()).expect("it is read");
    let advice = question.advise(survey, &Progress::hidden()).expect("it runs");
    check(&question, &advice);
    let again = advised_again(&question, &advice);
    // Two reports differ only in the date; the word before it is the commit.
    let read = |advice: &Advice, name: &str| {
        let written = folder.path().join("written");
        advice.write(&written).expect("it can be written");
        let text = std::fs::read_to_string(written.join(name)).expect("it is there");
        match text.split_once(", commit test, ") {
            Some((before, after)) => {
                format!("{before}{}", after.split_once(".</p>").expect("its end").1)
            }
            None => text,
        }
    };
    let names = ["advice.json", "report.html", "hit-ratio.svg", "latency.svg", "device-wa.svg"];
    for name in names {
        assert_eq!(read(&advice, name), read(&again, name), "{name}");
    }
}

/// The same question again, with one run on each kind of drive: all runs would take the test twice
/// as long.
fn advised_again(question: &Question, advice: &Advice) -> Advice {
    let survey = question.survey(&Progress::hidden()).expect("it is read");
    let replayed = sweep::replay(question, &survey, &Progress::hidden()).expect("it is there");
    let mut finals: Vec<Final> = advice.finals.iter().map(|judged| judged.run.clone()).collect();
    let ends = [0, finals.len() - 1];
    assert_eq!(ends.map(|at| finals[at].is_zoned), [true, false]);
    let campaign = Campaign {
        experiments: ends.map(|at| finals[at].experiment.clone()).to_vec(),
        at_once: question.at_once,
        kept: None,
        commit: question.commit.clone(),
    };
    let done = campaign.run(&Progress::hidden()).expect("they can be run");
    for (at, done) in ends.into_iter().zip(done) {
        finals[at].outcome = done.outcome;
    }
    Advice::new(question, survey, replayed, finals)
}

#[test]
fn of_policies_that_a_replay_cannot_tell_apart_one_is_run_and_the_others_are_named() {
    let question = question("w.text-size".into());
    let replayed = |policy: &str, late_fetches: f64, late_flash_bytes: f64| Replayed {
        policy: policy.into(),
        chunk: 64 << 10,
        zones: question.zones(),
        sample: 1,
        hit_ratio: 0.5,
        late_hit_ratio: 0.5,
        late_byte_hit_ratio: 0.5,
        late_fetches,
        late_flash_bytes,
        late_write_amplification: 1.0,
    };
    let all = [
        replayed("flow", 0.25, 2000.0),
        replayed("chunk-lru", 0.3, 1000.0),
        replayed("chunk-lru?spare=5%", 0.3, 1000.0),
        replayed("chunk-lru?spare=20%", 0.3, 1000.0),
        replayed("zone-lru", 0.4, 900.0),
        // Equal requests and bytes, but other hits.
        Replayed { late_hit_ratio: 0.6, ..replayed("zone-fifo", 0.4, 900.0) },
        replayed("region-lru", 0.5, 900.0),
    ];
    let names = |all: &[Replayed]| {
        finals::candidates(&question, all)
            .into_iter()
            .map(|one| one.policy.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&all), ["flow", "chunk-lru", "zone-lru"]);
    assert_eq!(names(&all[4..]), ["zone-lru", "zone-fifo"]);
    let said = advice::not_told_apart(&[&all[0], &all[1]], &all);
    let expected = "Identical in the replay, so not run separately: chunk-lru?spare=5% and \
                    chunk-lru?spare=20% as chunk-lru.";
    assert_eq!(said.as_deref(), Some(expected));
    assert_eq!(advice::not_told_apart(&[&all[0], &all[4]], &all), None);
}

fn check(question: &Question, advice: &Advice) {
    for judged in &advice.finals {
        let (run, replayed) = (judged.run.outcome.hit_ratio(), judged.run.replayed.hit_ratio);
        // Each of 16 zones has six points, and the engine fills and empties several at once.
        let is_near = judged.run.spare != 0 || (run - replayed).abs() < 0.1;
        assert!(is_near, "{run} in the run, {replayed} in the replay: {judged:?}");
        assert_eq!(judged.run.outcome.gets, READS);
    }
    let kinds: Vec<(bool, u32)> =
        advice.finals.iter().map(|one| (one.run.is_zoned, one.run.spare)).collect();
    assert!(kinds.contains(&(true, 0)), "{kinds:?}");
    for spare in [0, 10, 20] {
        assert!(kinds.contains(&(false, spare)), "{kinds:?}");
    }
    let taken = advice.taken();
    let fetches = |one: &advice::Judged| one.run.replayed.late_fetches;
    assert!(advice.finals.iter().all(|one| fetches(taken) <= 1.02 * fetches(one)));
    // 100 reads/s for a month of 30.4 days, times the origin requests per read.
    let requests = advice.finals[0].origin_requests_per_month.expect("the trace has times");
    let expected = fetches(&advice.finals[0]) * advice.reads_per_s.expect("times") * 2_629_800.0;
    assert!((requests / expected - 1.0).abs() < 1e-9);
    let dollars = taken.dollars_per_month.expect("times");
    let asked = taken.origin_requests_per_month.expect("times");
    assert!((dollars - asked * question.price / 1e6).abs() < 1e-6);
    // One drive write per day for five years, of the cache's share.
    let years = taken.years.expect("it was measured");
    let a_day = advice.reads_per_s.expect("times") * taken.programmed_per_read * 86_400.0;
    let expected = 5.0 * advice.capacity as f64 / a_day;
    assert!((years / expected - 1.0).abs() < 1e-9, "{years} and {expected}");
    let said = advice.to_string();
    for part in ["Recommended: zn540 (with zones)", "Without zones (sn540", "$ a million", "run  "]
    {
        assert!(said.contains(part), "{part} in {said}");
    }
}

#[test]
fn what_cannot_be_meant_is_refused_before_anything_is_read() {
    let good = question("w.text-size".into());
    assert_eq!(good.check(), Ok(()));
    let refused = |question: Question, why: &str| {
        let said = question.check().expect_err("it cannot be meant");
        assert!(said.contains(why), "{said}");
    };
    let capacity = |gib: u64| Some(Bytes::mib(gib << 10));
    refused(Question { capacity: capacity(2), ..good.clone() }, "--capacity 17GiB or more");
    refused(Question { capacity: capacity(2000), ..good.clone() }, "zn540 has 950GiB");
    refused(Question { price: f64::NAN, ..good.clone() }, "--price: write a number above 0");
    refused(Question { dwpd: 0.0, ..good.clone() }, "--dwpd: write a number above 0");
    refused(Question { reads_per_s: Some(-1.0), ..good.clone() }, "--reads-per-s: write a number");
    refused(question("w.log".into()), "unknown trace format of w.log");
    let odd = Question { size: Bytes::kib(5), ..question("w.u64le".into()) };
    refused(odd, "--size: write a power of two from 4KiB to 1MiB");
}
