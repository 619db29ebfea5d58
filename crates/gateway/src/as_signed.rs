//! Origin authorization: the origin judges each request as its client signed it, cached objects included.
//!
//! A signature covers the method, the host, the path, the query and the headers that it names. So nothing of that is
//! changed on the way; what can be added is a header that it does not name.
//!
//! 1. The host must be one whose paths the origin reads as we do. Otherwise a signature for one object could open another.
//!    And all that must be signed is: some origins take an `x-amz-*` that somebody else added.
//! 2. A GET of what the cache may answer is sent with `If-None-Match` added: the version that is cached. 304 says that its
//!    client may have it, and that it is the current one; then its bytes come from the cache. It is for the cache to fetch
//!    what it lacks, with keys of its own.
//! 3. Every other answer is handed on as it is. So is what the origin says to all other requests.
//! 4. What is cached of an object goes when the origin has accepted a write of it.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::SystemTime;

use http::header::{
    ETAG, HOST, HeaderMap, HeaderName, HeaderValue, IF_MODIFIED_SINCE, IF_NONE_MATCH,
    IF_UNMODIFIED_SINCE, LAST_MODIFIED,
};
use http::request::Parts;
use http::uri::Authority;
use http::{Request, Response, StatusCode};
use hyper::body::{Body, Incoming};
use zonal_host::{Freshness, Head, ObjectName, Opened, OriginFault, ReadError};
use zonal_origin::AsSigned;
use zonal_s3::S3Error;
use zonal_s3::{BoxBody, conditions, full_body};

use crate::access::{self, is_another_to_some};
use crate::answer::Answer;
use crate::api::{Cached, Handling, Judged, may_be_a_vendors};
use crate::asked::S3Request;
use crate::auth::nothing_is_added;
use crate::bypass::{Bypass, BypassReason};
use crate::config::Terms;
use crate::copy_source::{BadCopySource, CopySource};
use crate::delete_objects::delete_objects;
use crate::error;
use crate::forward::{self, failed, forward};
use crate::gateway::{Gateway, NOT_OF_ONE};
use crate::get_object::{OPENS_MAX, answered};
use crate::operation::Operation;
use crate::read::{Read, Unserved, unserved};
use crate::representation::{Overrides, decide};
use crate::stats::Outcome;
use crate::target::Target;
use crate::write::{Changes, write};

/// Carries a request out that the origin judges.
pub(crate) async fn carry_out(
    gateway: &Gateway,
    (terms, asked): (&Terms, &S3Request<'_>),
    request: Parts,
    body: Incoming,
) -> Result<Answer, S3Error> {
    let object = asked.object();
    let judged = is_ours(gateway, terms, &request).and_then(|()| {
        let (api, judged) = gateway.judge(terms, asked, &request)?;
        // It cannot be left out: the client signed it.
        if let Some(name) = judged.bypass.as_ref().and_then(|bypass| bypass.header.as_deref()) {
            return Err(error::unknown_header(name));
        }
        if let Some(name) = &judged.left_out {
            return Err(match request.headers.contains_key(&**name) {
                true => error::unknown_header(name),
                false => error::unknown_parameter(name),
            });
        }
        // Where all may be done there is nothing that a copy could be wrong about.
        let source = judged.source.as_deref().filter(|_| !terms.access.are_one());
        is_written_as_we_would(&request.headers, asked, source)?;
        nothing_is_added(&request.headers, &asked.query)?;
        access::check(&terms.access, (&api, asked), object.as_ref(), &judged)?;
        if let Some(bad) = judged.bad_source {
            return Err(error::bad_copy_source(bad));
        }
        Ok((api, judged))
    });
    let (api, judged) = judged.inspect_err(|error| gateway.stats().count_refusal(error.code))?;
    gateway.check_origins(asked, &judged, &request)?;
    let bucket = match &asked.target {
        Target::Object { bucket, .. } | Target::Bucket(bucket) => &**bucket,
        Target::Service if gateway.origins().is_one() => "",
        Target::Service => return Err(S3Error::not_implemented(NOT_OF_ONE)),
    };
    let bypass = match &object {
        Some(name) if api.cached == Cached::Answers => {
            match readable(gateway, terms, (asked, &judged), (name, &request, &body)) {
                Ok(read) => match get(gateway, &read).await? {
                    Ok(answer) => {
                        note_payer(gateway, name, &judged, &answer);
                        return Ok(answer);
                    }
                    Err(reason) => reason.into(),
                },
                Err(bypass) => bypass,
            }
        }
        _ => BypassReason::Operation.into(),
    };
    let outgoing = forward::as_signed(gateway, bucket, request, body);
    match api.handling {
        Handling::Serve | Handling::Gather | Handling::Forward => {
            let answer = forward(gateway, outgoing, bypass).await?;
            if let Some(name) = object.as_ref().filter(|_| api.cached == Cached::Answers) {
                note_payer(gateway, name, &judged, &answer);
                gateway.note_bypass(name, &answer);
            }
            Ok(answer)
        }
        Handling::Write => {
            let changes = Changes::of(&api, asked, outgoing.headers());
            write(gateway, outgoing, (changes, None), None).await
        }
        Handling::DeleteObjects => {
            delete_objects(gateway, asked, [&terms.access, &terms.access], outgoing).await
        }
    }
}

/// Only who may read can have us pay: the origin has let the client in.
fn note_payer(gateway: &Gateway, name: &ObjectName, judged: &Judged, answer: &Answer) {
    if judged.requester_pays && answer.status.is_success() {
        gateway.origins().note_requester_pays(name.bucket());
    }
}

/// A read whose bytes may come from the cache, or why they may not.
fn readable<'a>(
    gateway: &Gateway,
    terms: &Terms,
    (asked, judged): (&'a S3Request<'_>, &Judged),
    (name, request, body): (&'a ObjectName, &'a Parts, &Incoming),
) -> Result<Read<'a>, Bypass> {
    let terms = (terms, gateway.caching());
    let read = Read::of(terms, (asked, judged), name, (request, !body.is_end_stream()))?;
    if read.is_first_part {
        return Err(BypassReason::PartNumber.into());
    }
    let is_askable = asked.operation() == Operation::GetObject
        && !is_another_to_some(name.key())
        && has_no_condition_of_ours(&request.headers);
    if is_askable { Ok(read) } else { Err(BypassReason::OriginAuthorizes.into()) }
}

