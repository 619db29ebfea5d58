//! Requests to other shards of the node. They are hints: the sender does not wait for them.

use std::sync::Arc;

use tokio::sync::mpsc::WeakSender;
use zonal_cache::{Cache, Head, ObjectName, STRIPE};
use zonal_policy::Prefetch;

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
    /// Prefetches each stripe of `prefetch` on the shard that owns it. Skips shards with a full
    /// queue.
    pub(crate) fn prefetch(
        &self,
        cache: &Cache,
        object: &ObjectName,
        head: &Arc<Head>,
        prefetch: &Prefetch,
    ) {
        let Prefetch { bytes, wasted } = prefetch;
        tracing::debug!(%object, start = bytes.start, end = bytes.end, "fetched ahead of a reader");
        for stripe in bytes.start / STRIPE.0..bytes.end.div_ceil(STRIPE.0) {
            let start = bytes.start.max(stripe * STRIPE.0);
            let range = start..bytes.end.min((stripe + 1) * STRIPE.0);
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
