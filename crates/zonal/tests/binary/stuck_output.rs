//! Tests of outputs that nothing takes: a full pipe without a reader, and a full disk.

use std::fs::File;
use std::io::{BufRead, BufReader, PipeWriter, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{ACCESS_KEY, DEVICE, PATIENCE, SECRET_KEY, TestFolder, zonal};
use crate::http::{self, S3};

/// `zonal serve` in a folder, with logs as JSON.
fn serve(place: &TestFolder, more: &[&str]) -> Command {
    let mut command = zonal(place.path());
    command.args(["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    command.args(["--device", DEVICE, "--origin", "file:origin", "--log-format", "json"]);
    command.args(["--access-key", ACCESS_KEY, "--secret-key", SECRET_KEY]);
    command.args(["--limits-drain", "1s"]).args(more);
    command
}

/// Sends SIGTERM, and expects exit code 0 within the drain time and some seconds.
#[track_caller]
fn stop(mut child: Child) {
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let begin = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if PATIENCE <= begin.elapsed() {
            child.kill().unwrap();
            panic!("SIGTERM does not end it");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// Addresses of both endpoints, from the line `serving` of a log in JSON.
fn addresses(log: impl BufRead) -> [std::net::SocketAddr; 2] {
    let mut lines = log.lines().map(|line| line.unwrap());
    let serving = lines.find(|line| line.contains("\"message\":\"serving\"")).unwrap();
    let line: serde_json::Value = serde_json::from_str(&serving).unwrap();
    ["endpoint", "admin"].map(|name| line[name].as_str().unwrap().parse().unwrap())
}

/// Fills a pipe, so that the next write to it waits.
fn fill(mut pipe: &PipeWriter) {
    fcntl_setfl(pipe, OFlags::NONBLOCK).unwrap();
    while pipe.write(&[b'x'; 4096]).is_ok() {}
    while pipe.write(b"x").is_ok() {}
    fcntl_setfl(pipe, OFlags::empty()).unwrap();
}

/// Regression: a start that failed did not end while nobody read its last line.
#[test]
fn a_start_that_fails_ends_though_nobody_reads_why() {
    let place = TestFolder::new();
    let (unread, stderr) = std::io::pipe().unwrap();
    fill(&stderr);
    let mut command = serve(&place, &["--freshness", "never"]);
    let mut child = command.stdout(Stdio::null()).stderr(stderr).spawn().unwrap();
    let begin = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if PATIENCE <= begin.elapsed() {
            child.kill().unwrap();
            panic!("it waits for its reader");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(child.wait().unwrap().code(), Some(2));
    drop(unread);
}

/// Regression: SIGTERM did not end a Zonal whose access log was stuck.
#[test]
fn an_access_log_that_nobody_reads_loses_lines_and_stops_nothing() {
    let place = TestFolder::new();
    place.object("a", b"hello");
    let (unread, stdout) = std::io::pipe().unwrap();
    let mut command = serve(&place, &["--access-log", "-", "--freshness", "immutable"]);
    let mut child = command.stdout(stdout).stderr(Stdio::piped()).spawn().unwrap();
    let [endpoint, admin] = addresses(BufReader::new(child.stderr.take().unwrap()));
    let s3 = S3::new(endpoint, ACCESS_KEY, SECRET_KEY);
    // 64 KiB fit into the pipe, so that the thread of the log is stuck in a write.
    for _ in 0..400 {
        assert_eq!(s3.get("/bucket/a").unwrap().status, 200);
    }
    kill_process(Pid::from_child(&child), Signal::HUP).unwrap();
    assert_eq!(http::get(admin, "/healthz").unwrap().status, 200);
    drop(command);
    stop(child);
    drop(unread);
}

/// Regression: each log line waited for the pipe, and with it the admin endpoint and the shards.
#[test]
fn a_log_that_nobody_reads_stops_nothing() {
    let place = TestFolder::new();
    place.object("a", b"hello");
    let (unread, stderr) = std::io::pipe().unwrap();
    fill(&stderr);
    let mut command = serve(&place, &[]);
    let mut child = command.stdout(Stdio::piped()).stderr(stderr).spawn().unwrap();
    let banner = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut banner = banner.map_while(Result::ok).filter(|line| !line.is_empty());
    let after = |line: &str, word: &str, end: char| -> std::net::SocketAddr {
        let (_, rest) = line.split_once(word).unwrap();
        rest[..rest.find(end).unwrap()].parse().unwrap()
    };
    let endpoint = after(&banner.next().unwrap(), "http://", ',');
    let metrics = banner.find(|line| line.contains("/metrics")).unwrap();
    let admin = after(&metrics, "http://", '/');
    let s3 = S3::new(endpoint, ACCESS_KEY, SECRET_KEY);
    assert_eq!(s3.get("/bucket/a").unwrap().status, 200);
    assert_eq!(http::get(admin, "/readyz").unwrap().status, 200);
    // The queue of the log has room for these lines: none is lost yet.
    assert_eq!(crate::harness::metric(admin, "zonal_log_lines_lost_total"), 0);
    drop(command);
    stop(child);
    drop(unread);
}

/// Regression: a Zonal that served ended because its banner could not be printed.
#[test]
fn a_banner_on_a_full_disk_ends_nothing() {
    let place = TestFolder::new();
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut child = serve(&place, &[]).stdout(full).stderr(Stdio::piped()).spawn().unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap());
    let [_, admin] = addresses(&mut log);
    assert!(log.lines().any(|line| line.unwrap().contains("banner could not be printed")));
    assert_eq!(http::get(admin, "/readyz").unwrap().status, 200);
    stop(child);
}
