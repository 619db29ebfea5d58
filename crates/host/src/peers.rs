//! Requests to other shards of the node: prefetches, questions about the bytes that a shard lacks,
//! and bodies with bytes of its stripes. Prefetches and questions skip a shard with a full queue.

use std::ops::Range;
use std::sync::Arc;

use tokio::sync::mpsc::WeakSender;
use tokio::sync::oneshot;
use zonal_cache::{Cache, FirstMissing, Head, ObjectName, OtherStripes, ReadHints, STRIPE};
use zonal_policy::Prefetch;

use crate::get::HandedBody;
use crate::pipe::pipe;
use crate::request::Request;
use crate::routes::Routes;
use crate::striped_read::StripeAhead;
use crate::stripes::{PROBED_STRIPES_MAX, in_stripe, stripes_of};

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

    /// Requests a stripe of `range` from its shard, which fetches from `body`. `None`: the range has
    /// no bytes of the body, or the shard has ended.
    pub(crate) async fn read_from(
        &self,
        (object, head): (&ObjectName, &Arc<Head>),
        range: &Range<u64>,
        keeping: ReadHints,
        body: Box<HandedBody>,
    ) -> Option<Box<StripeAhead>> {
        let stripe = range.start.max(body.range.start) / STRIPE.0;
        let range = in_stripe(range, stripe)?;
        let shard = self.shards[self.routes.shard(object, stripe)].upgrade()?;
        let ((to, from), (object, head)) = (pipe(), (object.clone(), head.clone()));
        let body = Some(body);
        shard.send(Request::Read { object, head, range, keeping, body, to }).await.ok()?;
        Some(StripeAhead::new(stripe, from))
    }

    /// The first missing bytes of a range in one stripe. `None`: its shard does not answer.
    async fn missing_in(
        &self,
        object: &ObjectName,
        head: &Arc<Head>,
        (stripe, range): (u64, Range<u64>),
    ) -> Option<Option<Range<u64>>> {
        let (reply, answer) = oneshot::channel();
        let (object, head) = (object.clone(), head.clone());
        // The own shard has a queue too: a body for the stripe may wait in it.
        let shard = self.shards[self.routes.shard(&object, stripe)].upgrade()?;
        shard.try_send(Request::FindMissing { object, head, range, reply }).ok()?;
        answer.await.ok()
    }
}

impl OtherStripes for Peers {
    fn first_missing<'a>(
        &'a self,
        object: &'a ObjectName,
        head: &'a Arc<Head>,
        range: Range<u64>,
    ) -> FirstMissing<'a> {
        Box::pin(async move {
            let end = range.end.min(range.start.saturating_add(PROBED_STRIPES_MAX * STRIPE.0));
            for (stripe, range) in stripes_of(&(range.start..end)) {
                let missing = self.missing_in(object, head, (stripe, range)).await?;
                if missing.is_some() {
                    return missing;
                }
            }
            None
        })
    }
}
