//! Cache bypass: the reason of `X-Cache: BYPASS`, in a header, the access log, metrics and
//! warnings.
//!
//! 1. `X-Cache-Reason` and the access log contain the reason of each response.
//! 2. Counters count the responses by reason.
//! 3. A reason that the operator can remove is logged as a warning, once for each bucket (and
//!    header).

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use http::HeaderValue;

/// Why the origin answered and not the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BypassReason {
    /// The operation is neither GetObject nor HeadObject.
    Operation,
    /// The cache is switched off.
    CachingOff,
    /// A keep rule says `never`.
    KeepNever,
    /// The request names a version, and the origin keeps none, or the ID is malformed.
    VersionId,
    /// The request names a part whose range the origin does not tell.
    PartNumber,
    /// The object is encrypted with a key that the client sends (SSE-C).
    CustomerKey,
    /// The read has a vendor header that is unknown for reads.
    UnknownHeader,
    /// The read has a body.
    RequestBody,
    /// The origin does not confirm that the expected account owns the bucket.
    BucketOwner,
    /// The origin sends no strong ETag, so versions cannot be told apart.
    NoEtag,
    /// The object's headers exceed the cache's limit.
    HeadersTooLong,
    /// The object has more pieces than the cache can number.
    TooLarge,
    /// 404 with details that only the origin's response has.
    NotFound,
    /// The origin denies access to the cache's own request.
    Denied,
    /// The origin answers the cache's own request with another error status.
    OriginStatus,
    /// The object changed while it was read.
    Changed,
    /// The shard of the object has lost its device.
    CacheLost,
    /// The device of the object's shard did not answer in time.
    CacheLate,
    /// With `authorization = "origin"`: only the origin can answer this request.
    OriginAuthorizes,
    /// With `authorization = "origin"`: the origin did not confirm the cached version.
    NotConfirmed,
}

impl BypassReason {
    /// All reasons, in the order of the counters.
    pub const ALL: [Self; 20] = [
        Self::Operation,
        Self::CachingOff,
        Self::KeepNever,
        Self::VersionId,
        Self::PartNumber,
        Self::CustomerKey,
        Self::UnknownHeader,
        Self::RequestBody,
        Self::BucketOwner,
        Self::NoEtag,
        Self::HeadersTooLong,
        Self::TooLarge,
        Self::NotFound,
        Self::Denied,
        Self::OriginStatus,
        Self::Changed,
        Self::CacheLost,
        Self::CacheLate,
        Self::OriginAuthorizes,
        Self::NotConfirmed,
    ];

    /// Value of `X-Cache-Reason`, and label of the counter.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Operation => "operation",
            Self::CachingOff => "caching-off",
            Self::KeepNever => "keep-never",
            Self::VersionId => "version-id",
            Self::PartNumber => "part-number",
            Self::CustomerKey => "customer-key",
            Self::UnknownHeader => "unknown-header",
            Self::RequestBody => "request-body",
            Self::BucketOwner => "bucket-owner",
            Self::NoEtag => "no-etag",
            Self::HeadersTooLong => "headers-too-long",
            Self::TooLarge => "too-large",
            Self::NotFound => "not-found",
            Self::Denied => "denied",
            Self::OriginStatus => "origin-status",
            Self::Changed => "changed",
            Self::CacheLost => "cache-lost",
            Self::CacheLate => "cache-late",
            Self::OriginAuthorizes => "origin-authorizes",
            Self::NotConfirmed => "not-confirmed",
        }
    }

    /// Description for people.
    #[must_use]
    pub const fn explanation(self) -> &'static str {
        match self {
            Self::Operation => "only GetObject and HeadObject are cached",
            Self::CachingOff => "the cache is switched off",
            Self::KeepNever => "a keep rule says never",
            Self::VersionId => "the request names a version of an origin without versions",
            Self::PartNumber => "the request names a part whose range the origin does not tell",
            Self::CustomerKey => "the client sends its own encryption key (SSE-C)",
            Self::UnknownHeader => "the request has an unknown vendor header",
            Self::RequestBody => "the read has a body",
            Self::BucketOwner => "the origin does not confirm the expected owner of the bucket",
            Self::NoEtag => "the origin sends no strong ETag",
            Self::HeadersTooLong => "the headers of the object are too long",
            Self::TooLarge => "the object has more than 2^32 pieces",
            Self::NotFound => "there is no such bucket or version, or it is a delete marker",
            Self::Denied => "the origin refuses the cache's own request",
            Self::OriginStatus => "the origin answers the cache's own request with an error",
            Self::Changed => "the object changed while it was read",
            Self::CacheLost => "the device of the object's shard is lost",
            Self::CacheLate => "the device of the object's shard did not answer in time",
            Self::OriginAuthorizes => "only the origin can authorize this request",
            Self::NotConfirmed => "the origin did not confirm the cached version",
        }
    }

    /// True if the origin refused the cache's own request.
    pub(crate) const fn is_refusal(self) -> bool {
        matches!(self, Self::BucketOwner | Self::Denied | Self::OriginStatus)
    }

    /// Advice for the operator. `None`: nothing is wrong.
    pub(crate) const fn remedy(self) -> Option<&'static str> {
        Some(match self {
            Self::UnknownHeader => {
                "if the header does not change the response, add it to headers.harmless"
            }
            Self::NoEtag => "such objects are never cached: configure the origin to send ETags",
            Self::HeadersTooLong => "the cache keeps 16 KiB of headers for an object",
            Self::TooLarge => "configure a larger chunk size for these objects",
            Self::VersionId => "only S3 endpoints keep versions: configure the client to name none",
            Self::PartNumber => "configure the client to read ranges",
            Self::CustomerKey => "SSE-C objects are not cached",
            Self::RequestBody => "configure the client to send no body with a GET",
            Self::BucketOwner => {
                "correct the expected owner in the client: the account that owns the bucket at the origin"
            }
            Self::Denied => {
                "allow s3:GetObject for Zonal's credentials at the origin; in a requester-pays bucket the client must send \
                 x-amz-request-payer"
            }
            Self::OriginStatus => "check the errors of the origin",
            Self::Operation
            | Self::CachingOff
            | Self::KeepNever
            | Self::NotFound
            | Self::Changed
            | Self::CacheLost
            | Self::CacheLate
            | Self::OriginAuthorizes
            | Self::NotConfirmed => return None,
        })
    }
}

