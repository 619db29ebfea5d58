//! What identifies the bytes of an object: size, ETag and version ID. Other headers may change
//! from answer to answer, and the origin may refuse a version that the cache knows.

use std::sync::{Arc, Mutex};

use http::Method;
use tempfile::TempDir;
use zonal_base::Nanos;
use zonal_gateway::Limits;
use zonal_host::Freshness;

use crate::bad_origins::{Step, scripted};
use crate::client::{Answer, Ask, Connection, ask, get};
use crate::world::{REVALIDATE, World};

const MIB: usize = 1 << 20;
const HOUR: Freshness = Freshness::Ttl(Nanos::secs(3600));

/// An S3 endpoint with one object under every key of bucket `b`.
#[derive(Clone)]
struct Store(Arc<Mutex<State>>);

struct State {
    body: Vec<u8>,
    etag: &'static str,
    /// Further response headers, of the request with this number.
    headers: fn(usize) -> Vec<u8>,
    /// Answers 403 to everything.
    is_refusing: bool,
    /// Size to state in place of the body's.
    stated_size: Option<u64>,
    /// Methods and ranges of the requests.
    asked: Vec<String>,
}

impl Store {
    fn new(body: Vec<u8>) -> Self {
        let headers = |_| Vec::new();
        let (etag, is_refusing, stated_size, asked) = ("\"one\"", false, None, Vec::new());
        let state = State { body, etag, headers, is_refusing, stated_size, asked };
        Self(Arc::new(Mutex::new(state)))
    }

    fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.0.lock().unwrap());
    }

    /// Number of requests for bytes since the last call.
    fn gets(&self) -> usize {
        let asked = std::mem::take(&mut self.0.lock().unwrap().asked);
        asked.iter().filter(|line| line.starts_with("GET")).count()
    }

    async fn world(&self, freshness: Freshness) -> World {
        self.world_in(tempfile::tempdir().unwrap(), freshness).await
    }

    async fn world_in(&self, folder: TempDir, freshness: Freshness) -> World {
        let store = self.clone();
        let origin = scripted(move |head| store.answer(head)).await;
        World::over(folder, origin.into(), freshness, Limits::default()).await
    }

    fn answer(&self, head: &str) -> Vec<Step> {
        let mut state = self.0.lock().unwrap();
        if !head.contains(" /b/") {
            return plain("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
        }
        let named = |name: &str| {
            let line = head.lines().find(|line| line.to_ascii_lowercase().starts_with(name))?;
            line.split_once(": ").map(|(_, value)| value.to_owned())
        };
        let is_head = head.starts_with("HEAD");
        let range = named("range:").unwrap_or_default();
        state.asked.push(format!("{} {range}", head.split(' ').next().unwrap_or_default()));
        if state.is_refusing {
            let document = "<Error><Code>AccessDenied</Code></Error>";
            let (length, document) = (document.len(), if is_head { "" } else { document });
            return plain(&format!(
                "HTTP/1.1 403 Forbidden\r\ncontent-length: {length}\r\n\r\n{document}"
            ));
        }
        if named("if-match:").is_some_and(|etag| etag != state.etag) {
            return plain("HTTP/1.1 412 Precondition Failed\r\ncontent-length: 0\r\n\r\n");
        }
        let size = state.stated_size.unwrap_or(state.body.len() as u64);
        let mut part = 0..state.body.len();
        let mut status = "200 OK".to_owned();
        let bounds = range.strip_prefix("bytes=").and_then(|range| range.split_once('-'));
        if let Some((first, last)) = bounds {
            let (first, end) = match (first.parse::<u64>(), last.parse::<u64>()) {
                (Ok(first), Ok(last)) => (first, size.min(last.saturating_add(1))),
                (Ok(first), Err(_)) => (first, size),
                (Err(_), last) => (size - last.unwrap(), size),
            };
            let bytes = usize::try_from(end - first).unwrap();
            status =
                format!("206 Partial Content\r\ncontent-range: bytes {first}-{}/{size}", end - 1);
            part = match state.stated_size {
                Some(_) => 0..bytes,
                None => usize::try_from(first).unwrap()..usize::try_from(end).unwrap(),
            };
        }
        let length = if bounds.is_some() { part.len() as u64 } else { size };
        let mut answer =
            format!("HTTP/1.1 {status}\r\netag: {}\r\ncontent-length: {length}\r\n", state.etag)
                .into_bytes();
        answer.extend((state.headers)(state.asked.len()));
        answer.extend(b"\r\n");
        if !is_head {
            answer.extend(&state.body[part]);
        }
        vec![Step::Send(answer)]
    }
}

fn plain(text: &str) -> Vec<Step> {
    vec![Step::Send(text.as_bytes().to_vec())]
}

#[track_caller]
fn is(answer: &Answer, status: u16, cache: &str) {
    assert_eq!((answer.status, answer.header("x-cache")), (status, cache), "{}", answer.text());
}

async fn get_range(world: &World, path: &str, range: &str) -> Answer {
    ask(world.address, Ask::new("GET", path).with("range", range)).await
}

