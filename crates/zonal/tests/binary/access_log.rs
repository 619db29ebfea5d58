//! Tests of the access log: one line per request, log rotation, and no secrets in it.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use rustix::process::Signal;
use serde_json::Value;

use crate::harness::{
    ACCESS_KEY, DEVICE, PATIENCE, SECRET_KEY, TestFolder, Zonal, check_failure, zonal,
};
use crate::http::{self, S3};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";

fn lines(place: &TestFolder, file: &str) -> Vec<Value> {
    let text = fs::read_to_string(place.path().join(file)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Checks fields of a line, by their JSON names and values.
#[track_caller]
fn check(line: &Value, fields: &[(&str, Value)]) {
    for (name, value) in fields {
        assert_eq!(line[*name], *value, "{name} of {line}");
    }
}

#[test]
fn every_request_leaves_a_line_without_its_signature() {
    let place = TestFolder::new();
    place.object("a b", b"hello");
    let zonal = place.start(&["--access-log", "access.json", "--freshness", "immutable"]);
    let s3 = zonal.s3();
    let trace = format!("traceparent: 00-{TRACE}-{SPAN}-01\r\nuser-agent: a test\r\n");
    let first = s3.get_with("/bucket/a%20b", &trace).unwrap();
    assert_eq!(s3.get_presigned("/bucket/a%20b").unwrap().status, 200);
    assert_eq!(s3.get("/bucket/none").unwrap().status, 404);
    assert_eq!(S3::new(zonal.endpoint, ACCESS_KEY, "no").get("/bucket/a").unwrap().status, 403);
    assert_eq!(s3.put("/bucket/new", b"12345678").unwrap().status, 200);
    zonal.stop();
    let text = fs::read_to_string(place.path().join("access.json")).unwrap();
    assert!(
        !text.contains(SECRET_KEY)
            && !text.contains("Signature=0")
            && !text.contains("AWS4-HMAC-SHA256 ")
    );
    let lines = lines(&place, "access.json");
    assert_eq!(lines.len(), 5, "{text}");
    check(
        &lines[0],
        &[
            ("aws.request_id", first.header("x-amz-request-id").into()),
            ("client.address", "127.0.0.1".into()),
            ("zonal.access_key", ACCESS_KEY.into()),
            ("rpc.method", "GetObject".into()),
            ("aws.s3.bucket", "bucket".into()),
            ("aws.s3.key", "a b".into()),
            ("http.request.method", "GET".into()),
            ("url.path", "/bucket/a%20b".into()),
            ("http.response.status_code", 200.into()),
            ("error.type", Value::Null),
            ("zonal.x_cache", "MISS".into()),
            ("http.response.body.size", 5.into()),
            ("zonal.object.size", 5.into()),
            ("user_agent.original", "a test".into()),
            ("trace_id", TRACE.into()),
            ("span_id", SPAN.into()),
        ],
    );
    assert!(
        lines[0]["zonal.time_to_first_byte"].as_f64()
            <= lines[0]["http.server.request.duration"].as_f64()
    );
    let at = lines[0]["timestamp"].as_str().unwrap();
    assert!(at.len() == "2026-01-01T00:00:00.000Z".len() && at.ends_with('Z'), "{at}");
    check(&lines[1], &[("zonal.x_cache", "HIT".into()), ("zonal.access_key", ACCESS_KEY.into())]);
    let query = lines[1]["url.query"].as_str().unwrap();
    assert!(query.ends_with("&X-Amz-Signature=-"), "{query}");
    let refused = |code: &str, status: u16| {
        [("error.type", code.into()), ("http.response.status_code", status.into())]
    };
    check(&lines[2], &refused("NoSuchKey", 404));
    check(&lines[2], &[("zonal.x_cache", "MISS".into()), ("zonal.object.size", Value::Null)]);
    check(&lines[3], &refused("SignatureDoesNotMatch", 403));
    check(&lines[4], &[("rpc.method", "PutObject".into()), ("aws.s3.key", "new".into())]);
}

#[test]
fn after_sighup_it_goes_on_in_a_new_file() {
    let place = TestFolder::new();
    place.object("a", b"hello");
    let zonal = place.start(&["--access-log", "access.json"]);
    assert_eq!(zonal.s3().get("/bucket/a").unwrap().status, 200);
    let (file, moved) = (place.path().join("access.json"), place.path().join("access.json.1"));
    fs::rename(&file, &moved).unwrap();
    zonal.signal(Signal::HUP);
    let begin = Instant::now();
    while !file.exists() {
        assert!(begin.elapsed() < PATIENCE, "{}", zonal.log());
        thread::yield_now();
    }
    assert_eq!(zonal.s3().get("/bucket/b").unwrap().status, 404);
    zonal.stop();
    let keys = |file| -> Vec<Value> {
        lines(&place, file).into_iter().map(|line| line["aws.s3.key"].clone()).collect()
    };
    assert_eq!((keys("access.json.1"), keys("access.json")), (vec!["a".into()], vec!["b".into()]));
}

#[test]
fn a_file_that_cannot_be_written_is_refused_at_the_start() {
    let place = TestFolder::new();
    let words = ["serve", "--access-log", "none/access.json"];
    check_failure(place.path(), &words, (2, "log.access: none/access.json: No such file"));
}

/// Regression: the open waited for a reader, and Zonal neither served nor stopped.
#[test]
fn a_named_pipe_that_nobody_reads_is_refused_at_the_start() {
    let place = TestFolder::new();
    let pipe = place.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let words = ["serve", "--access-log", "pipe"];
    check_failure(place.path(), &words, (2, "log.access: pipe: nobody reads this named pipe"));
}

#[test]
fn what_is_lost_is_counted_and_told_and_no_request_fails() {
    let place = TestFolder::new();
    place.object("a", b"hello");
    // Writes to /dev/full fail with ENOSPC.
    let zonal = place.start(&["--access-log", "/dev/full"]);
    assert_eq!(zonal.s3().get("/bucket/a").unwrap().status, 200);
    zonal.await_metric("zonal_gateway_access_lines_lost_total", 1);
    zonal.await_log("access log: write failed");
    assert_eq!(zonal.s3().get("/bucket/a").unwrap().status, 200);
    zonal.await_metric("zonal_gateway_access_lines_lost_total", 2);
    zonal.stop();
}

/// Regression: the banner, with a secret, was mixed with the JSON lines.
#[test]
fn standard_output_is_the_access_logs_alone_where_it_goes_there() {
    for format in ["text", "json"] {
        let place = TestFolder::new();
        let [listen, admin] = [(); 2].map(|()| {
            let taken = TcpListener::bind("127.0.0.1:0").unwrap();
            taken.local_addr().unwrap()
        });
        let to = |name: &str| File::create(place.path().join(name)).unwrap();
        let mut child = zonal(place.path())
            .args(["serve", "--listen", &listen.to_string(), "--admin", &admin.to_string()])
            .args(["--device", DEVICE, "--origin", "file:origin"])
            .args(["--access-log", "-", "--log-format", format])
            .stdout(to("access"))
            .stderr(to("log"))
            .spawn()
            .unwrap();
        let begin = Instant::now();
        while !http::get(admin, "/readyz").is_ok_and(|ready| ready.status == 200) {
            assert!(begin.elapsed() < PATIENCE, "it does not come up");
            thread::yield_now();
        }
        assert_eq!(S3::new(listen, ACCESS_KEY, SECRET_KEY).get("/bucket/a").unwrap().status, 403);
        let id = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(id, Signal::TERM).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0));
        let written = lines(&place, "access");
        assert_eq!(written.len(), 1, "{written:?}");
        let log = fs::read_to_string(place.path().join("log")).unwrap();
        match format {
            "json" => assert!(!lines(&place, "log").is_empty()),
            _ => assert!(log.contains("  eval \"$("), "{log}"),
        }
    }
}

