//! Experiment files, and small experiments on both kinds of drive.

use tempfile::TempDir;
use zonal_base::{Bytes, Nanos};

use super::{Campaign, Engine, Experiment, Experiments, File, Precondition, run};
use crate::bench::Progress;
use crate::jobs::Jobs;
use crate::simulated::Habits;
use crate::{Distribution, Pace, Recorded, Workload};

const FILE: &str = r#"
title = "a test"
cache = ["zncache", "zonal"]
drive = ["zn540", "sn540"]
precondition = "random:64KiB"
zones = 40
chunk = "64KiB"
policy = "zone-lru"
workload = ["uniform", "ycsb-zipf:0.99"]
ratio = [2, 10]
bytes = "1GiB"
tasks = 64
origin-latency = "40632us"
hold-zone-during-fetch = [true, false]
"#;

/// Experiments of a valid file of caches.
fn caches(text: &str) -> Vec<Experiment> {
    match File::parse(text).expect("it is right").experiments {
        Experiments::Caches(experiments) => experiments,
        Experiments::Jobs(_) => panic!("a file of caches"),
    }
}

#[test]
fn every_combination_is_an_experiment_and_none_is_there_twice() {
    let experiments = caches(FILE);
    // 2 drives, 2 workloads and 2 ratios. ZNCache runs with and without the switch, Zonal without.
    assert_eq!(experiments.len(), 2 * 2 * 2 * 3);
    let first = &experiments[0];
    assert_eq!(first.keys, 17_232 * 40 * 2);
    assert_eq!((first.gets, first.seed), (1 << 14, 1));
    assert_eq!(first.precondition, Precondition::Random(Bytes::kib(64)));
    let zonal = experiments.iter().filter(|one| one.cache == Engine::Zonal);
    assert!(zonal.clone().count() == 8 && zonal.clone().all(|one| !one.hold_zone_during_fetch));
}

const SEQUENTIAL: &str = r#"
title = "one after the other"
cache = "znsccache"
policy = "epoch"
habits = ["none", "reopen+finish-in-line"]
limit = "4h"
drive = "zn540"
zones = 10
chunk = "1MiB"
workload = "ycsb-scrambled"
ratio = 2
bytes = "1GiB"
tasks = 1
origin-latency = "123ms"
"#;

#[test]
fn a_cache_that_does_one_thing_after_the_other_says_what_it_wants() {
    let experiments = caches(SEQUENTIAL);
    assert_eq!(experiments.len(), 2);
    let text = serde_json::to_string(&experiments[1]).expect("plain values");
    assert_eq!(serde_json::from_str::<Experiment>(&text).ok().as_ref(), experiments.last());
    let refused = |from: &str, to: &str, line: usize, why: &str| {
        check_refused_in(SEQUENTIAL, (from, to), line, why);
    };
    refused("\"epoch\"", "\"zone-lru\"", 4, "policy: znsccache supports epoch");
    refused(
        "\"none\"",
        "\"smoking\"",
        5,
        "unknown habit \"smoking\": write none, or one or more of reopen",
    );
    refused("\"4h\"", "\"4w\"", 6, "write a whole number and ns, us, ms, s, min or h");
    refused("\"4h\"", "\"0s\"", 6, "limit: write a time above 0");
    refused("zn540", "sn540", 7, "drive: znsccache needs a zoned drive, and sn540 is not");
    refused("zones = 10", "zones = 2", 8, "zones: znsccache needs 3 or more");
    refused("\"1MiB\"", "\"2GiB\"", 9, "write a power of two from 4KiB to 1GiB");
    refused("tasks = 1", "tasks = 2", 13, "tasks: znsccache serves gets one at a time");
    let others = "cache = \"zncache\"\npolicy = \"zone-lru\"";
    let from = "cache = \"znsccache\"\npolicy = \"epoch\"";
    refused(from, others, 6, "limit: only for znsccache: omit it");
    let unlimited = SEQUENTIAL.replace("limit = \"4h\"\n", "").replace(from, others);
    let error = File::parse(&unlimited).expect_err("it is wrong").to_string();
    assert!(error.starts_with("line 5, column 1: habits: only for znsccache"), "{error}");
}

const JOBS: &str = r#"
title = "jobs"
jobs = [1, 8]
write = "4KiB"
workload = ["uniform", "zipf:1.2", "sequential"]
read-rate = "4MiB"
depth = 32
buffer = ["none", "p5800x-optane?size=44GiB", "write-back:p5800x-optane?size=44GiB"]
drive = ["zn540", "sn540"]
spare-percent = 10
smaller = 64
"#;

