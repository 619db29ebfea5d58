//! Tests of origin outages and refused credentials: the operator is told, and clients are not
//! blamed.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::{ACCESS_KEY, DEVICE, SECRET_KEY, TestFolder, Zonal};

/// Longer than a request to an origin on this machine takes.
const PATIENCE: Duration = Duration::from_secs(30);

fn start(place: &TestFolder, origin: SocketAddr) -> Zonal {
    let origin = format!("s3:http://{origin}?region=us-east-1");
    let words = ["--device", DEVICE, "--origin", &origin, "--access-key", ACCESS_KEY];
    let keys = ["--secret-key", SECRET_KEY, "--origin-access-key", "AK"];
    let more = ["--origin-secret-key", "SK", "--log-format", "json"];
    Zonal::start(place.path(), &[&words[..], &keys, &more].concat())
}

/// Waits for a warning in the log; returns its message and its error.
#[track_caller]
fn warning(zonal: &Zonal) -> (String, String) {
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        for line in zonal.log().lines() {
            let event: serde_json::Value = serde_json::from_str(line).unwrap();
            if event["level"] == "WARN" && event["message"].as_str().unwrap().contains("origin") {
                let text = |name: &str| event[name].as_str().unwrap().to_owned();
                return (text("message"), text("error"));
            }
        }
        thread::yield_now();
    }
    panic!("no warning in {}", zonal.log());
}

#[track_caller]
fn check_trouble(zonal: &Zonal, (said, advised): (&str, &str), answer: (u16, &str)) {
    let (message, error) = warning(zonal);
    assert!(error.contains(said), "{error}");
    assert!(message.contains(advised), "{message}");
    let ready = zonal.admin("/readyz");
    let text = ready.text();
    assert_eq!(ready.status, 200, "{text}");
    assert!(text.contains("\"origin_trouble\":\"") && text.contains(said), "{text}");
    assert_eq!(zonal.metric("zonal_origin_trouble"), 1);
    let found = zonal.s3().get("/bucket/a").unwrap();
    assert_eq!(found.status, answer.0, "{}", found.text());
    assert!(found.text().contains(answer.1), "{}", found.text());
}

#[test]
fn an_origin_that_is_away_is_told_before_the_first_client_comes() {
    let place = TestFolder::new();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = closed.local_addr().unwrap();
    drop(closed);
    let zonal = start(&place, address);
    let said = ("the origin cannot be reached", "that the origin is up");
    check_trouble(&zonal, said, (503, "ServiceUnavailable"));
    assert!(zonal.metric("zonal_origin_errors_total{kind=\"unreachable\"") > 0);
    zonal.stop();
}

#[test]
fn an_origin_that_refuses_our_keys_is_told_and_the_client_is_not_blamed() {
    let place = TestFolder::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = [0; 4096];
            let bytes = stream.read(&mut head).unwrap();
            let document = match head[..bytes].starts_with(b"HEAD") {
                true => "",
                false => "<Error><Code>SignatureDoesNotMatch</Code></Error>",
            };
            let length = document.len();
            let status = "HTTP/1.1 403 Forbidden\r\nconnection: close";
            let answer = format!("{status}\r\ncontent-length: {length}\r\n\r\n{document}");
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    let zonal = start(&place, address);
    let said = ("SignatureDoesNotMatch", "origin.secret-key");
    check_trouble(&zonal, said, (502, "rejected the cache's credentials"));
    assert_eq!(zonal.s3().get("/").unwrap().status, 502);
    zonal.stop();
}

#[test]
fn one_origin_in_trouble_leaves_the_others_alone() {
    let place = TestFolder::new();
    place.object("a", b"hello");
    let closed = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = closed.local_addr().unwrap();
    drop(closed);
    let config = format!(
        "[[origin]]\nspec = 's3:http://{address}'\nname = 'far'\nbuckets = ['far']\n\
         access-key = 'AK'\nsecret-key = 'SK'\n\
         [[origin]]\nspec = 'file:origin'\nname = 'near'\nbuckets = ['bucket']\n"
    );
    std::fs::write(place.path().join("zonal.toml"), config).unwrap();
    let words = ["--config", "zonal.toml", "--device", DEVICE, "--access-key", ACCESS_KEY];
    let more = ["--secret-key", SECRET_KEY, "--log-format", "json"];
    let zonal = Zonal::start(place.path(), &[&words[..], &more].concat());
    let (_, error) = warning(&zonal);
    assert!(error.contains("cannot be reached"), "{error}");
    assert!(zonal.admin("/readyz").text().contains("\"origin_trouble\":\"far: "));
    assert_eq!(zonal.metric("zonal_origin_trouble{origin=\"far\"}"), 1);
    assert_eq!(zonal.metric("zonal_origin_trouble{origin=\"near\"}"), 0);
    assert_eq!(zonal.s3().get("/bucket/a").unwrap().body, b"hello");
    assert_eq!(zonal.s3().get("/far/a").unwrap().status, 503);
    assert_eq!(zonal.s3().get("/none/a").unwrap().status, 404);
    zonal.stop();
}

