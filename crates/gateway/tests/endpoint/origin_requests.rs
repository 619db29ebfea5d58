//! Requests at the origin for each kind of read: cold, warm, changed, missing, partly cached.

use std::sync::{Arc, Mutex};

use zonal_host::Freshness;

use crate::bad_origins::{Step, scripted};
use crate::client::{Answer, Ask, ask};
use crate::world::{REVALIDATE, World, pattern};

const MIB: usize = 1 << 20;

/// An S3 origin with one object, `/b/k`, that notes its requests.
#[derive(Clone)]
struct Noting {
    /// Size and version of the object. `None`: there is none.
    object: Arc<Mutex<Option<(usize, usize)>>>,
    /// Text before the value of each ETag; `None`: no ETags.
    before_etag: Option<&'static str>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Noting {
    fn new(size: usize) -> Self {
        let object = Arc::new(Mutex::new(Some((size, 1))));
        Self { object, before_etag: Some(""), requests: Arc::default() }
    }

    async fn world(&self, freshness: Freshness) -> World {
        let origin = self.clone();
        World::over_origin(scripted(move |head| origin.answer(head)).await, freshness).await
    }

    fn overwrite(&self) {
        let mut object = self.object.lock().unwrap();
        *object = object.map(|(size, version)| (size, version + 1));
    }

    fn delete(&self) {
        *self.object.lock().unwrap() = None;
    }

    /// Requests since the last call: method, range, `if` for a request with If-Match, `sum` for one
    /// that asks for checksums.
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.requests.lock().unwrap())
    }

    fn answer(&self, head: &str) -> Vec<Step> {
        let header =
            |name: &str| head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        let method = head.split(' ').next().unwrap();
        let (range, if_match) = (header("range"), header("if-match"));
        let mut noted = method.to_owned();
        noted.extend(range.map(|range| format!(" {}", range.trim_start_matches("bytes="))));
        noted.extend(if_match.map(|_| " if".to_owned()));
        noted.extend(header("x-amz-checksum-mode").map(|_| " sum".to_owned()));
        self.requests.lock().unwrap().push(noted);
        let object = *self.object.lock().unwrap();
        let refused = |status: &str, code: &str| {
            let document = format!("<Error><Code>{code}</Code></Error>");
            let body = if method == "HEAD" { "" } else { &document };
            let length = document.len();
            let head = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{body}");
            vec![Step::Send(head.into_bytes())]
        };
        let Some((size, version)) = object else { return refused("404 Not Found", "NoSuchKey") };
        let etag = self.before_etag.map(|before| format!("{before}\"v{version}\""));
        let told = etag.as_ref().map_or(String::new(), |etag| format!("etag: {etag}\r\n"));
        if if_match.is_some_and(|wanted| Some(wanted) != etag.as_deref()) {
            return refused("412 Precondition Failed", "PreconditionFailed");
        }
        let checksum = match header("x-amz-checksum-mode") {
            Some(_) => "x-amz-checksum-crc32: AAAAAA==\r\n",
            None => "",
        };
        let (first, last) = match range.map(|range| range.trim_start_matches("bytes=")) {
            Some(range) if range.starts_with('-') => {
                (size.saturating_sub(range[1..].parse().unwrap()), size - 1)
            }
            Some(range) => {
                let (first, last) = range.split_once('-').unwrap();
                (
                    first.parse().unwrap(),
                    last.parse().map_or(size - 1, |last: usize| last.min(size - 1)),
                )
            }
            None => (0, size - 1),
        };
        if size <= first {
            return refused("416 Requested Range Not Satisfiable", "InvalidRange");
        }
        let status = match range {
            Some(_) => format!("206 Partial Content\r\ncontent-range: bytes {first}-{last}/{size}"),
            None => "200 OK".to_owned(),
        };
        let length = last + 1 - first;
        let mut wire =
            format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n{told}{checksum}\r\n")
                .into_bytes();
        if method != "HEAD" {
            wire.extend_from_slice(&pattern(size, version)[first..=last]);
        }
        vec![Step::Send(wire)]
    }
}

async fn get(world: &World, range: Option<&str>) -> Answer {
    let get = Ask::new("GET", "/b/k");
    ask(world.address, range.iter().fold(get, |get, range| get.with("range", range))).await
}

#[tokio::test]
async fn a_cold_read_is_one_get() {
    let origin = Noting::new(3 * MIB);
    let world = origin.world(REVALIDATE).await;
    let cold = get(&world, None).await;
    assert!(cold.status == 200 && cold.header("x-cache") == "MISS");
    assert!(cold.body == pattern(3 * MIB, 1));
    assert_eq!(origin.take(), ["GET sum"]);
    let warm = get(&world, None).await;
    assert!(warm.header("x-cache") == "REVALIDATED" && warm.body == cold.body);
    assert_eq!(origin.take(), ["HEAD sum"]);
    let range = get(&world, Some("bytes=5-9")).await;
    assert_eq!((range.status, range.header("x-cache")), (206, "REVALIDATED"));
    assert_eq!(origin.take(), ["HEAD sum"]);
}

