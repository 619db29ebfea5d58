//! Revalidation of an object whose stripes are on several shards: a read whose bytes are missing
//! costs no HEAD request, wherever they are. The request for the missing bytes confirms the version.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tempfile::TempDir;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use zonal_base::{Bytes as Size, RangeSpec, Rng};
use zonal_host::{
    Backend, BodyStream, BoxFuture, Client, DeviceSettings, Freshness, Head, Node, ObjectBody,
    ObjectName, OriginFault, OriginHead, RetentionClass,
};

mod support;

const MIB: u64 = 1 << 20;

const STRIPE: u64 = 32 * MIB;

/// Four stripes, of which the last is short.
const OBJECT: u64 = 100 * MIB + 12_345;

/// Origin with one object, which notes its requests.
#[derive(Clone, Default)]
struct Origin(Arc<Mutex<State>>, Option<Arc<OneSlot>>);

/// One connection slot, which a GET of a later stripe gets first.
struct OneSlot {
    slot: Arc<Semaphore>,
    was_later: watch::Sender<bool>,
}

impl OneSlot {
    async fn take(&self, range: &Range<u64>) -> OwnedSemaphorePermit {
        if range.start < STRIPE {
            self.was_later.subscribe().wait_for(|was_later| *was_later).await.unwrap();
        }
        let permit = self.slot.clone().acquire_owned().await.unwrap();
        self.was_later.send_replace(true);
        permit
    }
}

#[derive(Default)]
struct State {
    version: u64,
    requests: Vec<Asked>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Asked {
    Head,
    Get,
    GetIfMatch,
}

fn content(range: Range<u64>, version: u64) -> Bytes {
    let word = |number: u64| Rng::new(number ^ (version << 40)).next_u64().to_le_bytes();
    let words = range.start / 8..range.end.div_ceil(8);
    let skipped = usize::try_from(range.start % 8).unwrap();
    let len = usize::try_from(range.end - range.start).unwrap();
    words.flat_map(word).skip(skipped).take(len).collect()
}

impl Origin {
    fn overwrite(&self) {
        self.0.lock().unwrap().version += 1;
    }

    fn version(&self) -> u64 {
        self.0.lock().unwrap().version
    }

    /// Requests since the last call.
    fn take(&self) -> Vec<Asked> {
        std::mem::take(&mut self.0.lock().unwrap().requests)
    }

    fn answer(&self, asked: Asked) -> (OriginHead, u64) {
        let mut state = self.0.lock().unwrap();
        state.requests.push(asked);
        let etag = format!("\"v{}\"", state.version).into();
        (OriginHead { size: OBJECT, etag, ..OriginHead::default() }, state.version)
    }
}

impl Backend for Origin {
    fn head(&self, _object: ObjectName) -> BoxFuture<'_, Result<OriginHead, OriginFault>> {
        let (head, _) = self.answer(Asked::Head);
        Box::pin(async move { Ok(head) })
    }

    fn get_object(
        &self,
        _object: ObjectName,
        range: RangeSpec,
        known: Option<Arc<Head>>,
    ) -> BoxFuture<'_, Result<ObjectBody, OriginFault>> {
        let asked = if known.is_some() { Asked::GetIfMatch } else { Asked::Get };
        let (head, version) = self.answer(asked);
        Box::pin(async move {
            let range = range.in_object(OBJECT);
            let permit = match &self.1 {
                Some(slot) => Some(slot.take(&range).await),
                None => None,
            };
            if known.is_some_and(|known| known.etag != head.etag) {
                return Err(OriginFault::Changed);
            }
            let body = Box::new(Body { range: range.clone(), version, _permit: permit });
            Ok(ObjectBody { head, range, body })
        })
    }
}

struct Body {
    range: Range<u64>,
    version: u64,
    _permit: Option<OwnedSemaphorePermit>,
}

impl BodyStream for Body {
    fn next(&mut self) -> BoxFuture<'_, Option<Result<Bytes, OriginFault>>> {
        Box::pin(async move {
            let end = self.range.end.min(self.range.start + 100_000);
            let bytes = content(self.range.start..end, self.version);
            self.range.start = end;
            (!bytes.is_empty()).then_some(Ok(bytes))
        })
    }
}

/// Starts a node with a device in `folder`.
async fn start(folder: &TempDir, origin: &Origin) -> Node {
    let path = folder.path().join("device");
    let device = DeviceSettings {
        shards: Some(3),
        dram: Size::mib(8),
        buffers: Size::mib(32),
        ..support::device(&format!("file:{}?size=512MiB&zone=8MiB", path.display()))
    };
    let settings = support::node(vec![device]);
    Node::start(&settings, Arc::new(origin.clone()), None).await.unwrap()
}

/// Reads and compares a range. Returns the head, and whether the read counted as cached.
async fn read(client: &Client, range: &Range<u64>, version: u64) -> (Arc<Head>, bool) {
    let (object, wanted) = (ObjectName::new("b", "k"), range.clone());
    let kept = (Freshness::Revalidate, RetentionClass::Usual);
    let asked = RangeSpec::Int(range.clone());
    let got = client.get(&object, kept, asked, move |_| wanted.clone()).await;
    let (opened, reading) = got.unwrap();
    let mut reading = reading.unwrap();
    let all_cached = reading.all_cached;
    let mut at = range.start;
    while let Some(bytes) = std::future::poll_fn(|cx| reading.poll_next(cx)).await {
        let bytes = bytes.unwrap();
        let end = at + bytes.len() as u64;
        assert!(bytes == content(at..end, version), "bytes {at} to {end} of {range:?}");
        at = end;
    }
    assert_eq!(at, range.end);
    (opened.head, all_cached)
}

