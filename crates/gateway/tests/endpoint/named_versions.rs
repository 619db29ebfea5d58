//! Reads that name a version or a part: each version is cached under its ID, and a part is read as
//! the range that it is.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use zonal_gateway::{FreshnessRules, Limits};
use zonal_host::Freshness;

use crate::bad_origins::{Step, scripted};
use crate::client::{Answer, Ask, ask, get};
use crate::world::{REVALIDATE, World, pattern};

/// Sizes of the parts of each object.
const PARTS: [usize; 3] = [300_000, 5, 200_000];

/// An S3 endpoint with one object in bucket `b`, of which it keeps versions. It answers for it under
/// every key.
#[derive(Clone, Default)]
struct Store(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// Bytes by version ID; `None`: a delete marker.
    versions: BTreeMap<String, Option<Vec<u8>>>,
    /// ID of the current version.
    current: String,
    tags: usize,
    /// Ignores version IDs, as a server without versions may.
    is_unversioned: bool,
    /// Does not say which version it has tagged.
    is_silent_on_tagging: bool,
    /// Methods and targets of the requests.
    asked: Vec<String>,
}

impl Store {
    fn put(&self, id: &str, body: Option<Vec<u8>>) {
        let mut state = self.0.lock().unwrap();
        state.versions.insert(id.to_owned(), body);
        state.current = id.to_owned();
    }

    fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.0.lock().unwrap());
    }

    /// Number of GET requests since the last call.
    fn gets(&self) -> usize {
        let asked = std::mem::take(&mut self.0.lock().unwrap().asked);
        asked.iter().filter(|line| line.starts_with("GET")).count()
    }

    async fn world(&self, freshness: Freshness) -> World {
        let store = self.clone();
        let origin = scripted(move |head| store.answer(head)).await;
        let folder = tempfile::tempdir().unwrap();
        World::over(folder, origin.into(), freshness, Limits::default()).await
    }

    fn answer(&self, head: &str) -> Vec<Step> {
        let mut state = self.0.lock().unwrap();
        let mut words = head.split(' ');
        let (method, target) = (words.next().unwrap(), words.next().unwrap());
        if !target.starts_with("/b/") {
            return vec![send("200 OK", "", b"", method)];
        }
        state.asked.push(format!("{method} {target}"));
        let query = target.split_once('?').map_or("", |(_, query)| query);
        let parameter = |name: &str| {
            query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
        };
        let current = state.current.clone();
        if method == "PUT" {
            state.tags += 1;
            let told = match state.is_silent_on_tagging {
                true => String::new(),
                false => format!("x-amz-version-id: {current}\r\n"),
            };
            return vec![send("200 OK", &told, b"", method)];
        }
        let id = parameter("versionId").filter(|_| !state.is_unversioned);
        let id = id.unwrap_or(&current).to_owned();
        if method == "DELETE" {
            state.versions.remove(&id);
            return vec![send("204 No Content", "", b"", method)];
        }
        let marker = format!("x-amz-version-id: {id}\r\nx-amz-delete-marker: true\r\n");
        let body = match state.versions.get(&id) {
            None => {
                let document = b"<Error><Code>NoSuchVersion</Code></Error>";
                return vec![send("404 Not Found", "", document, method)];
            }
            Some(None) => {
                let document = b"<Error><Code>MethodNotAllowed</Code></Error>";
                return vec![send("405 Method Not Allowed", &marker, document, method)];
            }
            Some(Some(body)) => body,
        };
        let etag = format!("\"{id}-{}\"", PARTS.len());
        let tags = state.tags;
        let mut headers =
            format!("etag: {etag}\r\nx-amz-version-id: {id}\r\nx-amz-tagging-count: {tags}\r\n");
        let field = |name: &str| {
            let line = head.lines().find(|line| line.to_ascii_lowercase().starts_with(name))?;
            line.split_once(": ").map(|(_, value)| value.to_owned())
        };
        if field("if-match:").is_some_and(|asked| asked != etag) {
            return vec![send("412 Precondition Failed", "", b"", method)];
        }
        let mut range = None;
        if let Some(asked) = field("range:") {
            let (first, last) = asked.strip_prefix("bytes=").unwrap().split_once('-').unwrap();
            range = Some(first.parse().unwrap()..last.parse::<usize>().unwrap() + 1);
        }
        if let Some(number) = parameter("partNumber") {
            let number: usize = number.parse().unwrap();
            if PARTS.len() < number {
                let document = b"<Error><Code>InvalidPartNumber</Code></Error>";
                return vec![send("416 Range Not Satisfiable", "", document, method)];
            }
            range = Some(part(number));
            headers.push_str(&format!("x-amz-mp-parts-count: {}\r\n", PARTS.len()));
        }
        let Some(range) = range else {
            return vec![send("200 OK", &headers, body, method)];
        };
        let size = body.len();
        let last = range.end.min(size) - 1;
        headers.push_str(&format!("content-range: bytes {}-{last}/{size}\r\n", range.start));
        vec![send("206 Partial Content", &headers, &body[range.start..=last], method)]
    }
}