#[tokio::test]
async fn a_cold_range_is_one_get_of_the_chunks_that_it_covers() {
    let origin = Noting::new(3 * MIB);
    let world = origin.world(Freshness::Immutable).await;
    let part = get(&world, Some("bytes=300000-300009")).await;
    assert_eq!((part.status, part.header("x-cache")), (206, "MISS"));
    assert_eq!(part.header("content-range"), "bytes 300000-300009/3145728");
    assert!(part.body == pattern(3 * MIB, 1)[300_000..300_010]);
    assert_eq!(origin.take(), ["GET 262144-524287"]);
    // The rest of the object is pinned to the version.
    let open_end = get(&world, Some("bytes=262144-")).await;
    assert!(open_end.body == pattern(3 * MIB, 1)[262_144..]);
    assert_eq!(origin.take(), ["GET 524288-3145727 if"]);
}

#[tokio::test]
async fn a_large_object_is_one_get_for_each_stripe() {
    let size = 70 * MIB;
    let origin = Noting::new(size);
    let world = origin.world(Freshness::Immutable).await;
    let cold = get(&world, None).await;
    assert!(cold.status == 200 && cold.body == pattern(size, 1));
    let mut requests = origin.take();
    assert_eq!(requests.remove(0), "GET sum");
    requests.sort();
    assert_eq!(requests, ["GET 33554432-67108863 if", "GET 67108864-73400319 if"]);
}

#[tokio::test]
async fn a_missing_object_is_one_request() {
    let origin = Noting::new(MIB);
    origin.delete();
    let world = origin.world(REVALIDATE).await;
    let missing = get(&world, None).await;
    assert_eq!(
        (missing.status, missing.code(), missing.header("x-cache")),
        (404, "NoSuchKey".into(), "MISS")
    );
    assert_eq!(origin.take(), ["GET sum"]);
    assert_eq!(get(&world, Some("bytes=0-9")).await.status, 404);
    assert_eq!(origin.take(), ["GET 0-262143"]);
    let head = ask(world.address, Ask::new("HEAD", "/b/k")).await;
    assert_eq!((head.status, head.header("x-cache")), (404, "MISS"));
    assert_eq!(origin.take(), ["HEAD sum"]);
}

#[tokio::test]
async fn a_changed_object_is_a_head_and_a_get() {
    let origin = Noting::new(MIB);
    let world = origin.world(REVALIDATE).await;
    get(&world, None).await;
    origin.take();
    origin.overwrite();
    let changed = get(&world, None).await;
    assert!(changed.header("x-cache") == "MISS" && changed.body == pattern(MIB, 2));
    assert_eq!(origin.take(), ["HEAD sum", "GET 0-1048575 if"]);
}

#[tokio::test]
async fn the_missing_bytes_confirm_those_that_are_cached() {
    let origin = Noting::new(MIB);
    let world = origin.world(REVALIDATE).await;
    get(&world, Some("bytes=0-9")).await;
    assert_eq!(origin.take(), ["GET 0-262143"]);
    let rest = get(&world, None).await;
    assert!(rest.header("x-cache") == "MISS" && rest.body == pattern(MIB, 1));
    assert_eq!(origin.take(), ["GET 262144-1048575 if"]);
    // One more request if the object has changed.
    let origin = Noting::new(MIB);
    let world = origin.world(REVALIDATE).await;
    get(&world, Some("bytes=0-9")).await;
    origin.take();
    origin.overwrite();
    let changed = get(&world, None).await;
    assert!(changed.body == pattern(MIB, 2), "no byte of the version before");
    assert_eq!(origin.take(), ["GET 262144-1048575 if", "GET sum"]);
}

/// Regression: the fetch of the missing bytes ran a window ahead of a reader that was still at the
/// cached ones, was given up, and was requested again.
#[tokio::test]
async fn missing_bytes_far_behind_cached_ones_are_requested_once() {
    let size = 30 * MIB;
    let origin = Noting::new(size);
    let world = origin.world(REVALIDATE).await;
    let end = 12 * MIB;
    let mut first = origin.take();
    while first != ["HEAD sum"] {
        assert!(get(&world, Some(&format!("bytes=0-{}", end - 1))).await.status == 206);
        world.settle().await;
        first = origin.take();
    }
    let whole = get(&world, None).await;
    assert!(whole.status == 200 && whole.body == pattern(size, 1));
    assert_eq!(origin.take(), [format!("GET {end}-{} if", size - 1)]);
}

