//! Files of experiments, and small experiments on both kinds of drive.

use zonal_base::{Bytes, Nanos};

use super::{Campaign, Engine, Experiment, File, Precondition, run};
use crate::Distribution;
use crate::bench::Progress;

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

#[test]
fn every_combination_is_an_experiment_and_none_is_there_twice() {
    let file = File::parse(FILE).expect("it is right");
    // 2 drives, 2 workloads, 2 ratios; the threads with and without the switch, Zonal without.
    assert_eq!(file.experiments.len(), 2 * 2 * 2 * 3);
    let first = &file.experiments[0];
    assert_eq!(first.keys, 17_232 * 40 * 2);
    assert_eq!((first.gets, first.seed), (1 << 14, 1));
    assert_eq!(first.precondition, Precondition::Random(Bytes::kib(64)));
    let zonal = file.experiments.iter().filter(|one| one.cache == Engine::Zonal);
    assert!(zonal.clone().count() == 8 && zonal.clone().all(|one| !one.hold_zone_during_fetch));
}

#[track_caller]
fn check_refused(from: &str, to: &str, line: usize, why: &str) {
    let text = FILE.replace(from, to);
    assert_ne!(text, FILE);
    let error = File::parse(&text).expect_err("it is wrong");
    assert!(error.to_string().contains(why) && error.line == line, "{error}");
}

#[test]
fn what_is_wrong_with_a_file_is_said_with_line_and_column() {
    check_refused("drive", "drives", 4, "unknown field `drives`");
    check_refused("\"64KiB\"", "\"64KB\"", 7, "this unit is ambiguous");
    check_refused("\"64KiB\"\npol", "65536\npol", 7, "expected a string");
    check_refused("ratio = [2, 10]", "ratio = []", 10, "needs one at least");
    check_refused("tasks = 64\n", "", 1, "missing field `tasks`");
    check_refused("zones = 40", "zones = 905", 6, "zn540 has 1 to 904, not 905");
    check_refused("\"64KiB\"\npol", "\"96KiB\"\npol", 7, "power of two from 4KiB to 1077MiB");
    check_refused("\"zone-lru\"", "\"zone-mru\"", 8, "policy");
    check_refused("\"zn540\"", "\"zn541\"", 4, "there is no model of a drive");
    check_refused("\"zn540\"", "\"zn540?size=90GiB\"", 4, "zn540 has zones");
    check_refused("\"sn540\"", "\"sn540?size=90TiB\"", 4, "sn540 has 8GiB to 894GiB here");
    check_refused("\"uniform\"", "\"normal\"", 9, "write uniform, zipf:THETA");
    check_refused("title = \"a test\"", "title = ", 2, "");
}

/// A part of a drive, and as much as fills it a few times.
fn small(cache: Engine, drive: &str) -> Experiment {
    Experiment {
        cache,
        drive: drive.parse().expect("ours"),
        precondition: Precondition::Nothing,
        zones: 20,
        chunk: Bytes::mib(32),
        policy: "zone-lru".into(),
        dram: Bytes(0),
        workload: Distribution::Zipf { theta: 0.9 },
        keys: 20 * 33 * 2,
        gets: 2_000,
        // What they fetch together is less than the drive takes beside their reads.
        tasks: 8,
        origin_latency: Nanos::millis(300),
        hold_zone_during_fetch: cache == Engine::Zncache,
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

#[test]
fn what_was_run_is_not_run_again_and_reports_are_alike() {
    let folder = std::env::temp_dir().join(format!("zonal-campaign-{}", std::process::id()));
    let experiments = vec![small(Engine::Zncache, "zn540"), small(Engine::Zonal, "zn540")];
    let kept = Some(folder.join("runs"));
    let campaign = Campaign { experiments, at_once: 2, kept, commit: "a".into() };
    let done = campaign.run(&Progress::hidden()).expect("they can be run");
    // What the file says is taken at its word: it was not run again.
    let path = std::fs::read_dir(folder.join("runs")).expect("it is there").next();
    let path = path.expect("two runs").expect("a file").path();
    let text = std::fs::read_to_string(&path).expect("it is there");
    std::fs::write(
        &path,
        text.replacen("\"gets\": 2000,\n    \"hits\"", "\"gets\": 1,\n    \"hits\"", 1),
    )
    .expect("it can be written");
    let again = campaign.run(&Progress::hidden()).expect("they can be run");
    assert_eq!(again.iter().filter(|one| one.outcome.gets == 1).count(), 1);
    // Another program's is not.
    let other = Campaign { commit: "b".into(), ..campaign };
    let other = other.run(&Progress::hidden()).expect("they can be run");
    let outcomes =
        |done: &[super::Done]| done.iter().map(|one| one.outcome.clone()).collect::<Vec<_>>();
    assert_eq!(outcomes(&other), outcomes(&done));
    let results = super::Results { title: "two <caches>".into(), done };
    let files = ["results.csv", "results.json", "throughput.svg", "latency.svg"];
    let read = || {
        results.write(&folder).expect("it can be written");
        files.map(|file| std::fs::read_to_string(folder.join(file)).expect("it is there"))
    };
    assert_eq!(read(), read());
    let page = std::fs::read_to_string(folder.join("report.html")).expect("it is there");
    assert!(page.contains("two &lt;caches&gt;") && page.matches("<svg").count() == 3);
    let _ = std::fs::remove_dir_all(&folder);
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
        assert!(!parsed.experiments.is_empty());
    }
}