#[test]
fn the_level_of_the_log_is_read_again() {
    let place = TestFolder::new();
    let write = |level: &str| {
        let config = format!("[log]\nlevel = '{level}'\n");
        fs::write(place.path().join("zonal.toml"), config).unwrap();
    };
    write("error");
    let zonal = place.start(&["--config", "zonal.toml"]);
    assert!(!zonal.log().contains("serving"), "{}", zonal.log());
    write("info");
    zonal.signal(Signal::HUP);
    zonal.await_metric("zonal_config_reloads_total", 1);
    let begin = Instant::now();
    while !zonal.log().contains("reload applied") {
        assert!(begin.elapsed() < PATIENCE, "{}", zonal.log());
        thread::yield_now();
    }
    zonal.stop();
}

#[test]
fn the_trace_of_a_request_goes_to_the_origin_with_it() {
    let place = TestFolder::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (heads, seen) = mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = [0; 4096];
            let bytes = stream.read(&mut head).unwrap();
            let _ = heads.send(String::from_utf8_lossy(&head[..bytes]).into_owned());
            let answer = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    let origin = format!("s3:http://{address}?region=us-east-1");
    let words = ["--device", DEVICE, "--origin", &origin, "--origin-credentials", "anonymous"];
    let keys = ["--access-key", ACCESS_KEY, "--secret-key", SECRET_KEY];
    let zonal = Zonal::start(place.path(), &[&words[..], &keys].concat());
    let trace = format!("traceparent: 00-{TRACE}-{SPAN}-01\r\n");
    assert_eq!(zonal.s3().get_with("/bucket?list-type=2", &trace).unwrap().status, 200);
    let head = loop {
        let head = seen.recv_timeout(PATIENCE).unwrap();
        if head.contains("list-type=2") {
            break head;
        }
    };
    assert!(head.contains(&format!("traceparent: 00-{TRACE}-{SPAN}-01")), "{head}");
    zonal.stop();
}
