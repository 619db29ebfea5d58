//! Tests of `zonal serve`: serving, graceful shutdown, and restart.

use std::fs::File;
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Instant;

use rustix::process::Signal;

use crate::harness::{
    ACCESS_KEY, DEVICE, PATIENCE, Process, SECRET_KEY, TestFolder, metric, noise,
};
use crate::http::{self, S3};

#[test]
fn what_was_cached_is_served_after_a_restart_without_asking_the_origin() {
    let place = TestFolder::new();
    let sizes = [0, 1, 4095, 4096, 300_000, 5 << 20];
    let contents: Vec<Vec<u8>> =
        sizes.iter().zip(0..).map(|(bytes, seed)| noise(*bytes, seed)).collect();
    for (n, content) in contents.iter().enumerate() {
        place.object(&n.to_string(), content);
    }
    let first = place.start(&["--freshness", "immutable"]);
    for (n, content) in contents.iter().enumerate() {
        let answer = first.s3().get(&format!("/bucket/{n}")).unwrap();
        assert_eq!((answer.status, answer.header("x-cache")), (200, "MISS"));
        assert!(answer.body == *content);
    }
    first.stop();
    let second = place.start(&["--freshness", "immutable"]);
    for (n, content) in contents.iter().enumerate() {
        let answer = second.s3().get(&format!("/bucket/{n}")).unwrap();
        assert_eq!((answer.status, answer.header("x-cache")), (200, "HIT"), "object {n}");
        assert!(answer.body == *content);
    }
    assert_eq!(second.metric("zonal_origin_gets_total"), 0);
    assert_eq!(second.metric("zonal_origin_heads_total"), 0);
    second.stop();
}

#[test]
fn a_write_through_the_endpoint_is_seen_by_the_next_read_whatever_the_freshness() {
    let place = TestFolder::new();
    place.object("a", b"old");
    let zonal = place.start(&["--freshness", "immutable"]);
    let s3 = zonal.s3();
    assert_eq!(s3.get("/bucket/a").unwrap().text(), "old");
    assert_eq!(s3.put("/bucket/a", b"new").unwrap().status, 200);
    assert_eq!(s3.get("/bucket/a").unwrap().text(), "new");
    assert_eq!(s3.delete("/bucket/a").unwrap().status, 204);
    assert_eq!(s3.get("/bucket/a").unwrap().status, 404);
}

#[test]
fn a_prefix_may_be_trusted_more_than_the_rest() {
    let place = TestFolder::new();
    place.object("fixed", b"a");
    place.object("other", b"b");
    let zonal = place.start(&["--freshness-rule", "bucket/fix=immutable"]);
    let s3 = zonal.s3();
    for (key, second) in [("fixed", "HIT"), ("other", "REVALIDATED")] {
        let path = format!("/bucket/{key}");
        assert_eq!(s3.get(&path).unwrap().header("x-cache"), "MISS");
        assert_eq!(s3.get(&path).unwrap().header("x-cache"), second, "{key}");
    }
}

/// Regression: nothing showed how much of the cache was recovered, and what took the time.
#[test]
fn the_log_of_a_restart_says_what_was_recovered() {
    let place = TestFolder::new();
    place.object("a", &noise(1 << 20, 1));
    let words = ["--log-format", "json", "--policy", "zone-fifo", "--shards", "2"];
    let zonal = place.start(&words);
    assert_eq!(zonal.s3().get("/bucket/a").unwrap().status, 200);
    zonal.stop();
    let zonal = place.start(&words);
    // A thread of its own writes the log. Both starts end with such a line.
    let begin = Instant::now();
    while zonal.log().matches("\"pinned_max_bytes\"").count() < 2 {
        assert!(begin.elapsed() < PATIENCE, "{}", zonal.log());
    }
    let log = zonal.log();
    let mut told = log.lines().filter(|line| line.contains("\"recovered the device\""));
    let told = told.next().unwrap();
    let told: serde_json::Value = serde_json::from_str(told).unwrap();
    assert_eq!(
        (&told["objects"], &told["pieces"], &told["shards"]),
        (&1.into(), &4.into(), &2.into())
    );
    assert!((1 << 20) < told["bytes"].as_u64().unwrap(), "{told}");
    assert!(0.0 < told["seconds"].as_f64().unwrap(), "{told}");
    assert_eq!(told["device"], DEVICE);
    zonal.stop();
}

