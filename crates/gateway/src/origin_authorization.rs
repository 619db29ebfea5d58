//! Origin authorization: the origin judges each request as its client signed it, for cached objects
//! as well.
//!
//! A signature covers the method, the host, the path, the query and the headers that it names. So
//! the gateway changes none of these. It can only add a header that the signature does not name.
//!
//! 1. The host must be one whose paths the origin reads as the gateway does. Otherwise a signature
//!    for one object could open another. All headers that must be signed are signed, because some
//!    origins obey an `x-amz-*` header that a third party added.
//! 2. A GET that the cache may answer is sent to the origin with `If-None-Match` and the cached
//!    ETag. 304 means that the client may read the object and that the cached version is current.
//!    Then the bytes come from the cache, which fetches missing ones with its own keys.
//! 3. Every other response is forwarded unchanged. So are the responses to all other requests.
//! 4. An object is invalidated once the origin has accepted a write of it.

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
use zonal_host::{Freshness, Head, ObjectName, Opened, ReadError};
use zonal_origin::PassThroughSigned;
use zonal_s3::S3Error;
use zonal_s3::{BoxBody, conditions, full_body};

use crate::access::{self, is_another_to_some};
use crate::admission::NOT_OF_ONE;
use crate::answer::Answer;
use crate::api::{Cached, Handling, RequestAttributes, may_be_a_vendors};
use crate::auth::nothing_is_added;
use crate::bypass::{Bypass, BypassReason};
use crate::concurrency_limits::Requester;
use crate::config::RuntimeConfig;
use crate::copy_source::{BadCopySource, CopySource};
use crate::delete_objects::delete_objects;
use crate::error;
use crate::fair_semaphore::ClientId;
use crate::forward::{self, failed, forward};
use crate::gateway::Gateway;
use crate::get_object::{OPENS_MAX, answered};
use crate::operation::Operation;
use crate::read::{NotServed, Read, unserved};
use crate::representation::{Overrides, decide, requested};
use crate::s3_request::S3Request;
use crate::stats::CacheStatus;
use crate::target::Target;
use crate::write::{Changes, write};

/// Carries out a request that the origin authorizes.
pub(crate) async fn carry_out(
    gateway: &Gateway,
    (runtime_config, asked): (&RuntimeConfig, &S3Request<'_>),
    (request, body): (Parts, Incoming),
    client: IpAddr,
) -> Result<Answer, S3Error> {
    let object = asked.object();
    let judged = is_ours(gateway, runtime_config, &request).and_then(|()| {
        let (api, judged) = gateway.judge(runtime_config, asked, &request)?;
        // The header cannot be dropped: the client signed it.
        if let Some(name) = judged.bypass.as_ref().and_then(|bypass| bypass.header.as_deref()) {
            return Err(error::unknown_header(name));
        }
        if let Some(name) = &judged.left_out {
            return Err(match request.headers.contains_key(&**name) {
                true => error::unknown_header(name),
                false => error::unknown_parameter(name),
            });
        }
        // A key that may do everything gains nothing from an ambiguous copy source.
        let source = judged.source.as_deref().filter(|_| !runtime_config.access.are_one());
        is_written_as_we_would(&request.headers, asked, source)?;
        nothing_is_added(&request.headers, &asked.query)?;
        access::check(&runtime_config.access, (&api, asked), object.as_ref(), &judged)?;
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
            match readable(gateway, runtime_config, (asked, &judged), (name, &request, &body)) {
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
    // The key proves nothing before the origin has checked it.
    let requester = Requester(vec![ClientId::Address(client.into())]);
    let outgoing = forward::as_signed(gateway, (bucket, requester), request, body);
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
            delete_objects(
                gateway,
                asked,
                [&runtime_config.access, &runtime_config.access],
                outgoing,
            )
            .await
        }
    }
}

/// Called after the origin has admitted the client: only a client that may read can make Zonal pay
/// for reads.
fn note_payer(gateway: &Gateway, name: &ObjectName, judged: &RequestAttributes, answer: &Answer) {
    if judged.requester_pays && answer.status.is_success() {
        gateway.origins().note_requester_pays(name.bucket());
    }
}

/// A read that the cache may answer, or the reason why it may not.
fn readable<'a>(
    gateway: &Gateway,
    runtime_config: &RuntimeConfig,
    (asked, judged): (&'a S3Request<'_>, &RequestAttributes),
    (name, request, body): (&'a ObjectName, &'a Parts, &Incoming),
) -> Result<Read<'a>, Bypass> {
    let settings = (gateway, runtime_config);
    let read = Read::of(settings, (asked, judged), name, (request, !body.is_end_stream()))?;
    if read.part.is_some() {
        return Err(BypassReason::PartNumber.into());
    }
    let is_askable = asked.operation() == Operation::GetObject
        && !is_another_to_some(name.key())
        && has_no_condition_of_ours(&request.headers);
    if is_askable { Ok(read) } else { Err(BypassReason::OriginAuthorizes.into()) }
}

/// Refuses a host that the origin could take for a bucket name when the gateway does not. An IP
/// address is safe: no bucket has such a name.
fn is_ours(
    gateway: &Gateway,
    runtime_config: &RuntimeConfig,
    request: &Parts,
) -> Result<(), S3Error> {
    let host = request.headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let is_address = |authority: &Authority| {
        // Text before an `@` is user information, and no part of the host.
        let host = if authority.as_str().contains('@') { "" } else { authority.host() };
        host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok()
    };
    let authority: Option<Authority> = host.parse().ok();
    let is_ours = authority.is_some_and(|authority| is_address(&authority))
        || gateway.origins().are_at(host)
        || runtime_config.domains.have(host);
    if is_ours { Ok(()) } else { Err(error::foreign_host()) }
}