/// Regression: a head counted as confirmed only if every header was equal. nginx's `expires 1h`
/// made each read a miss.
#[tokio::test]
async fn headers_that_change_from_answer_to_answer_cost_no_bytes() {
    for headers in [
        (|n| format!("expires: Thu, 01 Jan 2026 00:00:{n:02} GMT\r\n").into_bytes())
            as fn(usize) -> _,
        |n| format!("cache-control: max-age={}\r\n", 1000 - n).into_bytes(),
        |n| format!("x-amz-cf-id: {n}\r\nx-amz-expiration: {n}\r\n").into_bytes(),
        |n| format!("x-amz-tagging-count: {n}\r\n").into_bytes(),
        |n| format!("last-modified: Thu, 01 Jan 2026 00:00:{n:02} GMT\r\n").into_bytes(),
        |n| if n % 2 == 0 { b"x-amz-replication-status: PENDING\r\n".to_vec() } else { vec![] },
    ] {
        let store = Store::new(vec![7; 2 * MIB]);
        store.set(|state| state.headers = headers);
        let world = store.world(REVALIDATE).await;
        is(&get(world.address, "/b/k").await, 200, "MISS");
        world.settle().await;
        store.gets();
        for _ in 0..3 {
            let answer = get(world.address, "/b/k").await;
            is(&answer, 200, "REVALIDATED");
            let n = store.0.lock().unwrap().asked.len();
            let sent = String::from_utf8(headers(n)).unwrap();
            for (name, value) in sent.lines().filter_map(|line| line.split_once(": ")) {
                assert_eq!(answer.header(name), value, "the newest headers are served");
            }
        }
        assert_eq!(store.gets(), 0, "requests for bytes");
        let folder = world.ended().await;
        let world = store.world_in(folder, Freshness::Immutable).await;
        is(&get(world.address, "/b/k").await, 200, "HIT");
        assert_eq!(store.gets(), 0, "after a restart");
    }
}

/// The bytes of another version have another version ID, whatever their ETag and size.
#[tokio::test]
async fn another_version_id_is_another_version() {
    let store = Store::new(vec![1; MIB]);
    store.set(|state| state.headers = |_| b"x-amz-version-id: v1\r\n".to_vec());
    let world = store.world(REVALIDATE).await;
    let first = get(world.address, "/b/k").await;
    assert_eq!((first.header("x-amz-version-id"), first.body[0]), ("v1", 1));
    world.settle().await;
    store.set(|state| {
        state.headers = |_| b"x-amz-version-id: v2\r\n".to_vec();
        state.body = vec![2; MIB];
    });
    let second = get(world.address, "/b/k").await;
    is(&second, 200, "MISS");
    assert_eq!((second.header("x-amz-version-id"), second.body[0]), ("v2", 2));
}

/// Regression: the cached part and the missing part were of two versions, and each read broke off
/// until the TTL ended.
#[tokio::test]
async fn a_partly_cached_object_that_was_overwritten_is_read_whole() {
    for freshness in [HOUR, Freshness::Immutable] {
        let store = Store::new(vec![1; 8 * MIB]);
        let world = store.world(freshness).await;
        is(&get_range(&world, "/b/k", "bytes=0-2097151").await, 206, "MISS");
        world.settle().await;
        store.set(|state| (state.body, state.etag) = (vec![2; 8 * MIB], "\"two\""));
        for _ in 0..2 {
            let answer = get(world.address, "/b/k").await;
            assert_eq!((answer.status, answer.body.len()), (200, 8 * MIB));
            assert!(answer.body.iter().all(|byte| *byte == 2));
        }
    }
}

/// Regression: bytes that came before the reader had reached them were not written to flash.
#[tokio::test]
async fn what_a_read_asks_for_before_its_answer_begins_is_cached() {
    let store = Store::new(vec![1; 4 * MIB]);
    let world = store.world(Freshness::Immutable).await;
    is(&get_range(&world, "/b/k", "bytes=0-1048575").await, 206, "MISS");
    world.settle().await;
    is(&get(world.address, "/b/k").await, 200, "MISS");
    world.settle().await;
    let folder = world.ended().await;
    let world = store.world_in(folder, Freshness::Immutable).await;
    is(&get(world.address, "/b/k").await, 200, "HIT");
}

/// The origin refuses a stripe that is not asked for before the answer begins: only that answer
/// breaks off.
#[tokio::test]
async fn a_version_that_ends_in_the_middle_of_an_answer_is_not_served_again() {
    let store = Store::new(vec![1; 40 * MIB]);
    let world = store.world(Freshness::Immutable).await;
    for mib in 0..32 {
        let range = format!("bytes={}-{}", mib * MIB, (mib + 1) * MIB - 1);
        is(&get_range(&world, "/b/k", &range).await, 206, "MISS");
        world.settle().await;
    }
    store.set(|state| (state.body, state.etag) = (vec![2; 40 * MIB], "\"two\""));
    assert!(get(world.address, "/b/k").await.cut);
    for _ in 0..2 {
        let answer = get(world.address, "/b/k").await;
        assert!((answer.status, answer.body.len()) == (200, 40 * MIB) && answer.body[0] == 2);
    }
}

