//! Tests of `zonal cache warm` with a running server.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Output;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Instant;

use serde_json::{Value, json};

use crate::harness::{
    ACCESS_KEY, DEVICE, PATIENCE, SECRET_KEY, TestFolder, Zonal, check_failure, folder, noise,
};
use crate::http;

fn warm(place: &TestFolder, zonal: &Zonal, words: &[&str]) -> Output {
    place.cache(zonal, "warm", words)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn lines(output: &Output) -> Vec<Value> {
    text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn told(name: &str, [size, was_on_flash, fetched, on_flash]: [u64; 4], why: Option<&str>) -> Value {
    json!({"object": {
        "name": name, "size": size, "was_on_flash": was_on_flash, "fetched": fetched,
        "on_flash": on_flash, "pinned": 0, "why": why
    }})
}

#[test]
fn what_was_warmed_is_served_after_a_restart_and_what_was_not_is_told() {
    let place = TestFolder::new();
    let contents = [noise(300_000, 1), noise(40 << 20, 2)];
    place.object("a", &contents[0]);
    place.object("b c", &contents[1]);
    place.object("nil", &[]);
    let words = ["--freshness", "immutable", "--keep-rule", "bucket/kept=never"];
    place.object("kept", b"never");
    let first = place.start(&words);

    let asked = ["bucket/a", "bucket/none", "bucket/kept", "bucket/b c\t262144-524287", "--json"];
    let output = warm(&place, &first, &asked);
    assert_eq!(output.status.code(), Some(1));
    let error = "zonal: 2 of 4 objects are not, or not fully, on flash\n";
    assert_eq!(text(&output.stderr), error);
    let piece = 256 << 10;
    let report = [
        told("bucket/a", [300_000, 0, 300_000, 300_000], None),
        told("bucket/none", [0; 4], Some("not found")),
        told("bucket/kept", [0; 4], Some("not cached: a keep rule says never")),
        told("bucket/b c", [piece, 0, piece, piece], None),
        json!({"sum": {
            "prefixes_cut": 0, "objects": 4, "objects_on_flash": 2, "objects_pinned": 0, "size": 300_000 + piece, "was_on_flash": 0,
            "fetched": 300_000 + piece, "on_flash": 300_000 + piece, "pinned": 0, "objects_evicted": 0, "evicted": 0
        }}),
    ];
    assert_eq!(lines(&output), report);

    fs::write(place.path().join("list"), "bucket/a\n\nbucket/b c\nbucket/nil\n").unwrap();
    let output = warm(&place, &first, &["--list", "list"]);
    assert_eq!(text(&output.stderr), "");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(
        text(&output.stdout),
        "bucket/a: 293.0 KiB of 293.0 KiB on flash (293.0 KiB before, 0 B fetched)\n\
         bucket/b c: 40.0 MiB of 40.0 MiB on flash (256.0 KiB before, 39.8 MiB fetched)\n\
         bucket/nil: 0 B of 0 B on flash (0 B before, 0 B fetched)\n\
         on flash: 3 of 3 objects, 40.3 MiB of 40.3 MiB (549.0 KiB before, 39.8 MiB fetched)\n"
    );
    first.stop();

    let second = place.start(&words);
    for (path, content) in ["/bucket/a", "/bucket/b%20c"].iter().zip(&contents) {
        let answer = second.s3().get(path).unwrap();
        assert_eq!((answer.status, answer.header("x-cache")), (200, "HIT"), "{path}");
        assert!(answer.body == *content);
    }
    assert_eq!(second.metric("zonal_origin_gets_total"), 0);
    assert_eq!(second.metric("zonal_origin_heads_total"), 0);
    second.stop();
}

#[test]
fn what_the_origin_has_below_a_prefix_is_warmed() {
    let place = TestFolder::new();
    fs::create_dir(place.path().join("origin/bucket/p")).unwrap();
    for (key, bytes) in [("p/a", 1000), ("p/b +&é", 2000), ("q", 3000)] {
        place.object(key, &noise(bytes, 1));
    }
    let zonal = place.start(&[]);
    let output = warm(&place, &zonal, &["--prefix", "bucket/p/", "--json"]);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    let report = lines(&output);
    let listed = json!({"prefix": {"name": "bucket/p/", "objects": 2, "why": null}});
    assert_eq!(report[0], told("bucket/p/a", [1000, 0, 1000, 1000], None));
    assert_eq!(report[1], told("bucket/p/b +&é", [2000, 0, 2000, 2000], None));
    assert_eq!(report[2], listed);
    assert_eq!(
        (&report[3]["sum"]["objects"], &report[3]["sum"]["prefixes_cut"]),
        (&json!(2), &json!(0))
    );

    let output = warm(&place, &zonal, &["bucket/q", "--prefix", "bucket/none"]);
    assert_eq!(output.status.code(), Some(1));
    let said = "zonal: 1 prefix is empty, or was not fully listed\n";
    assert_eq!(text(&output.stderr), said);
    let nothing =
        "bucket/none*: 0 objects listed: not found: the origin has no object with this prefix\n";
    assert!(text(&output.stdout).contains(nothing), "{}", text(&output.stdout));
    zonal.stop();
}

#[test]
fn a_list_that_is_larger_than_flash_waits_for_flash_and_tells_what_went_again() {
    let place = TestFolder::new();
    let (count, bytes) = (20, 16 << 20);
    for n in 0..count {
        place.object(&n.to_string(), &noise(bytes, n));
    }
    let list: Vec<String> = (0..count).map(|n| format!("bucket/{n}\n")).collect();
    fs::write(place.path().join("list"), list.concat()).unwrap();
    let zonal = place.start(&[]);
    let output = warm(&place, &zonal, &["--list", "list", "--json"]);
    let mut report = lines(&output);
    let sum = report.pop().unwrap()["sum"].clone();
    for (n, line) in report.iter().enumerate() {
        let (name, on_flash) = (&line["object"]["name"], &line["object"]["on_flash"]);
        assert_eq!(*name, format!("bucket/{n}"), "in the order of the list");
        assert_eq!((on_flash, &line["object"]["why"]), (&json!(bytes), &Value::Null), "{name}");
    }
    let [size, fetched, on_flash, evicted] =
        ["size", "fetched", "on_flash", "evicted"].map(|of| sum[of].as_u64().unwrap());
    assert_eq!(output.status.code(), Some(1), "{sum}");
    assert_eq!((size, on_flash + evicted), (count * (16 << 20), size), "{sum}");
    assert!(0 < evicted && (128 << 20) < on_flash && size <= fetched, "{sum}");
    assert_eq!(zonal.metric("zonal_cache_refused_bytes_total"), 0, "it waited for room");
    zonal.stop();
}

/// Regression: an object that did not fit was fetched again and again, each time evicting its own
/// data.
#[test]
fn what_does_not_fit_is_not_fetched_again_and_again() {
    let place = TestFolder::new();
    let size = 96 << 20;
    place.object("large", &noise(size, 1));
    let zonal = place.start_on("file:flash?size=64MiB&zone=4MiB", &["--shards", "1"]);
    let output = warm(&place, &zonal, &["bucket/large", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let object = &lines(&output)[0]["object"];
    let fetched = object["fetched"].as_u64().unwrap();
    assert!(fetched <= 2 * size as u64, "{object}");
    let why = "not on flash: rejected, or evicted by later objects of this list";
    assert_eq!(object["why"], why);
    zonal.stop();
}

#[test]
fn what_cannot_be_meant_or_reached_is_said() {
    let folder = folder();
    let here = folder.path();
    fs::write(here.join("list"), "bucket/a\nbucket\n").unwrap();
    fs::write(here.join("nothing"), "\n").unwrap();
    let said = "list: line 2: \"bucket\": write BUCKET/KEY";
    check_failure(here, &["cache", "warm", "--list", "list"], (2, said));
    check_failure(here, &["cache", "warm"], (2, "the list is empty: name objects"));
    check_failure(here, &["cache", "warm", "--list", "nothing"], (2, "the list is empty"));
    check_failure(here, &["cache", "warm", "--list", "none"], (2, "none: No such file"));
    check_failure(here, &["cache", "warm", "a"], (2, "\"a\": write BUCKET/KEY"));
    let address = ["cache", "warm", "b/a", "--admin", "here"];
    check_failure(here, &address, (2, "--admin \"here\": write HOST:PORT"));
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let said = format!("cannot reach the admin endpoint at {free}: ");
    check_failure(here, &["cache", "warm", "b/a", "--admin", &free], (1, &said));
}

#[test]
fn the_admin_endpoint_bounds_lists_and_warms_one_at_once() {
    let place = TestFolder::new();
    place.object("a", b"a");
    let zonal = place.start(&[]);
    let post = |headers: &str, body: &[u8]| {
        let answer = http::post(zonal.admin, "/cache/warm", headers, body).unwrap();
        (answer.status, answer.text())
    };
    assert_eq!(zonal.admin("/cache/warm").status, 405);
    assert_eq!(post("", b"").0, 400);
    assert_eq!(post("", b"\xff/a").1, "the list is not UTF-8\n");
    let said = "line 2: \"b\": write BUCKET/KEY\n";
    assert_eq!(post("", b"bucket/a\nb\n"), (400, said.to_owned()));
    assert_eq!(post("origin: http://page\r\n", b"bucket/a\n").0, 403);
    assert_eq!(post("", "b/a\n".repeat(100_001).as_bytes()).0, 413);

    let mut large = TcpStream::connect(zonal.admin).unwrap();
    let head = "POST /cache/warm HTTP/1.1\r\nhost: localhost\r\ncontent-length: 20000000\r\n\r\n";
    large.write_all(head.as_bytes()).unwrap();
    // Wait until the first command runs: its list is incomplete, and it holds the only permit.
    while post("", b"bucket/a\n").0 != 409 {}
    drop(large);
    while post("", b"bucket/a\n").0 == 409 {}
    let (status, report) = post("", b"bucket/a\n");
    assert_eq!((status, report.lines().count()), (200, 2), "{report}");
    zonal.stop();
}

/// An S3 origin that answers a GET of an object `held-...` only when it is released.
#[derive(Clone, Default)]
struct HoldingOrigin(Arc<(Mutex<Held>, Condvar)>);

#[derive(Default)]
struct Held {
    is_released: bool,
    /// GETs that wait.
    gets: u32,
}

impl HoldingOrigin {
    fn start() -> (Self, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (origin, address) = (Self::default(), listener.local_addr().unwrap());
        let answering = origin.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, answering) = (stream.unwrap(), answering.clone());
                thread::spawn(move || answering.answer(stream));
            }
        });
        (origin, address)
    }

    fn held(&self) -> u32 {
        self.0.0.lock().unwrap().gets
    }

    fn release(&self) {
        self.0.0.lock().unwrap().is_released = true;
        self.0.1.notify_all();
    }

    fn answer(&self, mut stream: TcpStream) {
        let mut head = [0; 4096];
        let Ok(bytes) = stream.read(&mut head) else { return };
        let head = &head[..bytes];
        if head.starts_with(b"GET /bucket/held-") {
            let (held, changed) = &*self.0;
            let mut held = held.lock().unwrap();
            held.gets += 1;
            drop(changed.wait_while(held, |held| !held.is_released).unwrap());
        }
        let body = if head.starts_with(b"HEAD") { "" } else { "hello" };
        let answer = format!(
            "HTTP/1.1 200 OK\r\netag: \"v\"\r\nconnection: close\r\ncontent-length: 5\r\n\r\n{body}"
        );
        // A client that did not wait has closed the connection.
        let _ = stream.write_all(answer.as_bytes());
    }
}