#[test]
fn it_is_healthy_and_ready_while_it_serves() {
    let place = TestFolder::new();
    let zonal = place.start(&[]);
    assert_eq!(zonal.admin("/healthz").status, 200);
    let ready = zonal.admin("/readyz");
    assert_eq!(ready.status, 200);
    assert_eq!(
        ready.text(),
        "{\"ready\":true,\"why\":\"serving\",\"cache_off\":false,\"lost_devices\":[],\"isolated_devices\":[],\"origin_trouble\":null,\"silent_origins\":[]}\n"
    );
    assert!(zonal.admin("/").text().contains("/metrics"));
    assert_eq!(zonal.admin("/nothing").status, 404);
    zonal.stop();
}

#[test]
fn logs_may_be_json_and_say_where_it_serves_and_that_it_stopped() {
    let place = TestFolder::new();
    let mut zonal = place.start(&["--log-format", "json"]);
    zonal.terminate();
    zonal.wait();
    let events: Vec<serde_json::Value> =
        zonal.log().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [formatted, serving, ..] = &events[..] else { panic!("{events:?}") };
    assert_eq!((&formatted["message"], &formatted["level"]), (&"formatted".into(), &"INFO".into()));
    assert_eq!(serving["message"], "serving");
    assert_eq!(serving["endpoint"], zonal.endpoint.to_string());
    // Regression: the value was the text of an array.
    assert_eq!(serving["devices"], 1);
    assert_eq!(events.last().unwrap()["message"], "stopped");
}

/// Object size in bytes that exceeds all buffers between the server and a client that does not
/// read.
const LONG: usize = 64 << 20;

#[test]
fn told_to_stop_it_ends_what_is_under_way_and_takes_nothing_new() {
    let place = TestFolder::new();
    let content = noise(LONG, 7);
    place.object("long", &content);
    let mut zonal = place.start(&[]);
    let download = zonal.s3().begin_get("/bucket/long").unwrap();
    assert_eq!(download.status(), 200);
    zonal.terminate();
    // `/readyz` returns 503 once the shutdown has begun.
    let ready = loop {
        let ready = zonal.admin("/readyz");
        if ready.status == 503 {
            break ready;
        }
    };
    assert!(ready.text().contains("stopping"), "{}", ready.text());
    while TcpStream::connect(zonal.endpoint).is_ok() {
        // Some listeners may not have closed yet.
        std::thread::yield_now();
    }
    assert!(download.finish().unwrap().body == content, "the download ended well");
    assert_eq!(zonal.wait().code(), Some(0));
}

#[test]
fn a_download_that_does_not_end_is_cut_and_a_second_order_is_obeyed_at_once() {
    let place = TestFolder::new();
    place.object("long", &noise(LONG, 7));
    let mut zonal = place.start(&["--limits-drain", "200ms"]);
    let held = zonal.s3().begin_get("/bucket/long").unwrap();
    zonal.terminate();
    assert_eq!(zonal.wait().code(), Some(0), "{}", zonal.log());
    drop(held);

    let mut zonal = place.start(&[]);
    let _held = zonal.s3().begin_get("/bucket/long").unwrap();
    zonal.terminate();
    assert_eq!(zonal.insist().code(), Some(1), "{}", zonal.log());
}

/// Regression: GNU `timeout` signals the process and its group. The second signal skipped the
/// graceful shutdown.
#[test]
fn two_signals_at_once_are_one_order() {
    let place = TestFolder::new();
    let content = noise(LONG, 7);
    place.object("long", &content);
    let mut zonal = place.start(&[]);
    let download = zonal.s3().begin_get("/bucket/long").unwrap();
    zonal.terminate();
    zonal.signal(Signal::INT);
    while zonal.admin("/readyz").status == 200 {}
    assert!(download.finish().unwrap().body == content, "the download ended well");
    assert_eq!(zonal.wait().code(), Some(0), "{}", zonal.log());
}

