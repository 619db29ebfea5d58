//! GetObject: opens a version in the cache and streams its range.
//!
//! 1. Open the object. The shard that has its head evaluates the conditions, then the range, and
//!    begins to read.
//! 2. If that version no longer exists, start again: no byte has been sent yet.
//! 3. Send the response head; the bytes follow as they arrive.

use std::ops::Range;
use std::time::SystemTime;

use http::HeaderMap;
use zonal_base::Nanos;
use zonal_host::{
    Freshness, FreshnessPolicy, Head, HeadSource, Opened, OriginFault, ReadError, StripedRead,
};
use zonal_s3::S3Error;
use zonal_s3::conditions;

use crate::answer::Answer;
use crate::body::Source;
use crate::bypass::{Bypass, BypassReason};
use crate::error;
use crate::gateway::Gateway;
use crate::part_ranges::{self, Part};
use crate::read::{self, NotServed, Read, outcome_of_head, unserved};
use crate::representation::{Decision, Overrides, decide, requested};
use crate::stats::CacheStatus;

/// Maximum of versions that can disappear during one request. An object that changes faster than it
/// can be opened three times is answered 503.
pub(crate) const OPENS_MAX: usize = 3;

pub(crate) async fn get_object(gateway: &Gateway, read: &Read<'_>) -> Result<Answer, NotServed> {
    let overrides = Overrides::of(read.query)?;
    let (headers, now) = (&read.request.headers, SystemTime::now());
    let mut trust = read.trust;
    for _ in 0..OPENS_MAX {
        let asked = conditions::of_read(headers);
        let (opened, part, reading) = match read.part {
            Some(number) => get_part(gateway, read, (trust, number), (asked, now)).await?,
            None => {
                let range = requested(&asked);
                let range_of = move |head: &Head| decide(&asked, head, now).range(head);
                let (opened, reading) = match read.takes_only_what_is_cached() {
                    true => get_cached(gateway, read, range_of).await?,
                    false => {
                        let trust = (trust, read.retention);
                        gateway.client().get(&read.name, trust, range, range_of).await?
                    }
                };
                (opened, None, reading)
            }
        };
        match reading {
            Ok(reading) => {
                let lacks_checksum = opened.head.is_partial
                    && read.wants_checksum
                    && part.is_none()
                    && read.decide(&opened.head, None, now) == Decision::Whole;
                let head = match lacks_checksum {
                    true => read::with_checksums(gateway, read, &opened.head).await?,
                    false => Some(opened.head),
                };
                let Some(head) = head else {
                    trust.head = Freshness::Revalidate;
                    continue;
                };
                let outcome = outcome(opened.found, reading.all_cached);
                let version = (&*head, part.as_ref(), &overrides);
                let bypass = bypass(opened.found);
                return Ok(Answer { bypass, ..answered(read, version, reading, (outcome, now)) });
            }
            // A 404 during the read means that this version is gone. The origin is asked what there
            // is now.
            Err(
                ReadError::Changed
                | ReadError::Origin(OriginFault::NotFound | OriginFault::NoSuchKey),
            ) => {
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

/// Reason why an object that was read from the origin's response is not cached.
fn bypass(found: HeadSource) -> Option<Bypass> {
    let HeadSource::Uncacheable(error) = found else { return None };
    match error.into() {
        NotServed::Forward(reason) => Some(reason.into()),
        NotServed::Absent | NotServed::Missing | NotServed::Refuse(_) => None,
    }
}

/// Response of a read for one version.
pub(crate) fn answered(
    read: &Read<'_>,
    (head, part, overrides): (&Head, Option<&Part>, &Overrides),
    reading: StripedRead,
    (outcome, now): (CacheStatus, SystemTime),
) -> Answer {
    let decision = read.decide(head, part, now);
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

/// Opens and reads one part of the object. The range of a part is known only once the version is.
async fn get_part(
    gateway: &Gateway,
    read: &Read<'_>,
    (trust, number): (FreshnessPolicy, u16),
    (asked, now): (HeaderMap, SystemTime),
) -> Result<(Opened, Option<Part>, Result<StripedRead, ReadError>), NotServed> {
    let client = gateway.client();
    let opened = client.open(&read.name, trust, read.retention).await?;
    let Some(part) = part_ranges::find(gateway, read, &opened.head, number).await? else {
        return Ok((opened, None, Err(ReadError::Changed)));
    };
    let range = decide(&asked, &opened.head, now).of_part(Some(&part)).range(&opened.head);
    let reading = read_opened(gateway, read, &opened, range).await?;
    Ok((opened, Some(part), reading))
}

/// Opens and reads the object if the whole range is cached (`only-if-cached`).
async fn get_cached(
    gateway: &Gateway,
    read: &Read<'_>,
    range_of: impl FnOnce(&Head) -> Range<u64>,
) -> Result<(Opened, Result<StripedRead, ReadError>), NotServed> {
    let client = gateway.client();
    let opened = client.open(&read.name, read.trust, read.retention).await?;
    let range = range_of(&opened.head);
    let reading = read_opened(gateway, read, &opened, range).await?;
    Ok((opened, reading))
}

/// Reads a range of an opened version; under `only-if-cached` only if all of it is cached.
async fn read_opened(
    gateway: &Gateway,
    read: &Read<'_>,
    opened: &Opened,
    range: Range<u64>,
) -> Result<Result<StripedRead, ReadError>, NotServed> {
    let client = gateway.client();
    if read.takes_only_what_is_cached()
        && !client.is_cached(&read.name, &opened.head, range.clone()).await
    {
        return Err(error::not_cached().into());
    }
    Ok(client.read(&read.name, &opened.head, range, read.retention).await)
}

/// `X-Cache` value of a response with a body.
const fn outcome(found: HeadSource, all_cached: bool) -> CacheStatus {
    match found {
        HeadSource::Stale => CacheStatus::Stale,
        HeadSource::Updating => CacheStatus::Updating,
        HeadSource::Uncacheable(_) => CacheStatus::Bypass,
        _ if all_cached => outcome_of_head(found),
        _ => CacheStatus::Miss,
    }
}
