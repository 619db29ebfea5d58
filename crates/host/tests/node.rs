//! A node on a real file: data read once are cached, before and after a restart.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::Bytes;
use zonal_base::{Bytes as Size, RangeSpec};
use zonal_host::{
    Backend, BodyStream, BoxFuture, Chunk, ChunkRules, Client, DeviceSettings, Freshness, Head,
    HeadSource, LookupError, Node, NodeSettings, ObjectBody, ObjectName, OriginFault, OriginHead,
    RetentionClass, StartError,
};
use zonal_zonelog::OpenMode;

mod support;

const OBJECT_BYTES: u64 = 40 << 20;

/// One piece of 256 KiB and one of 64 KiB.
const SHORT_BYTES: u64 = 320 << 10;

/// Origin whose bytes encode their offset in the object.
#[derive(Default)]
struct Store {
    heads: AtomicU64,
    gets: AtomicU64,
    /// True: every further GET fails with `NotFound`.
    is_gone: AtomicBool,
}

fn pattern(range: Range<u64>) -> Bytes {
    range.map(|at| u8::try_from((at ^ (at >> 9)) % 251).expect("below 251")).collect()
}

impl Backend for Store {
    fn head(&self, object: ObjectName) -> BoxFuture<'_, Result<OriginHead, OriginFault>> {
        self.heads.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            assert_ne!(object.key(), "panics", "as the test wants it");
            if object.key() == "none" {
                return Err(OriginFault::NotFound);
            }
            let size = if object.key() == "short" { SHORT_BYTES } else { OBJECT_BYTES };
            Ok(OriginHead { size, etag: "\"v1\"".into(), ..OriginHead::default() })
        })
    }

    fn get_object(
        &self,
        object: ObjectName,
        range: RangeSpec,
        _version: Option<Arc<Head>>,
    ) -> BoxFuture<'_, Result<ObjectBody, OriginFault>> {
        self.gets.fetch_add(1, Ordering::Relaxed);
        let is_gone = self.is_gone.load(Ordering::Relaxed);
        Box::pin(async move {
            assert_ne!(object.key(), "panics", "as the test wants it");
            if is_gone || object.key() == "none" {
                return Err(OriginFault::NotFound);
            }
            let size = if object.key() == "short" { SHORT_BYTES } else { OBJECT_BYTES };
            let head = OriginHead { size, etag: "\"v1\"".into(), ..OriginHead::default() };
            let range = range.in_object(size);
            Ok(ObjectBody { head, range: range.clone(), body: Box::new(Body(range)) })
        })
    }
}

struct Body(Range<u64>);

impl BodyStream for Body {
    fn next(&mut self) -> BoxFuture<'_, Option<Result<Bytes, OriginFault>>> {
        Box::pin(async move {
            let end = self.0.end.min(self.0.start + 50_000);
            let piece = pattern(self.0.start..end);
            self.0.start = end;
            (!piece.is_empty()).then_some(Ok(piece))
        })
    }
}

fn settings(path: &std::path::Path) -> NodeSettings {
    let spec = format!("file:{}?size=256MiB&zone=8MiB", path.display());
    let device =
        DeviceSettings { dram: Size::mib(8), buffers: Size::mib(32), ..support::device(&spec) };
    support::node(vec![device])
}

/// Counters of 256 KiB pieces, over all shards.
#[derive(Debug, PartialEq)]
struct Pieces {
    asked: u64,
    pending_invalidations: u64,
    found: u64,
}

async fn pieces(client: &Client) -> Pieces {
    let shards = client.stats().await;
    let sum =
        |count: fn(&zonal_cache::CacheStats) -> u64| shards.iter().map(|s| count(&s.cache)).sum();
    Pieces {
        asked: sum(|stats| stats.pieces),
        pending_invalidations: sum(|stats| stats.pieces_missed),
        found: sum(|stats| stats.pieces_flash_hits + stats.pieces_dram_hits + stats.pieces_joined),
    }
}

async fn read(client: &Client, object: &ObjectName, range: Range<u64>) -> (bool, Bytes) {
    let (_, reading) = client
        .get(
            object,
            (Freshness::Immutable, RetentionClass::Usual),
            RangeSpec::Int(range.clone()),
            move |_| range.clone(),
        )
        .await
        .unwrap();
    let mut reading = reading.unwrap();
    let mut bytes = Vec::new();
    let all_cached = reading.all_cached;
    while let Some(piece) = std::future::poll_fn(|cx| reading.poll_next(cx)).await {
        bytes.extend_from_slice(&piece.unwrap());
    }
    (all_cached, bytes.into())
}