/// A range of up to 2 MiB anywhere, or around the start of a stripe, or with a whole stripe in it.
fn any_range(rng: &mut Rng) -> Range<u64> {
    let len = rng.below(2 * MIB) + 1;
    match rng.below(8) {
        0..4 => {
            let start = rng.below(OBJECT - len);
            start..start + len
        }
        4..7 => {
            let start = (rng.below(3) + 1) * STRIPE - rng.below(len);
            start..start + len
        }
        _ => {
            let end = rng.below(2) * STRIPE + 2 * STRIPE;
            end - STRIPE - len..end + len
        }
    }
}

/// Seeded reads of random ranges, between which the object is overwritten now and then.
#[tokio::test]
async fn a_head_request_is_sent_only_if_no_byte_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let origin = Origin::default();
    let node = start(&folder, &origin).await;
    let client = node.client();
    let mut rng = Rng::new(49);
    let mut known: Option<Arc<Head>> = None;
    let object = ObjectName::new("b", "k");
    let mut seen = [0; 4];
    for _ in 0..150 {
        let is_changed = rng.below(10) == 0;
        if is_changed {
            origin.overwrite();
        }
        let range = any_range(&mut rng);
        let was_cached = match &known {
            Some(head) => client.is_cached(&object, head, range.clone()).await,
            None => false,
        };
        let (head, all_cached) = read(client, &range, origin.version()).await;
        client.settle().await;
        let requests = origin.take();
        let is_changed = known.as_ref().is_some_and(|known| known.etag != head.etag);
        let case = format!("{range:?}, cached: {was_cached}, changed: {is_changed}: {requests:?}");
        assert_eq!(all_cached, was_cached && !is_changed, "{case}");
        match (was_cached, is_changed) {
            (true, false) => assert_eq!(requests, [Asked::Head], "{case}"),
            (true, true) => assert_eq!(requests[..2], [Asked::Head, Asked::GetIfMatch], "{case}"),
            (false, true) => assert_eq!(requests[..2], [Asked::GetIfMatch, Asked::Get], "{case}"),
            (false, false) => assert!(!requests.contains(&Asked::Head), "{case}"),
        }
        seen[usize::from(was_cached) * 2 + usize::from(is_changed)] += 1;
        known = Some(head);
    }
    assert!(seen.iter().all(|&count| 2 <= count), "each kind of read was made: {seen:?}");
    node.stop().await;
}

/// Readers that come at once share one request for the bytes that all of them lack. Those that come
/// after it was sent confirm the version with a HEAD request.
#[tokio::test]
async fn a_crowd_that_lacks_bytes_of_a_later_stripe_shares_one_request() {
    let folder = tempfile::tempdir().unwrap();
    let origin = Origin::default();
    let node = start(&folder, &origin).await;
    read(node.client(), &(0..1), 0).await;
    origin.take();
    let range = STRIPE + 5..STRIPE + 1000;
    let crowd = (0..8).map(|_| {
        let (client, range) = (node.client().clone(), range.clone());
        tokio::spawn(async move { read(&client, &range, 0).await })
    });
    for reader in crowd.collect::<Vec<_>>() {
        reader.await.unwrap();
    }
    let requests = origin.take();
    let gets = requests.iter().filter(|&&asked| asked != Asked::Head).count();
    assert_eq!((requests[0], gets), (Asked::GetIfMatch, 1), "{requests:?}");
    node.stop().await;
}

/// Regression: a read waited for bytes of the first stripe, which another read had requested. The
/// response with its bytes of the next stripe meanwhile held the only connection slot.
#[tokio::test]
async fn a_response_for_a_later_stripe_is_taken_while_the_first_stripe_waits() {
    let folder = tempfile::tempdir().unwrap();
    let origin = Origin::default();
    let node = start(&folder, &origin).await;
    read(node.client(), &(0..1), 0).await;
    node.client().settle().await;
    node.stop().await;

    let slot = OneSlot { slot: Arc::new(Semaphore::new(1)), was_later: watch::Sender::new(false) };
    let origin = Origin(origin.0, Some(Arc::new(slot)));
    let node = start(&folder, &origin).await;
    origin.take();
    let reading = |range: Range<u64>| {
        let client = node.client().clone();
        tokio::spawn(async move { read(&client, &range, 0).await })
    };
    let first = reading(STRIPE - 20..STRIPE - 10);
    while origin.0.lock().unwrap().requests.is_empty() {
        tokio::task::yield_now().await;
    }
    let both = reading(STRIPE - 10..STRIPE + 10);
    let answered = tokio::time::timeout(Duration::from_secs(60), async {
        both.await.unwrap();
        first.await.unwrap();
    });
    answered.await.expect("the slot is freed");
    assert_eq!(origin.take(), [Asked::GetIfMatch, Asked::GetIfMatch]);
    node.stop().await;
}