/// Missing bytes behind the first stripe are on other shards. Their request confirms the version too.
#[tokio::test]
async fn missing_bytes_of_any_stripe_confirm_the_version() {
    let (size, bytes) = (100 * MIB, pattern(100 * MIB, 1));
    let missing = |range: &'static str, requests| (range, "MISS", requests);
    // The object is known by its first byte.
    for (before, (range, cache, requests)) in [
        ("bytes=0-0", missing("bytes=40000000-40000009", vec!["GET 39845888-40108031 if"])),
        ("bytes=0-0", missing("bytes=-1000", vec!["GET 104595456-104857599 if"])),
        ("bytes=40000000-40000009", ("bytes=40000001-40000002", "REVALIDATED", vec!["HEAD sum"])),
        // The first chunk is cached, the second is not.
        (
            "bytes=40000000-40000009",
            missing("bytes=40000000-40200000", vec!["GET 40108032-40370175 if"]),
        ),
        // The range begins in one stripe, where it is cached, and ends in the next.
        (
            "bytes=33554000-33554001",
            missing("bytes=33554000-33555000", vec!["GET 33554432-33816575 if"]),
        ),
        // ... and the other way round.
        (
            "bytes=33554432-33554433",
            missing("bytes=33554000-33555000", vec!["GET 33292288-33554431 if"]),
        ),
    ] {
        let origin = Noting::new(size);
        let world = origin.world(REVALIDATE).await;
        get(&world, Some("bytes=0-0")).await;
        get(&world, Some(before)).await;
        origin.take();
        let part = get(&world, Some(range)).await;
        assert_eq!((part.status, part.header("x-cache")), (206, cache), "{before}, {range}");
        assert_eq!(origin.take(), requests, "{before}, {range}");
        let told = part.header("content-range");
        let (first, last) =
            told["bytes ".len()..].split_once('/').unwrap().0.split_once('-').unwrap();
        let (first, last): (usize, usize) = (first.parse().unwrap(), last.parse().unwrap());
        assert!(part.body == bytes[first..=last], "{before}, {range}");
    }
}

/// One more request if the object has changed or is gone, or if it is empty by now.
#[tokio::test]
async fn missing_bytes_of_a_later_stripe_tell_a_change() {
    let size = 70 * MIB;
    let range = "bytes=50000000-50000009";
    let requests = ["GET 49807360-50069503 if", "GET 49807360-50069503"];
    for known in ["bytes=40000000-40000009", "bytes=0-9"] {
        let origin = Noting::new(size);
        let world = origin.world(REVALIDATE).await;
        get(&world, Some(known)).await;
        origin.overwrite();
        origin.take();
        let changed = get(&world, Some(range)).await;
        assert!(changed.body == pattern(size, 2)[50_000_000..50_000_010], "no byte of version 1");
        assert_eq!(origin.take(), requests);
        // The known version has a later stripe, the next one has none.
        *origin.object.lock().unwrap() = Some((MIB, 3));
        let short = get(&world, Some("bytes=60000000-60000009")).await;
        assert_eq!((short.status, short.code()), (416, "InvalidRange".into()));
        origin.take();
        origin.delete();
        let gone = get(&world, Some(range)).await;
        assert_eq!((gone.status, gone.code()), (404, "NoSuchKey".into()));
    }
}

/// The stripe that lacks bytes is requested before its turn. Those before it are cached.
#[tokio::test]
async fn one_evicted_stripe_costs_one_request() {
    let size = 70 * MIB;
    let origin = Noting::new(size);
    let world = origin.world(REVALIDATE).await;
    for range in ["bytes=33292288-33554431", "bytes=33554432-67108863"] {
        let mut requests = vec![];
        while requests != ["HEAD sum"] {
            assert_eq!(get(&world, Some(range)).await.status, 206);
            world.settle().await;
            requests = origin.take();
        }
    }
    let across = get(&world, Some("bytes=33300000-67200000")).await;
    assert_eq!((across.status, across.header("x-cache")), (206, "MISS"));
    assert!(across.body == pattern(size, 1)[33_300_000..=67_200_000]);
    assert_eq!(origin.take(), ["GET 67108864-67371007 if"]);
}