/// An S3 origin in a thread for each connection. While it is stopped it accepts connections and
/// answers nothing, like a process after SIGSTOP.
struct StoppableOrigin {
    address: SocketAddr,
    is_stopped: Arc<(Mutex<bool>, Condvar)>,
}

impl StoppableOrigin {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let is_stopped = Arc::<(Mutex<bool>, Condvar)>::default();
        let waiting = is_stopped.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, waiting) = (stream.unwrap(), waiting.clone());
                thread::spawn(move || answer_unless_stopped(stream, &waiting));
            }
        });
        Self { address, is_stopped }
    }

    fn set_stopped(&self, to: bool) {
        *self.is_stopped.0.lock().unwrap() = to;
        self.is_stopped.1.notify_all();
    }
}

fn answer_unless_stopped(mut stream: TcpStream, (is_stopped, changed): &(Mutex<bool>, Condvar)) {
    let mut head = [0; 4096];
    let Ok(bytes) = stream.read(&mut head) else { return };
    drop(changed.wait_while(is_stopped.lock().unwrap(), |is_stopped| *is_stopped).unwrap());
    let version = "etag: \"v\"\r\nconnection: close";
    let answer = match &head[..bytes] {
        head if head.starts_with(b"HEAD") => {
            format!("HTTP/1.1 200 OK\r\n{version}\r\ncontent-length: 5\r\n\r\n")
        }
        head if head.starts_with(b"GET /bucket/") => {
            format!("HTTP/1.1 200 OK\r\n{version}\r\ncontent-length: 5\r\n\r\nhello")
        }
        _ => {
            let list = "<ListAllMyBucketsResult/>";
            let length = list.len();
            format!("HTTP/1.1 200 OK\r\n{version}\r\ncontent-length: {length}\r\n\r\n{list}")
        }
    };
    // A client that did not wait has closed the connection.
    let _ = stream.write_all(answer.as_bytes());
}

/// Each read under `revalidate` waited for `origin.answer`, 30 s, as long as the origin was stopped.
#[test]
fn a_stopped_origin_is_waited_for_once_and_noticed_when_it_continues() {
    let place = TestFolder::new();
    let origin = StoppableOrigin::start();
    let config = "[[freshness.rules]]\nprefix = 'bucket/stale/'\n\
                  freshness = 'revalidate?stale-if-error=1h'\n";
    std::fs::write(place.path().join("zonal.toml"), config).unwrap();
    let spec = format!("s3:http://{}?region=us-east-1", origin.address);
    let words = ["--config", "zonal.toml", "--device", DEVICE, "--origin", &spec];
    let keys = ["--access-key", ACCESS_KEY, "--secret-key", SECRET_KEY];
    let more = ["--origin-access-key", "AK", "--origin-secret-key", "SK", "--origin-answer", "2s"];
    let zonal = Zonal::start(place.path(), &[&words[..], &keys, &more].concat());
    for key in ["/bucket/a", "/bucket/stale/a"] {
        assert_eq!(zonal.s3().get(key).unwrap().text(), "hello");
    }
    origin.set_stopped(true);
    assert_eq!(zonal.s3().get("/bucket/a").unwrap().status, 503);
    zonal.await_metric("zonal_origin_circuit_open{", 1);
    let ready = zonal.admin("/readyz");
    assert!(ready.status == 200 && ready.text().contains("\"silent_origins\":[\"s3:"), "{ready:?}");
    let began_at = Instant::now();
    for _ in 0..20 {
        assert_eq!(zonal.s3().get("/bucket/a").unwrap().status, 503);
        assert_eq!(zonal.s3().put("/bucket/b", b"new").unwrap().status, 503);
        // A write that is refused without being sent leaves the cached object.
        assert_eq!(zonal.s3().put("/bucket/stale/a", b"new").unwrap().status, 503);
        let stale = zonal.s3().get("/bucket/stale/a").unwrap();
        assert_eq!((stale.status, stale.header("x-cache")), (200, "STALE"));
    }
    assert!(began_at.elapsed() < Duration::from_secs(20), "{:?}", began_at.elapsed());
    origin.set_stopped(false);
    zonal.await_metric("zonal_origin_circuit_open{", 0);
    assert_eq!(zonal.s3().get("/bucket/a").unwrap().header("x-cache"), "REVALIDATED");
    let begin = Instant::now();
    while zonal.s3().get("/bucket/stale/a").unwrap().header("x-cache") != "REVALIDATED" {
        assert!(begin.elapsed() < PATIENCE);
    }
    assert!(zonal.admin("/readyz").text().contains("\"silent_origins\":[]"));
    assert_eq!(zonal.metric("zonal_origin_circuit_opens_total"), 1);
    for said in ["origin answers nothing", "origin answers again"] {
        zonal.await_log(said);
    }
    let events = zonal.admin("/api/v1/events").text();
    let happened = ["origin-unhealthy", "origin-silent", "origin-answers"];
    assert!(happened.iter().all(|what| events.contains(what)), "{events}");
    zonal.stop();
}