fn part(number: usize) -> std::ops::Range<usize> {
    let start = PARTS[..number - 1].iter().sum();
    start..start + PARTS[number - 1]
}

fn send(status: &str, headers: &str, body: &[u8], method: &str) -> Step {
    let length = body.len();
    let mut bytes =
        format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n{headers}\r\n").into_bytes();
    if method != "HEAD" {
        bytes.extend_from_slice(body);
    }
    Step::Send(bytes)
}

fn object(seed: u8) -> Vec<u8> {
    pattern(PARTS.iter().sum(), usize::from(seed))
}

#[track_caller]
fn is(answer: &Answer, status: u16, cache: &str) {
    assert_eq!((answer.status, answer.header("x-cache")), (status, cache), "{}", answer.text());
}

#[tokio::test]
async fn each_version_is_cached_under_its_id() {
    let store = Store::default();
    store.put("v1", Some(object(1)));
    store.put("v2", Some(object(2)));
    let world = store.world(Freshness::Immutable).await;
    for cache in ["MISS", "HIT"] {
        for (uri, id, seed) in
            [("/b/k?versionId=v1", "v1", 1), ("/b/k", "v2", 2), ("/b/k?versionId=v2", "v2", 2)]
        {
            let answer = get(world.address, uri).await;
            is(&answer, 200, cache);
            assert_eq!(answer.header("x-amz-version-id"), id);
            assert!(answer.body == object(seed), "{uri}");
            world.settle().await;
        }
    }
    assert_eq!(store.gets(), 3);
    let range = Ask::new("GET", "/b/k?versionId=v1").with("range", "bytes=100-199");
    let range = ask(world.address, range).await;
    is(&range, 206, "HIT");
    assert!(range.body == object(1)[100..200]);
    let head = ask(world.address, Ask::new("HEAD", "/b/k?versionId=v1")).await;
    is(&head, 200, "HIT");
    assert_eq!((head.header("x-amz-version-id"), head.header("content-length")), ("v1", "500005"));
    // Under `revalidate` the origin confirms the version that was asked for.
    world.change_terms(|terms| terms.freshness = FreshnessRules::all(REVALIDATE.into()));
    is(&get(world.address, "/b/k?versionId=v1").await, 200, "REVALIDATED");
    assert_eq!(store.0.lock().unwrap().asked, ["HEAD /b/k?versionId=v1"]);
}

#[tokio::test]
async fn a_write_leaves_other_versions_cached_and_a_delete_of_one_removes_it() {
    let store = Store::default();
    store.put("v1", Some(object(1)));
    store.put("v2", Some(object(2)));
    let world = store.world(Freshness::Immutable).await;
    for uri in ["/b/k?versionId=v1", "/b/k?versionId=v2", "/b/k"] {
        is(&get(world.address, uri).await, 200, "MISS");
    }
    world.settle().await;
    assert_eq!(ask(world.address, Ask::new("PUT", "/b/k").body("x")).await.status, 200);
    is(&get(world.address, "/b/k?versionId=v1").await, 200, "HIT");
    is(&get(world.address, "/b/k").await, 200, "MISS");
    world.settle().await;
    let delete = Ask::new("DELETE", "/b/k?versionId=v1");
    assert_eq!(ask(world.address, delete).await.status, 204);
    let gone = get(world.address, "/b/k?versionId=v1").await;
    assert_eq!((gone.status, gone.code().as_str()), (404, "NoSuchVersion"));
    assert_eq!(gone.header("x-cache-reason"), "not-found");
    is(&get(world.address, "/b/k?versionId=v2").await, 200, "HIT");
    let list = "<Delete><Object><Key>k</Key><VersionId>v2</VersionId></Object></Delete>";
    let deletes = Ask::new("POST", "/b?delete").body(list);
    assert_eq!(ask(world.address, deletes).await.status, 200);
    is(&get(world.address, "/b/k?versionId=v2").await, 200, "MISS");
}