/// Regression: the mark that the origin refuses an object was in memory only.
#[tokio::test]
async fn a_refused_object_is_not_served_after_a_restart_either() {
    let store = Store::new(vec![1; MIB]);
    let world = store.world(HOUR).await;
    is(&get(world.address, "/b/k").await, 200, "MISS");
    world.settle().await;
    store.set(|state| state.is_refusing = true);
    let fresh = Ask::new("GET", "/b/k").with("cache-control", "no-cache");
    is(&ask(world.address, fresh).await, 403, "BYPASS");
    is(&get(world.address, "/b/k").await, 403, "BYPASS");
    let folder = world.ended().await;
    let world = store.world_in(folder, HOUR).await;
    is(&get(world.address, "/b/k").await, 403, "BYPASS");
    store.set(|state| state.is_refusing = false);
    is(&get(world.address, "/b/k").await, 200, "REVALIDATED");
    let folder = world.ended().await;
    let world = store.world_in(folder, HOUR).await;
    is(&get(world.address, "/b/k").await, 200, "HIT");
}

/// Regression: a header with bytes that are not UTF-8 was left out of cached answers.
#[tokio::test]
async fn header_values_keep_their_bytes() {
    let store = Store::new(vec![1; 10]);
    store.set(|state| {
        state.headers =
            |_| b"content-disposition: attachment; filename=\"r\xe9sum\xe9\"\r\n".into();
    });
    let world = store.world(Freshness::Immutable).await;
    for cache in ["MISS", "HIT"] {
        let answer = get(world.address, "/b/k").await;
        is(&answer, 200, cache);
        let name = answer.header("content-disposition");
        assert_eq!(name, "attachment; filename=\"r\u{e9}sum\u{e9}\"");
    }
}

/// Regression: an answer could have 100 headers, and S3 allows more metadata.
#[tokio::test]
async fn objects_with_as_much_metadata_as_s3_allows_are_served() {
    let store = Store::new(vec![1; 10]);
    store.set(|state| {
        state.headers =
            |_| (0..170).map(|n| format!("x-amz-meta-{n}: \r\n")).collect::<String>().into_bytes();
    });
    let world = store.world(Freshness::Immutable).await;
    for cache in ["MISS", "HIT"] {
        let answer = get(world.address, "/b/k").await;
        is(&answer, 200, cache);
        assert!((0..170).all(|n| answer.has(&format!("x-amz-meta-{n}"))));
    }
    let put = (0..170).fold(Ask::new("PUT", "/b/k"), |put, n| {
        let name: &'static str = Box::leak(format!("x-amz-meta-{n}").into_boxed_str());
        put.with(name, "v")
    });
    assert_ne!(ask(world.address, put).await.status, 431);
}

/// Regression: a size that needs more piece numbers than a key has ended the shard.
#[tokio::test]
async fn objects_of_any_size_are_served() {
    for size in [1 << 50, (1 << 50) + 1, 1 << 51, u64::MAX] {
        let store = Store::new(vec![9; 10 * MIB]);
        store.set(|state| state.stated_size = Some(size));
        let world = store.world(Freshness::Immutable).await;
        let cache = if size <= 1 << 50 { "MISS" } else { "BYPASS" };
        let answer = get_range(&world, "/b/k", "bytes=-10").await;
        is(&answer, 206, cache);
        assert_eq!(answer.body, [9; 10]);
        let head = ask(world.address, Ask::new("HEAD", "/b/k")).await;
        assert_eq!(head.header("content-length"), size.to_string());
        store.set(|state| state.stated_size = None);
        is(&get(world.address, "/b/other").await, 200, "MISS");
    }
}

/// A reader who has begun gets the version that it began with, as long as the drive has its bytes.
#[tokio::test]
async fn an_answer_under_way_goes_on_when_its_object_is_overwritten() {
    for path in ["/b/k", "/b/pin/k"] {
        let store = Store::new(vec![1; 16 * MIB]);
        let world = store.world(REVALIDATE).await;
        for mib in 0..16 {
            let range = format!("bytes={}-{}", mib * MIB, (mib + 1) * MIB - 1);
            is(&get_range(&world, path, &range).await, 206, "MISS");
            world.settle().await;
        }
        let mut slow = Connection::open(world.address).await;
        slow.send(&Ask::new("GET", path).signed()).await;
        let begun = slow.head().await.unwrap();
        assert_eq!((begun.status, begun.header("x-cache")), (200, "REVALIDATED"));
        store.set(|state| (state.body, state.etag) = (vec![2; 16 * MIB], "\"two\""));
        let other = get(world.address, path).await;
        is(&other, 200, "MISS");
        assert!(other.body.iter().all(|byte| *byte == 2));
        world.settle().await;
        let old = slow.finish(begun, &Method::GET).await;
        assert!(!old.cut && old.body.len() == 16 * MIB, "{path}: {} bytes", old.body.len());
        assert!(old.body.iter().all(|byte| *byte == 1), "{path}: bytes of one version");
    }
}
