//! `x-amz-expected-bucket-owner`: confirms the owner of a bucket at the origin, and remembers it.
//!
//! Only the origin knows the owner of a bucket. The gateway asks with a HEAD of the object, which
//! the cache's credentials allow.
//!
//! 1. A confirmation is remembered for as long as the freshness rule allows. A denial removes it.
//! 2. A read that fetched from the origin does not use a remembered confirmation: the gateway asks
//!    the origin before it sends the response.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use http::{HeaderValue, Request, StatusCode};
use zonal_host::{Freshness, OriginUse};
use zonal_s3::S3Error;
use zonal_s3::full_body;
use zonal_s3::sigv4::{EMPTY_SHA256, encode_path};

use crate::api::RequestAttributes;
use crate::bypass::BypassReason;
use crate::error;
use crate::forward::{PAYLOAD_HASH, failed};
use crate::gateway::Gateway;
use crate::read::Read;

/// Maximum of remembered owners, of about 200 bytes each. When it is reached, all are forgotten and
/// asked about again.
const OWNERS_MAX: usize = 4096;

/// Maximum length of a remembered owner, in bytes. An AWS account id has 12 digits.
const OWNER_BYTES_MAX: usize = 64;

/// Owners that the origin confirmed lately.
#[derive(Debug, Default)]
pub(crate) struct OwnerCache(Mutex<Confirmed>);

/// Time of the confirmation, by bucket and owner.
type Confirmed = HashMap<(Box<str>, Box<str>), Instant>;

impl OwnerCache {
    fn is_known(&self, bucket: &str, owner: &str, freshness: Freshness) -> bool {
        let key = (bucket.into(), owner.into());
        let asked_at = self.all().get(&key).copied();
        asked_at.is_some_and(|asked_at| match freshness {
            Freshness::Revalidate => false,
            Freshness::Ttl(most) => asked_at.elapsed() < Duration::from_nanos(most.0),
            Freshness::Immutable => true,
        })
    }

    fn note(&self, bucket: &str, owner: &str, asked_at: Instant) {
        if OWNER_BYTES_MAX < owner.len() {
            return;
        }
        let mut all = self.all();
        if OWNERS_MAX <= all.len() {
            all.clear();
        }
        all.insert((bucket.into(), owner.into()), asked_at);
    }

    fn forget(&self, bucket: &str, owner: &str) {
        self.all().remove(&(bucket.into(), owner.into()));
    }

    fn all(&self) -> MutexGuard<'_, Confirmed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How an owner is confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Confirming {
    /// By a remembered confirmation.
    FromMemory,
    /// By asking the origin.
    Anew,
}

/// How the owner was confirmed, or why the cache may not answer.
pub(crate) type Check = Result<Confirming, BypassReason>;

/// Confirms that the bucket belongs to the account that the client expects.
///
/// # Errors
/// The origin cannot be asked, or the request forbids it (`only-if-cached`).
pub(crate) async fn check(
    gateway: &Gateway,
    read: &Read<'_>,
    (owner, judged): (&str, &RequestAttributes),
    confirming: Confirming,
) -> Result<Check, S3Error> {
    let (bucket, owners) = (read.name.bucket(), gateway.owners());
    if confirming == Confirming::FromMemory && owners.is_known(bucket, owner, read.trust.head) {
        return Ok(Ok(Confirming::FromMemory));
    }
    if read.trust.asking == OriginUse::Forbidden {
        return Err(error::not_cached());
    }
    let asked_at = Instant::now();
    let Ok(value) = HeaderValue::from_str(owner) else {
        return Ok(Err(BypassReason::BucketOwner));
    };
    let mut question = Request::head(format!("/{bucket}/{}", encode_path(read.name.key())))
        .header(PAYLOAD_HASH, EMPTY_SHA256)
        .header("x-amz-expected-bucket-owner", value);
    if judged.requester_pays || gateway.origins().is_paid(bucket) {
        question = question.header("x-amz-request-payer", "requester");
    }
    let question = question.body(full_body("")).expect("what is encoded is legal in a path");
    gateway.stats().owners_asked.add(1);
    let status = gateway.origins().forward(question).await.map_err(failed)?.status();
    if status.is_success() {
        owners.note(bucket, owner, asked_at);
        return Ok(Ok(Confirming::Anew));
    }
    // Later reads must not use the earlier confirmation.
    owners.forget(bucket, owner);
    Ok(Err(match status {
        StatusCode::NOT_FOUND => BypassReason::NotFound,
        status if status.is_server_error() => BypassReason::OriginStatus,
        _ => BypassReason::BucketOwner,
    }))
}

#[cfg(test)]
mod tests {
    use zonal_base::Nanos;

    use super::*;

    #[test]
    fn an_owner_is_remembered_for_as_long_as_freshness_allows() {
        let owners = OwnerCache::default();
        let (hour, immutable) = (Freshness::Ttl(Nanos::secs(3600)), Freshness::Immutable);
        assert!(!owners.is_known("b", "1", immutable));
        owners.note("b", "1", Instant::now());
        assert!(owners.is_known("b", "1", immutable) && owners.is_known("b", "1", hour));
        assert!(!owners.is_known("b", "1", Freshness::Revalidate));
        assert!(!owners.is_known("b", "2", immutable) && !owners.is_known("c", "1", immutable));
        owners.forget("b", "1");
        assert!(!owners.is_known("b", "1", immutable));
        let long_ago = Instant::now().checked_sub(Duration::from_secs(1)).unwrap();
        owners.note("b", "1", long_ago);
        assert!(!owners.is_known("b", "1", Freshness::Ttl(Nanos::millis(500))));
    }

    #[test]
    fn a_bounded_number_is_remembered() {
        let owners = OwnerCache::default();
        for n in 0..=OWNERS_MAX {
            owners.note("b", &n.to_string(), Instant::now());
        }
        assert_eq!(owners.all().len(), 1);
    }
}
