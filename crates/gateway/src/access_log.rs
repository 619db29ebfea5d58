//! Access log: one entry per request, handed to a writer.
//!
//! 1. A [`PendingEntry`] begins with the head of a request, learns what the answer is, and leaves when the answer's body is done with: sent,
//!    cut, or given up by its client.
//! 2. It waits in a bounded queue for the one who writes. A queue that is full loses the line and counts it: no request ever waits for
//!    a log.
//!
//! No secret and no signature gets into a line: of headers only those that are named here, of a query all but the values that sign it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant, SystemTime};

use http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_RANGE, HOST, REFERER, USER_AGENT};
use http::request::Parts;
use http::{HeaderMap, HeaderName, Method, StatusCode};
use zonal_origin::Counter;

use crate::asked::S3Request;
use crate::domains::Domains;
use crate::operation::Operation;
use crate::request_id::RequestId;
use crate::stats::Outcome;
use crate::target::Target;

/// Lines that wait to be written: at 20,000 requests a second 0.4 s of a disk that does nothing. Of 600 bytes each, 5 MB.
const LINES_MAX: usize = 8192;

/// What is said of one request.
#[derive(Clone, Debug)]
pub struct AccessEntry {
    /// When its head was there.
    pub at: SystemTime,
    /// Our name for it, as in `x-amz-request-id`.
    pub request_id: Box<str>,
    /// Who is connected: the client, or the proxy before us.
    pub client: SocketAddr,
    /// What a proxy says about who is behind it. Anybody may say so.
    pub forwarded_for: Option<Box<str>>,
    /// The host that was asked, as the client calls it.
    pub host: Option<Box<str>>,
    /// The access key that the request names, whether or not its signature is right.
    pub access_key: Option<Box<str>>,
    /// What was asked for.
    pub operation: Operation,
    /// HTTP's word for it.
    pub method: Method,
    /// Empty for the service as a whole, and where the path cannot be read.
    pub bucket: Box<str>,
    /// Decoded; empty where no object is meant.
    pub key: Box<str>,
    /// The path as the client wrote it.
    pub path: Box<str>,
    /// The query as the client wrote it, without the values that sign it.
    pub query: Option<Box<str>>,
    /// `None`: the client was gone before there was an answer.
    pub status: Option<StatusCode>,
    /// S3's code, where the answer says no and a code is known.
    pub error_code: Option<Box<str>>,
    /// Where the answer came from.
    pub outcome: Option<Outcome>,
    /// Why it came from the origin past the cache, as `X-Cache-Reason` says it.
    pub bypass: Option<Box<str>>,
    /// Bytes of the body that were handed to the connection.
    pub sent_bytes: u64,
    /// How large the whole object is, where the answer tells.
    pub object_bytes: Option<u64>,
    /// The version that was answered, or else asked for.
    pub version_id: Option<Box<str>>,
    /// The body broke off because the rest could not be had.
    pub is_cut: bool,
    /// Until the answer began.
    pub first_byte: Option<Duration>,
    /// Until its last byte was handed to the connection, or the client was gone.
    pub total: Duration,
    /// As the client says.
    pub user_agent: Option<Box<str>>,
    /// As the client says.
    pub referer: Option<Box<str>>,
    /// The trace that the client counts the request to: W3C's `traceparent`.
    pub trace: Option<Trace>,
}

/// Where a request belongs in a trace, in lower-case hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// 32 digits.
    pub trace_id: Box<str>,
    /// 16 digits: what the client does while it waits for us.
    pub span_id: Box<str>,
}

/// What a writer of the log is told.
#[derive(Debug)]
pub enum AccessEvent {
    /// Write this down.
    Entry(Box<AccessEntry>),
    /// The file was moved away: go on in a new one.
    Reopen,
    /// Nothing more comes.
    End,
}

/// Where requests leave their lines. Cheap to clone.
#[derive(Clone, Debug)]
pub struct AccessLog {
    to: SyncSender<AccessEvent>,
    lost: Arc<Counter>,
}

/// What one writes who writes the log.
#[derive(Debug)]
pub struct AccessEvents(Receiver<AccessEvent>);

