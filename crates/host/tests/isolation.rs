//! Isolation: a device that hangs, is late or fails delays no request beyond the read timeout, and
//! joins again.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tempfile::TempDir;
use zonal_base::{Nanos, RangeSpec};
use zonal_host::{
    Backend, BodyStream, BoxFuture, Client, DeviceSettings, Freshness, Head, LookupError, Node,
    NodeSettings, ObjectBody, ObjectName, OriginFault, OriginHead, RetentionClass,
};

mod support;

const OBJECT_BYTES: u64 = 1 << 20;

/// Read timeout, longer than a busy machine delays a thread.
const READ_TIMEOUT: Duration = Duration::from_millis(400);

const OBJECTS: u64 = 16;

/// Origin whose objects all have the same version, which their bytes encode.
#[derive(Default)]
struct Store {
    version: AtomicU64,
    asked: AtomicU64,
}

impl Store {
    fn bytes(&self, range: Range<u64>) -> Bytes {
        let version = self.version.load(Ordering::Relaxed);
        range.map(|at| u8::try_from((at ^ (at >> 9) ^ version) % 251).unwrap()).collect()
    }

    fn etag(&self) -> Box<str> {
        format!("\"v{}\"", self.version.load(Ordering::Relaxed)).into()
    }

    fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }
}

impl Backend for Store {
    fn head(&self, _: ObjectName) -> BoxFuture<'_, Result<OriginHead, OriginFault>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let head = OriginHead { size: OBJECT_BYTES, etag: self.etag(), ..OriginHead::default() };
        Box::pin(async move { Ok(head) })
    }

    fn get_object(
        &self,
        _: ObjectName,
        range: RangeSpec,
        version: Option<Arc<Head>>,
    ) -> BoxFuture<'_, Result<ObjectBody, OriginFault>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let (etag, range) = (self.etag(), range.in_object(OBJECT_BYTES));
        let answer = match version.is_none_or(|version| version.etag == etag) {
            true => {
                let head = OriginHead { size: OBJECT_BYTES, etag, ..OriginHead::default() };
                let body = Box::new(Body(Some(self.bytes(range.clone()))));
                Ok(ObjectBody { head, range, body })
            }
            false => Err(OriginFault::Changed),
        };
        Box::pin(async move { answer })
    }
}

struct Body(Option<Bytes>);

impl BodyStream for Body {
    fn next(&mut self) -> BoxFuture<'_, Option<Result<Bytes, OriginFault>>> {
        Box::pin(async move { self.0.take().map(Ok) })
    }
}

/// A node on two modelled drives, with faults on the first.
struct Bench {
    directory: TempDir,
    store: Arc<Store>,
    node: Node,
}

impl Bench {
    async fn start() -> Self {
        let (directory, store) = (tempfile::tempdir().unwrap(), Arc::new(Store::default()));
        let node = start(directory.path(), &store).await;
        Self { directory, store, node }
    }

    fn client(&self) -> &Client {
        self.node.client()
    }

    fn trouble(&self) -> PathBuf {
        self.directory.path().join("trouble-0")
    }

    fn has_trouble(&self, what: &str) {
        fs::write(self.trouble(), what).unwrap();
    }

    fn is_well(&self) {
        fs::remove_file(self.trouble()).unwrap();
    }

    /// Reads and verifies all objects. Returns true if the origin got no request, and the slowest
    /// read.
    async fn read_all(&self) -> (bool, Duration) {
        let asked = self.store.asked();
        let mut slowest = Duration::ZERO;
        for number in 0..OBJECTS {
            let begun = Instant::now();
            self.read(&object(number)).await;
            slowest = slowest.max(begun.elapsed());
        }
        (asked == self.store.asked(), slowest)
    }

    async fn read(&self, object: &ObjectName) {
        let range = 0..OBJECT_BYTES;
        let asked = (Freshness::Immutable, RetentionClass::Usual);
        let (_, reading) = match self
            .client()
            .get(object, asked, RangeSpec::Int(range.clone()), move |_| range.clone())
            .await
        {
            Ok(read) => read,
            // Cache bypass: the caller would read from the origin itself.
            Err(LookupError::Gone) => {
                self.store.asked.fetch_add(1, Ordering::Relaxed);
                return;
            }
            Err(error) => panic!("{error:?}"),
        };
        let (mut reading, mut bytes) = (reading.unwrap(), Vec::new());
        while let Some(piece) = std::future::poll_fn(|cx| reading.poll_next(cx)).await {
            bytes.extend_from_slice(&piece.unwrap());
        }
        assert!(bytes == self.store.bytes(0..OBJECT_BYTES), "old or wrong bytes of {object}");
    }

    /// Reads until everything comes from flash.
    async fn fill(&self) {
        eventually("all of it is cached", async || {
            let (is_cached, _) = self.read_all().await;
            self.client().settle().await;
            is_cached
        })
        .await;
    }

    async fn is_isolated(&self, device: usize) -> bool {
        let stats = self.client().stats().await;
        stats.iter().any(|shard| shard.device == device && shard.is_isolated)
    }