/// Refuses a host that the origin could take for the name of a bucket where we take it for nothing. No bucket is
/// called like an IP address.
fn is_ours(gateway: &Gateway, terms: &Terms, request: &Parts) -> Result<(), S3Error> {
    let host = request.headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let is_address = |authority: &Authority| {
        // What stands before an @ is no part of a host.
        let host = if authority.as_str().contains('@') { "" } else { authority.host() };
        host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok()
    };
    let authority: Option<Authority> = host.parse().ok();
    let is_ours = authority.is_some_and(|authority| is_address(&authority))
        || gateway.origins().are_at(host)
        || terms.domains.have(host);
    if is_ours { Ok(()) } else { Err(error::foreign_host()) }
}

/// What would be written anew or dropped cannot be here: it is refused.
fn is_written_as_we_would(
    headers: &HeaderMap,
    asked: &S3Request<'_>,
    source: Option<&CopySource>,
) -> Result<(), S3Error> {
    // Some servers take an underscore for a hyphen.
    let mut names = headers.keys().map(HeaderName::as_str);
    if let Some(name) = names.find(|name| may_be_a_vendors(name)) {
        return Err(error::unknown_header(name));
    }
    let Some(source) = source else { return Ok(()) };
    let in_header = headers.get(COPY_SOURCE).map(HeaderValue::as_bytes);
    let in_query = asked.query.iter().find(|(name, _)| name.eq_ignore_ascii_case(COPY_SOURCE));
    let written = in_header.or(in_query.map(|(_, value)| value.as_bytes()));
    let written = written.map(|written| written.strip_prefix(b"/").unwrap_or(written));
    match written == Some(source.to_header().as_bytes()) {
        true => Ok(()),
        false => Err(error::bad_copy_source(BadCopySource::Form)),
    }
}

const COPY_SOURCE: &str = "x-amz-copy-source";

/// Whether `If-None-Match` can be added and means what it says: the client sent none, and nothing else that is
/// answered 304 or outranks it. `If-Match` is judged before it, and refused with 412.
fn has_no_condition_of_ours(headers: &HeaderMap) -> bool {
    [IF_NONE_MATCH, IF_MODIFIED_SINCE, IF_UNMODIFIED_SINCE]
        .iter()
        .all(|name| !headers.contains_key(name))
}

