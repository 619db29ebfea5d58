//! Recordings of simulations (`--record`, `--ui`): the page plays them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::harness::{check_failure, folder, json};

/// Events and data of the messages of a recording.
fn messages(recording: &str) -> Vec<(String, Value)> {
    let message = |text: &str| {
        let (event, data) = text.split_once("\ndata: ").unwrap();
        let event = event.strip_prefix("event: ").unwrap();
        (event.to_owned(), serde_json::from_str(data).unwrap())
    };
    recording.split_terminator("\n\n").map(message).collect()
}

/// Documents of a recording, one for each sample, and its events.
fn played(recording: &str) -> (Vec<Value>, Vec<Value>) {
    let (mut documents, mut events): (Vec<Value>, _) = (Vec::new(), Vec::new());
    for (event, data) in messages(recording) {
        match &*event {
            "document" => documents.push(data),
            "patch" => {
                let mut document = documents.last().unwrap().clone();
                json_patch::merge(&mut document, &data);
                documents.push(document);
            }
            "events" => events.extend(data.as_array().unwrap().iter().cloned()),
            other => panic!("{other}"),
        }
    }
    (documents, events)
}

fn record(folder: &Path, words: &[&str], name: &str) -> (Value, String) {
    let output = json(folder, &[words, &["--json", "--record", name]].concat());
    (output, std::fs::read_to_string(folder.join(name)).unwrap())
}

fn sum<'a>(values: impl IntoIterator<Item = &'a Value>, field: &str) -> u64 {
    values.into_iter().map(|value| value[field].as_u64().unwrap()).sum()
}

#[test]
fn a_history_of_the_cache_is_recorded_with_its_crashes_and_its_verdict() {
    let folder = folder();
    let words = ["sim", "--seed", "7"];
    let (outcome, recording) = record(folder.path(), &words, "one");
    let unwatched = json(folder.path(), &["sim", "--seed", "7", "--json"]);
    assert_eq!(outcome, unwatched, "who watches changes nothing");
    assert_eq!(record(folder.path(), &words, "two").1, recording, "equal seeds, equal recordings");
    let (documents, events) = played(&recording);
    let (first, last) = (&documents[0], documents.last().unwrap());
    assert_eq!((&first["kind"], &first["slow_motion"]), (&json!("cache"), &json!(1000)));
    let times: Vec<u64> =
        documents.iter().map(|document| document["at_ns"].as_u64().unwrap()).collect();
    assert!(times.is_sorted() && 1_000_000_000_000 <= times[0]);
    let virtual_ns = outcome["virtual_seconds"].as_f64().unwrap() * 1e9;
    let recorded_ns = *times.last().unwrap() as f64 / 1000.0;
    assert!((recorded_ns - virtual_ns).abs() < 1e6, "{recorded_ns} of {virtual_ns}");
    // A document for each life, and the counters of the last one.
    let starts = messages(&recording).iter().filter(|(event, _)| event == "document").count();
    let device = &last["devices"]["0"];
    let zones = last["zones"]["0/0"]["zones"].as_object().unwrap();
    assert_eq!(zones.len() as u64, device["zones"].as_u64().unwrap());
    let empty = zones.values().filter(|zone| zone["use"] == "empty").count() as u64;
    assert_eq!(empty, device["flash"]["zones"]["empty"].as_u64().unwrap());
    assert!(0 < sum(last["requests"].as_object().unwrap().values(), "count"), "{last}");
    let notes: Vec<&str> = events.iter().filter_map(|event| event["text"].as_str()).collect();
    for note in ["life: 1 begins", "life: 2 begins", "verdict: no violation"] {
        assert!(notes.contains(&note), "{notes:?}");
    }
    // The state at the end of each life is recorded.
    let resets_at_end: u64 = outcome["zones_reset"].as_u64().unwrap();
    let lives = notes.iter().filter(|note| note.ends_with(" begins")).count();
    assert_eq!((starts, lives), (3, 3), "{notes:?}");
    let resets = events.iter().filter(|event| event["event"] == "zone-reset").count();
    assert_eq!(resets as u64, resets_at_end);
    let ids: std::collections::BTreeSet<String> =
        events.iter().map(|event| format!("{} {}", event["id"], event["at_ns"])).collect();
    assert_eq!(ids.len(), events.len(), "no event is recorded twice");
}