impl AccessLog {
    /// A log, and what comes out of it.
    #[must_use]
    pub fn new() -> (Self, AccessEvents) {
        let (to, from) = sync_channel(LINES_MAX);
        (Self { to, lost: Arc::default() }, AccessEvents(from))
    }

    /// Lines that nobody can read: the queue was full, or the writer could not write them and added them here.
    #[must_use]
    pub fn lost(&self) -> &Arc<Counter> {
        &self.lost
    }

    /// Has the writer open its file anew. Waits for room in the queue.
    pub fn reopen(&self) {
        // A writer that has ended has no file.
        let _ = self.to.send(AccessEvent::Reopen);
    }

    /// Has the writer end once it has written what is in the queue. Waits for room there.
    pub fn end(&self) {
        let _ = self.to.send(AccessEvent::End);
    }

    /// Begins the line of a request.
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
    /// The next; `None` when there is none by now.
    #[must_use]
    pub fn try_next(&self) -> Option<AccessEvent> {
        self.0.try_recv().ok()
    }

    /// Waits for the next.
    #[must_use]
    pub fn next(&self) -> AccessEvent {
        self.0.recv().unwrap_or(AccessEvent::End)
    }
}

/// The line of a request that is under way; it leaves when this is dropped.
#[derive(Debug)]
pub(crate) struct PendingEntry {
    entry: Option<Box<AccessEntry>>,
    log: AccessLog,
    since: Instant,
}

impl PendingEntry {
    /// The answer begins.
    pub(crate) fn answered(
        &mut self,
        (status, headers): (StatusCode, &HeaderMap),
        code: Option<&str>,
        outcome: Option<Outcome>,
    ) {
        let first_byte = self.since.elapsed();
        let Some(entry) = &mut self.entry else { return };
        entry.status = Some(status);
        entry.error_code = code.map(Into::into);
        entry.outcome = outcome;
        entry.bypass = match outcome {
            Some(Outcome::Bypass) => headers.get(REASON).map(|reason| text(reason.as_bytes())),
            _ => None,
        };
        entry.object_bytes = object_bytes(entry.operation, status, headers);
        if let Some(version) = headers.get(VERSION_ID) {
            entry.version_id = Some(text(version.as_bytes()));
        }
        entry.first_byte = Some(first_byte);
    }

    /// So much of its body was handed to the connection.
    pub(crate) fn sent(&mut self, bytes: u64) {
        self.entry.iter_mut().for_each(|entry| entry.sent_bytes = bytes);
    }

    /// The rest of its body cannot be had.
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
    /// Reads `VERSION-TRACE-SPAN-FLAGS`; what W3C calls invalid is none.
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

/// The key that a request says it is signed with: what stands before the first slash of its credential.
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

/// A query without what would let its reader sign, or do what the signature lets through. A name that is written in percent signs is not
/// told from others, and so loses its value too.
fn unsigned(query: &str) -> Box<str> {
    let pairs = query.split('&').map(|pair| match pair.split_once('=') {
        Some((name, _)) if is_secret(name) => format!("{name}=-"),
        _ => pair.to_owned(),
    });
    pairs.collect::<Vec<_>>().join("&").into()
}

/// The same of a URL: the page that led here may itself be what somebody signed.
fn unsigned_url(url: &str) -> Box<str> {
    match url.split_once('?') {
        Some((before, query)) => format!("{before}?{}", unsigned(query)).into(),
        None => url.into(),
    }
}

fn is_secret(name: &str) -> bool {
    name.contains('%') || SECRETS.iter().any(|secret| secret.eq_ignore_ascii_case(name))
}

/// Parameters whose values sign a request, of both versions of S3's signatures.
const SECRETS: [&str; 3] = ["X-Amz-Signature", "X-Amz-Security-Token", "Signature"];

/// What the headers of an answer say about the size of the object that was asked for.
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

/// Why an answer went past the cache.
pub(crate) const REASON: HeaderName = HeaderName::from_static("x-cache-reason");
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");
const VERSION_ID: HeaderName = HeaderName::from_static("x-amz-version-id");

#[cfg(test)]
mod tests;