/// The request does not name the version whose tags it changes; the answer does.
#[tokio::test]
async fn changed_tags_show_in_the_version_that_has_them() {
    let store = Store::default();
    store.put("v1", Some(object(1)));
    let world = store.world(Freshness::Immutable).await;
    let tags = || async {
        let answer = get(world.address, "/b/k?versionId=v1").await;
        answer.header("x-amz-tagging-count").to_owned()
    };
    assert_eq!(tags().await, "0");
    let tagging = || Ask::new("PUT", "/b/k?tagging").body("<Tagging/>");
    assert_eq!(ask(world.address, tagging()).await.status, 200);
    assert_eq!(tags().await, "1");
    // versitygw's answer does not name the version.
    store.set(|state| state.is_silent_on_tagging = true);
    is(&get(world.address, "/b/k").await, 200, "MISS");
    assert_eq!(ask(world.address, tagging()).await.status, 200);
    assert_eq!(tags().await, "2");
}

#[tokio::test]
async fn the_version_null_is_confirmed_at_each_read() {
    let store = Store::default();
    store.put("null", Some(object(1)));
    let world = store.world(Freshness::Immutable).await;
    is(&get(world.address, "/b/k?versionId=null").await, 200, "MISS");
    world.settle().await;
    is(&get(world.address, "/b/k?versionId=null").await, 200, "REVALIDATED");
    store.put("null", None);
    let marker = get(world.address, "/b/k?versionId=null").await;
    assert_eq!((marker.status, marker.header("x-amz-delete-marker")), (405, "true"));
}

#[tokio::test]
async fn delete_markers_and_missing_versions_get_the_answer_of_the_origin() {
    let store = Store::default();
    store.put("gone", None);
    let world = store.world(Freshness::Immutable).await;
    for _ in 0..2 {
        let marker = get(world.address, "/b/k?versionId=gone").await;
        is(&marker, 405, "BYPASS");
        assert_eq!(marker.code(), "MethodNotAllowed");
        assert_eq!(marker.header("x-amz-delete-marker"), "true");
        let missing = get(world.address, "/b/k?versionId=v9").await;
        assert_eq!((missing.status, missing.code().as_str()), (404, "NoSuchVersion"));
        let head = ask(world.address, Ask::new("HEAD", "/b/k?versionId=gone")).await;
        assert_eq!((head.status, head.header("x-amz-delete-marker")), (405, "true"));
    }
}

/// Such a server answers with the current object, which must not be cached as that version.
#[tokio::test]
async fn a_server_that_ignores_versions_is_asked_each_time() {
    let store = Store::default();
    store.put("now", Some(object(1)));
    store.set(|state| state.is_unversioned = true);
    let world = store.world(Freshness::Immutable).await;
    for _ in 0..2 {
        is(&get(world.address, "/b/k?versionId=v1").await, 200, "BYPASS");
    }
}

/// A NUL in a key is no mark of a version.
#[tokio::test]
async fn a_key_that_looks_like_a_version_is_another_object() {
    let store = Store::default();
    store.put("v1", Some(object(1)));
    store.put("v2", Some(object(2)));
    let world = store.world(Freshness::Immutable).await;
    assert!(get(world.address, "/b/k?versionId=v1").await.body == object(1));
    world.settle().await;
    let other = get(world.address, "/b/k%00v1").await;
    is(&other, 200, "MISS");
    assert!(other.body == object(2));
}