#[test]
fn a_history_of_the_block_device_is_recorded() {
    let folder = folder();
    let (outcome, recording) = record(folder.path(), &["sim", "--block", "--seed", "2"], "block");
    assert_eq!(outcome, json(folder.path(), &["sim", "--block", "--seed", "2", "--json"]));
    let (documents, events) = played(&recording);
    let last = documents.last().unwrap();
    assert_eq!(last["kind"], "block");
    for tier in ["buffer", "capacity"] {
        let zones = last["zones"][tier]["zones"].as_object().unwrap();
        let counted: u64 = last["tiers"][tier]["zones"]
            .as_object()
            .unwrap()
            .values()
            .map(|n| n.as_u64().unwrap())
            .sum();
        assert_eq!(zones.len() as u64, counted, "{tier}");
    }
    let exports = last["exports"].as_object().unwrap();
    assert!(0 < sum(exports.values(), "written_bytes"));
    assert!(events.iter().any(|event| event["event"] == "victim-moved"));
}

#[test]
fn who_watches_changes_no_history() {
    let folder = folder();
    for seed in (1..=12).map(|seed: u32| seed.to_string()) {
        for kind in [&["sim", "--seed", &seed][..], &["sim", "--block", "--seed", &seed]] {
            let name = format!("{}-{seed}", kind.len());
            let (watched, _) = record(folder.path(), kind, &name);
            assert_eq!(watched, json(folder.path(), &[kind, &["--json"]].concat()), "{kind:?}");
        }
    }
}

const EXPERIMENTS: &str = r#"
title = "Two policies"
cache = "zonal"
policy = ["flow", "zone-fifo"]
drive = "zn540"
zones = 12
chunk = "1MiB"
workload = "zipf:0.9"
ratio = 2
bytes = "40GiB"
tasks = 16
origin-latency = "10ms"
"#;

#[test]
fn experiments_are_recorded_one_after_the_other() {
    let folder = folder();
    std::fs::write(folder.path().join("two.toml"), EXPERIMENTS).unwrap();
    let (results, recording) = record(folder.path(), &["run", "two.toml"], "two");
    assert_eq!(results, json(folder.path(), &["run", "two.toml", "--json"]));
    let (documents, events) = played(&recording);
    let of = |policy: &str| {
        let is_of = |document: &&Value| document["devices"]["0"]["policy"] == policy;
        documents.iter().rfind(is_of).unwrap_or_else(|| panic!("{policy}"))
    };
    for (at, policy) in ["flow", "zone-fifo"].into_iter().enumerate() {
        let (document, outcome) = (of(policy), &results["done"][at]["outcome"]);
        let answers = &document["answers"];
        assert_eq!(answers["hit"], outcome["hits"]);
        assert_eq!(answers["origin_requests"], outcome["origin_requests"]);
        let reads = answers["hit"].as_u64().unwrap() + answers["miss"].as_u64().unwrap();
        assert_eq!(reads, outcome["gets"].as_u64().unwrap());
        assert_eq!(document["slow_motion"], 1);
    }
    assert!(of("flow")["at_ns"].as_u64() <= of("zone-fifo")["started_at_ns"].as_u64());
    assert!(events.iter().any(|event| event["event"] == "victim-chosen"));
}