/// Serves what is cached, if the origin lets the client have it. `Err` within says why that cannot be found out.
async fn get(gateway: &Gateway, read: &Read<'_>) -> Result<Result<Answer, BypassReason>, S3Error> {
    let past = |reason| Ok(Err(reason));
    let Ok(overrides) = Overrides::of(read.query) else {
        return past(BypassReason::OriginAuthorizes);
    };
    // Whatever is known: the origin is asked about it in any case.
    let mut known = Freshness::Immutable;
    for _ in 0..OPENS_MAX {
        let opened = gateway.client().open(read.name, known, read.care).await;
        let head = match opened {
            Ok(Opened { head, .. }) => head,
            Err(error) => {
                return past(match error.into() {
                    Unserved::Forward(reason) => reason,
                    Unserved::Absent => BypassReason::NotFound,
                    // The origin itself may fare better with the client's own request.
                    Unserved::Refuse(_) => BypassReason::OriginStatus,
                });
            }
        };
        let Some(question) = question(read, &head) else { return past(BypassReason::NoEtag) };
        let answer = Box::pin(gateway.origins().forward(question)).await.map_err(failed)?;
        if answer.status() != StatusCode::NOT_MODIFIED {
            learn(gateway, read, &head, &answer);
            return Ok(Ok(forward::handed_on(answer, BypassReason::NotConfirmed.into())));
        }
        gateway.stats().confirmations.add(1);
        known = Freshness::Revalidate;
        if is_of_another(&answer, &head) {
            continue;
        }
        match confirmed(gateway, read, &head, &overrides).await {
            Ok(Some(answer)) => return Ok(Ok(answer)),
            Ok(None) => gateway.stats().versions_changed.add(1),
            Err(Unserved::Refuse(error)) => return Err(error),
            Err(Unserved::Forward(reason)) => return past(reason),
            Err(Unserved::Absent) => return past(BypassReason::NotFound),
        }
    }
    past(BypassReason::Changed)
}

/// The client's own request, which asks whether it may have this version.
fn question(read: &Read<'_>, head: &Head) -> Option<Request<BoxBody>> {
    let mut parts = read.request.clone();
    parts.headers.insert(IF_NONE_MATCH, HeaderValue::from_str(&head.etag).ok()?);
    parts.extensions.insert(AsSigned { bucket: read.name.bucket().into() });
    Some(Request::from_parts(parts, full_body("")))
}

/// Whether a 304 speaks of another version than it was asked about: of one with another ETag, or with the same ETag and
/// another date, which is the same bytes, written anew with other headers. A weak ETag of the same words is the same: so
/// `If-None-Match` is compared.
fn is_of_another(answer: &Response<BoxBody>, head: &Head) -> bool {
    let told = |name| answer.headers().get(name).map(HeaderValue::as_bytes);
    let etag = told(ETAG).map(|etag| etag.strip_prefix(b"W/").unwrap_or(etag));
    etag.is_some_and(|etag| etag != head.etag.as_bytes())
        || told(LAST_MODIFIED).is_some_and(|date| date != head.last_modified.as_bytes())
}

/// What the origin has is not what was cached: the next reader shall find the new version, or none.
fn learn(gateway: &Gateway, read: &Read<'_>, head: &Head, answer: &Response<BoxBody>) {
    let etag = answer.headers().get(ETAG).map(HeaderValue::as_bytes);
    let is_new = answer.status().is_success() && etag.is_some_and(|e| e != head.etag.as_bytes());
    if is_new || answer.status() == StatusCode::NOT_FOUND {
        let (client, name, care) = (gateway.client().clone(), read.name.clone(), read.care);
        tokio::spawn(async move { client.open(&name, Freshness::Revalidate, care).await.is_ok() });
    }
}

/// Reads the version that the origin confirmed. `None` when it is not the object's any more.
async fn confirmed(
    gateway: &Gateway,
    read: &Read<'_>,
    head: &Arc<Head>,
    overrides: &Overrides,
) -> Result<Option<Answer>, Unserved> {
    let now = SystemTime::now();
    let (asked, wanted) = (conditions::of_read(&read.request.headers), head.clone());
    let range_of = move |opened: &Opened| match opened.head == wanted {
        true => decide(&asked, &opened.head, now).range(&opened.head),
        false => 0..0,
    };
    let trust = (Freshness::Immutable, read.care);
    let (opened, reading) = gateway.client().get(read.name, trust, range_of).await?;
    match reading {
        _ if opened.head != *head => Ok(None),
        Ok(reading) => {
            let outcome = if reading.all_cached { Outcome::Revalidated } else { Outcome::Miss };
            Ok(Some(answered(read, (&opened.head, overrides), reading, (outcome, now))))
        }
        Err(ReadError::Changed | ReadError::Origin(OriginFault::NotFound)) => Ok(None),
        Err(ReadError::Origin(fault)) => Err(unserved(fault)),
        Err(ReadError::Overloaded) => Err(S3Error::slow_down().into()),
        Err(ReadError::Gone) => Err(Unserved::Forward(BypassReason::CacheLost)),
    }
}
