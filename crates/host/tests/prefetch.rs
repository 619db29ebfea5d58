//! Prefetch with a distant origin: sequential readers do not wait for it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use zonal_base::{Bytes as Size, RangeSpec, Rng};
use zonal_host::{
    Backend, BodyStream, BoxFuture, Client, DeviceSettings, Freshness, Head, Node, NodeSettings,
    ObjectBody, ObjectName, OriginFault, OriginHead, RetentionClass, StripedRead,
};

mod support;

const MIB: u64 = 1 << 20;

/// Not a multiple of the range size or the chunk size.
const OBJECT: u64 = 100 * MIB + 12_345;

/// Latency to the first byte of each response.
const DELAY: Duration = Duration::from_millis(20);

/// Bytes of each part of a body, and its delay: 64 MiB/s per request.
const YIELDS: u64 = 256 << 10;
const YIELDS_EVERY: Duration = Duration::from_millis(4);

/// Content of every object, repeated.
static BYTES: LazyLock<Bytes> = LazyLock::new(|| {
    let mut rng = Rng::new(1);
    (0..131_101_u64).flat_map(|_| rng.next_u64().to_le_bytes()).collect()
});

fn content(range: Range<u64>) -> Bytes {
    let period = BYTES.len() as u64;
    let mut bytes = Vec::new();
    let mut at = range.start;
    while at < range.end {
        let from = usize::try_from(at % period).unwrap();
        let most = usize::try_from(range.end - at).unwrap();
        bytes.extend_from_slice(&BYTES[from..BYTES.len().min(from + most)]);
        at = range.start + bytes.len() as u64;
    }
    bytes.into()
}

/// Distant origin; clones share their counters.
#[derive(Clone, Default)]
struct FarStore(Arc<Asked>);

#[derive(Default)]
struct Asked {
    gets: AtomicU64,
    sent: AtomicU64,
    /// Responses of which not all bytes were sent, and the most of them at a time.
    in_flight: AtomicU64,
    in_flight_max: AtomicU64,
    /// The next GET at or beyond this offset fails with `Busy`; 0: none.
    busy_from: AtomicU64,
}

impl Backend for FarStore {
    fn head(&self, _object: ObjectName) -> BoxFuture<'_, Result<OriginHead, OriginFault>> {
        let head = OriginHead { size: OBJECT, etag: "\"v1\"".into(), ..OriginHead::default() };
        Box::pin(async move { Ok(head) })
    }

    fn get_object(
        &self,
        _object: ObjectName,
        range: RangeSpec,
        version: Option<Arc<Head>>,
    ) -> BoxFuture<'_, Result<ObjectBody, OriginFault>> {
        assert!(version.is_none_or(|version| &*version.etag == "\"v1\""));
        self.0.gets.fetch_add(1, Ordering::Relaxed);
        let (busy_from, first) =
            (self.0.busy_from.load(Ordering::Relaxed), range.in_object(OBJECT).start);
        if 0 < busy_from && busy_from <= first {
            self.0.busy_from.store(0, Ordering::Relaxed);
            return Box::pin(async move { Err(OriginFault::Busy) });
        }
        let head = OriginHead { size: OBJECT, etag: "\"v1\"".into(), ..OriginHead::default() };
        let range = range.in_object(OBJECT);
        let in_flight = self.0.in_flight.fetch_add(1, Ordering::Relaxed) + 1;
        self.0.in_flight_max.fetch_max(in_flight, Ordering::Relaxed);
        let body = Box::new(Body { range: range.clone(), store: self.clone() });
        Box::pin(async move {
            tokio::time::sleep(DELAY).await;
            Ok(ObjectBody { head, range, body })
        })
    }
}

struct Body {
    range: Range<u64>,
    store: FarStore,
}

impl Drop for Body {
    fn drop(&mut self) {
        self.store.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

impl BodyStream for Body {
    fn next(&mut self) -> BoxFuture<'_, Option<Result<Bytes, OriginFault>>> {
        Box::pin(async move {
            let bytes = content(self.range.start..self.range.end.min(self.range.start + YIELDS));
            if bytes.is_empty() {
                return None;
            }
            tokio::time::sleep(YIELDS_EVERY).await;
            self.range.start += bytes.len() as u64;
            self.store.0.sent.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            Some(Ok(bytes))
        })
    }
}

/// A node with a distant origin.
struct Far {
    node: Node,
    store: FarStore,
    object: ObjectName,
    _directory: tempfile::TempDir,
}

/// Prefetch counters of all shards, in bytes; `scans` is a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counted {
    prefetched: u64,
    read: u64,
    unread: u64,
    waiting: u64,
    scans: u64,
}

