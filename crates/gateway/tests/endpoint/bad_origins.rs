//! Origins that are unreachable, send wrong answers, or break off.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use http::Method;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use zonal_host::Freshness;
use zonal_origin::{Endpoint, Origin, OriginLimits, S3Origin};
use zonal_s3::sigv4::Credentials;

use crate::client::{Ask, Connection, ask, get};
use crate::world::{REVALIDATE, World, eventually, pattern};

/// A step of the origin on a connection. After the last step it closes the connection.
pub(crate) enum Step {
    Send(Vec<u8>),
    Wait(Arc<Notify>),
}

pub(crate) fn send(text: &str) -> Vec<Step> {
    vec![Step::Send(text.as_bytes().to_vec())]
}

fn s3(address: SocketAddr) -> Origin {
    let endpoint: Endpoint = format!("http://{address}").parse().unwrap();
    let limits = OriginLimits { retries: 0, ..OriginLimits::default() };
    let (access_key, secret_key) = ("AK".into(), "SK".into());
    let keys = Credentials { access_key, secret_key, session_token: None };
    let origin = S3Origin::open(endpoint, "us-east-1".into(), Some(keys), limits).unwrap();
    origin.with_buckets(&["b".to_owned()]).into()
}

/// An origin that answers each request with the steps that `script` returns for its head.
pub(crate) async fn scripted(script: impl Fn(&str) -> Vec<Step> + Send + Sync + 'static) -> Origin {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let script = Arc::new(script);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let script = script.clone();
            tokio::spawn(async move { play(stream, &*script).await });
        }
    });
    s3(address)
}

async fn play(mut stream: TcpStream, script: &(impl Fn(&str) -> Vec<Step> + Sync)) {
    let mut head = Vec::new();
    while !head.windows(4).any(|window| window == b"\r\n\r\n") {
        let mut byte = [0];
        if stream.read(&mut byte).await.unwrap_or(0) == 0 {
            return;
        }
        head.push(byte[0]);
    }
    let steps = script(&String::from_utf8(head).unwrap());
    let mut is_first = true;
    for step in steps {
        match step {
            Step::Send(bytes) => {
                let bytes = if std::mem::take(&mut is_first) { the_only(&bytes) } else { bytes };
                stream.write_all(&bytes).await.unwrap();
            }
            Step::Wait(notify) => notify.notified().await,
        }
    }
}

/// The same answer with `Connection: close`.
fn the_only(answer: &[u8]) -> Vec<u8> {
    let status = answer.windows(2).position(|window| window == b"\r\n").unwrap();
    [&answer[..status], b"\r\nconnection: close", &answer[status..]].concat()
}

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-length: 1048576\r\netag: \"e\"\r\n\r\n";
const MIB: usize = 1 << 20;

#[tokio::test]
async fn when_the_origin_is_away_the_answer_says_so() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = s3(listener.local_addr().unwrap());
    drop(listener);
    let world = World::over_origin(origin, Freshness::Immutable).await;
    for method in ["GET", "PUT", "DELETE"] {
        let answer = ask(world.address, Ask::new(method, "/b/k")).await;
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (503, "ServiceUnavailable"),
            "{method}"
        );
        assert!(answer.has("x-amz-request-id"));
    }
    let head = ask(world.address, Ask::new("HEAD", "/b/k")).await;
    assert_eq!((head.status, head.body.len()), (503, 0));
}

/// Regression: an origin that answered before it had taken the body made Zonal close the client's
/// connection without a word, so the next request on it got no answer.
#[tokio::test]
async fn an_answer_before_the_end_of_an_upload_says_that_the_connection_ends() {
    let held = Arc::new(Notify::new());
    let origin = scripted(move |_| {
        let refusal = "HTTP/1.1 503 Slow Down\r\ncontent-length: 0\r\n\r\n";
        vec![Step::Send(refusal.into()), Step::Wait(held.clone())]
    })
    .await;
    let world = World::over_origin(origin, Freshness::Immutable).await;
    let mut client = Connection::open(world.address).await;
    let wire = Ask::new("PUT", "/b/k").body(pattern(MIB, 0)).signed();
    client.send(&wire[..wire.len() - 1]).await;
    let answer = client.answer(&Method::PUT).await.unwrap();
    assert_eq!((answer.status, answer.header("connection")), (503, "close"));
    let whole = Ask::new("PUT", "/b/k").body("x");
    let answer = Connection::open(world.address).await.ask(whole).await;
    assert!(answer.status == 503 && !answer.has("connection"));
}