/// Reason of one response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bypass {
    pub(crate) reason: BypassReason,
    /// Name of the unknown header.
    pub(crate) header: Option<Box<str>>,
}

impl From<BypassReason> for Bypass {
    fn from(reason: BypassReason) -> Self {
        Self { reason, header: None }
    }
}

impl Bypass {
    /// A long name is truncated.
    pub(crate) fn unknown_header(name: &str) -> Self {
        let shown = name.get(..HEADER_NAME_BYTES_SHOWN).unwrap_or(name);
        Self { reason: BypassReason::UnknownHeader, header: Some(shown.into()) }
    }

    /// Value of `X-Cache-Reason`.
    pub(crate) fn to_header(&self) -> HeaderValue {
        let name = || HeaderValue::from_static(self.reason.name());
        match &self.header {
            None => name(),
            Some(header) => {
                HeaderValue::from_str(&format!("{}; name={header}", self.reason.name()))
                    .unwrap_or_else(|_| name())
            }
        }
    }
}

/// Longest part of a header name that is shown. Header names are about 30 bytes long.
const HEADER_NAME_BYTES_SHOWN: usize = 128;

/// Warnings that are remembered, to avoid repetition: 256 of about 200 bytes each. Further ones are
/// only counted.
const WARNINGS_MAX: usize = 256;

/// Warnings about unknown headers for one bucket, because clients can send any number of them.
const HEADERS_OF_BUCKET_MAX: usize = 8;

/// Set of the warnings that were logged.
#[derive(Debug, Default)]
pub(crate) struct Warnings(Mutex<HashSet<WarningKey>>);

/// Reason, bucket and header.
type WarningKey = (&'static str, Box<str>, Option<Box<str>>);

impl Warnings {
    /// Logs a warning for a reason with a remedy, once for each bucket.
    pub(crate) fn note(&self, bypass: &Bypass, bucket: &str) {
        let Some(remedy) = bypass.reason.remedy() else { return };
        if self.is_first(bypass, bucket) {
            tracing::warn!(
                bucket,
                reason = bypass.reason.name(),
                header = bypass.header.as_deref(),
                remedy,
                "reads bypass the cache: {}",
                bypass.reason.explanation()
            );
        }
    }

    fn is_first(&self, bypass: &Bypass, bucket: &str) -> bool {
        let mut given = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (bypass.reason.name(), Box::from(bucket), bypass.header.clone());
        if WARNINGS_MAX <= given.len() || given.contains(&key) {
            return false;
        }
        let alike = given.iter().filter(|other| (other.0, &other.1) == (key.0, &key.1)).count();
        alike < HEADERS_OF_BUCKET_MAX && given.insert(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_its_counter_and_a_name_of_its_own() {
        let names: HashSet<_> = BypassReason::ALL.iter().map(|reason| reason.name()).collect();
        assert_eq!(names.len(), BypassReason::ALL.len());
        for (n, reason) in BypassReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, n);
        }
    }

    #[test]
    fn a_warning_is_given_once_for_a_reason_and_bucket() {
        let warnings = Warnings::default();
        let no_etag = BypassReason::NoEtag.into();
        assert!(warnings.is_first(&no_etag, "b") && !warnings.is_first(&no_etag, "b"));
        assert!(warnings.is_first(&no_etag, "c"));
        let unknown = Bypass::unknown_header("x-amz-a");
        assert!(warnings.is_first(&unknown, "b") && !warnings.is_first(&unknown, "b"));
        assert!(warnings.is_first(&Bypass::unknown_header("x-amz-b"), "b"));
        let more = (0..20).map(|n| Bypass::unknown_header(&format!("x-amz-more-{n}")));
        let warned = more.filter(|unknown| warnings.is_first(unknown, "b")).count();
        assert_eq!(warned, HEADERS_OF_BUCKET_MAX - 2);
        for n in 0..2 * WARNINGS_MAX {
            warnings.is_first(&no_etag, &n.to_string());
        }
        assert!(!warnings.is_first(&no_etag, "one more"));
    }

    #[test]
    fn the_header_says_the_reason_and_what_it_is_about() {
        assert_eq!(Bypass::from(BypassReason::NoEtag).to_header(), "no-etag");
        assert_eq!(
            Bypass::unknown_header("x-amz-new").to_header(),
            "unknown-header; name=x-amz-new"
        );
        let endless = format!("x-amz-{}", "n".repeat(10_000));
        assert!(Bypass::unknown_header(&endless).to_header().len() < 200);
    }
}