/// A partial response has no checksum of the whole object. One HEAD request tells it.
#[tokio::test]
async fn the_checksum_that_a_partial_response_lacks_is_asked_for_once() {
    let origin = Noting::new(1000);
    let world = origin.world(Freshness::Immutable).await;
    get(&world, Some("bytes=0-9")).await;
    assert_eq!(origin.take(), ["GET 0-262143"]);
    let plain = get(&world, None).await;
    assert!(plain.header("x-cache") == "HIT" && !plain.has("x-amz-checksum-crc32"));
    assert_eq!(origin.take(), [""; 0], "it asks for no checksum");
    for (method, requests) in [("GET", &["HEAD sum"][..]), ("GET", &[]), ("HEAD", &[])] {
        let with = Ask::new(method, "/b/k").with("x-amz-checksum-mode", "ENABLED");
        let answer = ask(world.address, with).await;
        assert_eq!(answer.header("x-amz-checksum-crc32"), "AAAAAA==");
        assert_eq!(origin.take(), requests);
    }
}

/// The conditions of a client are judged here, in the order of S3, and do not reach the origin.
#[tokio::test]
async fn conditions_of_a_cold_read_are_judged_here() {
    for (name, value, status) in [
        ("if-match", "\"v1\"", 200),
        ("if-match", "\"other\"", 412),
        ("if-none-match", "\"v1\"", 304),
        ("if-none-match", "\"other\"", 200),
    ] {
        let origin = Noting::new(MIB);
        let world = origin.world(REVALIDATE).await;
        let answer = ask(world.address, Ask::new("GET", "/b/k").with(name, value)).await;
        assert_eq!(answer.status, status, "{name}: {value}");
        assert_eq!(origin.take(), ["GET sum"], "{name}: {value}");
    }
}

/// A range in the stripe of another shard, and the end of an object of unknown size.
#[tokio::test]
async fn a_cold_range_anywhere_in_a_large_object_is_one_get() {
    let (size, bytes) = (70 * MIB, pattern(70 * MIB, 1));
    for (range, requests, first, last) in [
        ("bytes=40000000-40000009", "GET 39845888-40108031", 40_000_000, 40_000_009),
        ("bytes=67108864-", "GET 67108864-100663295", 67_108_864, size - 1),
        ("bytes=-1000", "GET -263144", size - 1000, size - 1),
        // It begins with a stripe. The chunk more that is requested lies in the one before.
        ("bytes=-6291456", "GET -6553600", size - 6_291_456, size - 1),
        // It begins in one stripe and ends in the next.
        ("bytes=33554000-33555000", "GET 33292288-33554431", 33_554_000, 33_555_000),
    ] {
        let origin = Noting::new(size);
        let world = origin.world(Freshness::Immutable).await;
        let part = get(&world, Some(range)).await;
        assert_eq!((part.status, part.header("x-cache")), (206, "MISS"), "{range}");
        assert_eq!(part.header("content-range"), format!("bytes {first}-{last}/{size}"));
        assert!(part.body == bytes[first..=last], "{range}");
        let mut noted = origin.take();
        assert_eq!(noted.remove(0), requests);
        let is_across = first / (32 * MIB) != last / (32 * MIB) && range.ends_with("33555000");
        assert_eq!(noted.len(), usize::from(is_across), "{range}: {noted:?}");
        let again = get(&world, Some(range)).await;
        assert!(again.body == part.body, "{range}");
        // Flash need not take more at once.
        if part.body.len() < MIB {
            assert_eq!(again.header("x-cache"), "HIT", "{range}");
            assert_eq!(origin.take(), [""; 0], "{range}");
        }
    }
}

/// An object without a strong ETag is not cached. Its first read costs one request too.
#[tokio::test]
async fn an_object_that_cannot_be_cached_is_one_request() {
    for before_etag in [None, Some("W/")] {
        for (range, status, requests) in [
            (None, 200, "GET sum"),
            (Some("bytes=300000-300009"), 206, "GET 262144-524287"),
            (Some("bytes=-10"), 206, "GET -262154"),
        ] {
            let origin = Noting { before_etag, ..Noting::new(3 * MIB) };
            let world = origin.world(REVALIDATE).await;
            let answer = get(&world, range).await;
            assert_eq!((answer.status, answer.header("x-cache")), (status, "BYPASS"), "{range:?}");
            assert_eq!(answer.header("x-cache-reason"), "no-etag");
            assert_eq!(answer.has("etag"), before_etag.is_some());
            let whole = pattern(3 * MIB, 1);
            let expected = match range {
                None => &whole[..],
                Some("bytes=-10") => &whole[3 * MIB - 10..],
                Some(_) => &whole[300_000..300_010],
            };
            assert!(answer.body == expected && !answer.cut, "{range:?}");
            assert_eq!(origin.take(), [requests]);
            let again = get(&world, range).await;
            assert!(again.header("x-cache") == "BYPASS" && again.body == expected, "{range:?}");
            assert_eq!(origin.take().len(), 1);
        }
    }
}