/// First byte that a GET of the object of 1 MiB asks for, and the head of an answer with all bytes
/// from there on.
fn from_range_on(head: &str) -> (usize, String) {
    let Some((_, range)) = head.split_once("bytes=") else { return (0, HEAD.to_owned()) };
    let from: usize = range.split_once('-').unwrap().0.parse().unwrap();
    let part = format!(
        "HTTP/1.1 206 Partial Content\r\ncontent-length: {}\r\netag: \"e\"\r\n\
         content-range: bytes {from}-1048575/1048576\r\n\r\n",
        MIB - from
    );
    (from, part)
}

#[tokio::test]
async fn an_answer_whose_rest_cannot_be_had_is_cut_and_not_kept() {
    let whole = Arc::new(AtomicBool::new(false));
    let sends_all = whole.clone();
    let origin = scripted(move |head| {
        let (from, part) = from_range_on(head);
        let end = if sends_all.load(Ordering::Relaxed) { MIB } else { 600_000 };
        vec![Step::Send([part.as_bytes(), &pattern(MIB, 0)[from..end]].concat())]
    })
    .await;
    let world = World::over_origin(origin, Freshness::Immutable).await;
    let broken = get(world.address, "/b/k").await;
    assert!(broken.status == 200 && broken.cut, "{} bytes came", broken.body.len());
    assert!(broken.body == pattern(MIB, 0)[..broken.body.len()]);
    assert_eq!(world.gateway.stats().responses_cut.get(), 1);
    whole.store(true, Ordering::Relaxed);
    let answer = get(world.address, "/b/k").await;
    assert!(!answer.cut && answer.body == pattern(MIB, 0));
}

/// Regression: a first answer that broke off before its first byte was 503, although nothing had
/// been sent to the client.
#[tokio::test]
async fn a_first_answer_without_a_byte_is_requested_again() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let origin = scripted(move |head| {
        let (from, part) = from_range_on(head);
        let is_first = count.fetch_add(1, Ordering::Relaxed) == 0;
        let end = if is_first { from } else { MIB };
        vec![Step::Send([part.as_bytes(), &pattern(MIB, 0)[from..end]].concat())]
    })
    .await;
    let world = World::over_origin(origin, Freshness::Immutable).await;
    let answer = get(world.address, "/b/k").await;
    assert!(answer.status == 200 && !answer.cut && answer.body == pattern(MIB, 0));
    assert_eq!(asked.load(Ordering::Relaxed), 2);
}

/// An origin that breaks off after each byte is not asked for ever.
#[tokio::test]
async fn a_body_that_always_breaks_off_is_given_up() {
    let starts = Arc::new(Mutex::new(Vec::new()));
    let seen = starts.clone();
    let origin = scripted(move |head| {
        let (from, part) = from_range_on(head);
        seen.lock().unwrap().push(from);
        vec![Step::Send([part.as_bytes(), &pattern(MIB, 0)[from..=from]].concat())]
    })
    .await;
    let world = World::over_origin(origin, Freshness::Immutable).await;
    let broken = get(world.address, "/b/k").await;
    assert!(broken.cut && broken.body == pattern(MIB, 0)[..broken.body.len()]);
    // The first request and 16 for the rest, each from where the bytes ended.
    assert_eq!(*starts.lock().unwrap(), (0..17).collect::<Vec<_>>());
}

/// Regression: a body that broke off once cut the client's answer, although the next request would
/// have brought the rest.
#[tokio::test]
async fn the_rest_of_an_answer_that_breaks_off_is_requested_again() {
    let ranges = Arc::new(Mutex::new(Vec::new()));
    let seen = ranges.clone();
    let origin = scripted(move |head| {
        let (from, part) = from_range_on(head);
        assert!(from == 0 || head.contains("if-match: \"e\""));
        seen.lock().unwrap().push(from);
        let end = MIB.min(from + 300_000);
        vec![Step::Send([part.as_bytes(), &pattern(MIB, 0)[from..end]].concat())]
    })
    .await;
    let world = World::over_origin(origin, Freshness::Immutable).await;
    let answer = get(world.address, "/b/k").await;
    assert!(!answer.cut && answer.body == pattern(MIB, 0));
    assert_eq!(*ranges.lock().unwrap(), [0, 300_000, 600_000, 900_000]);
}

