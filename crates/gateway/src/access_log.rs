//! Access log: one entry per request, handed to a writer.
//!
//! 1. A [`PendingEntry`] is created with the head of a request, records the response, and is
//!    completed when the response body ends: sent, cut, or abandoned by the client.
//! 2. The entry waits in a bounded queue for the writer. A full queue drops the entry and counts
//!    it: no request ever waits for the log.
//!
//! An entry contains no secret and no signature: of the headers only those named here, of the query
//! everything but the values that sign it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant, SystemTime};

use http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_RANGE, HOST, REFERER, USER_AGENT};
use http::request::Parts;
use http::{HeaderMap, HeaderName, Method, StatusCode};
use zonal_origin::Counter;

use crate::domains::Domains;
use crate::operation::Operation;
use crate::request_id::RequestId;
use crate::s3_request::S3Request;
use crate::stats::CacheStatus;
use crate::target::Target;

/// Queue length, in entries: at 20,000 requests a second this bridges 0.4 s of a stalled disk. At
/// 600 bytes each, 5 MB.
const LINES_MAX: usize = 8192;

/// Access log entry of one request.
#[derive(Clone, Debug)]
pub struct AccessEntry {
    /// Time when the head of the request was complete.
    pub at: SystemTime,
    /// Request id of the gateway, as in `x-amz-request-id`.
    pub request_id: Box<str>,
    /// Address of the peer: the client, or the proxy in front of the gateway.
    pub client: SocketAddr,
    /// `X-Forwarded-For`. Any client can set it, so it proves nothing.
    pub forwarded_for: Option<Box<str>>,
    /// `Host` header.
    pub host: Option<Box<str>>,
    /// Access key of the request, whether or not its signature is right.
    pub access_key: Option<Box<str>>,
    /// S3 operation.
    pub operation: Operation,
    /// HTTP method.
    pub method: Method,
    /// Bucket. Empty for a request to the service, and if the path cannot be parsed.
    pub bucket: Box<str>,
    /// Object key, decoded. Empty if the request names no object.
    pub key: Box<str>,
    /// Path as the client wrote it.
    pub path: Box<str>,
    /// Query as the client wrote it, without the values that sign it.
    pub query: Option<Box<str>>,
    /// HTTP status. `None`: the client disconnected before there was a response.
    pub status: Option<StatusCode>,
    /// S3 error code of a refusal, if it is known.
    pub error_code: Option<Box<str>>,
    /// Value of `X-Cache`.
    pub outcome: Option<CacheStatus>,
    /// Value of `X-Cache-Reason`: why the read bypassed the cache.
    pub bypass: Option<Box<str>>,
    /// Bytes of the response body that were handed to the connection.
    pub sent_bytes: u64,
    /// Size of the whole object in bytes, if the response tells it.
    pub object_bytes: Option<u64>,
    /// Version id of the response, or else of the request.
    pub version_id: Option<Box<str>>,
    /// True if the response body broke off because the rest was not available.
    pub is_cut: bool,
    /// Time from the request head to the response head.
    pub first_byte: Option<Duration>,
    /// Time from the request head until the last byte was handed to the connection, or the client
    /// disconnected.
    pub total: Duration,
    /// `User-Agent` header.
    pub user_agent: Option<Box<str>>,
    /// `Referer` header, without the values that sign a URL.
    pub referer: Option<Box<str>>,
    /// Trace context of the client: W3C `traceparent`.
    pub trace: Option<Trace>,
}

/// W3C trace context, in lower-case hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Trace id: 32 digits.
    pub trace_id: Box<str>,
    /// Span id of the client's call to the gateway: 16 digits.
    pub span_id: Box<str>,
}

/// Message to the writer of the log.
#[derive(Debug)]
pub enum AccessEvent {
    /// Write this entry.
    Entry(Box<AccessEntry>),
    /// The file was rotated: open a new one.
    Reopen,
    /// The log has ended: stop.
    End,
}

/// Access log, sender side. Cheap to clone.
#[derive(Clone, Debug)]
pub struct AccessLog {
    to: SyncSender<AccessEvent>,
    lost: Arc<Counter>,
    /// A [`AccessEvent::Reopen`] found the queue full.
    must_reopen: Arc<AtomicBool>,
}

/// Access log, receiver side, for the writer.
#[derive(Debug)]
pub struct AccessEvents {
    from: Receiver<AccessEvent>,
    must_reopen: Arc<AtomicBool>,
}