const LIST: &str = r#"["none", "p5800x-optane?size=44GiB", "write-back:p5800x-optane?size=44GiB"]"#;

#[test]
fn a_file_with_jobs_is_about_a_block_device() {
    let Experiments::Jobs(jobs) = File::parse(JOBS).expect("it is right").experiments else {
        panic!("a file of jobs")
    };
    // A zoned drive needs a buffer, and a write-back cache cannot write it in place.
    assert_eq!(jobs.len(), 2 * 3 * 4);
    let text = serde_json::to_string(&jobs[0]).expect("plain values");
    assert_eq!(serde_json::from_str::<Jobs>(&text).ok().as_ref(), jobs.first());
    let refused = |from: &str, to: &str, line: usize, why: &str| {
        check_refused_in(JOBS, (from, to), line, why);
    };
    refused("[1, 8]", "[0, 8]", 3, "jobs: write 1 to 1024");
    refused("[1, 8]", "[1, 64]", 7, "depth: write 1 to 16 for 64 jobs");
    refused("\"4KiB\"", "\"6KiB\"", 4, "write: write a power of two from 4KiB to 1MiB");
    refused("uniform", "random", 5, "write uniform, sequential, or zipf:THETA");
    refused("\"none\", ", "\"zn540\", ", 8, "buffer: write none, or a drive without zones");
    refused(LIST, "\"none\"", 8, "buffer: a zoned drive");
    let cache = "\"write-back:p5800x-optane?size=44GiB\"";
    refused(LIST, cache, 8, "buffer: a write-back cache writes the drive in place");
    refused("\"write-back:", "\"writeback:", 8, "unknown drive model");
    refused(
        "\"zn540\", ",
        "\"p5800x-optane\", ",
        9,
        "drive: p5800x-optane has no garbage collection",
    );
    refused("= 10", "= 0", 10, "spare-percent: write 1 to 90");
    refused("= 64", "= 0", 11, "smaller: write 1 (the whole drive)");
    refused("= 64", "= 10000000", 11, "smaller: write 1 (the whole drive) to 17280");
    refused("depth", "zones", 7, "unknown field `zones`");
}

#[track_caller]
fn check_refused(from: &str, to: &str, line: usize, why: &str) {
    check_refused_in(FILE, (from, to), line, why);
}

#[track_caller]
fn check_refused_in(file: &str, (from, to): (&str, &str), line: usize, why: &str) {
    let text = file.replace(from, to);
    assert_ne!(text, file);
    let error = File::parse(&text).expect_err("it is wrong");
    assert!(error.to_string().contains(why) && error.line == line, "{error}");
}

#[test]
fn what_is_wrong_with_a_file_is_said_with_line_and_column() {
    check_refused("drive", "drives", 4, "unknown field `drives`");
    check_refused("\"64KiB\"", "\"64KB\"", 7, "power of two");
    check_refused("\"64KiB\"\npol", "65536\npol", 7, "expected a string");
    check_refused("ratio = [2, 10]", "ratio = []", 10, "needs one at least");
    check_refused("tasks = 64\n", "", 1, "missing field `tasks`");
    check_refused("zones = 40", "zones = 905", 6, "zn540 has 1 to 904, not 905");
    check_refused("\"64KiB\"\npol", "\"96KiB\"\npol", 7, "power of two from 4KiB to 1077MiB");
    check_refused("\"zone-lru\"", "\"zone-mru\"", 8, "policy");
    check_refused("\"zn540\"", "\"zn541\"", 4, "unknown drive model");
    check_refused("\"zn540\"", "\"zn540?size=90GiB\"", 4, "zn540 has zones");
    check_refused("\"sn540\"", "\"sn540?size=90TiB\"", 4, "sn540 has 8GiB to 894GiB");
    check_refused("\"uniform\"", "\"normal\"", 9, "write uniform, zipf:THETA");
    check_refused("title = \"a test\"", "title = ", 2, "");
}

const TRACED: &str = r#"
title = "a trace"
drive = ["zn540", "sn540"]
zones = 40
chunk = "64KiB"
tasks = 64
origin-latency = "40632us"
[workload]
trace = "w.oracleGeneral.bin.zst"
pace = "10x"
"#;