/// Refuses headers that the gateway would otherwise drop or rewrite: a signed request is forwarded
/// unchanged.
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

/// True if `If-None-Match` can be added without changing the meaning of the request: the client
/// sent no such header, and no other condition that is answered with 304 or takes precedence.
/// `If-Match` is evaluated before it, and fails with 412.
fn has_no_condition_of_ours(headers: &HeaderMap) -> bool {
    [IF_NONE_MATCH, IF_MODIFIED_SINCE, IF_UNMODIFIED_SINCE]
        .iter()
        .all(|name| !headers.contains_key(name))
}

/// Serves the cached version if the origin lets the client read it. The inner `Err` is the reason
/// of a bypass.
async fn get(gateway: &Gateway, read: &Read<'_>) -> Result<Result<Answer, BypassReason>, S3Error> {
    let past = |reason| Ok(Err(reason));
    let Ok(overrides) = Overrides::of(read.query) else {
        return past(BypassReason::OriginAuthorizes);
    };
    // Any cached version will do, because the origin is asked about it in any case.
    let mut known = Freshness::Immutable;
    for _ in 0..OPENS_MAX {
        let opened = gateway.client().open(&read.name, known, read.retention).await;
        let head = match opened {
            Ok(Opened { head, .. }) if head.is_partial && read.wants_checksum => {
                // A HEAD request tells the checksums.
                known = Freshness::Revalidate;
                continue;
            }
            Ok(Opened { head, .. }) => head,
            Err(error) => {
                return past(match error.into() {
                    NotServed::Forward(reason) => reason,
                    NotServed::Absent | NotServed::Missing => BypassReason::NotFound,
                    // The client's own request may succeed at the origin where the cache's failed.
                    NotServed::Refuse(_) => BypassReason::OriginStatus,
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
            Err(NotServed::Refuse(error)) => return Err(error),
            Err(NotServed::Forward(reason)) => return past(reason),
            Err(NotServed::Absent | NotServed::Missing) => return past(BypassReason::NotFound),
        }
    }
    past(BypassReason::Changed)
}

/// Conditional request: the client's own request, with the cached ETag.
fn question(read: &Read<'_>, head: &Head) -> Option<Request<BoxBody>> {
    let mut parts = read.request.clone();
    parts.headers.insert(IF_NONE_MATCH, HeaderValue::from_str(&head.etag).ok()?);
    parts.extensions.insert(PassThroughSigned { bucket: read.name.bucket().into() });
    Some(Request::from_parts(parts, full_body("")))
}

/// True if a 304 is about another version than the cached one: it has another ETag, or the same
/// ETag with another date. The latter are the same bytes, written again with other headers. A weak
/// ETag with the same value counts as equal, as in the weak comparison of `If-None-Match`.
fn is_of_another(answer: &Response<BoxBody>, head: &Head) -> bool {
    let told = |name| answer.headers().get(name).map(HeaderValue::as_bytes);
    let etag = told(ETAG).map(|etag| etag.strip_prefix(b"W/").unwrap_or(etag));
    etag.is_some_and(|etag| etag != head.etag.as_bytes())
        || told(LAST_MODIFIED).is_some_and(|date| date != head.last_modified.as_bytes())
}

/// Revalidates the cached head when the origin's response shows that it is outdated, so that the
/// next reader finds the new version.
fn learn(gateway: &Gateway, read: &Read<'_>, head: &Head, answer: &Response<BoxBody>) {
    let etag = answer.headers().get(ETAG).map(HeaderValue::as_bytes);
    let is_new = answer.status().is_success() && etag.is_some_and(|e| e != head.etag.as_bytes());
    if is_new || answer.status() == StatusCode::NOT_FOUND {
        let (client, name, retention) =
            (gateway.client().clone(), read.name.clone().into_owned(), read.retention);
        tokio::spawn(
            async move { client.open(&name, Freshness::Revalidate, retention).await.is_ok() },
        );
    }
}

/// Reads the version that the origin confirmed. `None` if it is no longer the object's current
/// version.
async fn confirmed(
    gateway: &Gateway,
    read: &Read<'_>,
    head: &Arc<Head>,
    overrides: &Overrides,
) -> Result<Option<Answer>, NotServed> {
    let now = SystemTime::now();
    let (asked, wanted) = (conditions::of_read(&read.request.headers), head.clone());
    let range = requested(&asked);
    let range_of = move |head: &Head| match *head == *wanted {
        true => decide(&asked, head, now).range(head),
        false => 0..0,
    };
    let trust = (Freshness::Immutable, read.retention);
    let (opened, reading) = gateway.client().get(&read.name, trust, range, range_of).await?;
    match reading {
        _ if opened.head != *head => Ok(None),
        Ok(reading) => {
            let outcome =
                if reading.all_cached { CacheStatus::Revalidated } else { CacheStatus::Miss };
            Ok(Some(answered(read, (&opened.head, None, overrides), reading, (outcome, now))))
        }
        Err(ReadError::Changed) => Ok(None),
        Err(ReadError::Origin(fault)) if fault.is_not_found() => Ok(None),
        Err(ReadError::Origin(fault)) => Err(unserved(fault)),
        Err(ReadError::Overloaded) => Err(S3Error::slow_down().into()),
        Err(ReadError::Gone) => Err(NotServed::Forward(BypassReason::CacheLost)),
    }
}
