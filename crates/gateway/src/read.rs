//! Object reads, shared by GetObject and HeadObject: decides whether the cache may answer a
//! request, and maps errors of the cache to responses.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::SystemTime;

use http::request::Parts;
use zonal_base::Nanos;
use zonal_host::{
    Freshness, FreshnessPolicy, Head, HeadSource, LookupError, ObjectName, OriginFault, OriginUse,
    RetentionClass,
};
use zonal_s3::Query;
use zonal_s3::S3Error;
use zonal_s3::sigv4::EMPTY_SHA256;

use crate::access::is_another_to_some;
use crate::api::RequestAttributes;
use crate::auth::Payload;
use crate::bypass::{Bypass, BypassReason};
use crate::cache_control::CacheControl;
use crate::config::{Caching, RuntimeConfig};
use crate::error;
use crate::gateway::Gateway;
use crate::operation::Operation;
use crate::part_ranges::Part;
use crate::representation::{Decision, decide};
use crate::s3_request::S3Request;
use crate::stats::CacheStatus;

/// Why a read is not answered from the cache.
#[derive(Debug)]
pub(crate) enum NotServed {
    /// Forward it: the origin has the exact response.
    Forward(BypassReason),
    /// Answer 404: a negative entry says that the object does not exist.
    Absent,
    /// Answer 404: the origin said so now.
    Missing,
    /// Answer with this error.
    Refuse(S3Error),
}

impl From<S3Error> for NotServed {
    fn from(error: S3Error) -> Self {
        Self::Refuse(error)
    }
}

/// Checks that a read has no body. As in S3, the signed payload hash must be that of zero bytes.
pub(crate) fn check_payload(payload: &Payload) -> Result<(), S3Error> {
    match payload {
        Payload::Unsigned(_) | Payload::Empty => Ok(()),
        Payload::Sha256(hash) => Err(S3Error::wrong_payload_hash(hash, EMPTY_SHA256)),
        Payload::Chunks(..) => Err(S3Error::invalid_payload_hash()),
    }
}

impl From<LookupError> for NotServed {
    fn from(error: LookupError) -> Self {
        match error {
            LookupError::NoSuchKey => Self::Missing,
            // Forwarded, because the origin's own error message is better than any of ours.
            LookupError::NotFound | LookupError::HeadNotFound => {
                Self::Forward(BypassReason::NotFound)
            }
            LookupError::NoEtag => Self::Forward(BypassReason::NoEtag),
            LookupError::HeadersTooLong => Self::Forward(BypassReason::HeadersTooLong),
            LookupError::TooLarge => Self::Forward(BypassReason::TooLarge),
            LookupError::Gone => Self::Forward(BypassReason::CacheLost),
            LookupError::Late => Self::Forward(BypassReason::CacheLate),
            LookupError::Absent => Self::Absent,
            LookupError::NotKnown => error::not_cached().into(),
            LookupError::Origin(fault) => unserved(fault),
            LookupError::Overloaded => S3Error::slow_down().into(),
        }
    }
}

/// Reaction to a failed fetch. A refusal by the origin is forwarded: the client may get the same
/// refusal itself.
pub(crate) fn unserved(fault: OriginFault) -> NotServed {
    let said = || fault.to_string();
    match fault {
        OriginFault::NoSuchKey => NotServed::Missing,
        OriginFault::NotFound | OriginFault::HeadNotFound => {
            NotServed::Forward(BypassReason::NotFound)
        }
        OriginFault::Denied => NotServed::Forward(BypassReason::Denied),
        OriginFault::Changed => NotServed::Forward(BypassReason::Changed),
        OriginFault::Status(status) if status < 500 => {
            NotServed::Forward(BypassReason::OriginStatus)
        }
        OriginFault::Busy => S3Error::slow_down().into(),
        OriginFault::Lied | OriginFault::Status(_) => error::bad_gateway(said()).into(),
        OriginFault::Unreachable | OriginFault::Broken => S3Error::unavailable(said()).into(),
    }
}