impl AccessLog {
    /// Creates a log: the sender for the gateway, and the receiver for the writer.
    #[must_use]
    pub fn new() -> (Self, AccessEvents) {
        let (to, from) = sync_channel(LINES_MAX);
        let must_reopen = Arc::<AtomicBool>::default();
        let log = Self { to, lost: Arc::default(), must_reopen: must_reopen.clone() };
        (log, AccessEvents { from, must_reopen })
    }

    /// Entries that were lost: dropped by a full queue, or not written by the writer, which adds
    /// them to this counter.
    #[must_use]
    pub fn lost(&self) -> &Arc<Counter> {
        &self.lost
    }

    /// Makes the writer reopen its file.
    pub fn reopen(&self) {
        // A writer that has ended has no file to reopen.
        if let Err(TrySendError::Full(_)) = self.to.try_send(AccessEvent::Reopen) {
            self.must_reopen.store(true, Ordering::Relaxed);
        }
    }

    /// Makes the writer stop after it has written the queued entries. False if the queue has no
    /// room now.
    #[must_use]
    pub fn end(&self) -> bool {
        !matches!(self.to.try_send(AccessEvent::End), Err(TrySendError::Full(_)))
    }

    /// Creates the entry of a request.
    pub(crate) fn begin(
        &self,
        (id, client): (RequestId, SocketAddr),
        request: &Parts,
        domains: &Domains,
    ) -> Box<PendingEntry> {
        let header = |name: HeaderName| Some(text(request.headers.get(name)?.as_bytes()));
        let asked = S3Request::of(domains, &request.uri, request);
        let (operation, bucket, key) =
            match asked.as_ref().map(|asked| (asked.operation(), &asked.target)) {
                Ok((operation, Target::Object { bucket, key })) => (operation, &**bucket, &**key),
                Ok((operation, Target::Bucket(bucket))) => (operation, &**bucket, ""),
                Ok((operation, Target::Service)) => (operation, "", ""),
                Err(_) => (Operation::Other, "", ""),
            };
        let query = request.uri.query();
        let entry = AccessEntry {
            at: SystemTime::now(),
            request_id: id.as_str().into(),
            client,
            forwarded_for: header(FORWARDED_FOR),
            host: header(HOST),
            access_key: access_key(request),
            operation,
            method: request.method.clone(),
            bucket: bucket.into(),
            key: key.into(),
            path: request.uri.path().into(),
            query: query.map(unsigned),
            status: None,
            error_code: None,
            outcome: None,
            bypass: None,
            sent_bytes: 0,
            object_bytes: None,
            version_id: query.and_then(|query| parameter(query, "versionId")).map(Into::into),
            is_cut: false,
            first_byte: None,
            total: Duration::ZERO,
            user_agent: header(USER_AGENT),
            referer: header(REFERER).map(|url| unsigned_url(&url)),
            trace: request.headers.get(TRACE_PARENT).and_then(|value| Trace::of(value.as_bytes())),
        };
        Box::new(PendingEntry {
            entry: Some(Box::new(entry)),
            log: self.clone(),
            since: Instant::now(),
        })
    }
}

impl AccessEvents {
    /// The next message; `None` if the queue is empty.
    #[must_use]
    pub fn try_next(&self) -> Option<AccessEvent> {
        if self.must_reopen.swap(false, Ordering::Relaxed) {
            return Some(AccessEvent::Reopen);
        }
        self.from.try_recv().ok()
    }

    /// Waits for the next message.
    #[must_use]
    pub fn next(&self) -> AccessEvent {
        self.from.recv().unwrap_or(AccessEvent::End)
    }
}

/// Entry of a running request. Dropping it sends it to the writer.
#[derive(Debug)]
pub(crate) struct PendingEntry {
    entry: Option<Box<AccessEntry>>,
    log: AccessLog,
    since: Instant,
}

impl PendingEntry {
    /// Records the head of the response.
    pub(crate) fn answered(
        &mut self,
        (status, headers): (StatusCode, &HeaderMap),
        code: Option<&str>,
        outcome: Option<CacheStatus>,
    ) {
        let first_byte = self.since.elapsed();
        let Some(entry) = &mut self.entry else { return };
        entry.status = Some(status);
        entry.error_code = code.map(Into::into);
        entry.outcome = outcome;
        entry.bypass = match outcome {
            Some(CacheStatus::Bypass) => headers.get(REASON).map(|reason| text(reason.as_bytes())),
            _ => None,
        };
        entry.object_bytes = object_bytes(entry.operation, status, headers);
        if let Some(version) = headers.get(VERSION_ID) {
            entry.version_id = Some(text(version.as_bytes()));
        }
        entry.first_byte = Some(first_byte);
    }

