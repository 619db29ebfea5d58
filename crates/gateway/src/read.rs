//! Object reads, shared by GetObject and HeadObject: which requests the cache may answer, and what happens to the
//! others.

use std::time::SystemTime;

use http::request::Parts;
use zonal_base::Nanos;
use zonal_host::{
    Asking, Care, Freshness, Head, HeadSource, LookupError, ObjectName, OriginFault, Trust,
};
use zonal_s3::Query;
use zonal_s3::S3Error;
use zonal_s3::sigv4::EMPTY_SHA256;

use crate::access::is_another_to_some;
use crate::api::Judged;
use crate::asked::S3Request;
use crate::auth::Payload;
use crate::bypass::{Bypass, BypassReason};
use crate::cache_control::CacheControl;
use crate::config::{Caching, Terms};
use crate::error;
use crate::operation::Operation;
use crate::representation::{Decision, decide, needs_origin_for_part};
use crate::stats::Outcome;

/// Why a read is not answered from the cache.
#[derive(Debug)]
pub(crate) enum Unserved {
    /// Let the origin answer: it knows the exact words.
    Forward(BypassReason),
    /// There is no such object, as the origin said lately.
    Absent,
    /// Answer this.
    Refuse(S3Error),
}

impl From<S3Error> for Unserved {
    fn from(error: S3Error) -> Self {
        Self::Refuse(error)
    }
}

/// A read has no body. S3 holds the client to that: the stated hash must be that of nothing.
pub(crate) fn check_payload(payload: &Payload) -> Result<(), S3Error> {
    match payload {
        Payload::Unsigned(_) | Payload::Empty => Ok(()),
        Payload::Sha256(hash) => Err(S3Error::wrong_payload_hash(hash, EMPTY_SHA256)),
        Payload::Chunks(..) => Err(S3Error::invalid_payload_hash()),
    }
}

impl From<LookupError> for Unserved {
    fn from(error: LookupError) -> Self {
        match error {
            // The origin's own words for it are better than any that we could choose.
            LookupError::NotFound => Self::Forward(BypassReason::NotFound),
            LookupError::NoEtag => Self::Forward(BypassReason::NoEtag),
            LookupError::HeadersTooLong => Self::Forward(BypassReason::HeadersTooLong),
            LookupError::Gone => Self::Forward(BypassReason::CacheLost),
            LookupError::Absent => Self::Absent,
            LookupError::NotKnown => error::not_cached().into(),
            LookupError::Origin(fault) => unserved(fault),
            LookupError::Overloaded => S3Error::slow_down().into(),
        }
    }
}

/// What to do when the origin gave the cache nothing. What it refused, it may refuse to the client itself.
pub(crate) fn unserved(fault: OriginFault) -> Unserved {
    let said = || fault.to_string();
    match fault {
        OriginFault::NotFound => Unserved::Forward(BypassReason::NotFound),
        OriginFault::Denied => Unserved::Forward(BypassReason::Denied),
        OriginFault::Changed => Unserved::Forward(BypassReason::Changed),
        OriginFault::Status(status) if status < 500 => {
            Unserved::Forward(BypassReason::OriginStatus)
        }
        OriginFault::Busy => S3Error::slow_down().into(),
        OriginFault::Lied | OriginFault::Status(_) => error::bad_gateway(said()).into(),
        OriginFault::Unreachable | OriginFault::Broken => S3Error::unavailable(said()).into(),
    }
}

/// What `X-Cache` says of an answer for which only the head was needed.
pub(crate) const fn outcome_of_head(found: HeadSource) -> Outcome {
    match found {
        HeadSource::Hit => Outcome::Hit,
        HeadSource::Revalidated => Outcome::Revalidated,
        HeadSource::Miss => Outcome::Miss,
        HeadSource::Stale => Outcome::Stale,
    }
}

/// The parts of a read that its operation looks at.
pub(crate) struct Read<'a> {
    /// The head of the request.
    pub(crate) request: &'a Parts,
    /// Its query.
    pub(crate) query: &'a Query<'a>,
    /// The object.
    pub(crate) name: &'a ObjectName,
    /// What the cache is to make of it.
    pub(crate) care: Care,
    /// What is served without asking the origin.
    pub(crate) trust: Trust,
    /// It asks for the first part.
    pub(crate) is_first_part: bool,
    /// The answer tells the checksum, where it is the whole object.
    pub(crate) wants_checksum: bool,
}

impl<'a> Read<'a> {
    /// # Errors
    /// Why the cache is not asked.
    pub(crate) fn of(
        (terms, caching): (&Terms, Caching),
        (asked, judged): (&'a S3Request<'_>, &Judged),
        name: &'a ObjectName,
        (request, has_body): (&'a Parts, bool),
    ) -> Result<Self, Bypass> {
        if caching == Caching::Off {
            return Err(BypassReason::CachingOff.into());
        }
        if has_body {
            return Err(BypassReason::RequestBody.into());
        }
        if let Some(bypass) = &judged.bypass {
            return Err(bypass.clone());
        }
        let care = terms.keep_of(name).care().ok_or(BypassReason::KeepNever)?;
        let rule = terms.freshness.of(name);
        let mut trust = match asked.operation() {
            Operation::HeadObject => rule.of_head(),
            _ => rule.of_get(),
        };
        if is_another_to_some(name.as_str()) {
            // A write of the name that the origin takes it for would not be seen: it is asked each time.
            trust = Trust { absence: Nanos(0), stale: Nanos(0), ..Freshness::Revalidate.into() };
        }
        let (trust, care) = CacheControl::of(&request.headers).narrow(trust, care);
        let Judged { is_first_part, wants_checksum, .. } = *judged;
        let query = &asked.query;
        Ok(Self { request, query, name, care, trust, is_first_part, wants_checksum })
    }

    /// What it gets of a version.
    pub(crate) fn decide(&self, head: &Head, now: SystemTime) -> Decision {
        let decision = decide(&self.request.headers, head, now);
        if self.is_first_part { decision.of_part() } else { decision }
    }

    /// Refuses a first part that only the origin can answer for.
    pub(crate) fn check_parts(&self, head: &Head) -> Result<(), Unserved> {
        match self.is_first_part && needs_origin_for_part(head) {
            true => Err(Unserved::Forward(BypassReason::PartNumber)),
            false => Ok(()),
        }
    }

    /// What is not there without the origin is refused.
    pub(crate) fn takes_only_what_is_cached(&self) -> bool {
        self.trust.asking == Asking::Forbidden
    }
}
