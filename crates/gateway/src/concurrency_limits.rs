//! Concurrency limits per kind of request, where the number of connections is no bound.
//!
//! Each kind has permits of its own, so clients with slow uploads never delay deletes.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use http_body::Body;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use zonal_s3::BoxBody;
use zonal_s3::S3Error;

use crate::config::Limits;

/// One permit or several. Dropping it releases them.
pub(crate) type Permit = OwnedSemaphorePermit;

/// Memory for documents that are read whole before they are processed: 64 MiB. With the names in
/// them that is 200 MiB of memory at most. Documents of a thousand short keys fit in by the
/// hundred.
const DOCUMENT_BYTES_MAX: usize = 64 << 20;

/// Maximum of connections beyond the limit that receive a 503 at the same time. Further ones are
/// closed without a response.
const REFUSALS_AT_ONCE: usize = 64;

/// The concurrency limits of one gateway.
pub(crate) struct ConcurrencyLimits {
    /// Permits for writes with a body.
    uploads: Arc<Semaphore>,
    /// Permits for writes without a body.
    asks: Arc<Semaphore>,
    writes_max: usize,
    /// Permits for bytes of documents, one per byte.
    documents: Arc<Semaphore>,
    /// Permits for answers 503 to connections beyond the limit.
    refusals: Arc<Semaphore>,
    wait: Duration,
}

impl ConcurrencyLimits {
    pub(crate) fn new(limits: &Limits) -> Self {
        let so_many = |count| Arc::new(Semaphore::new(count));
        Self {
            uploads: so_many(limits.writes_max),
            asks: so_many(limits.writes_max),
            writes_max: limits.writes_max,
            documents: so_many(DOCUMENT_BYTES_MAX),
            // Each refusal holds a file descriptor, of which a low limit of connections has few.
            refusals: so_many(REFUSALS_AT_ONCE.min(limits.connections_max.div_ceil(8))),
            wait: limits.wait,
        }
    }

    /// Permit for a write with this body, to be held until the write has ended.
    pub(crate) fn for_write<'a>(
        &'a self,
        body: &BoxBody,
    ) -> impl Future<Output = Result<Permit, S3Error>> + use<'a> {
        self.take(if body.is_end_stream() { &self.asks } else { &self.uploads }, 1)
    }

    /// Permits for a document of this size, to be held while the document or its names are in
    /// memory.
    pub(crate) async fn for_document(&self, bytes: usize) -> Result<Permit, S3Error> {
        self.take(&self.documents, bytes).await
    }

    /// Permit for an answer to a connection beyond the limit, if few are running.
    pub(crate) fn for_refusal(&self) -> Option<Permit> {
        self.refusals.clone().try_acquire_owned().ok()
    }

    async fn take(&self, places: &Arc<Semaphore>, count: usize) -> Result<Permit, S3Error> {
        let count = u32::try_from(count).map_err(|_| S3Error::slow_down())?;
        let place = timeout(self.wait, places.clone().acquire_many_owned(count)).await;
        place.map(|place| place.expect("never closed")).map_err(|_| S3Error::slow_down())
    }

    /// Waits until no write is running.
    pub(crate) async fn writes_have_ended(&self) {
        let all = u32::try_from(self.writes_max).unwrap_or(u32::MAX);
        for places in [&self.uploads, &self.asks] {
            let _ = places.acquire_many(all).await;
        }
    }
}