/// Reads all ranges until they are cached: while flash is slower than the origin, admissions are
/// refused.
async fn read_until_cached(client: &Client, object: &ObjectName, ranges: &[Range<u64>]) {
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut is_cached = false;
    while !is_cached {
        assert!(Instant::now() < deadline, "not cached: {:#?}", client.stats().await);
        is_cached = true;
        for range in ranges {
            let (all_cached, bytes) = read(client, object, range.clone()).await;
            assert!(bytes == pattern(range.clone()), "wrong bytes in {range:?}");
            is_cached &= all_cached;
        }
        client.settle().await;
    }
}

#[tokio::test]
async fn what_was_read_once_is_cached_across_stripes_and_restarts() {
    let directory = tempfile::tempdir().unwrap();
    let settings = settings(&directory.path().join("device"));
    let store = Arc::new(Store::default());
    let object = ObjectName::new("bucket", "key");
    let ranges = [0..OBJECT_BYTES, 5..6, 33_000_000..34_500_000, 0..0];

    let node = Node::start(&settings, store.clone(), None).await.unwrap();
    read_until_cached(node.client(), &object, &ranges).await;
    let Pieces { asked, pending_invalidations, found } = pieces(node.client()).await;
    assert_eq!(asked, pending_invalidations + found, "each piece is counted once");
    assert!(160 <= pending_invalidations, "each of 160 was missing at first");
    let none = ObjectName::new("bucket", "none");
    let missing = node.client().open(&none, Freshness::Immutable, RetentionClass::Usual);
    assert_eq!(missing.await.unwrap_err(), LookupError::NotFound);
    let missing = node.client().get(
        &none,
        (Freshness::Immutable, RetentionClass::Usual),
        RangeSpec::Whole,
        |_| 0..1,
    );
    assert_eq!(missing.await.err(), Some(LookupError::NotFound));
    let gets = store.gets.load(Ordering::Relaxed);
    node.stop().await;

    let node = Node::start(&settings, store.clone(), None).await.unwrap();
    for range in ranges {
        let (all_cached, bytes) = read(node.client(), &object, range.clone()).await;
        assert!(all_cached && bytes == pattern(range.clone()), "{range:?} after a restart");
    }
    assert_eq!(store.gets.load(Ordering::Relaxed), gets);
    assert_eq!(store.heads.load(Ordering::Relaxed), 1, "one open of what is not there");
    node.client().remove(&object).await.unwrap();
    let again =
        node.client().open(&object, Freshness::Revalidate, RetentionClass::Usual).await.unwrap();
    assert_eq!(again.found, HeadSource::Miss);
    assert!(again.head.salt != 0, "what was stored before the removal stays out of reach");
    node.stop().await;
}

/// Regression: pieces were identified by number and length only. After a restart with smaller
/// chunks, the short last piece of an object was taken for a whole piece of the new size with the
/// same number, so wrong bytes were served.
#[tokio::test]
async fn a_piece_is_never_taken_for_one_of_another_chunk_size() {
    let directory = tempfile::tempdir().unwrap();
    let mut settings = settings(&directory.path().join("device"));
    let object = ObjectName::new("bucket", "short");
    for chunk in [256, 64, 16, 256] {
        settings.devices[0].chunk = Size::kib(chunk);
        let node = Node::start(&settings, Arc::<Store>::default(), None).await.unwrap();
        read_until_cached(node.client(), &object, &[0..SHORT_BYTES, 65_000..131_073]).await;
        node.stop().await;
    }
}

/// The same case with a chunk size rule that changes at each start: an object keeps its chunks
/// until it is removed.
#[tokio::test]
async fn a_piece_is_never_taken_for_one_of_another_rule() {
    let directory = tempfile::tempdir().unwrap();
    let mut settings = settings(&directory.path().join("device"));
    let object = ObjectName::new("bucket", "short");
    for (kib, is_removed) in [(256, false), (64, true), (16, false), (1024, true), (64, false)] {
        let rule = Chunk::new(Size::kib(kib));
        settings.chunks = Arc::new(ChunkRules::all(None).with("bucket/sh", rule));
        let node = Node::start(&settings, Arc::<Store>::default(), None).await.unwrap();
        let is_new = kib == 256 || is_removed;
        if is_removed {
            node.client().remove(&object).await.unwrap();
        }
        read_until_cached(node.client(), &object, &[0..SHORT_BYTES, 65_000..131_073]).await;
        let opened =
            node.client().open(&object, Freshness::Immutable, RetentionClass::Usual).await.unwrap();
        assert_eq!(opened.head.chunk == rule, is_new, "{kib} KiB");
        node.stop().await;
    }
}