#[test]
fn a_trace_is_a_workload_and_what_is_wrong_with_it_is_said_with_line_and_column() {
    let experiments = caches(TRACED);
    assert_eq!(experiments.len(), 2);
    let Workload::Recorded(recorded) = &experiments[0].workload else { panic!("a trace") };
    assert_eq!((recorded.pace, recorded.copies), (Pace::Times(10.0), 1));
    assert_eq!((experiments[0].keys, experiments[0].gets), (0, 0));
    let text = serde_json::to_string(&experiments[0]).expect("plain values");
    assert_eq!(serde_json::from_str::<Experiment>(&text).ok().as_ref(), experiments.first());
    // The same as an inline table, and next to another workload.
    let table = "[workload]\ntrace = \"w.oracleGeneral.bin.zst\"\npace = \"10x\"\n";
    let inline = "workload = { trace = \"w.oracleGeneral.bin.zst\", pace = \"10x\" }\n";
    assert_eq!(caches(&TRACED.replace(table, inline)), experiments);
    let both = "ratio = 2\nbytes = \"1GiB\"\nworkload = [\"uniform\", { trace = \"w.lis\" }]\n";
    let both = caches(&TRACED.replace(table, both));
    assert_eq!(both.iter().map(|one| one.gets).collect::<Vec<_>>(), [1 << 14, 0, 1 << 14, 0]);
    let refused = |from: &str, to: &str, line: usize, why: &str| {
        check_refused_in(TRACED, (from, to), line, why);
    };
    refused("pace =", "paces =", 10, "unknown field `paces`");
    refused("\"10x\"", "\"tenfold\"", 10, "write full, or a multiple of the recorded speed");
    refused("\"10x\"", "\"-1x\"", 10, "write full, or a multiple of the recorded speed");
    refused("trace = \"w.oracleGeneral.bin.zst\"\n", "", 8, "missing field `trace`");
    refused("w.oracleGeneral.bin.zst", "w.log", 9, "unknown trace format of w.log: write oracleG");
    refused("pace = \"10x\"", "format = \"csv\"", 10, "unknown trace format \"csv\"");
    refused("w.oracleGeneral.bin.zst", "w.lis", 10, "arc has no times: omit pace");
    refused("pace = \"10x\"", "copies = 0", 10, "copies: write a number from 1 to 65536");
    refused("pace = \"10x\"", "requests = 0", 10, "requests: write 1 or more");
    refused("tasks = 64", "tasks = 64\nratio = 2", 7, "the trace defines it: omit ratio");
    refused("\"64KiB\"", "\"64MiB\"", 5, "write at most 32MiB for the objects of a trace");
    let zncache = "zones = 40\ncache = \"zncache\"\npolicy = \"zone-lru\"";
    refused("zones = 40", zncache, 5, "the trace has sizes: use zonal");
    refused(table, "workload = \"uniform\"\n", 8, "bytes: missing or 0, so there are no gets");
}

/// A part of a drive, with enough gets to fill it a few times.
fn small(cache: Engine, drive: &str) -> Experiment {
    Experiment {
        cache,
        drive: drive.parse().expect("ours"),
        precondition: Precondition::Nothing,
        zones: 20,
        chunk: Bytes::mib(32),
        policy: "zone-lru".into(),
        dram: Bytes(0),
        workload: Distribution::Zipf { theta: 0.9 }.into(),
        keys: 20 * 33 * 2,
        gets: 2_000,
        // The fetches of 8 tasks are less than the drive takes next to their reads.
        tasks: 8,
        origin_latency: Nanos::millis(300),
        origin_sd: Nanos(0),
        hold_zone_during_fetch: cache == Engine::Zncache,
        habits: Habits::default(),
        limit: Nanos::MAX,
        seed: 1,
    }
}

#[test]
fn both_caches_run_on_both_kinds_of_drive_and_equal_experiments_have_equal_outcomes() {
    for cache in [Engine::Zncache, Engine::Zonal] {
        for drive in ["zn540", "sn540"] {
            let experiment = small(cache, drive);
            let outcome = run(&experiment, &|_| ()).expect("it can be run");
            assert_eq!(outcome.gets, 2_000);
            assert!((0.3..0.8).contains(&outcome.hit_ratio()), "{cache:?} on {drive}: {outcome:?}");
            assert_eq!(outcome.get.count, outcome.hit.count + outcome.miss.count);
            assert!(outcome.hit.mean_ns < outcome.miss.mean_ns, "{outcome:?}");
            let amplification = outcome.write_amplification();
            assert!((1.0..1.06).contains(&amplification), "{cache:?} on {drive}: {amplification}");
            if drive == "sn540" {
                assert_eq!(run(&experiment, &|_| ()), Ok(outcome));
            }
        }
    }
}

