//! GetObject.
//!
//! 1. Open the object: which version is to be served?
//! 2. Decide from its head: conditions, then the range.
//! 3. Read the range. When the version is gone meanwhile, open again: no byte has left yet.
//! 4. Answer; the bytes follow as they come.

use std::time::SystemTime;

use zonal_base::Nanos;
use zonal_host::{Found, Freshness, Opened, OriginFault, ReadError};

use crate::body::Source;
use crate::error::S3Error;
use crate::gateway::{Answer, Gateway};
use crate::read::{Read, Unserved, open, outcome_of_head, unserved};
use crate::representation::{Decision, Overrides, decide};
use crate::stats::Outcome;

/// Versions that one request may see vanish under it. An object that changes faster than it can be
/// opened three times is answered 503.
const OPENS_MAX: usize = 3;

/// After a version vanished, what the cache knows of the object is old, whatever the rule says.
const ASK_AGAIN: Freshness = Freshness::Revalidate { window: Nanos(0) };

pub(crate) async fn get_object(gateway: &Gateway, read: &Read<'_>) -> Result<Answer, Unserved> {
    let overrides = Overrides::of(read.query)?;
    let mut freshness = gateway.config().freshness.of(read.name);
    for _ in 0..OPENS_MAX {
        let opened = open(gateway, read.name, freshness).await?;
        let decision = decide(&read.request.headers, &opened.head, SystemTime::now());
        match read_version(gateway, read, &opened, &decision).await {
            Ok((source, outcome)) => {
                let status = decision.status();
                let headers = decision.headers(&opened.head, &overrides, &read.request.headers);
                return match decision.error(&opened.head) {
                    Some(error) => Ok(Answer::refusal(error, headers, outcome)),
                    None => Ok(Answer::new(status, headers, source, Some(outcome))),
                };
            }
            // An object that is gone is a version that is gone: what there is now is for the origin to say.
            Err(ReadError::Changed | ReadError::Origin(OriginFault::NotFound)) => {
                gateway.stats().versions_changed.add(1);
                freshness = ASK_AGAIN;
            }
            Err(ReadError::Origin(fault)) => return Err(unserved(fault)),
            Err(ReadError::Overloaded) => return Err(S3Error::slow_down().into()),
            Err(ReadError::Gone) => return Err(Unserved::Forward),
        }
    }
    Err(S3Error::unavailable("The object changes faster than it can be read.").into())
}

/// The bytes of one version, and where they come from.
async fn read_version(
    gateway: &Gateway,
    read: &Read<'_>,
    opened: &Opened,
    decision: &Decision,
) -> Result<(Source, Outcome), ReadError> {
    let range = decision.range(&opened.head);
    if range.is_empty() {
        return Ok((Source::Empty, outcome_of_head(opened.found)));
    }
    let bytes = range.end - range.start;
    let reading = gateway.client().read(read.name, &opened.head, range).await?;
    let outcome = match opened.found {
        _ if !reading.all_cached => Outcome::Miss,
        Found::Hit => Outcome::Hit,
        Found::Revalidated => Outcome::Revalidated,
        Found::Miss => Outcome::Miss,
    };
    Ok((Source::Object(reading, bytes), outcome))
}