#[test]
fn jobs_on_a_smaller_block_device_are_in_slow_motion() {
    let folder = folder();
    let jobs = "title = \"Jobs\"\njobs = 2\nwrite = \"64KiB\"\nworkload = \"uniform\"\n\
                buffer = \"p5800x-optane?size=44GiB\"\ndrive = \"sn540\"\nsmaller = 1024\n";
    std::fs::write(folder.path().join("jobs.toml"), jobs).unwrap();
    let (_, recording) = record(folder.path(), &["run", "jobs.toml"], "jobs");
    let (documents, events) = played(&recording);
    let last = documents.last().unwrap();
    assert_eq!((&last["kind"], &last["slow_motion"]), (&json!("block"), &json!(1024)));
    assert!(10 < documents.len() && 100 < events.len(), "{} {}", documents.len(), events.len());
    assert!(0 < last["requests"]["write jobs"]["count"].as_u64().unwrap());
    let notes: Vec<&str> = events.iter().filter_map(|event| event["text"].as_str()).collect();
    assert!(
        notes[0].starts_with("Jobs, experiment 1 of 1: sn540, 1024 times smaller"),
        "{notes:?}"
    );
    assert_eq!(
        notes[1..],
        ["the device is filled", "the warm-up begins", "the measurement begins"]
    );
}

#[test]
fn what_cannot_be_recorded_is_refused_before_anything_runs() {
    let folder = folder();
    let path = folder.path();
    std::fs::write(path.join("foreign"), "of somebody else").unwrap();
    let said = "--record: foreign holds something other than a recording: name another file";
    check_failure(path, &["sim", "--seed", "1", "--record", "foreign"], (2, said));
    assert_eq!(std::fs::read(path.join("foreign")).unwrap(), b"of somebody else");
    drop(record(path, &["sim", "--seed", "1"], "old"));
    let said = "--record: old holds another recording: name a new file";
    check_failure(path, &["sim", "--seed", "1", "--record", "old"], (2, said));
    let said = "--record and --ui show one history: name its --seed N";
    check_failure(path, &["sim", "--seeds", "1..3", "--record", "new"], (2, said));
    check_failure(path, &["sim", "--seed", "1", "--trace", "--record", "new"], (2, said));
    let zncache = EXPERIMENTS.replace("\"zonal\"", "\"zncache\"").replace("\"flow\", ", "");
    std::fs::write(path.join("other.toml"), zncache.replace("zone-fifo", "zone-lru")).unwrap();
    let said = "--record and --ui: cache: zncache cannot be watched: write zonal";
    check_failure(path, &["run", "other.toml", "--record", "new"], (2, said));
    let said = "--record and --ui show one experiment after the other: omit --jobs";
    check_failure(path, &["run", "other.toml", "--record", "new", "--jobs", "2"], (2, said));
    assert!(!path.join("new").exists());
    let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = held.local_addr().unwrap().to_string();
    let said = format!("cannot listen on {address}: Address already in use");
    check_failure(path, &["sim", "--seed", "1", "--ui", "--listen", &address], (1, &said));
}

#[test]
fn the_page_of_a_simulation_is_served_until_the_end_is_asked_for() {
    let folder = folder();
    let (_, recorded) = record(folder.path(), &["sim", "--seed", "1"], "recorded");
    let mut shown = Command::new(env!("CARGO_BIN_EXE_zonal-lab"))
        .args(["sim", "--seed", "1", "--ui", "--listen", "127.0.0.1:0"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = BufReader::new(shown.stderr.take().unwrap()).lines();
    let page = told.next().unwrap().unwrap();
    let url = page.strip_prefix("zonal-lab: the page is http://").unwrap();
    let (address, path) = url.split_once('/').unwrap();
    assert_eq!(path, "ui/?play=60");
    let get = |path: &str| {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.lines().next().unwrap().to_owned(), body.to_owned())
    };
    assert_eq!(get("/api/v1/recording").1, recorded);
    assert!(get("/ui/").1.contains("<title>Zonal</title>"));
    assert!(get("/ui/play/player.js").0.contains("200"));
    // Then Ctrl-C is waited for.
    assert_eq!(told.next().unwrap().unwrap(), "zonal-lab: Ctrl-C ends the page");
    let pid = Pid::from_raw(shown.id().cast_signed()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    let mut output = String::new();
    shown.stdout.take().unwrap().read_to_string(&mut output).unwrap();
    assert_eq!(shown.wait().unwrap().code(), Some(0));
    assert!(output.contains("no violation"), "{output}");
}