#[tokio::test]
async fn a_range_that_is_not_the_one_asked_for_is_no_data() {
    let lie = "HTTP/1.1 206 Partial Content\r\ncontent-length: 5\r\netag: \"e\"\r\n\
               content-range: bytes 7-11/1048576\r\n\r\nwrong";
    let origin =
        scripted(move |head| send(if head.starts_with("HEAD") { HEAD } else { lie })).await;
    let world = World::over_origin(origin, Freshness::Immutable).await;
    let answer = get(world.address, "/b/k").await;
    assert_eq!((answer.status, answer.code().as_str()), (502, "BadGateway"));
}

#[tokio::test]
async fn what_the_origin_refuses_is_told_in_its_own_words() {
    let denied = "HTTP/1.1 403 Forbidden\r\ncontent-type: application/xml\r\nx-amz-request-id: R1\r\n\
                  content-length: 56\r\n\r\n<Error><Code>AllAccessDisabled</Code><x>12345678</x></Error>";
    let origin = scripted(move |head| {
        let end =
            if head.starts_with("HEAD") { denied.find("<Error").unwrap() } else { denied.len() };
        send(&denied[..end])
    })
    .await;
    let world = World::over_origin(origin, Freshness::Immutable).await;
    let answer = get(world.address, "/b/k").await;
    assert_eq!((answer.status, answer.code().as_str()), (403, "AllAccessDisabled"));
    assert_eq!((answer.header("x-cache"), answer.header("x-amz-request-id")), ("BYPASS", "R1"));
    assert_eq!(ask(world.address, Ask::new("HEAD", "/b/k")).await.status, 403);
}

/// An origin that answers every request with an error document, which a HEAD gets without its body.
async fn refusing(status: &'static str, document: &'static str) -> Origin {
    scripted(move |head| {
        let length = document.len();
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n");
        send(&(answer + if head.starts_with("HEAD") { "" } else { document }))
    })
    .await
}

/// The origin's authentication errors were forwarded unchanged: clients with valid keys were told
/// that their keys were wrong, or that their bucket did not exist.
#[tokio::test]
async fn an_origin_that_does_not_let_us_in_is_no_fault_of_the_client() {
    for (status, document, said) in [
        (
            "403 Forbidden",
            "<Error><Code>InvalidAccessKeyId</Code></Error>",
            "rejected the cache's credentials",
        ),
        (
            "403 Forbidden",
            "<Error><Code>SignatureDoesNotMatch</Code></Error>",
            "rejected the cache's credentials",
        ),
        (
            "403 Forbidden",
            "<Error><Code>RequestTimeTooSkewed</Code></Error>",
            "rejected the cache's credentials",
        ),
        (
            "400 Bad Request",
            "<Error><Code>ExpiredToken</Code></Error>",
            "rejected the cache's credentials",
        ),
        ("301 Moved Permanently", "<Error><Code>PermanentRedirect</Code></Error>", "configure"),
        ("404 Not Found", "<html>no S3 here</html>", "without an S3 error"),
    ] {
        let world = World::over_origin(refusing(status, document).await, REVALIDATE).await;
        for method in ["GET", "PUT", "DELETE"] {
            let answer = ask(world.address, Ask::new(method, "/b/k")).await;
            let told = (answer.status, answer.code());
            assert_eq!(told, (502, "BadGateway".to_owned()), "{method} {status} {document}");
            assert!(answer.text().contains(said), "{}", answer.text());
        }
        let answer = get(world.address, "/b").await;
        assert_eq!(answer.status, 502, "a list of {document}");
        if !document.contains("html") {
            let answer = ask(world.address, Ask::new("HEAD", "/b/k")).await;
            assert_eq!((answer.status, answer.body.len()), (502, 0), "HEAD {document}");
        }
    }
}