/// A warm-up leaves at least half of the origin's slots to clients.
#[test]
fn a_warm_up_of_a_slow_origin_lets_clients_pass() {
    let place = TestFolder::new();
    let (origin, address) = HoldingOrigin::start();
    let spec = format!("s3:http://{address}?region=us-east-1");
    let words = ["--device", DEVICE, "--origin", &spec, "--access-key", ACCESS_KEY];
    let keys = ["--secret-key", SECRET_KEY, "--origin-access-key", "AK"];
    let more = ["--origin-secret-key", "SK", "--origin-reads", "4"];
    let zonal = Zonal::start(place.path(), &[&words[..], &keys, &more].concat());

    let objects: Vec<String> = (0..20).map(|number| format!("bucket/held-{number}")).collect();
    let list: Vec<&str> = objects.iter().map(String::as_str).collect();
    thread::scope(|scope| {
        let warming = scope.spawn(|| warm(&place, &zonal, &list));
        let begin = Instant::now();
        while origin.held() == 0 {
            assert!(begin.elapsed() < PATIENCE, "{}", zonal.log());
        }
        for number in 0..20 {
            let answer = zonal.s3().get(&format!("/bucket/live-{number}")).unwrap();
            assert_eq!((answer.status, answer.text().as_str()), (200, "hello"));
        }
        assert!(origin.held() <= 2, "{} requests of the warm-up", origin.held());
        origin.release();
        let output = warming.join().unwrap();
        assert!(output.status.success(), "{output:?}");
    });
    zonal.stop();
}
