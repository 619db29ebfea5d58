//! Concurrency limits: requests in flight to an origin, one semaphore per kind of request.
//!
//! A slow client occupies only permits of its own kind: a slow upload or download never delays
//! heads, lists and removals.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request};
use http_body::Body;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use zonal_s3::BoxBody;

use crate::error::OriginError;
use crate::limits::OriginLimits;

/// A permit for one request. Dropping it releases it.
pub type Permit = OwnedSemaphorePermit;

/// The semaphores of one origin.
#[derive(Debug)]
pub struct ConcurrencyLimits {
    heads: Arc<Semaphore>,
    ranges: Arc<Semaphore>,
    /// Forwarded requests with a body.
    uploads: Arc<Semaphore>,
    /// Forwarded reads of objects: the answer has a body of any length.
    downloads: Arc<Semaphore>,
    /// All other forwarded requests. Both bodies are short.
    asks: Arc<Semaphore>,
    wait: Duration,
}

impl ConcurrencyLimits {
    /// Creates the semaphores of an origin.
    #[must_use]
    pub fn new(limits: &OriginLimits) -> Self {
        let semaphore = |count| Arc::new(Semaphore::new(count));
        Self {
            heads: semaphore(limits.concurrent_reads),
            ranges: semaphore(limits.concurrent_reads),
            uploads: semaphore(limits.concurrent_forwards),
            downloads: semaphore(limits.concurrent_forwards),
            asks: semaphore(limits.concurrent_forwards),
            wait: limits.wait,
        }
    }

    /// A permit for a head, held until its answer has arrived.
    ///
    /// # Panics
    /// Never: no semaphore is closed.
    pub async fn for_head(&self) -> Permit {
        self.heads.clone().acquire_owned().await.expect("never closed")
    }

    /// A permit for a range, held until its body ends.
    ///
    /// # Panics
    /// Never: no semaphore is closed.
    pub async fn for_range(&self) -> Permit {
        self.ranges.clone().acquire_owned().await.expect("never closed")
    }

    /// A permit for a forwarded request, held until the bodies of request and answer end.
    ///
    /// # Errors
    /// [`OriginError::Throttled`] if no permit becomes free in time. The limit is Zonal's own and says
    /// nothing of the origin, so it is not counted as an error of the origin.
    pub fn for_forward(
        &self,
        request: &Request<BoxBody>,
    ) -> impl Future<Output = Result<Permit, OriginError>> + Send + use<> {
        let semaphore = match request.body().is_end_stream() {
            false => &self.uploads,
            true if is_download(request) => &self.downloads,
            true => &self.asks,
        };
        // The future holds no part of the request, because its body is not `Sync`.
        let permit = tokio::time::timeout(self.wait, semaphore.clone().acquire_owned());
        let full = |_| OriginError::slow_down("too many requests in flight");
        async move { permit.await.map(|permit| permit.expect("never closed")).map_err(full) }
    }
}

/// True for GET of an object. The path of a forwarded request is `/BUCKET/KEY`.
fn is_download(request: &Request<BoxBody>) -> bool {
    let path = request.uri().path();
    let in_bucket = path.strip_prefix('/').and_then(|path| path.split_once('/'));
    *request.method() == Method::GET && in_bucket.is_some_and(|(_, key)| !key.is_empty())
}
