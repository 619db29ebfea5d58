//! One origin: the interface that every kind of object store implements.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use http::{Method, Request, Response};
use zonal_base::{LatencyHistogram, RangeSpec};
use zonal_s3::BoxBody;

use crate::body::OriginBody;
use crate::circuit_breaker::{Attempt, CircuitBreaker};
use crate::error::{ErrorResponse, OriginError};
use crate::object::{ObjectHead, ObjectName};
use crate::object_response::ObjectResponse;
use crate::s3::SigningKeys;
use crate::stats::{Counter, Stats};

/// Request ID, in the extensions of a forwarded request. Error documents that an origin generates
/// itself carry it; an S3 endpoint has request IDs of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestId(pub Box<str>);

/// Pass-through marker, in the extensions of a forwarded request. The request goes to the origin
/// with the client's own signature, host and path, and the origin verifies and authorizes it. Only
/// S3 endpoints support this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassThroughSigned {
    /// Bucket of the request. Empty if it concerns no bucket.
    pub bucket: Box<str>,
}

/// Upload check marker, in the extensions of a forwarded request. The multipart upload in its query
/// must belong to the object in its path. Zonal checks this itself, because not every origin does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfUpload {
    /// Upload ID.
    pub id: Box<str>,
}

/// Object store interface, implemented by every kind of origin. [`Origin`] counts its calls and
/// errors.
///
/// An implementation limits its concurrent requests
/// ([`ConcurrencyLimits`](crate::ConcurrencyLimits)), has timeouts, and retries transient failures,
/// all within its [`OriginLimits`](crate::OriginLimits).
pub trait ObjectStore: fmt::Debug + Send + Sync + Any {
    /// HEAD: the metadata of an object.
    fn head<'a>(&'a self, object: &'a ObjectName) -> StoreFuture<'a, ObjectHead>;

    /// GET: the bytes `range` of an object. `if_match` pins a version, by its ETag as the store
    /// sent it. The body yields exactly these bytes, or fails.
    fn get<'a>(
        &'a self,
        object: &'a ObjectName,
        range: Range<u64>,
        if_match: Option<&'a str>,
    ) -> StoreFuture<'a, OriginBody>;

    /// GET without knowledge of the object: its head, and the bytes `range`. `if_match` as in
    /// [`ObjectStore::get`].
    fn get_object<'a>(
        &'a self,
        object: &'a ObjectName,
        range: &'a RangeSpec,
        if_match: Option<&'a str>,
    ) -> StoreFuture<'a, ObjectResponse>;

    /// Any other request, by the rules of [`Origin::forward`].
    fn forward(&self, request: Request<BoxBody>) -> StoreFuture<'_, Response<BoxBody>>;

    /// Health probe: one request that shows whether the store answers and accepts the credentials.
    /// The implementation counts it.
    fn probe(&self) -> StoreFuture<'_, ()>;

    /// Request and error counters of the store.
    fn stats(&self) -> &Stats;

    /// Takes over the credentials and certificate authorities of `other`, which is the same store
    /// opened again after a configuration change. Requests in flight keep the old ones.
    fn take_credentials(&self, _other: &dyn ObjectStore) {}

    /// True if the store refuses all writes.
    fn is_read_only(&self) -> bool {
        false
    }

    /// The keys that sign Zonal's requests, if the store has some that can be renewed.
    fn keys(&self) -> Option<Arc<SigningKeys>> {
        None
    }

    /// True if the store can be asked for one version of an object.
    fn keeps_versions(&self) -> bool {
        false
    }

    /// True if the store verifies the client's signature of a request marked [`PassThroughSigned`].
    fn verifies_signatures(&self) -> bool {
        false
    }

    /// True if a request signed for this host is signed for this store.
    fn is_at(&self, _host: &str) -> bool {
        false
    }

    /// Requester Pays: a client accepted the charges of this bucket, so Zonal's own requests for
    /// the bucket accept them too.
    fn note_requester_pays(&self, _bucket: &str) {}

    /// True if Zonal's own requests for this bucket accept charges (Requester Pays).
    fn is_paid(&self, _bucket: &str) -> bool {
        false
    }
}

