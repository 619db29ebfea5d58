//! One origin, of whatever kind.

use std::ops::Range;

use http::{Request, Response};
use zonal_s3::BoxBody;

use crate::body::OriginBody;
use crate::error::{OriginError, Refusal};
use crate::folder::FolderOrigin;
use crate::object::{ObjectHead, ObjectName};
use crate::s3::S3Origin;
use crate::stats::Stats;
use crate::store::StoreOrigin;

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

/// Where objects come from when they are not cached.
#[derive(Debug)]
pub enum Origin {
    /// An S3 endpoint.
    S3(Box<S3Origin>),
    /// A local folder.
    Folder(FolderOrigin),
    /// One bucket of a store that speaks another protocol: it is only read.
    Store(Box<StoreOrigin>),
}

impl From<S3Origin> for Origin {
    fn from(origin: S3Origin) -> Self {
        Self::S3(Box::new(origin))
    }
}

impl From<FolderOrigin> for Origin {
    fn from(origin: FolderOrigin) -> Self {
        Self::Folder(origin)
    }
}

impl From<StoreOrigin> for Origin {
    fn from(origin: StoreOrigin) -> Self {
        Self::Store(Box::new(origin))
    }
}

impl Origin {
    /// Shows itself from now on as `other` does, which is the same place opened with other keys and authorities. Requests
    /// under way end as they began.
    pub fn sign_as(&self, other: &Self) {
        match (self, other) {
            (Self::S3(origin), Self::S3(other)) => origin.sign_as(other),
            (Self::Store(origin), Self::Store(other)) => origin.sign_as(other),
            // A folder asks for no keys.
            _ => {}
        }
    }

    /// Whoever asks for this bucket's objects pays, and a client agreed to it: from now on we do. Others than S3 have no
    /// such buckets.
    pub(crate) fn note_requester_pays(&self, bucket: &str) {
        if let Self::S3(origin) = self {
            origin.note_requester_pays(bucket);
        }
    }

    pub(crate) fn is_paid(&self, bucket: &str) -> bool {
        matches!(self, Self::S3(origin) if origin.is_paid(bucket))
    }

    /// Whether nothing can be written: a request that would is refused.
    #[must_use]
    pub const fn is_read_only(&self) -> bool {
        matches!(self, Self::Store(_))
    }

    /// What an object is, without reading it. Tried again where that may help.
    ///
    /// # Errors
    /// See [`OriginError`] for who acts on which.
    pub async fn head(&self, object: &ObjectName) -> Result<ObjectHead, OriginError> {
        let stats = self.stats();
        stats.heads.add(1);
        stats.counted(match self {
            Self::S3(origin) => origin.head(object).await,
            Self::Folder(origin) => origin.head(object).await,
            Self::Store(origin) => origin.head(object).await,
        })
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
        stats.counted(match self {
            Self::S3(origin) => origin.get(object, range, if_match).await,
            Self::Folder(origin) => origin.get(object, range, if_match).await,
            Self::Store(origin) => origin.get(object, range, if_match).await,
        })
    }

    /// Anything else, handed on as it is with the origin's own signature. The request's path is
    /// `/BUCKET/KEY`. An answer to the request is `Ok` whatever its status, and it is handed back as it is.
    /// Never tried again.
    ///
    /// Signed chunks are checked when the request's extensions hold a [`crate::SignatureChain`]; see also [`RequestId`]. With
    /// [`AsSigned`] among them nothing is signed or checked here.
    ///
    /// # Errors
    /// No answer came, it was about us and not about the request, or the request's body failed.
    pub async fn forward(
        &self,
        request: Request<BoxBody>,
    ) -> Result<Response<BoxBody>, OriginError> {
        self.stats().forwards.add(1);
        match self {
            Self::S3(origin) => origin.forward(request).await,
            Self::Folder(_) | Self::Store(_)
                if request.extensions().get::<AsSigned>().is_some() =>
            {
                Err(OriginError::Denied(Refusal {
                    status: 403,
                    code: "AccessDenied".to_owned(),
                    message: "this kind of origin judges no signatures".to_owned(),
                }))
            }
            Self::Folder(origin) => origin.forward(request).await,
            Self::Store(origin) => origin.forward(request).await,
        }
    }

    /// Whether a request that is signed for this host is signed for this origin.
    #[must_use]
    pub fn is_at(&self, host: &str) -> bool {
        match self {
            Self::S3(origin) => origin.is_at(host),
            Self::Folder(_) | Self::Store(_) => false,
        }
    }

    /// Finds out whether the origin is there and lets us in. One request, never tried again; what comes of it is
    /// in [`Stats::trouble`] too.
    ///
    /// # Errors
    /// It is not, or it does not.
    pub async fn probe(&self) -> Result<(), OriginError> {
        match self {
            Self::S3(origin) => origin.probe().await,
            Self::Folder(origin) => origin.probe().await,
            Self::Store(origin) => origin.probe().await,
        }
    }

    /// What was asked of the origin so far.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        match self {
            Self::S3(origin) => origin.stats(),
            Self::Folder(origin) => origin.stats(),
            Self::Store(origin) => origin.stats(),
        }
    }
}
