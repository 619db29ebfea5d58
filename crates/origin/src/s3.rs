//! Client of an S3 endpoint, over HTTP or HTTPS.
//!
//! The client is our own, on hyper: what a cache hands on must be what the origin sent, header by
//! header, and what a client uploads must arrive as it was given. Libraries that speak S3 parse
//! both into their own types and write them anew.
//!
//! 1. `endpoint` turns a bucket and a key into a URL,
//! 2. `client` sends signed requests, those that only read at the pace and within the budgets of the origin (`reads`),
//! 3. `head` and `get` check every answer against what was asked,
//! 4. `forward` hands on everything else, `as_signed` what its client signed for the origin, if the answer is
//!    `fitting`,
//! 5. `buckets` finds out whether a path leads into a bucket at all, `uploads` whether an upload is of its object,
//! 6. `answer` turns refusals into errors,
//! 7. `probe` tells a refusal of the request from one of us.

pub(crate) mod answer;
mod as_signed;
mod buckets;
pub(crate) mod client;
mod endpoint;
mod fitting;
mod forward;
pub(crate) mod get;
mod head;
mod probe;
mod upload;
mod uploads;

pub(crate) use answer::meaning;
pub use endpoint::{Addressing, Endpoint, EndpointError};

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};
use http::{Request, Response};
use tokio::sync::Mutex;
use tokio::time::Instant;
use zonal_s3::BoxBody;
use zonal_s3::sigv4::{Credentials, Signer};

use crate::authorities::roots_for;
use crate::body::OriginBody;
use crate::concurrency::ConcurrencyLimits;
use crate::limits::Limits;
use crate::object::{ObjectHead, ObjectName};
use crate::origin::{ObjectStore, StoreFuture};
use crate::reads::Reads;
use crate::stats::Stats;

/// An S3 endpoint, and what it takes to talk to it.
pub struct S3Origin {
    client: ArcSwap<client::Client>,
    endpoint: Endpoint,
    /// Empty: requests are sent anonymously.
    signer: ArcSwapOption<Signer>,
    limits: Limits,
    concurrency: ConcurrencyLimits,
    proven: buckets::Buckets,
    /// Whoever asks for their objects pays.
    paid: buckets::Buckets,
    proven_uploads: uploads::Proven,
    /// When the origin last let us in where that had been in doubt.
    let_in_at: Mutex<Option<Instant>>,
    reads: Reads,
    stats: Arc<Stats>,
}

impl fmt::Debug for S3Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "S3Origin({})", self.endpoint)
    }
}

/// Why an [`S3Origin`] could not be made.
#[derive(Debug)]
pub enum S3OpenError {
    /// The access key, token or region cannot be sent in a header.
    UnusableCredentials(zonal_s3::sigv4::UnusableCredentials),
    /// The endpoint is HTTPS and the system has no root certificates that could be read.
    NoRootCertificates(std::io::Error),
}

impl fmt::Display for S3OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnusableCredentials(error) => error.fmt(f),
            Self::NoRootCertificates(error) => {
                write!(f, "HTTPS needs root certificates, and the system has none: {error}")
            }
        }
    }
}

impl std::error::Error for S3OpenError {}

impl S3Origin {
    /// An origin at `endpoint`; nothing is sent yet. Without credentials requests are anonymous.
    ///
    /// # Errors
    /// Credentials that no header can carry, or HTTPS without root certificates.
    pub fn open(
        endpoint: Endpoint,
        region: String,
        credentials: Option<Credentials>,
        limits: Limits,
    ) -> Result<Self, S3OpenError> {
        let roots = roots_for(endpoint.scheme(), limits.authorities.as_ref());
        let roots = roots.map_err(S3OpenError::NoRootCertificates)?;
        Self::with_roots(endpoint, region, credentials, limits, roots)
    }

    fn with_roots(
        endpoint: Endpoint,
        region: String,
        credentials: Option<Credentials>,
        limits: Limits,
        roots: rustls::RootCertStore,
    ) -> Result<Self, S3OpenError> {
        let signer = credentials
            .map(|credentials| Signer::new(credentials, region))
            .transpose()
            .map_err(S3OpenError::UnusableCredentials)?;
        let stats = Arc::<Stats>::default();
        Ok(Self {
            client: ArcSwap::from_pointee(client::connect_with(roots, &limits)),
            endpoint,
            signer: ArcSwapOption::new(signer.map(Arc::new)),
            concurrency: ConcurrencyLimits::new(&limits),
            // Ranges and heads.
            reads: Reads::new(2 * limits.concurrent_reads, &limits, stats.clone()),
            limits,
            proven: buckets::Buckets::default(),
            paid: buckets::Buckets::default(),
            proven_uploads: uploads::Proven::default(),
            let_in_at: Mutex::default(),
            stats,
        })
    }

    /// These are buckets, whatever they are called: they need no proof.
    #[must_use]
    pub fn with_buckets(self, buckets: &[String]) -> Self {
        for bucket in buckets {
            self.proven.add(bucket);
        }
        self
    }
}

impl ObjectStore for S3Origin {
    fn head<'a>(&'a self, object: &'a ObjectName) -> StoreFuture<'a, ObjectHead> {
        Box::pin(self.head(object))
    }

    fn get<'a>(
        &'a self,
        object: &'a ObjectName,
        range: Range<u64>,
        if_match: Option<&'a str>,
    ) -> StoreFuture<'a, OriginBody> {
        Box::pin(self.get(object, range, if_match))
    }

    fn forward(&self, request: Request<BoxBody>) -> StoreFuture<'_, Response<BoxBody>> {
        Box::pin(self.forward(request))
    }

    fn probe(&self) -> StoreFuture<'_, ()> {
        Box::pin(self.probe())
    }

    fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Connections trust the authorities that they were made with: the next one is new.
    fn take_credentials(&self, other: &dyn ObjectStore) {
        let other: &dyn Any = other;
        if let Some(other) = other.downcast_ref::<Self>() {
            self.signer.store(other.signer.load_full());
            self.client.store(other.client.load_full());
        }
    }

    fn verifies_signatures(&self) -> bool {
        true
    }

    fn is_at(&self, host: &str) -> bool {
        self.endpoint.is_at(host)
    }

    fn note_requester_pays(&self, bucket: &str) {
        self.paid.add(bucket);
    }

    fn is_paid(&self, bucket: &str) -> bool {
        self.paid.has(bucket)
    }
}

#[cfg(test)]
mod tests;