/// The head of an object with its checksums. `head` comes from a partial response and lacks them:
/// one HEAD request tells them. `None`: the object has another version now.
pub(crate) async fn with_checksums(
    gateway: &Gateway,
    read: &Read<'_>,
    head: &Arc<Head>,
) -> Result<Option<Arc<Head>>, NotServed> {
    if read.takes_only_what_is_cached() {
        return Err(error::not_cached().into());
    }
    let trust = FreshnessPolicy { needs_whole_head: true, ..Freshness::Revalidate.into() };
    let opened = gateway.client().open(&read.name, trust, read.retention).await?;
    let whole = opened.head;
    let is_same = (whole.size, &whole.etag, whole.salt) == (head.size, &head.etag, head.salt);
    Ok(is_same.then_some(whole))
}

/// `X-Cache` value of a response for which only the head was needed.
pub(crate) const fn outcome_of_head(found: HeadSource) -> CacheStatus {
    match found {
        HeadSource::Hit => CacheStatus::Hit,
        HeadSource::Revalidated => CacheStatus::Revalidated,
        HeadSource::Miss => CacheStatus::Miss,
        HeadSource::Stale => CacheStatus::Stale,
        HeadSource::Updating => CacheStatus::Updating,
        HeadSource::Uncacheable(_) => CacheStatus::Bypass,
    }
}

/// ID of the version that a bucket has without versioning, or while that is suspended.
const NULL_VERSION: &str = "null";

/// A read that the cache may answer.
pub(crate) struct Read<'a> {
    /// Head of the request.
    pub(crate) request: &'a Parts,
    /// Parsed query.
    pub(crate) query: &'a Query<'a>,
    /// Name of the object, or of the version that the request names.
    pub(crate) name: Cow<'a, ObjectName>,
    /// Retention class of the object.
    pub(crate) retention: RetentionClass,
    /// Freshness policy: what may be served without asking the origin.
    pub(crate) trust: FreshnessPolicy,
    /// Number of the requested part.
    pub(crate) part: Option<u16>,
    /// The response includes the checksum if it has the whole object.
    pub(crate) wants_checksum: bool,
}

impl<'a> Read<'a> {
    /// # Errors
    /// The reason why the cache may not answer.
    pub(crate) fn of(
        (gateway, runtime_config): (&Gateway, &RuntimeConfig),
        (asked, judged): (&'a S3Request<'_>, &RequestAttributes),
        name: &'a ObjectName,
        (request, has_body): (&'a Parts, bool),
    ) -> Result<Self, Bypass> {
        if gateway.caching() == Caching::Off {
            return Err(BypassReason::CachingOff.into());
        }
        if has_body {
            return Err(BypassReason::RequestBody.into());
        }
        if let Some(bypass) = &judged.bypass {
            return Err(bypass.clone());
        }
        let name = match asked.query.get("versionId") {
            None => Cow::Borrowed(name),
            // Other stores have no versions, and answer such requests as they like.
            Some(_) if !gateway.origins().keep_versions(name.bucket()) => {
                return Err(BypassReason::VersionId.into());
            }
            Some(id) => Cow::Owned(name.with_version(id)),
        };
        let retention = runtime_config.keep_of(&name).retention().ok_or(BypassReason::KeepNever)?;
        let rule = runtime_config.freshness.of(&name);
        let mut trust = match asked.operation() {
            Operation::HeadObject => rule.of_head(),
            _ => rule.of_get(),
        };
        // The cache does not see a write under the other name that the origin takes this one for.
        // The version `null` is overwritten by writes that do not name it. So the origin is asked
        // at each read.
        if is_another_to_some(name.without_version()) || name.version() == Some(NULL_VERSION) {
            trust = Freshness::Revalidate.into();
        }
        if name.version().is_some() {
            // The error code of a missing version is the origin's.
            trust.absence = Nanos(0);
        }
        let (trust, retention) = CacheControl::of(&request.headers).narrow(trust, retention);
        let RequestAttributes { part, wants_checksum, .. } = *judged;
        let query = &asked.query;
        Ok(Self { request, query, name, retention, trust, part, wants_checksum })
    }

    /// Status and range for a version. `part` is the requested part, if the request asks for one.
    pub(crate) fn decide(&self, head: &Head, part: Option<&Part>, now: SystemTime) -> Decision {
        decide(&self.request.headers, head, now).of_part(part)
    }

    /// True for `only-if-cached`: refuse rather than ask the origin.
    pub(crate) fn takes_only_what_is_cached(&self) -> bool {
        self.trust.asking == OriginUse::Forbidden
    }
}