    /// Records the bytes of the body that were handed to the connection so far.
    pub(crate) fn sent(&mut self, bytes: u64) {
        self.entry.iter_mut().for_each(|entry| entry.sent_bytes = bytes);
    }

    /// Records that the rest of the body is not available.
    pub(crate) fn cut(&mut self) {
        self.entry.iter_mut().for_each(|entry| entry.is_cut = true);
    }
}

impl Drop for PendingEntry {
    fn drop(&mut self) {
        let Some(mut entry) = self.entry.take() else { return };
        entry.total = self.since.elapsed();
        match self.log.to.try_send(AccessEvent::Entry(entry)) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => self.log.lost.add(1),
        }
    }
}

impl Trace {
    /// Parses `VERSION-TRACE-SPAN-FLAGS`. `None` for a value that is invalid by the W3C
    /// specification.
    fn of(value: &[u8]) -> Option<Self> {
        let value = str::from_utf8(value).ok()?;
        let mut parts = value.trim().split('-');
        let (version, trace_id, span_id) = (parts.next()?, parts.next()?, parts.next()?);
        let flags = parts.next()?;
        let is_hex = |text: &str, digits: usize| {
            let legal = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
            text.len() == digits && text.bytes().all(legal)
        };
        let is_something = |text: &str| text.bytes().any(|byte| byte != b'0');
        let is_legal = is_hex(version, 2)
            && version != "ff"
            && (version != "00" || parts.next().is_none())
            && is_hex(trace_id, 32)
            && is_something(trace_id)
            && is_hex(span_id, 16)
            && is_something(span_id)
            && is_hex(flags, 2);
        is_legal.then(|| Self { trace_id: trace_id.into(), span_id: span_id.into() })
    }
}

fn text(bytes: &[u8]) -> Box<str> {
    String::from_utf8_lossy(bytes).into()
}

/// The access key that the request claims: its credential up to the first slash.
fn access_key(request: &Parts) -> Option<Box<str>> {
    let header = request.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let in_header = header.and_then(|value| value.split_once("Credential=")).map(|(_, rest)| rest);
    let in_query = request.uri.query().and_then(|query| parameter(query, "X-Amz-Credential"));
    let key = in_header.or(in_query)?;
    let end = key.find(['/', '%', ',']).unwrap_or(key.len());
    Some(key[..end].into())
}

fn parameter<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.filter(|(known, _)| *known == name).map(|(_, value)| value).next()
}

/// The query without the values of the signing parameters, so that a reader of the log cannot
/// replay the request. A percent-encoded name is not decoded, so its value is removed as well.
fn unsigned(query: &str) -> Box<str> {
    let pairs = query.split('&').map(|pair| match pair.split_once('=') {
        Some((name, _)) if is_secret(name) => format!("{name}=-"),
        _ => pair.to_owned(),
    });
    pairs.collect::<Vec<_>>().join("&").into()
}

/// The URL without the values of the signing parameters: the referring page can itself be a
/// presigned URL.
fn unsigned_url(url: &str) -> Box<str> {
    match url.split_once('?') {
        Some((before, query)) => format!("{before}?{}", unsigned(query)).into(),
        None => url.into(),
    }
}

fn is_secret(name: &str) -> bool {
    name.contains('%') || SECRETS.iter().any(|secret| secret.eq_ignore_ascii_case(name))
}

/// Parameters whose values sign a request, in both versions of S3's signatures.
const SECRETS: [&str; 3] = ["X-Amz-Signature", "X-Amz-Security-Token", "Signature"];

/// Size of the object in bytes, from the headers of the response.
fn object_bytes(operation: Operation, status: StatusCode, headers: &HeaderMap) -> Option<u64> {
    if !matches!(operation, Operation::GetObject | Operation::HeadObject) {
        return None;
    }
    let header = |name: HeaderName| headers.get(name)?.to_str().ok();
    match status {
        StatusCode::PARTIAL_CONTENT => header(CONTENT_RANGE)?.rsplit_once('/')?.1.parse().ok(),
        StatusCode::OK => header(CONTENT_LENGTH)?.parse().ok(),
        _ => None,
    }
}

/// Response header with the reason of a cache bypass.
pub(crate) const REASON: HeaderName = HeaderName::from_static("x-cache-reason");
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");
const VERSION_ID: HeaderName = HeaderName::from_static("x-amz-version-id");

#[cfg(test)]
mod tests;