/// Regression: a reader of the object waited forever, and so did all later readers.
#[tokio::test]
async fn an_answer_of_the_origin_that_makes_us_panic_is_one_fetch_that_failed() {
    let directory = tempfile::tempdir().unwrap();
    let settings = settings(&directory.path().join("device"));
    let node = Node::start(&settings, Arc::<Store>::default(), None).await.unwrap();
    for (key, expected) in [("panics", Err(OriginFault::Lied)), ("short", Ok(SHORT_BYTES))] {
        let object = ObjectName::new("bucket", key);
        let opened = node.client().open(&object, Freshness::Immutable, RetentionClass::Usual).await;
        let expected = expected.map_err(LookupError::Origin);
        assert_eq!(opened.map(|opened| opened.head.size), expected, "{key}");
    }
    node.stop().await;
}

#[tokio::test]
async fn a_reader_that_goes_away_leaves_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let node =
        Node::start(&settings(&directory.path().join("device")), Arc::<Store>::default(), None)
            .await
            .unwrap();
    let object = ObjectName::new("bucket", "key");
    let head = node
        .client()
        .open(&object, Freshness::Immutable, RetentionClass::Usual)
        .await
        .unwrap()
        .head;
    for _ in 0..20 {
        let mut reading = node
            .client()
            .read(&object, &head, 0..OBJECT_BYTES, RetentionClass::Usual)
            .await
            .unwrap();
        let first = std::future::poll_fn(|cx| match reading.poll_next(cx) {
            Poll::Ready(piece) => Poll::Ready(piece),
            Poll::Pending => Poll::Pending,
        });
        assert!(first.await.unwrap().is_ok());
    }
    // The engine detects the dropped reader when it has the next piece.
    let deadline = Instant::now() + Duration::from_secs(20);
    while 0 < node.client().stats().await.iter().map(|stats| stats.buffers_in_use).sum::<u64>() {
        assert!(Instant::now() < deadline, "buffers are still held");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    node.stop().await;
}

#[tokio::test]
async fn a_read_under_way_outlives_the_removal_of_its_object() {
    let directory = tempfile::tempdir().unwrap();
    let settings = settings(&directory.path().join("device"));
    let store = Arc::new(Store::default());
    let node = Node::start(&settings, store.clone(), None).await.unwrap();
    let object = ObjectName::new("bucket", "key");
    // Many pieces of one fetch, all within its read-ahead.
    let range = 0..4_000_000;

    let head = node
        .client()
        .open(&object, Freshness::Immutable, RetentionClass::Usual)
        .await
        .unwrap()
        .head;
    let mut reading =
        node.client().read(&object, &head, range.clone(), RetentionClass::Usual).await.unwrap();
    store.is_gone.store(true, Ordering::Relaxed);
    node.client().remove(&object).await.unwrap();

    let mut bytes = Vec::new();
    while let Some(piece) = std::future::poll_fn(|cx| reading.poll_next(cx)).await {
        bytes.extend_from_slice(&piece.unwrap());
    }
    assert_eq!(bytes, pattern(range));
    assert_eq!(store.gets.load(Ordering::Relaxed), 1);
    node.stop().await;
}

#[tokio::test]
async fn what_is_read_often_is_held_in_memory_until_it_is_removed() {
    let directory = tempfile::tempdir().unwrap();
    let settings = settings(&directory.path().join("device"));
    let node = Node::start(&settings, Arc::<Store>::default(), None).await.unwrap();
    let (client, object) = (node.client(), ObjectName::new("bucket", "key"));
    // Four whole pieces. The second read from flash promotes them to DRAM.
    let range = 0..1 << 20;
    read_until_cached(client, &object, std::slice::from_ref(&range)).await;
    let from = |count: fn(&zonal_cache::CacheStats) -> u64| async move {
        client.stats().await.iter().map(|shard| count(&shard.cache)).sum::<u64>()
    };
    for _ in 0..2 {
        read(client, &object, range.clone()).await;
    }
    let before = from(|stats| stats.served_flash_bytes).await;
    let (all_cached, bytes) = read(client, &object, range.clone()).await;
    assert!(all_cached && bytes == pattern(range.clone()));
    let (part, whole) = (300_000..300_001, from(|stats| stats.pieces_dram_hits).await);
    let (_, byte) = read(client, &object, part.clone()).await;
    assert!(byte == pattern(part), "a part of a piece that is held");
    assert_eq!(from(|stats| stats.served_flash_bytes).await, before, "flash was asked");
    assert_eq!(from(|stats| stats.pieces_dram_hits).await, whole + 1);

    client.remove(&object).await.unwrap();
    let pending_invalidations = from(|stats| stats.pieces_missed).await;
    let (all_cached, bytes) = read(client, &object, range.clone()).await;
    assert!(!all_cached && bytes == pattern(range));
    assert_eq!(from(|stats| stats.pieces_missed).await, pending_invalidations + 4);
    node.stop().await;
}

