//! Device changes between starts of a node: added, removed, reordered, exchanged.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use zonal_base::{Bytes as Size, RangeSpec};
use zonal_host::{
    Backend, BodyStream, BoxFuture, DeviceSettings, Freshness, Head, Node, ObjectBody, ObjectName,
    OriginFault, OriginHead, RetentionClass, StartError,
};

mod support;

const OBJECT_BYTES: u64 = 64 << 10;

const OBJECTS: u64 = 48;

/// Origin whose objects all have the same version, which their bytes encode.
#[derive(Default)]
struct Store {
    version: AtomicU64,
    asked: AtomicU64,
}

impl Store {
    fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    fn bytes(&self, range: Range<u64>) -> Bytes {
        range.map(|at| u8::try_from((at ^ (at >> 9) ^ self.version()) % 251).unwrap()).collect()
    }
}

impl Backend for Store {
    fn head(&self, _: ObjectName) -> BoxFuture<'_, Result<OriginHead, OriginFault>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        // All versions have one ETag, so only removals tell them apart.
        let etag = "\"v\"".into();
        let head = OriginHead { size: OBJECT_BYTES, etag, ..OriginHead::default() };
        Box::pin(async move { Ok(head) })
    }

    fn get_object(
        &self,
        _: ObjectName,
        range: RangeSpec,
        _: Option<Arc<Head>>,
    ) -> BoxFuture<'_, Result<ObjectBody, OriginFault>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let range = range.in_object(OBJECT_BYTES);
        let head = OriginHead { size: OBJECT_BYTES, etag: "\"v\"".into(), ..OriginHead::default() };
        let body = Box::new(Body(Some(self.bytes(range.clone()))));
        Box::pin(async move { Ok(ObjectBody { head, range, body }) })
    }
}

struct Body(Option<Bytes>);

impl BodyStream for Body {
    fn next(&mut self) -> BoxFuture<'_, Option<Result<Bytes, OriginFault>>> {
        Box::pin(async move { self.0.take().map(Ok) })
    }
}

async fn start(directory: &Path, store: &Arc<Store>, names: &[&str]) -> Result<Node, StartError> {
    let device = |name: &&str| DeviceSettings {
        shards: Some(1),
        chunk: Size::kib(64),
        ..support::device(&format!("file:{}?size=256MiB&zone=8MiB", directory.join(name).display()))
    };
    let settings = support::node(names.iter().map(device).collect());
    Node::start(&settings, store.clone(), None).await
}

fn object(number: u64) -> ObjectName {
    ObjectName::new("bucket", &format!("object-{number}"))
}

/// Reads and verifies all objects. Returns the number of objects that needed an origin request.
async fn read_all(node: &Node, store: &Store) -> u64 {
    let mut pending_invalidations = 0;
    for number in 0..OBJECTS {
        let asked = store.asked.load(Ordering::Relaxed);
        let freshness = (Freshness::Immutable, RetentionClass::Usual);
        let get = node
            .client()
            .get(&object(number), freshness, RangeSpec::Whole, |_| 0..OBJECT_BYTES)
            .await;
        let (mut reading, mut bytes) = (get.unwrap().1.unwrap(), Vec::new());
        while let Some(piece) = std::future::poll_fn(|cx| reading.poll_next(cx)).await {
            bytes.extend_from_slice(&piece.unwrap());
        }
        assert!(bytes == store.bytes(0..OBJECT_BYTES), "old bytes of {number}");
        pending_invalidations += u64::from(asked != store.asked.load(Ordering::Relaxed));
    }
    pending_invalidations
}

/// Runs a node on these devices until everything is cached. Returns the number of objects that
/// needed an origin request at first.
async fn run(directory: &Path, store: &Arc<Store>, names: &[&str]) -> u64 {
    let node = start(directory, store, names).await.unwrap();
    let pending_invalidations = read_all(&node, store).await;
    node.client().settle().await;
    // While flash is slower than the origin, admissions are refused.
    let mut rounds = 0;
    while read_all(&node, store).await != 0 {
        node.client().settle().await;
        rounds += 1;
        assert!(rounds < 50, "not cached: {:#?}", node.client().stats().await);
    }
    node.stop().await;
    pending_invalidations
}

/// Changes all objects through a node on these devices.
async fn overwrite(directory: &Path, store: &Arc<Store>, names: &[&str]) {
    let node = start(directory, store, names).await.unwrap();
    store.version.fetch_add(1, Ordering::Relaxed);
    for number in 0..OBJECTS {
        node.client().remove(&object(number)).await.unwrap();
    }
    node.stop().await;
}

#[tokio::test]
async fn a_device_more_or_less_costs_its_own_share_and_their_order_costs_nothing() {
    let (directory, store) = (tempfile::tempdir().unwrap(), Arc::new(Store::default()));
    let at = directory.path();
    assert_eq!(run(at, &store, &["a"]).await, OBJECTS);
    assert_eq!(run(at, &store, &["a"]).await, 0);
    let more = run(at, &store, &["a", "b"]).await;
    assert!((OBJECTS / 4..OBJECTS * 3 / 4).contains(&more), "{more}");
    assert_eq!(run(at, &store, &["b", "a"]).await, 0);
    let third = run(at, &store, &["c", "b", "a"]).await;
    assert!((1..OBJECTS * 2 / 3).contains(&third), "{third}");
    let less = run(at, &store, &["c", "a"]).await;
    assert!((1..OBJECTS * 2 / 3).contains(&less), "{less}");
}

#[tokio::test]
async fn what_changed_while_a_device_was_out_does_not_come_back_with_it() {
    let (directory, store) = (tempfile::tempdir().unwrap(), Arc::new(Store::default()));
    let at = directory.path();
    run(at, &store, &["a", "b"]).await;
    overwrite(at, &store, &["a"]).await;
    assert!(0 < run(at, &store, &["a", "b"]).await);
    // Buckets that moved to the first device while it was alone are back on the second, and change
    // there.
    overwrite(at, &store, &["b", "a"]).await;
    run(at, &store, &["a"]).await;
    overwrite(at, &store, &["a"]).await;
    run(at, &store, &["b", "a"]).await;
}

#[tokio::test]
async fn a_device_in_the_place_of_another_costs_that_ones_share() {
    let (directory, store) = (tempfile::tempdir().unwrap(), Arc::new(Store::default()));
    let at = directory.path();
    run(at, &store, &["a", "b", "c"]).await;
    let pending_invalidations = run(at, &store, &["a", "d", "c"]).await;
    assert!((1..OBJECTS * 2 / 3).contains(&pending_invalidations), "{pending_invalidations}");
}

#[tokio::test]
async fn devices_that_were_used_apart_are_refused_until_one_is_formatted() {
    let (directory, store) = (tempfile::tempdir().unwrap(), Arc::new(Store::default()));
    let at = directory.path();
    run(at, &store, &["a", "b"]).await;
    run(at, &store, &["a"]).await;
    run(at, &store, &["b"]).await;
    let Err(refused) = start(at, &store, &["a", "b"]).await else { panic!("it started") };
    let text = refused.to_string();
    assert!(
        matches!(refused, StartError::SplitBrain { .. }) && text.contains("used separately"),
        "{text}"
    );
    std::fs::remove_file(at.join("b")).unwrap();
    assert!(run(at, &store, &["a", "b"]).await < OBJECTS);
}
