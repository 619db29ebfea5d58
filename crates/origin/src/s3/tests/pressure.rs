//! Late or overloaded origins: number of requests, and waiting time of readers.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::*;
use crate::hedge::Hedge;
use crate::retry_budget::{RETRIES_PER_SECOND, RETRY_BURST};

pub(super) const GOOD: &str = "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 2-5/10\r\nETag: \"v1\"\r\n\
                    Content-Length: 4\r\n\r\n2345";
const SLOW_DOWN: &str = "HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\n\r\n";
pub(super) const FAILED: &str = "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n";

/// Maps the n-th request to a delay and an answer.
type Script = Box<dyn Fn(u64) -> (Duration, String) + Send + Sync>;

/// A server that counts its requests.
pub(super) struct Counting {
    url: String,
    shared: Arc<ServerState>,
    _serving: JoinSet<()>,
}

struct ServerState {
    asked: AtomicU64,
    /// Connections that the client closed while an answer was pending.
    given_up: AtomicU64,
    script: Mutex<Arc<Script>>,
}

impl Counting {
    pub(super) async fn start(
        script: impl Fn(u64) -> (Duration, String) + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let script: Script = Box::new(script);
        let (asked, given_up) = (AtomicU64::new(0), AtomicU64::new(0));
        let shared =
            Arc::new(ServerState { asked, given_up, script: Mutex::new(Arc::new(script)) });
        let (mut serving, answering) = (JoinSet::new(), shared.clone());
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(answering.clone().serve(stream));
            }
        });
        Self { url, shared, _serving: serving }
    }

    /// A server that always gives this answer.
    async fn saying(answer: &'static str) -> Self {
        Self::start(|_| (Duration::ZERO, answer.to_owned())).await
    }

    pub(super) fn says_from_now_on(&self, answer: &'static str) {
        self.says_from_now_on_after(Duration::ZERO, answer);
    }

    pub(super) fn says_from_now_on_after(&self, delay: Duration, answer: &'static str) {
        let script: Script = Box::new(move |_| (delay, answer.to_owned()));
        *self.shared.script.lock().unwrap() = Arc::new(script);
    }

    pub(super) fn asked(&self) -> u64 {
        self.shared.asked.load(Ordering::Relaxed)
    }

    pub(super) fn origin(&self, limits: OriginLimits) -> Arc<Origin> {
        let endpoint = self.url.parse().unwrap();
        Arc::new(Origin::from(S3Origin::open(endpoint, String::new(), None, limits).unwrap()))
    }
}

impl ServerState {
    async fn serve(self: Arc<Self>, mut stream: TcpStream) {
        let (mut head, mut buffer) = (Vec::new(), vec![0; 4096]);
        loop {
            let bytes = stream.read(&mut buffer).await.unwrap_or(0);
            if bytes == 0 {
                return;
            }
            head.extend_from_slice(&buffer[..bytes]);
            if !head.ends_with(b"\r\n\r\n") {
                continue;
            }
            head.clear();
            let script = self.script.lock().unwrap().clone();
            let (after, answer) = script(self.asked.fetch_add(1, Ordering::Relaxed));
            // The client sends nothing on this connection meanwhile: the socket becomes readable
            // when the client closes it.
            if tokio::time::timeout(after, stream.readable()).await.is_ok() && !after.is_zero() {
                self.given_up.fetch_add(1, Ordering::Relaxed);
                return;
            }
            if stream.write_all(answer.as_bytes()).await.is_err() {
                return;
            }
        }
    }
}

/// Runs `readers` concurrent readers, each with `times` reads. Returns the times of the reads in
/// ascending order, and the number of successful reads.
async fn read_at_once(
    origin: &Arc<Origin>,
    readers: usize,
    times: usize,
) -> (Vec<Duration>, usize) {
    let mut reading = JoinSet::new();
    for _ in 0..readers {
        let origin = origin.clone();
        reading.spawn(async move {
            let mut reads = Vec::new();
            for _ in 0..times {
                let since = Instant::now();
                let is_good = get(&origin).await.is_ok();
                reads.push((since.elapsed(), is_good));
            }
            reads
        });
    }
    let reads: Vec<_> = reading.join_all().await.into_iter().flatten().collect();
    let good = reads.iter().filter(|(_, is_good)| *is_good).count();
    let mut took: Vec<_> = reads.into_iter().map(|(took, _)| took).collect();
    took.sort_unstable();
    (took, good)
}