impl Far {
    async fn start(policy: &str, prefetch: Size) -> Self {
        Self::start_with(policy, (prefetch, usize::MAX)).await
    }

    async fn start_with(policy: &str, (prefetch, prefetches): (Size, usize)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("device");
        let device = DeviceSettings {
            policy: policy.parse().unwrap(),
            buffers: Size::mib(96),
            prefetch,
            ..support::device(&format!("file:{}?size=512MiB&zone=8MiB", path.display()))
        };
        let settings = NodeSettings { prefetches, ..support::node(vec![device]) };
        let store = FarStore::default();
        let node = Node::start(&settings, Arc::new(store.clone()), None).await.unwrap();
        let object = ObjectName::new("bucket", "key");
        Self { node, store, object, _directory: directory }
    }

    const fn client(&self) -> &Client {
        self.node.client()
    }

    async fn get(&self, range: Range<u64>) -> StripedRead {
        let (fresh, usual) = (Freshness::Immutable, RetentionClass::Usual);
        let got = self
            .client()
            .get(&self.object, (fresh, usual), RangeSpec::Int(range.clone()), move |_| {
                range.clone()
            })
            .await;
        got.unwrap().1.unwrap()
    }

    async fn read(&self, range: Range<u64>) {
        let mut reading = self.get(range.clone()).await;
        let mut bytes = Vec::new();
        while let Some(piece) = next(&mut reading).await {
            bytes.extend_from_slice(&piece);
        }
        assert!(bytes == content(range.clone()), "wrong bytes in {range:?}");
    }

    /// Reads the ranges of 1 MiB with these numbers, one at a time.
    async fn read_all(&self, numbers: impl Iterator<Item = u64>) -> Duration {
        let begun = Instant::now();
        for number in numbers {
            self.read(number * MIB..OBJECT.min((number + 1) * MIB)).await;
        }
        begun.elapsed()
    }

    async fn counted(&self) -> Counted {
        let mut counted = Counted::default();
        for shard in self.client().stats().await {
            counted.prefetched += shard.cache.prefetched_bytes;
            counted.read += shard.cache.prefetched_read_bytes;
            counted.unread += shard.cache.prefetched_unread_bytes;
            counted.waiting += shard.unread.0;
            counted.scans += shard.open_scans;
        }
        counted
    }

    fn sent(&self) -> u64 {
        self.store.0.sent.load(Ordering::Relaxed)
    }

    fn gets(&self) -> u64 {
        self.store.0.gets.load(Ordering::Relaxed)
    }

    /// Waits until the origin has sent everything that was requested. Returns the bytes sent.
    async fn at_rest(&self) -> u64 {
        loop {
            let sent = self.sent();
            tokio::time::sleep(10 * DELAY).await;
            if sent == self.sent() {
                return sent;
            }
        }
    }
}

async fn next(reading: &mut StripedRead) -> Option<Bytes> {
    let piece = std::future::poll_fn(|cx| reading.poll_next(cx)).await;
    piece.map(|piece| piece.unwrap())
}

#[tokio::test]
async fn who_reads_front_to_back_does_not_wait_for_the_origin_and_no_byte_comes_twice() {
    let ranges = || 0..OBJECT.div_ceil(MIB);
    let (mut took, mut gets) = (Vec::new(), Vec::new());
    for prefetch in [Size(0), Size::mib(8)] {
        let far = Far::start("zone-fifo", prefetch).await;
        took.push(far.read_all(ranges()).await);
        assert_eq!(far.at_rest().await, OBJECT, "once, with {prefetch}");
        gets.push(far.gets());
        let counted = far.counted().await;
        let is_on = prefetch != Size(0);
        // Everything except the first ranges, which identify the scan.
        assert_eq!(is_on, OBJECT - 4 * MIB <= counted.prefetched, "{counted:?}");
        let all = Counted { prefetched: counted.prefetched, ..Counted::default() };
        assert_eq!(counted, Counted { read: counted.prefetched, ..all });
        far.node.stop().await;
    }
    println!("{took:?} with {gets:?} requests");
    assert!(took[1] * 3 < took[0] * 2, "{took:?}");
    assert!(gets[1] * 2 < gets[0], "half a window at a time: {gets:?}");
}

