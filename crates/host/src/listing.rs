//! Listing of cached objects over all shards, and the places of the bytes of one.

use std::ops::Range;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use zonal_base::{ZoneId, low_u32};
use zonal_cache::{CachedObject, Head, ObjectName, SampleSize, SampledObject};

use crate::Client;
use crate::request::Request;
use crate::stripes::stripes_of;

/// Objects of a listing that wait for the receiver. Each takes about 1 KiB.
const LISTED_MAX: usize = 64;

/// Adjoining cached bytes of an object in one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedRange {
    /// Bytes of the object.
    pub bytes: Range<u64>,
    /// Number of the device, from 0.
    pub device: usize,
    /// Zone of the device. `None`: the bytes are only in memory.
    pub zone: Option<ZoneId>,
    /// The bytes are pinned.
    pub is_pinned: bool,
}

/// Listing or sample that is under way. Dropping it ends it.
pub struct Listing<T> {
    objects: mpsc::Receiver<T>,
    ended: oneshot::Receiver<bool>,
}

impl<T> Listing<T> {
    /// The next object. `None` at the end. Zones of the heads count from the first zone of their
    /// shard.
    pub async fn next(&mut self) -> Option<T> {
        self.objects.recv().await
    }

    /// Whether the listing was complete. Requires: [`Listing::next`] returned `None`.
    pub async fn is_complete(self) -> bool {
        self.ended.await.unwrap_or(false)
    }
}

impl Client {
    /// Lists the cached objects whose `bucket/key` begins with `prefix`, one shard after the other.
    #[must_use]
    pub fn list(&self, prefix: &str) -> Listing<CachedObject> {
        let (to, objects) = mpsc::channel(LISTED_MAX);
        let (end, ended) = oneshot::channel();
        let (client, prefix) = (self.clone(), Arc::from(prefix));
        tokio::spawn(async move {
            let _ = end.send(client.list_shards(&prefix, &to).await);
        });
        Listing { objects, ended }
    }

    async fn list_shards(&self, prefix: &Arc<str>, to: &mpsc::Sender<CachedObject>) -> bool {
        let mut is_complete = true;
        for shard in self.shards() {
            if to.is_closed() {
                return false;
            }
            let (reply, answer) = oneshot::channel();
            let list = Request::List { prefix: prefix.clone(), to: to.clone(), reply };
            is_complete &= shard.send(list).await.is_ok() && matches!(answer.await, Ok(Ok(())));
        }
        is_complete
    }

    /// Samples the cached objects of all shards. `size` is of all together; each shard reads at
    /// least one zone.
    #[must_use]
    pub fn sample(&self, size: SampleSize) -> Listing<SampledObject> {
        let (to, objects) = mpsc::channel(LISTED_MAX);
        let (end, ended) = oneshot::channel();
        let client = self.clone();
        tokio::spawn(async move {
            let _ = end.send(client.sample_shards(size, &to).await);
        });
        Listing { objects, ended }
    }

    async fn sample_shards(&self, size: SampleSize, to: &mpsc::Sender<SampledObject>) -> bool {
        let shards = low_u32(self.shards().len());
        let each = SampleSize {
            zones: size.zones.div_ceil(shards),
            objects: size.objects.div_ceil(shards),
        };
        let mut is_complete = true;
        for shard in self.shards() {
            let (reply, answer) = oneshot::channel();
            let sample = Request::Sample { size: each, to: to.clone(), reply };
            is_complete &= shard.send(sample).await.is_ok() && matches!(answer.await, Ok(Ok(())));
        }
        is_complete
    }

    /// The cached object of this name, fresh or not. `None`: it is not cached, or its head cannot be
    /// read now.
    pub async fn find(&self, object: &ObjectName) -> Option<CachedObject> {
        let (reply, answer) = oneshot::channel();
        let find = Request::Find { object: object.clone(), reply };
        self.stripe(object, 0).send(find).await.ok()?;
        answer.await.ok()?
    }

    /// Where the cached bytes of a version are, in their order: the first `most` places. `None` when
    /// a shard does not answer.
    pub async fn ranges(
        &self,
        object: &ObjectName,
        head: &Arc<Head>,
        most: usize,
    ) -> Option<Vec<PlacedRange>> {
        let mut all: Vec<PlacedRange> = Vec::new();
        for (stripe, range) in stripes_of(&(0..head.size)) {
            let (reply, answer) = oneshot::channel();
            let (object, head) = (object.clone(), head.clone());
            let to = self.stripe(&object, stripe).clone();
            to.send(Request::Ranges { object, head, range, reply }).await.ok()?;
            for placed in answer.await.ok()? {
                match all.last_mut() {
                    Some(last) if last.continues_with(&placed) => last.bytes.end = placed.bytes.end,
                    _ => all.push(placed),
                }
            }
            if most < all.len() {
                all.truncate(most);
                break;
            }
        }
        Some(all)
    }
}

impl PlacedRange {
    fn continues_with(&self, next: &Self) -> bool {
        (self.bytes.end, self.device, self.zone, self.is_pinned)
            == (next.bytes.start, next.device, next.zone, next.is_pinned)
    }
}