    async fn isolations(&self) -> u64 {
        self.client().stats().await[0].isolations
    }

    /// Reads until the first device is isolated, and checks the time of each read.
    async fn read_until_isolated(&self) {
        eventually("it is isolated", async || {
            let (_, slowest) = self.read_all().await;
            assert!(slowest < READ_TIMEOUT * 3, "somebody waited for {slowest:?}");
            self.is_isolated(0).await
        })
        .await;
        assert!(!self.is_isolated(1).await);
        let (_, slowest) = self.read_all().await;
        assert!(slowest < READ_TIMEOUT, "somebody waited for {slowest:?} although it is isolated");
    }

    async fn joins_again(&self) {
        eventually("it joins again", async || !self.is_isolated(0).await).await;
    }
}

async fn start(directory: &Path, store: &Arc<Store>) -> Node {
    let device = |number: u32| DeviceSettings {
        patience: Nanos::millis(u64::try_from(READ_TIMEOUT.as_millis()).unwrap()),
        rejoin: Nanos::secs(1),
        ..support::device(&format!(
            "emulator:p5800x-optane?size=256MiB&zone=8MiB&backing={0}/drive-{number}&trouble={0}/trouble-{number}",
            directory.display()
        ))
    };
    let devices = vec![device(0), device(1)];
    let settings = NodeSettings { prefetches: usize::MAX, ..support::node(devices) };
    Node::start(&settings, store.clone(), None).await.unwrap()
}

fn object(number: u64) -> ObjectName {
    ObjectName::new("bucket", &format!("object-{number}"))
}

async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so().await {
        assert!(Instant::now() < deadline, "not within a minute: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_device_that_hangs_is_isolated_and_comes_back_with_what_it_held() {
    let bench = Bench::start().await;
    bench.fill().await;
    bench.has_trouble("hangs");
    bench.read_until_isolated().await;
    bench.is_well();
    bench.joins_again().await;
    // Admissions to the hanging device were lost.
    let (_, slowest) = bench.read_all().await;
    assert!(slowest < READ_TIMEOUT);
    bench.fill().await;
    assert_eq!(bench.isolations().await, 1);
    bench.node.stop().await;
}

#[tokio::test]
async fn a_device_that_is_late_or_fails_is_isolated_and_comes_back() {
    for trouble in ["slow 2s", "fails-reads"] {
        let bench = Bench::start().await;
        bench.fill().await;
        bench.has_trouble(trouble);
        bench.read_until_isolated().await;
        bench.is_well();
        bench.joins_again().await;
        bench.fill().await;
        bench.node.stop().await;
    }
}

#[tokio::test]
async fn a_full_device_is_isolated_at_its_first_write_and_comes_back() {
    let bench = Bench::start().await;
    bench.fill().await;
    bench.has_trouble("full");
    for number in 0..OBJECTS {
        let _ = bench.client().remove(&object(number)).await;
    }
    bench.read_until_isolated().await;
    bench.is_well();
    bench.joins_again().await;
    bench.fill().await;
    bench.node.stop().await;
}

#[tokio::test]
async fn what_was_removed_while_its_device_was_away_does_not_come_back() {
    let bench = Bench::start().await;
    bench.fill().await;
    bench.has_trouble("hangs");
    bench.read_until_isolated().await;
    bench.store.version.store(1, Ordering::Relaxed);
    for number in 0..OBJECTS {
        let begun = Instant::now();
        assert_eq!(bench.client().remove(&object(number)).await, Ok(()));
        assert!(begun.elapsed() < READ_TIMEOUT, "a removal waited for {:?}", begun.elapsed());
    }
    bench.is_well();
    bench.joins_again().await;
    bench.read_all().await;
    bench.node.stop().await;
}

#[tokio::test]
async fn what_was_removed_while_its_device_was_away_does_not_come_back_after_a_kill() {
    let bench = Bench::start().await;
    bench.fill().await;
    bench.has_trouble("hangs");
    bench.read_until_isolated().await;
    bench.store.version.store(1, Ordering::Relaxed);
    for number in 0..OBJECTS {
        assert_eq!(bench.client().remove(&object(number)).await, Ok(()));
    }
    // State after a kill: the first device has none of the removals, and works again.
    let left = tempfile::tempdir().unwrap();
    for drive in ["drive-0", "drive-1"] {
        fs::copy(bench.directory.path().join(drive), left.path().join(drive)).unwrap();
    }
    bench.node.stop().await;
    let node = start(left.path(), &bench.store).await;
    let bench = Bench { directory: left, store: bench.store, node };
    bench.read_all().await;
    bench.fill().await;
    bench.node.stop().await;
}

#[tokio::test]
async fn a_node_stops_although_a_device_hangs() {
    let bench = Bench::start().await;
    bench.fill().await;
    bench.has_trouble("hangs");
    bench.read_until_isolated().await;
    let begun = Instant::now();
    bench.node.stop().await;
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
}