#[tokio::test]
async fn an_object_that_the_origins_policy_denies_is_denied() {
    let document = "<Error><Code>AccessDenied</Code></Error>";
    let world = World::over_origin(refusing("403 Forbidden", document).await, REVALIDATE).await;
    for method in ["GET", "PUT", "DELETE"] {
        let answer = ask(world.address, Ask::new(method, "/b/k")).await;
        assert_eq!((answer.status, answer.code().as_str()), (403, "AccessDenied"), "{method}");
    }
    assert_eq!(ask(world.address, Ask::new("HEAD", "/b/k")).await.status, 403);
}

/// The cached head was trusted: a range that the origin denied was answered 503.
#[tokio::test]
async fn an_object_that_is_denied_after_its_head_was_cached_is_denied() {
    let denied = "HTTP/1.1 403 Forbidden\r\ncontent-length: 40\r\n\r\n\
                  <Error><Code>AccessDenied</Code></Error>";
    let origin =
        scripted(move |head| send(if head.starts_with("HEAD") { HEAD } else { denied })).await;
    let world = World::over_origin(origin, Freshness::Immutable).await;
    let answer = get(world.address, "/b/k").await;
    assert_eq!((answer.status, answer.code().as_str()), (403, "AccessDenied"));
}

#[tokio::test]
async fn an_origin_in_trouble_is_not_asked_twice() {
    let origin = scripted(|_| send("HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n")).await;
    let world = World::over_origin(origin, Freshness::Immutable).await;
    assert_eq!(get(world.address, "/b/k").await.status, 502);
    let origin = scripted(|_| send("HTTP/1.1 503 Slow Down\r\ncontent-length: 0\r\n\r\n")).await;
    let world = World::over_origin(origin, Freshness::Immutable).await;
    let answer = get(world.address, "/b/k").await;
    assert_eq!((answer.status, answer.code().as_str()), (503, "SlowDown"));
}

#[tokio::test]
async fn an_object_without_an_etag_is_handed_on() {
    let origin = scripted(|_| send("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello")).await;
    let world = World::over_origin(origin, Freshness::Immutable).await;
    for _ in 0..2 {
        let answer = get(world.address, "/b/k").await;
        assert_eq!((answer.text().as_str(), answer.header("x-cache")), ("hello", "BYPASS"));
    }
}

#[tokio::test]
async fn the_end_of_a_slow_answer_to_a_write_comes_after_the_removal() {
    let done = Arc::new(Notify::new());
    let is_done = done.clone();
    let origin = scripted(move |_| {
        let begin = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\n \r\n1\r\n \r\n";
        vec![
            Step::Send(begin.as_bytes().to_vec()),
            Step::Wait(is_done.clone()),
            Step::Send(b"6\r\n<Done>\r\n0\r\n\r\n".to_vec()),
        ]
    })
    .await;
    let world = World::over_origin(origin, Freshness::Immutable).await;
    let stats = world.gateway.stats();
    let mut connection = Connection::open(world.address).await;
    connection.send(&Ask::new("POST", "/b/k?uploadId=1").body("<x/>").signed()).await;
    let head = connection.head().await.unwrap();
    assert_eq!(head.status, 200, "the answer has begun");
    assert_eq!(connection.until_read(" \r\n").await, "1\r\n \r\n", "the client is kept awake");
    // Removals of the object, and of the object whose name is the upload id.
    assert_eq!(stats.removals.get(), 2, "the write is not over");
    done.notify_one();
    let rest = connection.until_read("0\r\n\r\n").await;
    assert!(rest.contains("<Done>"), "{rest}");
    assert_eq!(stats.removals.get(), 4);

    connection.send(&Ask::new("POST", "/b/k?uploadId=2").body("<x/>").signed()).await;
    assert_eq!(connection.head().await.unwrap().status, 200);
    drop(connection);
    done.notify_one();
    eventually("the removal happens without the client", || stats.removals.get() == 8).await;
}

#[tokio::test]
async fn a_write_whose_answer_breaks_off_is_not_acknowledged_but_removed() {
    let text = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n<Begun>";
    let origin = scripted(move |_| send(text)).await;
    let world = World::over_origin(origin, Freshness::Immutable).await;
    let mut connection = Connection::open(world.address).await;
    connection.send(&Ask::new("PUT", "/b/k").body("x").signed()).await;
    let answer = connection.answer(&Method::PUT).await.unwrap();
    assert_eq!((answer.status, answer.code().as_str()), (502, "BadGateway"));
    assert_eq!(world.gateway.stats().removals.get(), 2);
}
