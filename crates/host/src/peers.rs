//! Requests to other shards of the node: prefetches, which the sender does not wait for, and
//! questions about the bytes that a shard lacks. A shard with a full queue is skipped: it is in use.

use std::ops::Range;
use std::sync::Arc;

use tokio::sync::mpsc::WeakSender;
use tokio::sync::oneshot;
use zonal_cache::{Cache, FirstMissing, Head, ObjectName, OtherStripes, STRIPE};
use zonal_policy::Prefetch;

use crate::client::{PROBED_STRIPES_MAX, stripes_of};
use crate::request::Request;
use crate::routes::Routes;

/// All shards of the node. The references are weak, so that a node without clients ends.
#[derive(Clone)]
pub(crate) struct Peers {
    pub(crate) shards: Arc<[WeakSender<Request>]>,
    pub(crate) routes: Arc<Routes>,
    /// Number of the sending shard.
    pub(crate) own: usize,
}

impl Peers {
    /// Prefetches each stripe of `prefetch` on the shard that owns it.
    pub(crate) fn prefetch(
        &self,
        cache: &Cache,
        object: &ObjectName,
        head: &Arc<Head>,
        prefetch: &Prefetch,
    ) {
        let Prefetch { bytes, wasted } = prefetch;
        tracing::debug!(%object, start = bytes.start, end = bytes.end, "fetched ahead of a reader");
        for (stripe, range) in stripes_of(bytes) {
            let shard = self.routes.shard(object, stripe);
            if shard == self.own {
                cache.prefetch(object, head, &range, wasted);
            } else if let Some(shard) = self.shards[shard].upgrade() {
                let (object, head, wasted) = (object.clone(), head.clone(), wasted.clone());
                let _ = shard.try_send(Request::Prefetch { object, head, range, wasted });
            }
        }
    }
}

/// The stripes of objects whose heads are on one shard.
pub(crate) struct StripesOfPeers<'a> {
    pub(crate) peers: &'a Peers,
    /// The shard's cache.
    pub(crate) cache: &'a Cache,
}

impl OtherStripes for StripesOfPeers<'_> {
    fn first_missing<'a>(
        &'a self,
        object: &'a ObjectName,
        head: &'a Arc<Head>,
        range: Range<u64>,
    ) -> FirstMissing<'a> {
        Box::pin(async move {
            let end = range.end.min(range.start.saturating_add(PROBED_STRIPES_MAX * STRIPE.0));
            for (stripe, range) in stripes_of(&(range.start..end)) {
                let missing = self.in_stripe(object, head, (stripe, range)).await?;
                if missing.is_some() {
                    return missing;
                }
            }
            None
        })
    }
}

impl StripesOfPeers<'_> {
    /// The first missing bytes of a range in one stripe. `None`: its shard does not answer.
    async fn in_stripe(
        &self,
        object: &ObjectName,
        head: &Arc<Head>,
        (stripe, range): (u64, Range<u64>),
    ) -> Option<Option<Range<u64>>> {
        let shard = self.peers.routes.shard(object, stripe);
        if shard == self.peers.own {
            return Some(self.cache.first_missing(object, head, &range));
        }
        let (reply, answer) = oneshot::channel();
        let (object, head) = (object.clone(), head.clone());
        let to = self.peers.shards[shard].upgrade()?;
        to.try_send(Request::FindMissing { object, head, range, reply }).ok()?;
        answer.await.ok()
    }
}
