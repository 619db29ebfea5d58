//! One origin: the interface that every kind of object store implements.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;

use http::{Request, Response};
use zonal_s3::BoxBody;

use crate::body::OriginBody;
use crate::error::{OriginError, Refusal};
use crate::object::{ObjectHead, ObjectName};
use crate::stats::Stats;

/// The name of a forwarded request, in its extensions. An error document that an origin of ours makes itself
/// carries it; what an S3 endpoint answers has a name of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestId(pub Box<str>);

/// In the extensions of a forwarded request: it goes to the origin as its client signed it, under the host and with the
/// path that were signed, and the origin judges it. Only S3 endpoints can.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AsSigned {
    /// The bucket that it concerns; empty when it is none.
    pub bucket: Box<str>,
}

/// In the extensions of a forwarded request: the multipart upload that its query names must be one of the object in its
/// path, and the origin is not believed to look itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfUpload {
    /// Its id.
    pub id: Box<str>,
}

/// An object store: what a kind of origin implements. [`Origin`] counts its calls and errors.
///
/// An implementation limits its concurrent requests ([`ConcurrencyLimits`](crate::ConcurrencyLimits)), gives up in time
/// and tries again where that may help, all within its [`Limits`](crate::Limits).
pub trait ObjectStore: fmt::Debug + Send + Sync + Any {
    /// The metadata of an object.
    fn head<'a>(&'a self, object: &'a ObjectName) -> StoreFuture<'a, ObjectHead>;

    /// The bytes `range` of an object, of the version `if_match` (an ETag as the store sent it) when given. The body is
    /// exactly that, or breaks.
    fn get<'a>(
        &'a self,
        object: &'a ObjectName,
        range: Range<u64>,
        if_match: Option<&'a str>,
    ) -> StoreFuture<'a, OriginBody>;

    /// Any other request, by the rules of [`Origin::forward`].
    fn forward(&self, request: Request<BoxBody>) -> StoreFuture<'_, Response<BoxBody>>;

    /// One request that shows whether the store answers us. Counts itself.
    fn probe(&self) -> StoreFuture<'_, ()>;

    /// Counters of the store.
    fn stats(&self) -> &Stats;

    /// Takes over the credentials and certificate authorities of `other`, which is the same store opened anew. Requests
    /// under way end as they began.
    fn take_credentials(&self, _other: &dyn ObjectStore) {}

    /// True when the store takes no writes: it refuses them.
    fn is_read_only(&self) -> bool {
        false
    }

    /// True when the store verifies what [`AsSigned`] hands on.
    fn verifies_signatures(&self) -> bool {
        false
    }

    /// True when a request that is signed for this host is signed for this store.
    fn is_at(&self, _host: &str) -> bool {
        false
    }

    /// From now on our own requests for this bucket agree to pay: a client did (Requester Pays).
    fn note_requester_pays(&self, _bucket: &str) {}

    /// True when our own requests for this bucket agree to pay.
    fn is_paid(&self, _bucket: &str) -> bool {
        false
    }
}

/// The result of an [`ObjectStore`] or [`ReadOnlyStore`](crate::ReadOnlyStore) call.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, OriginError>> + Send + 'a>>;

/// One origin: where objects come from when they are not cached.
#[derive(Debug)]
pub struct Origin(Box<dyn ObjectStore>);

impl<S: ObjectStore> From<S> for Origin {
    fn from(store: S) -> Self {
        Self(Box::new(store))
    }
}

impl Origin {
    /// Takes over the credentials and certificate authorities of `other`, which is the same origin opened anew. Requests
    /// under way end as they began.
    pub fn take_credentials(&self, other: &Self) {
        self.0.take_credentials(&*other.0);
    }

    /// From now on our own requests for this bucket agree to pay: a client did (Requester Pays).
    pub(crate) fn note_requester_pays(&self, bucket: &str) {
        self.0.note_requester_pays(bucket);
    }

    pub(crate) fn is_paid(&self, bucket: &str) -> bool {
        self.0.is_paid(bucket)
    }

    /// True when nothing can be written: the origin refuses it.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.0.is_read_only()
    }

    /// What an object is, without reading it. Tried again where that may help.
    ///
    /// # Errors
    /// See [`OriginError`] for who acts on which.
    pub async fn head(&self, object: &ObjectName) -> Result<ObjectHead, OriginError> {
        let stats = self.stats();
        stats.heads.add(1);
        stats.counted(self.0.head(object).await)
    }

    /// The bytes `range` of an object, pinned to the version that `if_match` names (an ETag as the
    /// origin sent it). The answer is checked against what was asked: what comes out of the body is
    /// exactly that, or an error. Tried again where that may help, until the first byte has come.
    ///
    /// Requires: the range is not empty.
    ///
    /// # Errors
    /// See [`OriginError`] for who acts on which.
    pub async fn get(
        &self,
        object: &ObjectName,
        range: Range<u64>,
        if_match: Option<&str>,
    ) -> Result<OriginBody, OriginError> {
        assert!(range.start < range.end, "an empty range cannot be asked for");
        let stats = self.stats();
        stats.gets.add(1);
        stats.counted(self.0.get(object, range, if_match).await)
    }

    /// Anything else, handed on as it is with the origin's own signature. The request's path is
    /// `/BUCKET/KEY`. An answer to the request is `Ok` whatever its status, and it is handed back as it is.
    /// Never tried again.
    ///
    /// Signed chunks are checked when the request's extensions hold a [`SignatureChain`](zonal_s3::aws_chunked::SignatureChain); see also [`RequestId`]. With
    /// [`AsSigned`] among them nothing is signed or checked here.
    ///
    /// # Errors
    /// No answer came, it was about us and not about the request, or the request's body failed.
    pub async fn forward(
        &self,
        request: Request<BoxBody>,
    ) -> Result<Response<BoxBody>, OriginError> {
        self.stats().forwards.add(1);
        if request.extensions().get::<AsSigned>().is_some() && !self.0.verifies_signatures() {
            return Err(OriginError::Denied(Refusal {
                status: 403,
                code: "AccessDenied".to_owned(),
                message: "this kind of origin judges no signatures".to_owned(),
            }));
        }
        self.0.forward(request).await
    }

    /// True when a request that is signed for this host is signed for this origin.
    #[must_use]
    pub fn is_at(&self, host: &str) -> bool {
        self.0.is_at(host)
    }

    /// Finds out whether the origin answers and lets us in: one request, never tried again. The result is in
    /// [`Stats::trouble`] too.
    ///
    /// # Errors
    /// It does not.
    pub async fn probe(&self) -> Result<(), OriginError> {
        self.0.probe().await
    }

    /// What was asked of the origin so far.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        self.0.stats()
    }
}
