//! S3 client over HTTP or HTTPS: the origin for S3 endpoints.
//!
//! The client is Zonal's own, on hyper. A cache must pass on the origin's headers and the client's
//! uploads unchanged. S3 libraries parse both into their own types and serialize them again.
//!
//! 1. `endpoint` turns a bucket and a key into a URL,
//! 2. `client` sends signed requests; reads go through the limiter and the budgets of the origin
//!    (`reads`),
//! 3. `head`, `get` and `get_object` check every answer against the request,
//! 4. `forward` forwards all other requests, `as_signed` those with the client's own signature;
//!    `fitting` validates the answers,
//! 5. `buckets` checks that a path is a bucket, `uploads` that an upload belongs to its object,
//! 6. `answer` maps error responses to errors,
//! 7. `probe` tells a refusal of the request from a refusal of Zonal's credentials.

mod buckets;
pub(crate) mod client;
mod endpoint;
pub(crate) mod error_mapping;
mod forward;
pub(crate) mod get;
mod get_object;
mod head;
mod pass_through;
mod probe;
mod response_validation;
mod signing_keys;
mod upload;
mod uploads;

pub use endpoint::{Addressing, Endpoint, EndpointError};
pub(crate) use error_mapping::meaning;
pub use signing_keys::{KeyCounts, KeyOrigin, SigningKeys, Tried};

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arc_swap::ArcSwap;
use http::{HeaderMap, HeaderValue, Request, Response, Uri};
use tokio::sync::Mutex;
use tokio::time::Instant;
use zonal_base::RangeSpec;
use zonal_s3::BoxBody;
use zonal_s3::sigv4::{Credentials, encode_query_value};

use crate::body::OriginBody;
use crate::ca_roots::roots_for;
use crate::concurrency::ConcurrencyLimits;
use crate::error::OriginError;
use crate::limits::OriginLimits;
use crate::object::{ObjectHead, ObjectName, VERSION_ID};
use crate::object_response::ObjectResponse;
use crate::origin::{ObjectStore, StoreFuture};
use crate::reads::Reads;
use crate::stats::Stats;

/// Origin at an S3 endpoint.
pub struct S3Origin {
    client: ArcSwap<client::Client>,
    endpoint: Endpoint,
    keys: ArcSwap<SigningKeys>,
    limits: OriginLimits,
    concurrency: ConcurrencyLimits,
    proven: buckets::Buckets,
    /// The origin answers 501 to a request for checksums.
    lacks_checksum_mode: AtomicBool,
    /// Buckets with Requester Pays whose charges a client has accepted.
    paid: buckets::Buckets,
    proven_uploads: uploads::VerifiedUploads,
    /// Time of the last probe in which the origin accepted the credentials, made because a refusal
    /// was ambiguous.
    let_in_at: Mutex<Option<Instant>>,
    reads: Reads,
    stats: Arc<Stats>,
}

impl fmt::Debug for S3Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "S3Origin({})", self.endpoint)
    }
}

/// Error of opening an [`S3Origin`].
#[derive(Debug)]
pub enum S3OpenError {
    /// The access key, token or region contains characters that no header can carry.
    UnusableCredentials(zonal_s3::sigv4::UnusableCredentials),
    /// The endpoint is HTTPS, and the system has no readable root certificates.
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
    /// Creates an origin at `endpoint`, without sending a request. Without credentials, requests
    /// are anonymous.
    ///
    /// # Errors
    /// Credentials that no header can carry, or HTTPS without root certificates.
    pub fn open(
        endpoint: Endpoint,
        region: String,
        credentials: Option<Credentials>,
        limits: OriginLimits,
    ) -> Result<Self, S3OpenError> {
        let keys = SigningKeys::fixed(credentials, region);
        let keys = keys.map_err(S3OpenError::UnusableCredentials)?;
        Self::with_keys(endpoint, Arc::new(keys), limits)
    }

    /// Creates an origin whose keys may be renewed, without sending a request.
    ///
    /// # Errors
    /// HTTPS without root certificates.
    pub fn with_keys(
        endpoint: Endpoint,
        keys: Arc<SigningKeys>,
        limits: OriginLimits,
    ) -> Result<Self, S3OpenError> {
        let roots = roots_for(endpoint.scheme(), limits.ca_roots.as_ref());
        let roots = roots.map_err(S3OpenError::NoRootCertificates)?;
        Ok(Self::with_roots(endpoint, keys, limits, roots))
    }

    fn with_roots(
        endpoint: Endpoint,
        keys: Arc<SigningKeys>,
        limits: OriginLimits,
        roots: rustls::RootCertStore,
    ) -> Self {
        let stats = Arc::<Stats>::default();
        Self {
            client: ArcSwap::from_pointee(client::connect_with(roots, &limits)),
            endpoint,
            keys: ArcSwap::new(keys),
            concurrency: ConcurrencyLimits::new(&limits),
            // Permits of ranges and of heads.
            reads: Reads::new(2 * limits.concurrent_reads, &limits, stats.clone()),
            limits,
            proven: buckets::Buckets::default(),
            lacks_checksum_mode: AtomicBool::new(false),
            paid: buckets::Buckets::default(),
            proven_uploads: uploads::VerifiedUploads::default(),
            let_in_at: Mutex::default(),
            stats,
        }
    }

    /// Marks configured names as buckets, so that they need no proof.
    #[must_use]
    pub fn with_buckets(self, buckets: &[String]) -> Self {
        for bucket in buckets {
            self.proven.add(bucket);
        }
        self
    }
}

impl S3Origin {
    /// The URL of an object, or of one of its versions. `None` for a name that no S3 bucket can
    /// have.
    fn url_of(&self, object: &ObjectName) -> Option<Uri> {
        let version = object.version.as_deref();
        let query = version.map(|id| format!("versionId={}", encode_query_value(id)));
        self.endpoint.url(&object.bucket, &object.key, query.as_deref())
    }
}

/// Checks that an answer is about the version that was asked for. A server that does not know
/// versions answers with the current object.
fn check_version(asked: Option<&str>, headers: &HeaderMap) -> Result<(), OriginError> {
    let told = headers.get(VERSION_ID).map(HeaderValue::as_bytes);
    match (asked, told) {
        // S3 leaves the header out where a bucket never had versioning.
        (None, _) | (Some("null"), None) => Ok(()),
        (Some(asked), Some(told)) if told == asked.as_bytes() => Ok(()),
        (Some(_), _) => Err(OriginError::Changed),
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

    fn get_object<'a>(
        &'a self,
        object: &'a ObjectName,
        range: &'a RangeSpec,
        if_match: Option<&'a str>,
    ) -> StoreFuture<'a, ObjectResponse> {
        Box::pin(self.get_object(object, range, if_match))
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

    /// Replaces the connection pool too: open connections were verified against the old
    /// authorities.
    fn take_credentials(&self, other: &dyn ObjectStore) {
        let other: &dyn Any = other;
        if let Some(other) = other.downcast_ref::<Self>() {
            let keys = other.keys.load_full();
            keys.adopt(&self.keys.load());
            self.keys.store(keys);
            self.client.store(other.client.load_full());
        }
    }

    fn keys(&self) -> Option<Arc<SigningKeys>> {
        Some(self.keys.load_full())
    }

    fn keeps_versions(&self) -> bool {
        true
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
