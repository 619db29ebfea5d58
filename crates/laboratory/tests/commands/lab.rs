//! `zonal-lab run`, `trace`, `paper`, `advise`, `make`: results of replays and experiments, plots,
//! and refusals.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::harness::{check_failure, folder, run};

/// Two objects of 100 bytes, one of 300.
const TRACE: &str = "1 a 100\n2 b 100\n3 a 100\n4 c 300\n5 a 100\n";

#[test]
fn a_replay_says_what_each_policy_missed_and_wrote() {
    let folder = folder();
    fs::write(folder.path().join("w.text-size"), TRACE).unwrap();
    let words = ["trace", "w.text-size", "--policy", "lru,fifo", "--capacity", "2,500B"];
    let output = run(folder.path(), &[&words[..], &["--json", "--plot", "w.svg"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let row = |policy: &str, (capacity, unit): (u64, &str), (misses, missed_bytes): (u32, u32)| {
        // Objects without sizes count as the mean size, 140 bytes.
        let written = if unit == "objects" { misses * 140 } else { missed_bytes };
        json!({
            "policy": policy,
            "capacity": capacity,
            "unit": unit,
            "requests": 5,
            "miss_ratio": f64::from(misses) / 5.0,
            "byte_miss_ratio": f64::from(missed_bytes) / 700.0,
            "flash_bytes_per_request": f64::from(written) / 5.0,
            "write_amplification": 1.0,
        })
    };
    let rows = [
        row("lru", (2, "objects"), (3, 500)),
        row("fifo", (2, "objects"), (4, 600)),
        row("lru", (500, "bytes"), (3, 500)),
        row("fifo", (500, "bytes"), (3, 500)),
    ];
    assert_eq!(report, json!({ "trace": "w.text-size", "rows": rows }));
    let plot = fs::read_to_string(folder.path().join("w.svg")).unwrap();
    for text in ["miss ratio", "write amplification", "lru", "500B"] {
        assert!(plot.contains(text), "{text}");
    }
}

#[test]
fn a_replay_prints_a_table() {
    let folder = folder();
    fs::write(folder.path().join("w.log"), TRACE).unwrap();
    let words = ["trace", "w.log", "--format", "text-size", "--policy", "belady"];
    let output = run(folder.path(), &[&words[..], &["--capacity", "1"]].concat());
    let expected = "\
w.log: 5 requests

capacity  policy   misses  byte misses  flash bytes/request  write amplif.
       1  belady   1.0000       1.0000                140.0          1.000
";
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
}

const JOBS: &str = r#"
title = "jobs"
jobs = 2
buffer = "p5800x-optane?size=44GiB"
drive = "zn540"
smaller = 4096
"#;

#[test]
fn jobs_of_a_file_write_to_a_block_device() {
    let folder = folder();
    fs::write(folder.path().join("jobs.toml"), JOBS).unwrap();
    let output = run(folder.path(), &["run", "jobs.toml", "--out", "jobs", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let results: Value = serde_json::from_slice(&output.stdout).unwrap();
    let outcome = &results["done"][0]["outcome"];
    let of = |key: &str| outcome[key].as_f64().unwrap();
    assert!(2.0 * of("written") < of("given") && of("given") < 5.0 * of("written"), "{outcome}");
    let csv = fs::read_to_string(folder.path().join("jobs/results.csv")).unwrap();
    assert!(csv.starts_with("jobs,write,workload,") && csv.contains("given/written"), "{csv}");
    assert!(folder.path().join("jobs/amplification.svg").exists());
    let alone = JOBS.replace("p5800x-optane?size=44GiB", "none");
    fs::write(folder.path().join("alone.toml"), alone).unwrap();
    let said = "alone.toml: line 4, column 1: buffer: a zoned drive cannot be written in place";
    check_failure(folder.path(), &["run", "alone.toml"], (2, said));
}

#[test]
fn a_replay_that_cannot_be_meant_or_done_says_why() {
    let folder = folder();
    let here = folder.path();
    fs::write(here.join("w.log"), TRACE).unwrap();
    fs::write(here.join("w.lis"), "1 1 0 0\n1\n").unwrap();
    let check = |words: &[&str], failure| {
        check_failure(here, &[&["trace"], words].concat(), failure);
    };
    let lru = ["--policy", "lru", "--capacity", "10"];
    let with = |words: &[&'static str]| [words, &lru].concat();
    check(&with(&["w.log"]), (2, "w.log: unknown trace format: write --format. The first line is"));
    check(
        &with(&["w.log", "--format", "csv"]),
        (2, "invalid value 'csv' for '--format <FORMAT>': unknown trace format \"csv\": write "),
    );
    check(&with(&["nowhere.lis"]), (2, "nowhere.lis: cannot be read: No such file"));
    check(&with(&["w.lis"]), (2, "w.lis, line 2: the line ends early: expected a count"));
    check(
        &["w.lis", "--policy", "mru", "--capacity", "10"],
        (2, "there is no policy \"mru\": write one of "),
    );
    check(
        &["w.lis", "--policy", "lru", "--capacity", "10MX"],
        (2, "invalid value '10MX' for '--capacity <N|SIZE>': \"10MX\": write a whole number"),
    );
    check(
        &with(&["w.lis", "--zones", "0"]),
        (2, "invalid value '0' for '--zones <N>': 0 is not in 1..=4294967295 (see --help)"),
    );
}

const EXPERIMENTS: &str = "\
title = \"a zone held\"
cache = \"zncache\"
policy = \"zone-lru\"
drive = \"zn540\"
zones = 20
chunk = \"64KiB\"
workload = \"uniform\"
ratio = 10
bytes = \"1GiB\"
tasks = 64
origin-latency = \"40632us\"
hold-zone-during-fetch = [true, false]
";

#[test]
fn experiments_are_run_and_written_down() {
    let folder = folder();
    fs::write(folder.path().join("held.toml"), EXPERIMENTS).unwrap();
    let output = run(folder.path(), &["run", "held.toml", "--out", "held", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let results: Value = serde_json::from_slice(&output.stdout).unwrap();
    let took = |at: usize| results["done"][at]["outcome"]["took_ns"].as_u64().unwrap();
    assert_eq!(results["done"].as_array().map(Vec::len), Some(2));
    // 64 threads instead of 14 zones.
    assert!(4 * took(1) < took(0) && took(0) < 5 * took(1), "{} and {}", took(0), took(1));
    for file in ["results.csv", "results.json", "throughput.svg", "report.html"] {
        assert!(folder.path().join("held").join(file).exists(), "{file}");
    }
    let again = run(folder.path(), &["run", "held.toml", "--out", "held", "--json"]);
    assert_eq!(again.stdout, output.stdout);
}

const OF_A_TRACE: &str = "\
title = \"a trace\"
drive = \"zn540\"
zones = 8
chunk = \"64KiB\"
tasks = 2
origin-latency = \"40ms\"
[workload]
trace = \"w.text-size\"
pace = \"1x\"
";

#[test]
fn a_trace_beside_the_file_is_a_workload_and_one_that_breaks_off_fails_the_run() {
    let folder = folder();
    let here = folder.path();
    fs::create_dir(here.join("files")).unwrap();
    fs::write(here.join("files/w.text-size"), TRACE).unwrap();
    fs::write(here.join("files/w.toml"), OF_A_TRACE).unwrap();
    let output = run(here, &["run", "files/w.toml", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let results: Value = serde_json::from_slice(&output.stdout).unwrap();
    let outcome = &results["done"][0]["outcome"];
    assert_eq!((&outcome["gets"], &outcome["hits"]), (&json!(5), &json!(2)));
    // From second 1 to second 5, plus the answer.
    assert!((4.0..4.2).contains(&(outcome["took_ns"].as_f64().unwrap() / 1e9)), "{outcome}");
    fs::write(here.join("files/w.text-size"), "1 a 100\n2 b\n3 c x\n").unwrap();
    let said = "files/w.text-size, line 3, column 5: expected a size in bytes, not \"x\"";
    check_failure(here, &["run", "files/w.toml", "--out", "out"], (2, said));
    assert!(!here.join("out/report.html").exists());
    fs::remove_file(here.join("files/w.text-size")).unwrap();
    let said = "files/w.text-size: cannot be read: No such file";
    check_failure(here, &["run", "files/w.toml"], (2, said));
}

/// Makes an access log of S3: 40,000 reads of 4,000 objects.
fn made_log(here: &Path) {
    let words = ["make", "zipf:0.9", "--keys", "4000", "--requests", "40000", "--out", "w.s3-log"];
    let output = run(here, &words);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn advice_is_sentences_tables_and_a_report() {
    let folder = folder();
    made_log(folder.path());
    let words = ["advise", "--trace", "w.s3-log", "--egress", "internet", "--html", "advice"];
    let output = run(folder.path(), &words);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout).unwrap();
    for part in ["w.s3-log: 40,000 reads", "Recommended: 512 MiB of flash", "Kinds of drives"] {
        assert!(said.contains(part), "{part} in {said}");
    }
    for file in ["advice.json", "report.html"] {
        assert!(folder.path().join("advice").join(file).exists(), "{file}");
    }
    let advice = fs::read(folder.path().join("advice/advice.json")).unwrap();
    let advice: Value = serde_json::from_slice(&advice).unwrap();
    assert_eq!(advice["survey"]["reads"], json!(40_000));
    assert_eq!(advice["choice"]["estimate"]["policy"], json!("flow"));
}

#[test]
fn advice_that_is_interrupted_is_of_what_was_read_by_then() {
    let folder = folder();
    let here = folder.path();
    made_log(here);
    let log = fs::read_to_string(here.join("w.s3-log")).unwrap();
    let made = Command::new("mkfifo").arg(here.join("pipe")).status().unwrap();
    assert!(made.success());
    let mut command = Command::new(env!("CARGO_BIN_EXE_zonal-lab"));
    command.current_dir(here).args(["advise", "--trace", "pipe", "--format", "s3-log"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Opens once the program reads, which it does when Ctrl-C no longer ends it.
    let mut pipe = fs::OpenOptions::new().write(true).open(here.join("pipe")).unwrap();
    let half = log.len() / 2 + log[log.len() / 2..].find('\n').unwrap() + 1;
    pipe.write_all(&log.as_bytes()[..half]).unwrap();
    let pid = Pid::from_raw(child.id().cast_signed()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    drop(pipe);
    let output = child.wait_with_output().unwrap();
    let (said, error) = (String::from_utf8(output.stdout).unwrap(), output.stderr);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&error));
    assert!(said.contains("Interrupted: from what is known by now, Recommended: "), "{said}");
}

#[test]
fn advice_that_cannot_be_meant_or_given_says_why() {
    let folder = folder();
    let here = folder.path();
    fs::write(here.join("w.log"), TRACE).unwrap();
    fs::write(here.join("w.text-size"), "1 a 100\n2 b x\n").unwrap();
    fs::write(here.join("p.toml"), "currency = \"EUR\"\n").unwrap();
    let check = |words: &[&str], failure| {
        check_failure(here, &[&["advise", "--trace"], words].concat(), failure);
    };
    check(&["w.log"], (2, "w.log: unknown trace format: write --format. The first line is"));
    check(&["w.log", "--format", "text-size"], (2, "w.log: not enough to advise on: 5 reads of 3"));
    check(&["no.lis"], (2, "no.lis: cannot be read: No such file"));
    check(&["w.text-size", "--capacity", "1MiB"], (2, "--capacity: write 512MiB or more"));
    check(&["w.text-size", "--origin", "s4"], (2, "there is no price of \"s4\": write azure-cool"));
    check(&["w.text-size", "--egress", "far"], (2, "invalid value 'far' for '--egress <PLACE>'"));
    check(&["w.text-size", "--prices", "p.toml"], (2, "p.toml: line 1: missing field `origin`"));
    check(&["w.text-size"], (2, "w.text-size, line 2, column 5: expected a size in bytes"));
}

#[test]
fn experiments_that_cannot_be_meant_say_why() {
    let folder = folder();
    let here = folder.path();
    fs::write(here.join("held.toml"), EXPERIMENTS.replace("ratio", "ration")).unwrap();
    let said = "held.toml: line 8, column 1: unknown field `ration`";
    check_failure(here, &["run", "held.toml", "--out", "held"], (2, said));
    assert!(!here.join("held").exists());
    check_failure(here, &["run", "nowhere.toml"], (2, "nowhere.toml: No such file"));
    check_failure(here, &["paper", "007"], (2, "invalid value '007' for '<NUMBER>'"));
    let check = |words: &[&str], said| {
        check_failure(here, &[&["paper"], words].concat(), (2, said));
    };
    let has = "available for paper 000: tables 5 to 16 and figures 3, 4, 5, 6, 7, 72, 73, 74, 75, \
               76, 77, 78, 79";
    check(&["000", "--table", "4"], has);
    let where_to = "--figure: the figures of paper 000 are drawn as files: add --plots DIR";
    check(&["000", "--figure", "7"], where_to);
    let only_tables = "--plots: no figure is selected: add --figure, or omit --table";
    check(&["000", "--table", "5", "--plots", "figures"], only_tables);
    let no_folder = "--plots: held.toml/figures: Not a directory";
    check(&["000", "--figure", "7", "--plots", "held.toml/figures"], no_folder);
    let none = "--plots: the figures of paper 002 are printed as tables: omit --plots";
    check(&["002", "--plots", "figures"], none);
    check(&["all", "--plots", "figures"], "--plots needs one paper: write zonal-lab paper 000");
    check(&["001", "--figure", "9"], "available for paper 001: tables 3 to 5 and figures 3 to 8");
    check(
        &["002", "--table", "3"],
        "available for paper 002: tables 1 to 2 and figures 2, 7, 8, 9, 10",
    );
    check(&["004", "--ours"], "--ours: not available for paper 004: omit --ours");
    check(&["001", "--html", "p.html"], "--html needs the scoreboard: write zonal-lab paper all");
    check(
        &["001", "--table", "5", "--page", "p.md"],
        "the scoreboard covers all tables and figures: omit --table and --figure",
    );
    check(&["all", "--table", "5"], "the scoreboard covers all tables and figures: omit --table");
}

#[test]
fn a_made_workload_is_a_trace_that_is_read_again() {
    let folder = folder();
    let here = folder.path();
    let make = |words: &[&str]| {
        let output = run(here, &[&["make"], words].concat());
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    };
    make(&["ycsb-scrambled", "--keys", "100", "--requests", "5000", "--out", "y.u32le"]);
    assert_eq!(fs::metadata(here.join("y.u32le")).unwrap().len(), 4 * 5000);
    let popularity = r#"{"popularityBuckets": [10, 90], "popularityWeights": [0.9, 0.1]}"#;
    let sizes = r#"{"valSizeRange": [4096, 65536], "valSizeRangeProbability": [3, 1]}"#;
    fs::write(here.join("pop.json"), popularity).unwrap();
    fs::write(here.join("sizes.json"), sizes).unwrap();
    make(&["--cachebench", ".", "--requests", "5000", "--out", "c.oracleGeneral.bin"]);
    let tree = ["uniform", "--btree", "--keys", "100000", "--requests", "5000"];
    make(&[&tree[..], &["--memory", "1MiB", "--chunk", "256KiB", "--out", "t.u32le"]].concat());
    for trace in ["y.u32le", "c.oracleGeneral.bin", "t.u32le"] {
        let words = ["trace", trace, "--policy", "lru", "--capacity", "10000", "--json"];
        let output = run(here, &words);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let missed = report["rows"][0]["miss_ratio"].as_f64().unwrap();
        // All objects fit: each is missed once.
        assert!((0.001..0.45).contains(&missed), "{trace}: {missed}");
    }
    let check = |words: &[&str], failure| {
        check_failure(here, &[&["make"], words].concat(), failure);
    };
    fs::write(here.join("pop.json"), "{\"popularityBuckets\": [10],\n\"popularityWeights\": [-1]}")
        .unwrap();
    check(
        &["--cachebench", ".", "--requests", "10", "--out", "d.u32le"],
        (2, "./pop.json, line 2, column 25: -1 is negative: write 0 or more"),
    );
    check(
        &["uniform", "--keys", "9", "--requests", "10", "--out", "d.csv"],
        (2, "invalid value 'd.csv' for '--out <FILE>': write a name that ends in .u32le"),
    );
    check(
        &[
            "uniform",
            "--keys",
            "9",
            "--requests",
            "10",
            "--btree",
            "--chunk",
            "5KiB",
            "--out",
            "d.u32le",
        ],
        (2, "a chunk must be a multiple of the page size 32KiB and below 4GiB, not 5KiB"),
    );
    check(
        &["uniform", "--keys", "1000000000000", "--requests", "10", "--out", "d.u32le"],
        (1, "d.u32le: key "),
    );
    assert!(!here.join("d.u32le").exists());
}
