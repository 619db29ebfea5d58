//! Places: the right to have a request under way at the origin.
//!
//! Each kind of request has places of its own, so that nobody waits for the clients of another kind: a body that a
//! client sends or takes slowly never holds up heads, lists and removals.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request};
use http_body::Body;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use zonal_s3::BoxBody;

use crate::error::OriginError;
use crate::limits::Limits;

/// One place; dropping it gives it back.
pub(crate) type Place = OwnedSemaphorePermit;

/// The places of one origin.
#[derive(Debug)]
pub(crate) struct Places {
    heads: Arc<Semaphore>,
    ranges: Arc<Semaphore>,
    /// Forwarded requests with a body.
    uploads: Arc<Semaphore>,
    /// Forwarded reads of objects: the answer has a body of any length.
    downloads: Arc<Semaphore>,
    /// All other forwarded requests: both sides say little.
    asks: Arc<Semaphore>,
    wait: Duration,
}

impl Places {
    pub(crate) fn new(limits: &Limits) -> Self {
        let so_many = |count| Arc::new(Semaphore::new(count));
        Self {
            heads: so_many(limits.concurrent_reads),
            ranges: so_many(limits.concurrent_reads),
            uploads: so_many(limits.concurrent_forwards),
            downloads: so_many(limits.concurrent_forwards),
            asks: so_many(limits.concurrent_forwards),
            wait: limits.wait,
        }
    }

    /// For a head, until its answer is there.
    pub(crate) async fn for_head(&self) -> Place {
        self.heads.clone().acquire_owned().await.expect("never closed")
    }

    /// For a range, until its body is over.
    pub(crate) async fn for_range(&self) -> Place {
        self.ranges.clone().acquire_owned().await.expect("never closed")
    }

    /// For a forwarded request, until its body and that of its answer are over.
    ///
    /// # Errors
    /// None became free in time. That is our bound and says nothing of the origin: it is not counted.
    pub(crate) fn for_forward(
        &self,
        request: &Request<BoxBody>,
    ) -> impl Future<Output = Result<Place, OriginError>> + Send + use<> {
        let places = match request.body().is_end_stream() {
            false => &self.uploads,
            true if is_download(request) => &self.downloads,
            true => &self.asks,
        };
        // The future holds no part of the request: others may not look at its body.
        let place = tokio::time::timeout(self.wait, places.clone().acquire_owned());
        let full = |_| OriginError::slow_down("too many requests are under way");
        async move { place.await.map(|place| place.expect("never closed")).map_err(full) }
    }
}

/// The path of a forwarded request is `/BUCKET/KEY`.
fn is_download(request: &Request<BoxBody>) -> bool {
    let path = request.uri().path();
    let in_bucket = path.strip_prefix('/').and_then(|path| path.split_once('/'));
    *request.method() == Method::GET && in_bucket.is_some_and(|(_, key)| !key.is_empty())
}

#[cfg(test)]
mod tests;