#[tokio::test]
async fn a_part_is_read_as_a_range_from_the_cache() {
    let store = Store::default();
    store.put("v1", Some(object(1)));
    let world = store.world(Freshness::Immutable).await;
    for query in ["", "&versionId=v1"] {
        for is_first in [true, false] {
            for number in 1..=PARTS.len() {
                store.set(|state| state.asked.clear());
                let uri = format!("/b/k?partNumber={number}{query}");
                let answer = get(world.address, &uri).await;
                // Small parts share a chunk with the one before.
                let cache = if is_first && number == 1 { "MISS" } else { "HIT" };
                if !is_first || number == 1 {
                    is(&answer, 206, cache);
                }
                let range = part(number);
                assert!(answer.body == object(1)[range.clone()], "{uri}");
                let told = format!("bytes {}-{}/500005", range.start, range.end - 1);
                assert_eq!(answer.header("content-range"), told);
                assert_eq!(answer.header("x-amz-mp-parts-count"), "3");
                let asked = std::mem::take(&mut store.0.lock().unwrap().asked);
                let has_asked = asked.iter().any(|line| line.contains("partNumber"));
                assert_eq!(has_asked, is_first, "{asked:?}");
                world.settle().await;
            }
        }
    }
    let head = ask(world.address, Ask::new("HEAD", "/b/k?partNumber=2")).await;
    is(&head, 206, "HIT");
    assert_eq!((head.header("content-length"), head.header("x-amz-mp-parts-count")), ("5", "3"));
    // The whole object comes from the bytes that its parts brought.
    store.gets();
    assert!(get(world.address, "/b/k").await.body == object(1));
    assert_eq!(store.gets(), 0);
    let only = Ask::new("GET", "/b/k?partNumber=2").with("cache-control", "only-if-cached");
    is(&ask(world.address, only).await, 206, "HIT");
    let condition = Ask::new("GET", "/b/k?partNumber=2").with("if-none-match", "\"v1-3\"");
    is(&ask(world.address, condition).await, 304, "HIT");
}

#[tokio::test]
async fn a_part_that_is_not_there_gets_the_answer_of_the_origin() {
    let store = Store::default();
    store.put("v1", Some(object(1)));
    let world = store.world(Freshness::Immutable).await;
    let beyond = get(world.address, "/b/k?partNumber=4").await;
    is(&beyond, 416, "BYPASS");
    assert_eq!(beyond.code(), "InvalidPartNumber");
    assert_eq!(beyond.header("x-cache-reason"), "part-number");
}

/// The parts of an object that was overwritten are others.
#[tokio::test]
async fn parts_of_a_new_version_are_asked_for_anew() {
    let store = Store::default();
    store.put("v1", Some(object(1)));
    let world = store.world(REVALIDATE).await;
    assert!(get(world.address, "/b/k?partNumber=2").await.body == object(1)[part(2)]);
    store.put("v2", Some(object(2)));
    let answer = get(world.address, "/b/k?partNumber=2").await;
    is(&answer, 206, "MISS");
    assert!(answer.body == object(2)[part(2)]);
}

/// Under `immutable` a part came from the old version, the next one from the new version, and the
/// first one from the old version again.
#[tokio::test]
async fn once_a_part_shows_that_the_object_was_overwritten_all_parts_are_new() {
    for method in ["GET", "HEAD"] {
        let store = Store::default();
        store.put("v1", Some(object(1)));
        let world = store.world(Freshness::Immutable).await;
        assert!(get(world.address, "/b/k?partNumber=1").await.body == object(1)[part(1)]);
        world.settle().await;
        store.put("v2", Some(object(2)));
        assert!(get(world.address, "/b/k?partNumber=1").await.body == object(1)[part(1)]);
        let second = ask(world.address, Ask::new(method, "/b/k?partNumber=2")).await;
        assert_eq!((second.status, second.header("x-amz-version-id")), (206, "v2"), "{method}");
        assert!(get(world.address, "/b/k?partNumber=1").await.body == object(2)[part(1)]);
        assert!(get(world.address, "/b/k").await.body == object(2));
    }
}
