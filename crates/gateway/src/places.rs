//! Concurrency limits per kind of request, where the number of connections is no bound.
//!
//! Each kind has places of its own: clients that send their bodies slowly never hold up removals.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use http_body::Body;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use zonal_s3::BoxBody;
use zonal_s3::S3Error;

use crate::config::Limits;

/// A place, or several; dropping it gives them back.
pub(crate) type Permit = OwnedSemaphorePermit;

/// Bytes of documents that are read whole before they are acted upon: 64 MiB. With the names in them that is 200 MiB
/// of memory at most; documents of a thousand short keys fit in by the hundred.
const DOCUMENT_BYTES_MAX: usize = 64 << 20;

/// The places of one gateway.
pub(crate) struct Places {
    /// Writes with a body.
    uploads: Arc<Semaphore>,
    /// Writes without one.
    asks: Arc<Semaphore>,
    writes_max: usize,
    /// One for each byte.
    documents: Arc<Semaphore>,
    wait: Duration,
}

impl Places {
    pub(crate) fn new(limits: &Limits) -> Self {
        let so_many = |count| Arc::new(Semaphore::new(count));
        Self {
            uploads: so_many(limits.writes_max),
            asks: so_many(limits.writes_max),
            writes_max: limits.writes_max,
            documents: so_many(DOCUMENT_BYTES_MAX),
            wait: limits.wait,
        }
    }

    /// For a write with this body, until it is over.
    pub(crate) fn for_write<'a>(
        &'a self,
        body: &BoxBody,
    ) -> impl Future<Output = Result<Permit, S3Error>> + use<'a> {
        self.take(if body.is_end_stream() { &self.asks } else { &self.uploads }, 1)
    }

    /// For a document of so many bytes, until nothing of it is needed any more.
    pub(crate) async fn for_document(&self, bytes: usize) -> Result<Permit, S3Error> {
        self.take(&self.documents, bytes).await
    }

    async fn take(&self, places: &Arc<Semaphore>, count: usize) -> Result<Permit, S3Error> {
        let count = u32::try_from(count).map_err(|_| S3Error::slow_down())?;
        let place = timeout(self.wait, places.clone().acquire_many_owned(count)).await;
        place.map(|place| place.expect("never closed")).map_err(|_| S3Error::slow_down())
    }

    /// Waits until no write is under way.
    pub(crate) async fn writes_have_ended(&self) {
        let all = u32::try_from(self.writes_max).unwrap_or(u32::MAX);
        for places in [&self.uploads, &self.asks] {
            let _ = places.acquire_many(all).await;
        }
    }
}