#[test]
fn a_second_order_to_stop_is_a_crash_that_brings_nothing_back() {
    let place = TestFolder::new();
    place.object("long", &noise(LONG, 7));
    for key in ["kept", "changed", "removed"] {
        place.object(key, b"old");
    }
    let mut zonal = place.start(&["--freshness", "immutable"]);
    let s3 = zonal.s3();
    for key in ["kept", "changed", "removed"] {
        assert_eq!(s3.get(&format!("/bucket/{key}")).unwrap().text(), "old");
    }
    let _held = s3.begin_get("/bucket/long").unwrap();
    assert_eq!(s3.put("/bucket/changed", b"new").unwrap().status, 200);
    assert_eq!(s3.delete("/bucket/removed").unwrap().status, 204);
    zonal.terminate();
    assert_eq!(zonal.insist().code(), Some(1), "{}", zonal.log());
    let zonal = place.start(&["--freshness", "immutable"]);
    let s3 = zonal.s3();
    assert_eq!(s3.get("/bucket/kept").unwrap().text(), "old");
    assert_eq!(s3.get("/bucket/changed").unwrap().text(), "new");
    assert_eq!(s3.get("/bucket/removed").unwrap().status, 404);
    assert_eq!(zonal.metric("zonal_device_zones_unreadable_total"), 0);
    zonal.stop();
}

#[test]
fn a_device_that_lost_its_content_costs_hits_and_nothing_else() {
    let place = TestFolder::new();
    let contents: Vec<Vec<u8>> = (0..20).map(|seed| noise(600_000, seed)).collect();
    for (n, content) in contents.iter().enumerate() {
        place.object(&n.to_string(), content);
    }
    place.start(&[]).stop();
    let zonal = place.start(&[]);
    let check_all = |when: &str| {
        for (n, content) in contents.iter().enumerate() {
            let answer = zonal.s3().get(&format!("/bucket/{n}")).unwrap();
            assert!(answer.status == 200 && answer.body == *content, "{n} {when}: {answer:?}");
        }
    };
    check_all("at first");
    File::options().write(true).open(place.path().join("flash")).unwrap().set_len(0).unwrap();
    check_all("after the file was cut");
    check_all("again");
    zonal.stop();
}

/// Regression: idle clients took the last file descriptor, and a supervisor restarted a healthy
/// process whose health check failed.
#[test]
fn idle_clients_leave_descriptors_for_all_else() {
    let place = TestFolder::new();
    place.object("a", b"hello");
    let mut limited = Command::new("prlimit");
    limited.args(["--nofile=128:128", env!("CARGO_BIN_EXE_zonal")]).stdin(Stdio::null());
    limited.args(["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--shards", "2"]);
    limited.args(["--device", DEVICE, "--origin", "file:origin"]);
    limited.args(["--access-key", ACCESS_KEY, "--secret-key", SECRET_KEY]);
    limited.current_dir(place.path());
    let served = Process::spawn(&mut limited, place.path(), "survives a restart");
    let endpoint = served.address("serves S3 at http://", &[',']);
    let (before, _) = served.banner.split_once("/metrics").unwrap();
    let admin = before.rsplit('/').next().unwrap().parse().unwrap();
    let idle: Vec<TcpStream> = (0..300).map(|_| TcpStream::connect(endpoint).unwrap()).collect();
    let begin = Instant::now();
    while metric(admin, "zonal_gateway_connections_accepted_total") < 300 {
        assert!(begin.elapsed() < PATIENCE, "{}", served.log());
    }
    assert_eq!(http::get(admin, "/readyz").unwrap().status, 200);
    let s3 = S3::new(endpoint, ACCESS_KEY, SECRET_KEY);
    assert_eq!(s3.get("/bucket/a").unwrap().status, 200, "an idle client makes room");
    assert!(100 < metric(admin, "zonal_gateway_connections_evicted_total"));
    assert_eq!(metric(admin, "zonal_gateway_accept_errors_total"), 0, "{}", served.log());
    drop(idle);
    while metric(admin, "zonal_gateway_connections_open") != 0 {
        assert!(begin.elapsed() < PATIENCE, "{}", served.log());
    }
    served.stop();
}