/// A small cache whose workload is a trace in a directory.
fn traced(cache: Engine, folder: &TempDir, (name, bytes): (&str, &[u8])) -> Experiment {
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).expect("a temporary file");
    Experiment {
        workload: Workload::Recorded(Recorded::new(path, None)),
        chunk: Bytes::kib(64),
        keys: 0,
        gets: 0,
        tasks: 1,
        origin_latency: Nanos::millis(40),
        origin_sd: Nanos(0),
        ..small(cache, "zn540")
    }
}

#[test]
fn in_a_cache_that_holds_everything_all_but_the_first_get_of_each_object_is_a_hit() {
    // Three objects, one of them with several chunks. Then one changes its size, and one is
    // removed.
    let lines =
        b"1,a,0,300000,1,get,0\n2,b,0,5000,1,get,0\n3,a,0,300000,1,get,0\n4,c,0,1,1,get,0\n\
                  5,b,0,5000,1,get,0\n6,c,0,9000,1,get,0\n7,c,0,9000,1,get,0\n8,a,0,0,1,delete,0\n\
                  9,a,0,300000,1,get,0\n10,a,0,300000,1,get,0\n";
    let folder = tempfile::tempdir().expect("a folder");
    let experiment = traced(Engine::Zonal, &folder, ("all.twitter", lines));
    let outcome = run(&experiment, &|_| ()).expect("every byte is right");
    // The gets are 3 of a, 2 of b, 3 of c and 2 of a. Gets of a new object or size miss: a, b, c,
    // c, a.
    assert_eq!((outcome.gets, outcome.hits), (9, 4), "{outcome:?}");
    let kib = |kib: u64| kib << 10;
    assert_eq!(outcome.bytes, 4 * kib(296) + 2 * kib(8) + kib(4) + 2 * kib(12));
    // A new object costs a head request and a request for its bytes.
    assert!(80_000_000 <= outcome.miss.p50_ns, "{outcome:?}");
    assert_eq!(run(&experiment, &|_| ()), Ok(outcome));
}

#[test]
fn what_is_paced_takes_as_long_as_it_was_recorded_and_waiting_for_a_task_counts() {
    let lines = b"0 a 4096\n10 b 4096\n20 c 4096\n20 d 4096\n";
    let folder = tempfile::tempdir().expect("a folder");
    let experiment = traced(Engine::Zonal, &folder, ("paced.text-size", lines));
    let Workload::Recorded(recorded) = &experiment.workload else { panic!("a trace") };
    let paced = |tasks, pace| {
        let recorded = Recorded { pace, ..recorded.clone() };
        let workload = Workload::Recorded(recorded);
        run(&Experiment { workload, tasks, ..experiment.clone() }, &|_| ()).expect("it runs")
    };
    let took = |outcome: &super::Outcome| outcome.took_ns as f64 / 1e9;
    let real = paced(4, Pace::Times(1.0));
    assert!((20.5..20.8).contains(&took(&real)), "{real:?}");
    let fast = paced(1, Pace::Full);
    assert!(took(&fast) < 0.4, "{fast:?}");
    // At this pace c and d are due while the only task is busy with b.
    let late = paced(1, Pace::Times(1000.0));
    assert!(
        0.2 < late.get.p99_ns as f64 / 1e9 && late.get.mean_ns > 2 * real.get.mean_ns,
        "{late:?}"
    );
}

#[test]
fn both_caches_take_keys_from_a_file_and_a_file_that_breaks_off_fails_the_run() {
    let keys: Vec<u8> =
        (0..4000_u32).flat_map(|n| (n.wrapping_mul(n) % 1009).to_le_bytes()).collect();
    let mut distinct: Vec<&[u8]> = keys.chunks(4).collect();
    distinct.sort_unstable();
    distinct.dedup();
    let folder = tempfile::tempdir().expect("a folder");
    for cache in [Engine::Zncache, Engine::Zonal] {
        let whole = traced(cache, &folder, ("whole.u32le", &keys));
        let outcome = run(&whole, &|_| ()).expect("it runs");
        assert_eq!(outcome.gets - outcome.hits, distinct.len() as u64, "{cache:?}");
        let cut = traced(cache, &folder, ("cut.u32le", &keys[..4001]));
        let why = run(&cut, &|_| ()).expect_err("it breaks off");
        assert!(why.ends_with("byte 4001: the file ends after 1 bytes of a record of 4"), "{why}");
    }
}