/// Reads enough other objects to overwrite all unpinned data.
async fn churn(client: &Client, from: u32) {
    for number in from..from + 8 {
        read(client, &ObjectName::new("bucket", &format!("{number}")), 0..OBJECT_BYTES).await;
        client.settle().await;
    }
}

#[tokio::test]
async fn what_is_pinned_stays_over_restarts_until_no_rule_pins_it_or_it_is_removed() {
    let directory = tempfile::tempdir().unwrap();
    let mut pinning = settings(&directory.path().join("device"));
    pinning.devices[0].pinned_percent = 75;
    let store = Arc::new(Store::default());
    let (object, freshness) = (ObjectName::new("bucket", "pinned"), Freshness::Immutable);
    let whole = 0..OBJECT_BYTES;

    let node = Node::start(&pinning, store.clone(), None).await.unwrap();
    let pinned = node.client().open(&object, freshness, RetentionClass::Pinned).await.unwrap();
    let is_cached =
        async |client: &Client| client.is_cached(&object, &pinned.head, 0..OBJECT_BYTES).await;
    while !is_cached(node.client()).await {
        let range = whole.clone();
        let get = node.client().get(
            &object,
            (freshness, RetentionClass::Pinned),
            RangeSpec::Int(range.clone()),
            move |_| range.clone(),
        );
        let (_, reading) = get.await.unwrap();
        let mut reading = reading.unwrap();
        while let Some(piece) = std::future::poll_fn(|cx| reading.poll_next(cx)).await {
            piece.unwrap();
        }
        node.client().settle().await;
    }
    churn(node.client(), 0).await;
    assert!(is_cached(node.client()).await, "reclaim writes it again");
    let held: u64 = node.client().stats().await.iter().map(|stats| stats.pinned.0).sum();
    assert!((OBJECT_BYTES..OBJECT_BYTES + 4096).contains(&held), "{held} bytes, a head among them");
    node.stop().await;

    // The object is not read after this restart: the pin stored on flash protects it.
    let node = Node::start(&pinning, store.clone(), None).await.unwrap();
    churn(node.client(), 8).await;
    assert!(is_cached(node.client()).await, "after a restart, too");
    let heads = store.heads.load(Ordering::Relaxed);
    let again = node.client().open(&object, freshness, RetentionClass::Pinned).await.unwrap();
    assert_eq!(again.found, HeadSource::Hit, "with the head that leads to it");
    assert_eq!(store.heads.load(Ordering::Relaxed), heads);
    node.client().remove(&object).await.unwrap();
    node.client().settle().await;
    let held: u64 = node.client().stats().await.iter().map(|stats| stats.pinned.0).sum();
    assert!(
        held <= OBJECT_BYTES - (32 << 20),
        "what the shard of its head knew of it is free: {held}"
    );
    node.stop().await;

    pinning.devices[0].pinned_percent = 0;
    let node = Node::start(&pinning, store.clone(), None).await.unwrap();
    churn(node.client(), 16).await;
    assert!(!is_cached(node.client()).await);
    let stats = node.client().stats().await;
    assert!(stats.iter().all(|stats| stats.pinned == Size(0) && stats.cache.unpinned_bytes == 0));
    node.stop().await;
}

/// Regression: a node checked only the starts of zones before it formatted a blank device. No later
/// check followed.
#[tokio::test]
async fn a_node_keeps_its_hands_off_what_is_not_its_own_and_leaves_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let mut two = settings(&directory.path().join("new"));
    let theirs = directory.path().join("theirs");
    let mut content = vec![0; 256 << 20];
    content[(100 << 20) + 7] = 1;
    std::fs::write(&theirs, &content).unwrap();
    two.devices.extend(settings(&theirs).devices);
    let refused = Node::start(&two, Arc::<Store>::default(), None).await.err();
    assert!(matches!(refused, Some(StartError::Foreign { .. })), "{refused:?}");
    assert!(std::fs::read(&theirs).unwrap() == content, "nothing was written");
    assert!(!directory.path().join("new").exists(), "the other device is gone again");

    two.mode = OpenMode::Format;
    Node::start(&two, Arc::<Store>::default(), None).await.unwrap().stop().await;
    two.mode = OpenMode::Recover;
    Node::start(&two, Arc::<Store>::default(), None).await.unwrap().stop().await;
    two.devices[1].shards = Some(3);
    let refused = Node::start(&two, Arc::<Store>::default(), None).await.err();
    assert!(matches!(refused, Some(StartError::Divided { .. })), "{refused:?}");
}

