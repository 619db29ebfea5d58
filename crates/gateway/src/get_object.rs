//! GetObject: opens a version in the cache and streams its range.
//!
//! 1. Open the object. The shard that has its head evaluates the conditions, then the range, and
//!    begins to read.
//! 2. If that version no longer exists, start again: no byte has been sent yet.
//! 3. Send the response head; the bytes follow as they arrive.

use std::ops::Range;
use std::time::SystemTime;

use zonal_base::Nanos;
use zonal_host::{Freshness, Head, HeadSource, Opened, OriginFault, ReadError, StripedRead};
use zonal_s3::S3Error;
use zonal_s3::conditions;

use crate::answer::Answer;
use crate::body::Source;
use crate::bypass::BypassReason;
use crate::error;
use crate::gateway::Gateway;
use crate::read::{NotServed, Read, outcome_of_head, unserved};
use crate::representation::{Overrides, decide, needs_origin_for_part};
use crate::stats::CacheStatus;

/// Maximum of versions that can disappear during one request. An object that changes faster than it
/// can be opened three times is answered 503.
pub(crate) const OPENS_MAX: usize = 3;

pub(crate) async fn get_object(gateway: &Gateway, read: &Read<'_>) -> Result<Answer, NotServed> {
    let overrides = Overrides::of(read.query)?;
    let (headers, now) = (&read.request.headers, SystemTime::now());
    let mut trust = read.trust;
    for _ in 0..OPENS_MAX {
        let (asked, is_first_part) = (conditions::of_read(headers), read.is_first_part);
        let range_of =
            move |opened: &Opened| match is_first_part && needs_origin_for_part(&opened.head) {
                // Reads nothing: the request goes to the origin.
                true => 0..0,
                false => decide(&asked, &opened.head, now).range(&opened.head),
            };
        let (opened, reading) = match read.takes_only_what_is_cached() {
            true => get_cached(gateway, read, range_of).await?,
            false => gateway.client().get(read.name, (trust, read.retention), range_of).await?,
        };
        read.check_parts(&opened.head)?;
        match reading {
            Ok(reading) => {
                let outcome = outcome(opened.found, reading.all_cached);
                let version = (&*opened.head, &overrides);
                return Ok(answered(read, version, reading, (outcome, now)));
            }
            // A 404 during the read means that this version is gone. The origin is asked what there
            // is now.
            Err(ReadError::Changed | ReadError::Origin(OriginFault::NotFound)) => {
                gateway.stats().versions_changed.add(1);
                // The cached head is outdated, whatever the freshness rule says.
                trust.head = Freshness::Revalidate;
                trust.stale_while_revalidate = Nanos(0);
            }
            Err(ReadError::Origin(fault)) => return Err(unserved(fault)),
            Err(ReadError::Overloaded) => return Err(S3Error::slow_down().into()),
            Err(ReadError::Gone) => return Err(NotServed::Forward(BypassReason::CacheLost)),
        }
    }
    Err(S3Error::unavailable("The object changes faster than it can be read.").into())
}

/// Response of a read for one version.
pub(crate) fn answered(
    read: &Read<'_>,
    (head, overrides): (&Head, &Overrides),
    reading: StripedRead,
    (outcome, now): (CacheStatus, SystemTime),
) -> Answer {
    let decision = read.decide(head, now);
    let range = decision.range(head);
    let described = decision.headers(head, overrides, read.wants_checksum);
    match decision.error(head) {
        Some(error) => Answer::refusal(error, described, outcome),
        None => {
            let source = Source::Object(reading, range.end - range.start);
            Answer::new(decision.status(), described, source, Some(outcome))
        }
    }
}

/// Opens and reads the object if the whole range is cached (`only-if-cached`).
async fn get_cached(
    gateway: &Gateway,
    read: &Read<'_>,
    range_of: impl FnOnce(&Opened) -> Range<u64>,
) -> Result<(Opened, Result<StripedRead, ReadError>), NotServed> {
    let client = gateway.client();
    let opened = client.open(read.name, read.trust, read.retention).await?;
    let range = range_of(&opened);
    if !client.is_cached(read.name, &opened.head, range.clone()).await {
        return Err(error::not_cached().into());
    }
    let reading = client.read(read.name, &opened.head, range, read.retention).await;
    Ok((opened, reading))
}

/// `X-Cache` value of a response with a body.
const fn outcome(found: HeadSource, all_cached: bool) -> CacheStatus {
    match found {
        HeadSource::Stale => CacheStatus::Stale,
        HeadSource::Updating => CacheStatus::Updating,
        _ if all_cached => outcome_of_head(found),
        _ => CacheStatus::Miss,
    }
}
