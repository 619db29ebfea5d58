//! Tests of recordings: `--record` and `zonal play`.

use std::fs;
use std::net::SocketAddr;
use std::time::Instant;

use serde_json::Value;

use crate::block::{Block, TestFolder as BlockFolder};
use crate::harness::{PATIENCE, Process, TestFolder, check_failure, noise};
use crate::http;
use crate::nbd::Command;

/// The last state of a recording, and its events.
fn played(recording: &str) -> (Value, Vec<Value>) {
    let (mut document, mut events) = (Value::Null, Vec::new());
    // What follows the last blank line is still being written.
    let whole = recording.rsplit_once("\n\n").map_or("", |(whole, _)| whole);
    for message in whole.split("\n\n") {
        let Some((event, data)) = message.trim().split_once("\ndata: ") else { continue };
        let data: Value = serde_json::from_str(data).unwrap();
        match event {
            "event: document" => document = data,
            "event: patch" => json_patch::merge(&mut document, &data),
            "event: events" => events.extend(data.as_array().unwrap().iter().cloned()),
            _ => panic!("{event}"),
        }
    }
    (document, events)
}

#[track_caller]
fn await_recorded(recording: &std::path::Path, is_so: impl Fn(&Value, &[Value]) -> bool) {
    let begin = Instant::now();
    loop {
        let text = fs::read_to_string(recording).unwrap();
        let (document, events) = played(&text);
        if is_so(&document, &events) {
            return;
        }
        assert!(begin.elapsed() < PATIENCE, "{document} {events:?}");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
}

#[test]
fn a_server_records_what_viewers_see_and_goes_on_after_a_restart() {
    let place = TestFolder::new();
    place.object("a", &noise(1 << 20, 1));
    let recording = place.path().join("night");
    for run in 0..2 {
        let zonal = place.start(&["--freshness", "immutable", "--record", "night"]);
        for _ in 0..3 {
            assert_eq!(zonal.s3().get("/bucket/a").unwrap().status, 200);
        }
        await_recorded(&recording, |document, _| {
            let answers = &document["answers"];
            answers["hit"].as_u64().unwrap_or(0) + answers["miss"].as_u64().unwrap_or(0) == 3
        });
        match run {
            0 => zonal.kill(),
            _ => zonal.stop(),
        }
    }
    let text = fs::read_to_string(&recording).unwrap();
    assert_eq!(text.matches("event: document\n").count(), 2);
    let (document, events) = played(&text);
    assert_eq!(document["kind"], "cache");
    assert!(events.iter().any(|event| event["event"] == "zone-opened"), "{events:?}");
}

#[test]
fn a_block_device_is_recorded_and_its_recording_is_played() {
    let place = BlockFolder::new();
    let folder = place.folder.path();
    let words = ["--capacity", "file:one?size=64MiB&zone=1MiB", "--record", "night"];
    let block = Block::start(&place, &words);
    let mut client = block.client("");
    client.carry_out(Command::Write, 0, &noise(1 << 20, 1)).unwrap();
    await_recorded(&folder.join("night"), |document, _| {
        document["exports"]["disk"]["writes"].as_u64() == Some(1)
    });
    drop(client);
    block.stop();

    let recorded = fs::read(folder.join("night")).unwrap();
    let play = Process::start(folder, &["play", "night", "--listen", "127.0.0.1:0"], "/ui/?play");
    let address: SocketAddr = play.address("http://", &['/']);
    let answer = http::get(address, "/api/v1/recording").unwrap();
    assert_eq!((answer.status, &answer.body), (200, &recorded));
    assert!(http::get(address, "/ui/?play").unwrap().text().contains("<title>Zonal</title>"));
    let moved = http::get(address, "/").unwrap();
    assert_eq!((moved.status, moved.header("location")), (307, "ui/?play"));
    assert_eq!(http::get(address, "/metrics").unwrap().status, 404);
    let foreign = "GET /api/v1/recording HTTP/1.1\r\nhost: evil.example\r\n\r\n";
    assert_eq!(http::ask(address, foreign).unwrap().status, 421);
    play.stop();

    // The browser decompresses it.
    let packed = [0x1f, 0x8b, 8, 0, 0, 0];
    fs::write(folder.join("night.gz"), packed).unwrap();
    let words = ["play", "night.gz", "--listen", "127.0.0.1:0"];
    let play = Process::start(folder, &words, "/ui/?play");
    let answer = http::get(play.address("http://", &['/']), "/api/v1/recording").unwrap();
    assert_eq!((answer.header("content-encoding"), &answer.body[..]), ("gzip", &packed[..]));
    play.stop();
}

#[test]
fn what_is_no_recording_is_refused_and_kept() {
    let place = TestFolder::new();
    let file = place.path().join("other");
    fs::write(&file, "of somebody").unwrap();
    let device = "file:flash?size=64MiB";
    let serve = ["serve", "--origin", "file:origin", "--device", device, "--record", "other"];
    let expected = "--record (log.record): other holds something other than a recording";
    check_failure(place.path(), &serve, (2, expected));
    let block = ["block", "--capacity", device, "--record", "none/file"];
    check_failure(place.path(), &block, (2, "--record (log.record): none/file cannot be written"));
    let access_log = [&serve[..5], &["--access-log", "log", "--record", "log"]].concat();
    check_failure(place.path(), &access_log, (2, "log.record: log is the access log"));
    let pipe = place.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
    let to_pipe = [&serve[..6], &["pipe"]].concat();
    check_failure(place.path(), &to_pipe, (2, "--record (log.record): pipe is not a regular file"));
    check_failure(place.path(), &["play", "pipe"], (2, "pipe is not a regular file"));
    assert!(!place.path().join("flash").exists(), "nothing was made");
    // One file cannot be both. It is empty, and stays so.
    let both = ["block", "--capacity", device, "--record", "flash"];
    check_failure(place.path(), &both, (1, "flash"));
    check_failure(
        place.path(),
        &["play", "other"],
        (2, "other is no recording: zonal serve --record"),
    );
    check_failure(place.path(), &["play", "none"], (2, "none cannot be read"));
    assert_eq!(fs::read(&file).unwrap(), b"of somebody");
}