#[test]
fn another_file_of_the_same_name_is_another_experiment() {
    let folder = tempfile::tempdir().expect("a folder");
    let experiment = traced(Engine::Zonal, &folder, ("marked.text", b"1\n2\n"));
    let Workload::Recorded(recorded) = experiment.workload else { panic!("a trace") };
    let mark = |recorded: &Recorded| {
        let mut recorded = recorded.clone();
        recorded.find("/".as_ref()).expect("it is there");
        recorded
    };
    let recorded = Recorded { format: Some("text".parse().expect("ours")), ..recorded };
    let one = mark(&recorded);
    std::fs::write(&recorded.trace, b"1\n3\n").expect("a temporary file");
    assert_ne!(mark(&recorded), one);
    let gone = Recorded { trace: "nowhere.lis".into(), ..recorded }.find("nowhere".as_ref());
    assert!(gone.expect_err("it is not").starts_with("nowhere/nowhere.lis: cannot be read"));
}

#[test]
fn what_was_run_is_not_run_again_and_reports_are_alike() {
    let temporary = tempfile::tempdir().expect("a folder");
    let folder = temporary.path();
    let experiments = [Engine::Zncache, Engine::Zonal]
        .map(|cache| Experiment { gets: 500, ..small(cache, "zn540") })
        .to_vec();
    let kept = Some(folder.join("runs"));
    let campaign = Campaign { experiments, at_once: 2, kept, commit: "a".into() };
    let done = campaign.run(&Progress::hidden()).expect("they can be run");
    // The stored result is changed, and used: the experiment does not run again.
    let path = std::fs::read_dir(folder.join("runs")).expect("it is there").next();
    let path = path.expect("two runs").expect("a file").path();
    let text = std::fs::read_to_string(&path).expect("it is there");
    std::fs::write(
        &path,
        text.replacen("\"gets\": 500,\n    \"hits\"", "\"gets\": 1,\n    \"hits\"", 1),
    )
    .expect("it can be written");
    let again = campaign.run(&Progress::hidden()).expect("they can be run");
    assert_eq!(again.iter().filter(|one| one.outcome.gets == 1).count(), 1);
    // The result of another commit is not used.
    let other = Campaign { commit: "b".into(), ..campaign };
    let other = other.run(&Progress::hidden()).expect("they can be run");
    let outcomes =
        |done: &[super::Done]| done.iter().map(|one| one.outcome.clone()).collect::<Vec<_>>();
    assert_eq!(outcomes(&other), outcomes(&done));
    let results = super::Results { title: "two <caches>".into(), done };
    let files = ["results.csv", "results.json", "throughput.svg", "latency.svg"];
    let read = || {
        results.write(folder).expect("it can be written");
        files.map(|file| std::fs::read_to_string(folder.join(file)).expect("it is there"))
    };
    assert_eq!(read(), read());
    let page = std::fs::read_to_string(folder.join("report.html")).expect("it is there");
    assert!(page.contains("two &lt;caches&gt;") && page.matches("<svg").count() == 3);
}

#[test]
fn every_file_of_the_project_can_be_run() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/experiments");
    let files: Vec<_> = std::fs::read_dir(folder).expect("it is there").collect();
    assert!(!files.is_empty());
    for file in files {
        let path = file.expect("it is there").path();
        let text = std::fs::read_to_string(&path).expect("it is there");
        let parsed =
            File::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let count = match parsed.experiments {
            Experiments::Caches(experiments) => experiments.len(),
            Experiments::Jobs(experiments) => experiments.len(),
        };
        assert!(0 < count);
    }
}

const OUTRUN: &str = r#"
title = "an origin that is six times as fast as flash"
cache = "zonal"
drive = "zn540"
zones = 12
chunk = "16MiB"
policy = "flow"
dram = "64MiB"
workload = "uniform"
ratio = 2
bytes = "60GiB"
tasks = 64
origin-latency = "200ms"
"#;

/// When single pieces went to flash, 0.8 % of the gets were hits, and the others requested 6.3 gaps
/// each.
#[test]
fn what_flash_has_no_time_for_is_whole_objects() {
    let outcome = run(&caches(OUTRUN)[0], &|_| ()).expect("it can be run");
    assert!(0.06 < outcome.hit_ratio(), "{outcome:?}");
    assert!(outcome.origin_requests < 5 * outcome.gets / 2, "{outcome:?}");
    assert!((0.13..0.16).contains(&outcome.written_for_got()), "{outcome:?}");
    // All bytes arrive in the first minute, except those in flight at the end.
    let [first] = outcome.moved[..] else { panic!("{outcome:?}") };
    let left = outcome.drive.written - first.written;
    assert!(left < 64 << 20 && first.read < outcome.bytes && 0 < first.read, "{outcome:?}");
}