/// Without a budget every reader sent four requests: an origin that failed because of overload got
/// four times the load.
#[tokio::test]
async fn an_origin_that_fails_everything_is_asked_a_fifth_more_than_is_read() {
    let server = Counting::saying(FAILED).await;
    let origin = server.origin(limits());
    let since = Instant::now();
    let (took, good) = read_at_once(&origin, 8, 100).await;
    let (reads, seconds) = (took.len() as u64, since.elapsed().as_secs());
    let bound = reads + reads / 5 + RETRY_BURST + (seconds + 1) * RETRIES_PER_SECOND;
    assert!(good == 0 && server.asked() <= bound, "{} of {bound}", server.asked());
    let retried = origin.stats().retries.get();
    assert_eq!(server.asked(), reads + retried);
    assert!(0 < origin.stats().retries_refused.get());
    // After the origin recovers, occasional failures are retried again.
    server.says_from_now_on(GOOD);
    assert_eq!(read_at_once(&origin, 8, 50).await.1, 400);
}

/// During a storm of 503s an origin gets the requests that were in flight at its start, then half
/// as many again and again, and then one request per pause.
#[tokio::test]
async fn a_storm_of_slow_downs_is_met_with_few_questions() {
    const AT_ONCE: usize = 64;
    let answer = |_| (Duration::from_millis(5), SLOW_DOWN.to_owned());
    let server = Counting::start(answer).await;
    let wait = Duration::from_millis(500);
    let origin = server.origin(OriginLimits { concurrent_reads: AT_ONCE, wait, ..limits() });
    let since = Instant::now();
    let (took, good) = read_at_once(&origin, 200, 4).await;
    // 64 + 32 + 16 + ... and one per pause, of which the shortest is 100 ms.
    let pauses = u64::try_from(since.elapsed().as_millis() / 100).unwrap() + 1;
    let bound = 2 * AT_ONCE as u64 + pauses;
    assert!(good == 0 && server.asked() <= bound, "{} of {bound}", server.asked());
    assert!(0 < origin.stats().reads_refused.get() && 0 < origin.stats().reads_held.get());
    assert_eq!(origin.stats().slow_downs.get(), server.asked());
    assert_eq!(origin.stats().reads_allowed.get(), 1);
    let (all, asked) = (took.len(), server.asked());
    println!("a storm: {all} reads, {asked} questions, {pauses} pauses at most");

    server.says_from_now_on(GOOD);
    tokio::time::timeout(Duration::from_secs(20), async { while get(&origin).await.is_err() {} })
        .await
        .expect("it is found well again");
    assert_eq!(read_at_once(&origin, 20, 10).await.1, 200);
    assert_eq!(origin.stats().reads_allowed.get(), 0, "as many as ever");
}

#[tokio::test]
async fn an_origin_is_not_asked_before_the_time_that_it_named() {
    let after = |seconds: u32| {
        format!("HTTP/1.1 429 Too Many\r\nRetry-After: {seconds}\r\nContent-Length: 0\r\n\r\n")
    };
    let server =
        Counting::start(move |n| (Duration::ZERO, if n == 0 { after(1) } else { GOOD.to_owned() }))
            .await;
    let since = Instant::now();
    assert_eq!(get(&server.origin(limits())).await.unwrap(), b"2345");
    assert!(Duration::from_secs(1) <= since.elapsed() && server.asked() == 2);

    // A `Retry-After` longer than any client waits: Zonal refuses at once.
    let server = Counting::start(move |_| (Duration::ZERO, after(3600))).await;
    let origin = server.origin(limits());
    for _ in 0..5 {
        assert!(matches!(get(&origin).await, Err(OriginError::Throttled { .. })));
    }
    assert_eq!((server.asked(), origin.stats().reads_refused.get()), (1, 5));
}

