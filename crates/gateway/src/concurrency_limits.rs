//! Concurrency limits per kind of request, where the number of connections is no bound.
//!
//! Each kind has permits of its own, so clients with slow uploads never delay deletes. One client
//! holds at most a share of each kind, so it never delays the others. Requests with a body and other
//! writes hold at most half of the connections, so reads always find one.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use http_body::Body;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use zonal_s3::BoxBody;

use crate::config::Limits;
use crate::fair_semaphore::{ClientId, FairPermit, FairSemaphore, PermitRefused};

/// Memory for documents that are read whole before they are processed: 64 MiB. With the names in
/// them that is 200 MiB of memory at most. Documents of a thousand short keys fit in by the
/// hundred.
const DOCUMENT_BYTES_MAX: usize = 64 << 20;

/// Documents of one client: half of that memory.
const DOCUMENT_BYTES_PER_CLIENT: usize = DOCUMENT_BYTES_MAX / 2;

/// Maximum of connections beyond the limit that receive a 503 at the same time. Further ones are
/// closed without a response.
const REFUSALS_AT_ONCE: usize = 64;

/// The clients for which a forwarded request counts, in its extensions.
#[derive(Clone, Debug)]
pub(crate) struct Requester(pub(crate) Vec<ClientId>);

/// The concurrency limits of one gateway.
pub(crate) struct ConcurrencyLimits {
    /// Permits for writes and other requests with a body.
    uploads: FairSemaphore,
    /// Permits for writes without a body.
    asks: FairSemaphore,
    /// Permits for bytes of documents, one per byte.
    documents: FairSemaphore,
    /// Places for requests that hold one of these permits or wait for it.
    queue: Arc<Semaphore>,
    /// Permits for answers 503 to connections beyond the limit.
    refusals: Arc<Semaphore>,
    wait: Duration,
}

/// Permit for a write. Dropping it releases it.
#[derive(Debug)]
pub(crate) struct WritePermit {
    _permit: FairPermit,
    /// `None` if the permit for the write's document holds it.
    _place: Option<OwnedSemaphorePermit>,
}

/// Permit for a document in memory. Dropping it releases it.
#[derive(Debug)]
pub(crate) struct DocumentPermit {
    _permit: FairPermit,
    _place: OwnedSemaphorePermit,
}

impl ConcurrencyLimits {
    pub(crate) fn new(limits: &Limits) -> Self {
        let writes = || FairSemaphore::new(limits.writes_max, limits.writes_per_client.max(1));
        let so_many = |count| Arc::new(Semaphore::new(count));
        Self {
            uploads: writes(),
            asks: writes(),
            documents: FairSemaphore::new(DOCUMENT_BYTES_MAX, DOCUMENT_BYTES_PER_CLIENT),
            queue: so_many(limits.connections_max.div_ceil(2)),
            // Each refusal holds a file descriptor, of which a low limit of connections has few.
            refusals: so_many(REFUSALS_AT_ONCE.min(limits.connections_max.div_ceil(8))),
            wait: limits.wait,
        }
    }

    /// Permit for a write, or for another request with a body, to be held until it has ended. A
    /// write with a document already has a place in the queue: taking a second one would count its
    /// connection twice.
    ///
    /// The future holds no part of the request, because its body is not `Sync`.
    pub(crate) fn for_write<'a>(
        &'a self,
        request: &Request<BoxBody>,
        document: Option<&DocumentPermit>,
    ) -> impl Future<Output = Result<WritePermit, PermitRefused>> + use<'a> {
        let place = match document {
            Some(_) => Ok(None),
            None => self.place_in_queue().map(Some),
        };
        let permits = if request.body().is_end_stream() { &self.asks } else { &self.uploads };
        let clients = request.extensions().get::<Requester>().cloned();
        async move {
            let place = place?;
            let permit = self.take(permits, clients, 1).await?;
            Ok(WritePermit { _permit: permit, _place: place })
        }
    }

    /// Permit for a document of this size, to be held while the document arrives, and while it or
    /// its names are in memory.
    pub(crate) async fn for_document(
        &self,
        requester: Option<Requester>,
        bytes: usize,
    ) -> Result<DocumentPermit, PermitRefused> {
        let place = self.place_in_queue()?;
        let permit = self.take(&self.documents, requester, bytes).await?;
        Ok(DocumentPermit { _permit: permit, _place: place })
    }

    fn place_in_queue(&self) -> Result<OwnedSemaphorePermit, PermitRefused> {
        self.queue.clone().try_acquire_owned().map_err(|_| PermitRefused::OfAll)
    }

    /// Permit for an answer to a connection beyond the limit, if few are running.
    pub(crate) fn for_refusal(&self) -> Option<OwnedSemaphorePermit> {
        self.refusals.clone().try_acquire_owned().ok()
    }

    async fn take(
        &self,
        permits: &FairSemaphore,
        requester: Option<Requester>,
        count: usize,
    ) -> Result<FairPermit, PermitRefused> {
        let count = u32::try_from(count).map_err(|_| PermitRefused::OfClient)?;
        let clients = requester.map_or_else(Vec::new, |Requester(clients)| clients);
        permits.acquire(&clients, count, self.wait).await
    }

    /// Waits until no write is running.
    pub(crate) async fn writes_have_ended(&self) {
        self.uploads.all_released().await;
        self.asks.all_released().await;
    }
}