#[tokio::test]
async fn ranges_in_parallel_and_in_slight_disorder_are_fetched_once() {
    let far = Far::start("zone-fifo", Size::mib(8)).await;
    let numbers: Vec<u64> =
        (0..24).flat_map(|group| [1, 0, 3, 2].map(|at| 4 * group + at)).collect();
    for four in numbers.chunks(4) {
        let read = |number: &u64| far.read(number * MIB..(number + 1) * MIB);
        let [a, b, c, d] = [0, 1, 2, 3].map(|at| read(&four[at]));
        tokio::join!(a, b, c, d);
    }
    let sent = far.at_rest().await;
    let counted = far.counted().await;
    assert!(80 * MIB < counted.prefetched && counted.scans == 1, "{counted:?}");
    assert_eq!(sent, 96 * MIB + counted.waiting, "{counted:?}");
    assert!(counted.waiting <= 8 * MIB && counted.unread == 0, "{counted:?}");
    far.node.stop().await;
}

#[tokio::test]
async fn who_reads_at_random_is_not_fetched_ahead_of() {
    let far = Far::start("zone-fifo", Size::mib(8)).await;
    let mut rng = Rng::new(3);
    for _ in 0..60 {
        let start = rng.below(OBJECT - MIB);
        far.read(start..start + MIB).await;
    }
    assert_eq!(far.counted().await, Counted::default());
    far.node.stop().await;
}

#[tokio::test]
async fn who_stops_half_way_costs_no_more_than_a_window() {
    let far = Far::start("zone-fifo", Size::mib(8)).await;
    far.read_all(0..50).await;
    let sent = far.at_rest().await;
    let counted = far.counted().await;
    assert_eq!(counted.prefetched, counted.read + counted.waiting, "{counted:?}");
    assert_eq!(sent, 50 * MIB + counted.waiting);
    assert!(0 < counted.waiting && counted.waiting <= 8 * MIB, "{counted:?}");
    far.node.stop().await;
}

#[tokio::test]
async fn what_flash_does_not_take_is_there_for_the_reader_all_the_same() {
    // The write budget is so small that almost nothing is admitted.
    let far = Far::start("zone-fifo?budget=1%", Size::mib(8)).await;
    far.read_all(0..OBJECT.div_ceil(MIB)).await;
    let stats = far.client().stats().await;
    let turned_away: u64 = stats.iter().map(|shard| shard.cache.turned_away_bytes).sum();
    assert!(OBJECT / 2 < turned_away, "{turned_away}");
    assert_eq!(far.at_rest().await, OBJECT);
    far.node.stop().await;
}

#[tokio::test]
async fn an_origin_that_asks_to_be_left_alone_is_and_no_reader_sees_it() {
    let far = Far::start("zone-fifo", Size::mib(8)).await;
    far.store.0.busy_from.store(3 * MIB, Ordering::Relaxed);
    // The third range starts the scan. The origin refuses the prefetch after it before a reader
    // needs it.
    far.read_all(0..20).await;
    assert_eq!(far.store.0.busy_from.load(Ordering::Relaxed), 0);
    assert_eq!(far.counted().await, Counted { scans: 1, ..Counted::default() });
    assert_eq!(far.at_rest().await, 20 * MIB);
    far.node.stop().await;
}

/// Prefetch leaves the origin's other slots to readers.
#[tokio::test]
async fn prefetches_of_all_shards_together_keep_to_their_limit() {
    // The two shards share the limit. The reader has one request of its own.
    for (limit, in_flight_max) in [(2, 1 + 2), (1, 1 + 1), (0, 1)] {
        let far = Far::start_with("zone-fifo", (Size::mib(8), limit)).await;
        far.read_all(0..OBJECT.div_ceil(MIB)).await;
        assert_eq!(far.at_rest().await, OBJECT);
        let most = far.store.0.in_flight_max.load(Ordering::Relaxed);
        assert!(most <= in_flight_max, "{most} at a time with {limit}");
        let prefetched = far.counted().await.prefetched;
        assert_eq!(0 < prefetched, 0 < limit, "{prefetched} bytes with {limit}");
        far.node.stop().await;
    }
}

#[tokio::test]
async fn the_next_stripe_is_asked_for_before_the_one_before_it_is_drained() {
    let far = Far::start("zone-fifo", Size(0)).await;
    let mut reading = far.get(0..OBJECT).await;
    let (mut taken, mut asked) = (0, Vec::new());
    while let Some(piece) = next(&mut reading).await {
        taken += piece.len() as u64;
        while (asked.len() as u64) < far.gets() {
            asked.push(taken);
        }
    }
    assert_eq!((taken, far.at_rest().await), (OBJECT, OBJECT));
    println!("asked when so many bytes were taken: {asked:?}");
    assert_eq!(asked.len(), 4, "once for each stripe");
    for (stripe, at) in (0..).zip(asked).skip(1) {
        let early = (stripe * 32 * MIB).saturating_sub(at);
        assert!(MIB < early && early <= 8 * MIB, "stripe {stripe}: {early} bytes before");
    }
    far.node.stop().await;
}