/// Every fiftieth answer takes a second.
fn late_now_and_then(n: u64) -> (Duration, String) {
    let after = Duration::from_millis(if n % 50 == 49 { 1000 } else { 2 });
    (after, GOOD.to_owned())
}

#[tokio::test]
async fn what_is_late_is_asked_once_more() {
    let at = |took: &[Duration], percent: usize| took[took.len() * percent / 100];
    let server = Counting::start(late_now_and_then).await;
    let (took, good) = read_at_once(&server.origin(limits()), 8, 150).await;
    let plain = at(&took, 99);
    assert!(good == 1200 && Duration::from_secs(1) <= plain, "{plain:?}");
    println!("never asked again: p99 {plain:?}, {} questions for 1200 reads", server.asked());

    for hedge in [Hedge::Percentile(95), Hedge::After(Duration::from_millis(100))] {
        let server = Counting::start(late_now_and_then).await;
        let origin = server.origin(OriginLimits { hedge: Some(hedge), ..limits() });
        // The percentile is known after the first hundred answers.
        read_at_once(&origin, 8, 15).await;
        let (before, hedges_before) = (server.asked(), origin.stats().hedges.get());
        let (took, good) = read_at_once(&origin, 8, 150).await;
        let (p99, asked) = (at(&took, 99), server.asked() - before);
        let hedges = origin.stats().hedges.get() - hedges_before;
        println!("{hedge:?}: p99 {p99:?}, {hedges} second questions for 1200 reads");
        assert!(good == 1200 && p99 < plain / 2, "{hedge:?}: {p99:?}");
        // A hedged request that is cancelled at once may never leave.
        assert!((1200..=1200 + hedges).contains(&asked), "{asked} with {hedges}");
        assert!(0 < hedges && hedges <= 120 + 10, "{hedge:?}: {hedges}");
        assert!(0 < origin.stats().hedges_won.get());
        // The late requests were cancelled by closing their connections.
        let given_up = server.shared.given_up.load(Ordering::Relaxed);
        assert!(0 < given_up, "{hedge:?}: nothing was cancelled");
    }
}

#[tokio::test]
async fn an_origin_that_is_slow_as_a_whole_gets_a_tenth_more_to_do() {
    let server = Counting::start(|_| (Duration::from_millis(20), GOOD.to_owned())).await;
    let hedge = Some(Hedge::After(Duration::from_millis(1)));
    let origin = server.origin(OriginLimits { hedge, ..limits() });
    let (_, good) = read_at_once(&origin, 20, 20).await;
    let hedges = origin.stats().hedges.get();
    assert!(good == 400 && hedges <= 40 + 10, "{hedges}");
    assert!(0 < origin.stats().hedges_refused.get());
}

#[tokio::test]
async fn the_second_answer_stands_in_for_one_that_failed() {
    let server = Counting::start(|n| match n {
        0 => (Duration::from_millis(100), FAILED.to_owned()),
        _ => (Duration::from_millis(200), GOOD.to_owned()),
    })
    .await;
    let hedge = Some(Hedge::After(Duration::from_millis(10)));
    let origin = server.origin(OriginLimits { hedge, retries: 0, ..limits() });
    assert_eq!(get(&origin).await.unwrap(), b"2345");
    // A 404 is final, so the other request is not awaited.
    let missing = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
    let server = Counting::start(move |n| {
        (Duration::from_millis(if n == 0 { 50 } else { 5000 }), missing.to_owned())
    })
    .await;
    let since = Instant::now();
    let origin = server.origin(OriginLimits { hedge, ..limits() });
    assert!(matches!(get(&origin).await, Err(OriginError::NotFound(_))));
    assert!(since.elapsed() < Duration::from_secs(4));
}