#[tokio::test]
async fn where_the_bytes_of_a_range_are_is_told_stripe_by_stripe() {
    let directory = tempfile::tempdir().unwrap();
    let settings = settings(&directory.path().join("device"));
    let node = Node::start(&settings, Arc::new(Store::default()), None).await.unwrap();
    let client = node.client();
    let object = ObjectName::new("bucket", "a");
    let opened = client.open(&object, Freshness::Immutable, RetentionClass::Warmed).await.unwrap();
    let on_flash = async |range: Range<u64>| {
        client.locate(&object, &opened.head, range).await.unwrap().residency.on_flash
    };
    assert_eq!(on_flash(0..OBJECT_BYTES).await, 0);
    // The last byte of the first stripe and the first of the second: one piece of each.
    let edge = 32 << 20;
    read(client, &object, edge - 1..edge + 1).await;
    // A fetch continues to the end of its piece after its reader has ended.
    let deadline = Instant::now() + Duration::from_secs(60);
    while on_flash(0..OBJECT_BYTES).await < 512 << 10 {
        assert!(Instant::now() < deadline, "{:#?}", client.stats().await);
        client.settle().await;
    }
    assert_eq!(on_flash(0..OBJECT_BYTES).await, 512 << 10);
    assert_eq!(on_flash(edge - 10..edge + 3).await, 13);
    assert_eq!(on_flash(0..edge - (256 << 10)).await, 0);
    let located = client.locate(&object, &opened.head, 0..OBJECT_BYTES).await.unwrap();
    assert_eq!(located.residency.in_memory, 0);
    assert!(located.backlog.0 == 0 && 0 < located.backlog_max.0, "{located:?}");
    node.stop().await;
}

#[tokio::test]
async fn what_is_read_again_or_warmed_while_it_waits_goes_to_flash_and_the_rest_does_not() {
    let directory = tempfile::tempdir().unwrap();
    let mut settings = settings(&directory.path().join("device"));
    settings.devices[0].policy = "zone-fifo?admit=probation".parse().unwrap();
    settings.devices[0].dram = Size::mib(8);
    let node = Node::start(&settings, Arc::<Store>::default(), None).await.unwrap();
    let client = node.client();
    // Flash must have been full once: only then is admission selective.
    let is_filling = |shard: &zonal_host::ShardStats| shard.log.zones_reset == 0;
    for round in 0..10 {
        churn(client, round * 8).await;
        if !client.stats().await.iter().any(is_filling) {
            break;
        }
    }
    assert!(!client.stats().await.iter().any(is_filling), "{:#?}", client.stats().await);

    let chunk = 0..256 << 10;
    let named = |name: &str| ObjectName::new("bucket", name);
    let warm = async |object: &ObjectName| {
        let head =
            client.open(object, Freshness::Immutable, RetentionClass::Usual).await.unwrap().head;
        let warming = client.read(object, &head, chunk.clone(), RetentionClass::Warmed).await;
        let mut reading = warming.unwrap();
        while std::future::poll_fn(|cx| reading.poll_next(cx)).await.is_some() {}
    };
    let residency = async |object: &ObjectName| {
        let head =
            client.open(object, Freshness::Immutable, RetentionClass::Usual).await.unwrap().head;
        client.locate(object, &head, chunk.clone()).await.unwrap().residency
    };
    let [once, twice, warmed] = ["once", "twice", "warmed"].map(named);
    for object in [&once, &twice, &twice, &warmed] {
        assert!(read(client, object, chunk.clone()).await.1 == pattern(chunk.clone()));
    }
    warm(&warmed).await;
    // The warmed chunk is written without more traffic to evict it from memory.
    let deadline = Instant::now() + Duration::from_secs(20);
    while residency(&warmed).await.on_flash < chunk.end {
        assert!(Instant::now() < deadline, "it waits: {:#?}", client.stats().await);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // Queued pieces may use a tenth of the memory: three chunks on each shard.
    for number in 0..20 {
        read(client, &named(&format!("other {number}")), chunk.clone()).await;
    }
    while residency(&twice).await.in_memory != 0 {
        assert!(Instant::now() < deadline, "{:#?}", client.stats().await);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for (object, on_flash) in [(&once, 0), (&twice, chunk.end), (&warmed, chunk.end)] {
        assert_eq!(residency(object).await.on_flash, on_flash, "{object}");
    }
    node.stop().await;
}