/// The result of an [`ObjectStore`] or [`ReadOnlyStore`](crate::ReadOnlyStore) call.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, OriginError>> + Send + 'a>>;

/// One origin: the source of objects that are not cached.
#[derive(Debug)]
pub struct Origin(Box<dyn ObjectStore>);

impl<S: ObjectStore> From<S> for Origin {
    fn from(store: S) -> Self {
        Self(Box::new(store))
    }
}

impl Origin {
    /// Takes over the credentials and certificate authorities of `other`, which is the same origin
    /// opened again after a configuration change. Requests in flight keep the old ones.
    pub fn take_credentials(&self, other: &Self) {
        self.0.take_credentials(&*other.0);
    }

    /// Requester Pays: a client accepted the charges of this bucket, so Zonal's own requests for
    /// the bucket accept them too.
    pub(crate) fn note_requester_pays(&self, bucket: &str) {
        self.0.note_requester_pays(bucket);
    }

    pub(crate) fn is_paid(&self, bucket: &str) -> bool {
        self.0.is_paid(bucket)
    }

    /// True if the origin refuses all writes.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.0.is_read_only()
    }

    /// The keys that sign Zonal's requests, for S3 endpoints.
    #[must_use]
    pub fn keys(&self) -> Option<Arc<SigningKeys>> {
        self.0.keys()
    }

    /// True if the origin can be asked for one version of an object. Whether a bucket keeps versions
    /// is another question.
    #[must_use]
    pub fn keeps_versions(&self) -> bool {
        self.0.keeps_versions()
    }

    /// HEAD: the metadata of an object. Retried after transient failures.
    ///
    /// Requires: the name has no version, or the origin [keeps versions](Self::keeps_versions).
    ///
    /// # Errors
    /// [`OriginError`] states the caller's action for each variant.
    pub async fn head(&self, object: &ObjectName) -> Result<ObjectHead, OriginError> {
        assert!(object.version.is_none() || self.keeps_versions());
        let send = || self.0.head(object);
        let answer = self.read(|stats| (&stats.heads, &stats.head_latency), send).await;
        self.stats().note_read(object, 0);
        answer
    }

    /// GET: the bytes `range` of an object, pinned to the version with the ETag `if_match` (as the
    /// origin sent it). The answer is checked against the request: the body yields exactly these
    /// bytes, or an error. Retried after transient failures, until the first byte has arrived.
    ///
    /// Requires: the range is not empty. The name has no version, or the origin
    /// [keeps versions](Self::keeps_versions).
    ///
    /// # Errors
    /// [`OriginError`] states the caller's action for each variant.
    pub async fn get(
        &self,
        object: &ObjectName,
        range: Range<u64>,
        if_match: Option<&str>,
    ) -> Result<OriginBody, OriginError> {
        assert!(range.start < range.end, "an empty range cannot be requested");
        assert!(object.version.is_none() || self.keeps_versions());
        let bytes = range.end - range.start;
        let send = || self.0.get(object, range, if_match);
        let answer = self.read(|stats| (&stats.gets, &stats.get_latency), send).await;
        self.stats().note_read(object, answer.as_ref().map_or(0, |_| bytes));
        answer
    }

    /// GET without knowledge of the object: its head, and the bytes `range` as far as the object has
    /// them, in one request. `if_match` pins a version. An origin without ranges may send more than
    /// `range`. A few origins need a HEAD request too: those that answer without a length, or with
    /// 416 to a range of an empty object. Retried after transient failures, until the first byte
    /// has arrived.
    ///
    /// Requires: the range is not empty. The name has no version, or the origin
    /// [keeps versions](Self::keeps_versions).
    ///
    /// # Errors
    /// [`OriginError`] states the caller's action for each variant.
    pub async fn get_object(
        &self,
        object: &ObjectName,
        range: &RangeSpec,
        if_match: Option<&str>,
    ) -> Result<ObjectResponse, OriginError> {
        assert!(!range.in_object(u64::MAX).is_empty(), "an empty range cannot be requested");
        assert!(object.version.is_none() || self.keeps_versions());
        let send = || self.0.get_object(object, range, if_match);
        let answer = self.read(|stats| (&stats.gets, &stats.get_latency), send).await;
        let bytes = |of: &ObjectResponse| of.range.end - of.range.start;
        self.stats().note_read(object, answer.as_ref().map_or(0, bytes));
        answer
    }

    /// Forwards any other request, signed with the origin's credentials. The request's path is
    /// `/BUCKET/KEY`. An answer to the request is `Ok` whatever its status, and is returned
    /// unchanged. Never retried.
    ///
    /// Signed chunks are verified if the request's extensions hold a
    /// [`SignatureChain`](zonal_s3::aws_chunked::SignatureChain); see also [`RequestId`]. A request
    /// marked [`PassThroughSigned`] is neither signed nor verified here.
    ///
    /// # Errors
    /// The circuit is open, no answer came, the answer concerns Zonal's credentials or configuration
    /// instead of the request, or the request's body failed.
    pub async fn forward(
        &self,
        request: Request<BoxBody>,
    ) -> Result<Response<BoxBody>, OriginError> {
        if request.extensions().get::<PassThroughSigned>().is_some()
            && !self.0.verifies_signatures()
        {
            return Err(OriginError::Denied(ErrorResponse {
                status: 403,
                code: "AccessDenied".to_owned(),
                message: "this kind of origin does not check signatures".to_owned(),
            }));
        }
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        let attempt = self.admit()?;
        self.stats().forwards.add(1);
        let asked_at = Instant::now();
        let answer = self.0.forward(request);
        let answer = if is_read { self.until_open(answer).await? } else { answer.await };
        if is_answered(&answer) {
            self.stats().forward_latency.record_shared(asked_at.elapsed().into());
        }
        self.circuit().note(&attempt, &answer);
        answer
    }

    /// Sends a read, unless the circuit is open.
    async fn read<'a, T>(
        &self,
        counts: impl FnOnce(&Stats) -> (&Counter, &LatencyHistogram),
        send: impl FnOnce() -> StoreFuture<'a, T>,
    ) -> Result<T, OriginError> {
        let attempt = self.admit()?;
        let stats = self.stats();
        let (counter, latency) = counts(stats);
        counter.add(1);
        let asked_at = Instant::now();
        let answer = self.until_open(send()).await?;
        if is_answered(&answer) {
            latency.record_shared(asked_at.elapsed().into());
        }
        self.circuit().note(&attempt, &answer);
        stats.counted(answer)
    }

    /// The answer, unless the circuit opens before it. Then the request is cancelled.
    async fn until_open<T>(&self, answer: impl Future<Output = T>) -> Result<T, OriginError> {
        tokio::select! {
            biased;
            answer = answer => Ok(answer),
            refusal = self.circuit().opened() => {
                self.stats().circuit_refusals.add(1);
                Err(refusal)
            }
        }
    }

    /// Checks that the circuit breaker lets requests through.
    pub(crate) fn check_circuit(&self) -> Result<(), OriginError> {
        self.admit().map(drop)
    }

    fn admit(&self) -> Result<Attempt, OriginError> {
        self.circuit().admit().inspect_err(|_| self.stats().circuit_refusals.add(1))
    }

    pub(crate) fn circuit(&self) -> &CircuitBreaker {
        &self.stats().circuit
    }

    /// True if a request signed for this host is signed for this origin.
    #[must_use]
    pub fn is_at(&self, host: &str) -> bool {
        self.0.is_at(host)
    }

    /// Health probe: checks that the origin answers and accepts the credentials. One request, never
    /// retried. [`Stats::trouble`] holds the result too.
    ///
    /// # Errors
    /// The origin does not answer, or refuses the credentials.
    pub async fn probe(&self) -> Result<(), OriginError> {
        let attempt = self.circuit().begin();
        let answer = self.0.probe().await;
        self.circuit().note_probe(&attempt, &answer);
        answer
    }

    /// Request and error counters of the origin.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        self.0.stats()
    }
}

/// True if the origin answered the request, whatever it answered.
fn is_answered<T>(answer: &Result<T, OriginError>) -> bool {
    answer.as_ref().err().is_none_or(|error| !error.is_trouble())
}
