//! One request, from its head to its answer.
//!
//! 1. Read what it asks for: the bucket in its host or path, the key, the query, the operation.
//! 2. Check the signature, and whether its key may do that; or let the origin judge it (`as_signed`).
//! 3. Carry the operation out: each has its own file, what is forwarded shares `forward` and `write`.
//! 4. Put the answer together: the request's name, `X-Cache`, the XML of a refusal.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode, Uri, response};
use hyper::body::{Body, Incoming};
use tokio::sync::Semaphore;
use zonal_host::{Client, ObjectName};
use zonal_origin::sigv4::Timestamp;
use zonal_origin::{Origins, Query, RefusalCode};

use crate::access;
use crate::access_log::Line;
use crate::as_signed;
use crate::auth::{Signed, Verifier};
use crate::body::{ResponseBody, Source};
use crate::cache_control::CacheControl;
use crate::config::{Authorization, Caching, Config, Terms};
use crate::delete_objects::delete_objects;
use crate::domains::Domains;
use crate::error::S3Error;
use crate::forward::{self, forward};
use crate::get_object::get_object;
use crate::head_object::head_object;
use crate::list_buckets::list_buckets;
use crate::operation::{Handling, Operation};
use crate::pins::Pins;
use crate::places::Places;
use crate::read::{self, Read, Unserved};
use crate::request_id::{RequestId, RequestIds};
use crate::socket::Exchange;
use crate::stats::{Outcome, Stats};
use crate::target::{BadTarget, Target};
use crate::write::{self, write};

/// The S3 endpoint over one cache and what lies behind it. Cheap to clone; serve it on as many listeners and
/// threads as you like.
#[derive(Clone)]
pub struct Gateway {
    shared: Arc<Shared>,
}

struct Shared {
    config: Config,
    terms: ArcSwap<Terms>,
    /// Not among the terms: who reads them again from a file does not change it.
    is_caching_off: AtomicBool,
    client: Client,
    origins: Arc<Origins>,
    verifier: Verifier,
    stats: Arc<Stats>,
    request_ids: RequestIds,
    connections: Arc<Semaphore>,
    places: Places,
}

/// What an operation comes to.
pub(crate) struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    source: Source,
    outcome: Option<Outcome>,
    refusal: Option<S3Error>,
    /// The code of a refusal that the origin made, where it is known.
    code: Option<RefusalCode>,
}

impl Answer {
    pub(crate) const fn new(
        status: StatusCode,
        headers: HeaderMap,
        source: Source,
        outcome: Option<Outcome>,
    ) -> Self {
        Self { status, headers, source, outcome, refusal: None, code: None }
    }

    /// What the origin answered to a request that was handed on.
    pub(crate) fn of_origin(mut parts: response::Parts, source: Source) -> Self {
        let code = parts.extensions.remove();
        let outcome = Some(Outcome::Bypass);
        Self { code, ..Self::new(parts.status, parts.headers, source, outcome) }
    }

    fn error_code(&self) -> Option<&str> {
        let ours = self.refusal.as_ref().map(|error| error.code);
        ours.or(self.code.as_ref().map(|RefusalCode(code)| code.as_str()))
    }

    /// A refusal that the cache could tell, with headers of its own.
    pub(crate) const fn refusal(error: S3Error, headers: HeaderMap, outcome: Outcome) -> Self {
        let (source, outcome) = (Source::Empty, Some(outcome));
        Self { status: error.status, headers, source, outcome, refusal: Some(error), code: None }
    }
}

impl From<S3Error> for Answer {
    fn from(error: S3Error) -> Self {
        let (headers, source) = (HeaderMap::new(), Source::Empty);
        let status = error.status;
        Self { refusal: Some(error), ..Self::new(status, headers, source, None) }
    }
}

impl Gateway {
    /// An endpoint for `client`'s cache of what `origins` have.
    #[must_use]
    pub fn new(config: Config, terms: Terms, client: Client, origins: Arc<Origins>) -> Self {
        let terms = ArcSwap::from_pointee(terms);
        let verifier = Verifier::new(config.region.clone());
        let connections = Arc::new(Semaphore::new(config.limits.connections_max));
        let places = Places::new(&config.limits);
        let mut stats = Stats::default();
        if let Some(log) = &config.access_log {
            stats.access_lines_lost = log.lost().clone();
        }
        let (stats, request_ids) = (Arc::new(stats), RequestIds::new());
        let shared = Shared {
            config,
            terms,
            is_caching_off: AtomicBool::new(false),
            client,
            origins,
            verifier,
            stats,
            request_ids,
            connections,
            places,
        };
        Self { shared: Arc::new(shared) }
    }

    /// From now on requests are served on these terms.
    pub fn set_terms(&self, terms: Terms) {
        self.shared.terms.store(Arc::new(terms));
        self.stats().terms_changed.add(1);
    }

    /// From now on this is pinned by order.
    pub fn set_pins(&self, pins: Arc<Pins>) {
        self.shared.terms.rcu(|terms| Terms { pins: pins.clone(), ..Terms::clone(terms) });
    }

    /// The terms on which requests are served now.
    #[must_use]
    pub fn terms(&self) -> Arc<Terms> {
        self.shared.terms.load_full()
    }

    /// Whether reads are answered from the cache; they are at first.
    #[must_use]
    pub fn caching(&self) -> Caching {
        // The flag stands for nothing else in memory.
        match self.shared.is_caching_off.load(Ordering::Relaxed) {
            true => Caching::Off,
            false => Caching::On,
        }
    }

    /// Holds for requests whose head comes after this returns; hands back what held before.
    pub fn set_caching(&self, caching: Caching) -> Caching {
        match self.shared.is_caching_off.swap(caching == Caching::Off, Ordering::SeqCst) {
            true => Caching::Off,
            false => Caching::On,
        }
    }

    /// What it did so far.
    #[must_use]
    pub fn stats(&self) -> &Arc<Stats> {
        &self.shared.stats
    }

    pub(crate) fn config(&self) -> &Config {
        &self.shared.config
    }

    pub(crate) fn client(&self) -> &Client {
        &self.shared.client
    }

    pub(crate) fn origins(&self) -> &Origins {
        &self.shared.origins
    }

    /// The right to be connected.
    pub(crate) fn connections(&self) -> &Arc<Semaphore> {
        &self.shared.connections
    }

    /// The right to have something else under way.
    pub(crate) fn places(&self) -> &Places {
        &self.shared.places
    }

    pub(crate) fn next_request_id(&self) -> RequestId {
        self.shared.request_ids.next()
    }

    /// Answers a request.
    pub(crate) async fn respond(
        &self,
        request: Request<Incoming>,
        (client, exchange): (SocketAddr, Exchange),
    ) -> Response<ResponseBody> {
        let (request, body) = request.into_parts();
        let (uri, method) = (request.uri.clone(), request.method.clone());
        let id = self.next_request_id();
        let log = self.config().access_log.as_ref();
        let line = log.map(|log| log.begin((id, client), &request, &self.terms().domains));
        let (operation, result) = self.handle(id, &uri, request, body).await;
        let answer = result.unwrap_or_else(Answer::from);
        self.stats().count_request(operation, answer.status);
        let answer = named(answer, id, &uri, &method);
        self.finish(answer, exchange, line)
    }

    async fn handle(
        &self,
        id: RequestId,
        uri: &Uri,
        request: Parts,
        body: Incoming,
    ) -> (Operation, Result<Answer, S3Error>) {
        let terms = self.terms();
        match Asked::of(&terms.domains, uri, &request) {
            Ok(asked) => {
                (asked.operation, self.carry_out(id, (&terms, &asked), request, body).await)
            }
            Err(error) => (Operation::Other, Err(error)),
        }
    }

    async fn carry_out(
        &self,
        id: RequestId,
        (terms, asked): (&Terms, &Asked<'_>),
        request: Parts,
        body: Incoming,
    ) -> Result<Answer, S3Error> {
        if self.config().authorization == Authorization::Origin {
            return as_signed::carry_out(self, (terms, asked), request, body).await;
        }
        let object = asked.object();
        let Signed { rules, payload } = self.let_in(terms, asked, object.as_ref(), &request)?;
        self.check_origins(asked, &request)?;
        let handling = asked.operation.handling();
        if handling == Handling::Serve
            && self.caching() == Caching::On
            && let Some(name) = &object
            && let Some(read) = Read::of(terms, asked, name, &request)
            && body.is_end_stream()
        {
            read::check_payload(&payload)?;
            if let Some(answer) = self.serve(asked.operation, &read).await? {
                return Ok(answer);
            }
        }
        if handling == Handling::Serve && CacheControl::of(&request.headers).only_if_cached {
            return Err(S3Error::not_cached());
        }
        let sees_all = terms.access.are_one() && rules.are_one();
        if handling == Handling::Gather && !(self.origins().is_one() && sees_all) {
            return list_buckets(self, asked, [&terms.access, &rules], id).await;
        }
        let location = write::location(self, asked, &request.headers);
        let request = asked.in_path_style(request);
        let outgoing = forward::outgoing(self, id, request, body, payload);
        match handling {
            Handling::Serve | Handling::Gather | Handling::Forward => forward(self, outgoing).await,
            Handling::ForwardWrite => {
                let names = write::names(asked, outgoing.headers());
                write(self, outgoing, (names, location), None).await
            }
            Handling::ForwardDeletes => {
                delete_objects(self, asked, [&terms.access, &rules], outgoing).await
            }
        }
    }

    /// Says no to who is not known, and to what a key may not do. To whoever hears it, both happen at one door.
    fn let_in(
        &self,
        terms: &Terms,
        asked: &Asked<'_>,
        object: Option<&ObjectName>,
        request: &Parts,
    ) -> Result<Signed, S3Error> {
        let now = Timestamp::from_system_time(SystemTime::now());
        let signed = self.shared.verifier.verify(&terms.access_keys, request, &asked.query, now);
        let signed = signed.map_err(S3Error::from).and_then(|signed| {
            for rules in [&terms.access, &*signed.rules] {
                access::check(rules, asked, object, request)?;
            }
            Ok(signed)
        });
        signed.inspect_err(|error| self.stats().count_refusal(error.code))
    }

    /// A bucket that no origin has does not exist, nothing is written to one that is only read, and no origin can copy
    /// from another.
    pub(crate) fn check_origins(&self, asked: &Asked<'_>, request: &Parts) -> Result<(), S3Error> {
        let origins = self.origins();
        if origins.is_one() {
            return Ok(());
        }
        let bucket = match &asked.target {
            Target::Object { bucket, .. } | Target::Bucket(bucket) => bucket,
            Target::Service if asked.operation == Operation::ListBuckets => return Ok(()),
            Target::Service => return Err(S3Error::not_implemented(NOT_OF_ONE)),
        };
        if !origins.has(bucket) {
            return Err(S3Error::no_such_bucket());
        }
        // Before anything is removed: what is cached of it stays.
        if !request.method.is_safe() && origins.is_read_only(bucket) {
            return Err(S3Error::read_only());
        }
        let mut sources = access::sources(&asked.query, request);
        let is_here = |source: Option<ObjectName>| {
            source.is_some_and(|source| origins.are_together(bucket, source.bucket()))
        };
        if sources.all(is_here) { Ok(()) } else { Err(S3Error::not_implemented(NO_COPY)) }
    }

    /// Serves a read from the cache; `None` when it is for the origin to answer.
    async fn serve(
        &self,
        operation: Operation,
        read: &Read<'_>,
    ) -> Result<Option<Answer>, S3Error> {
        let served = match operation {
            Operation::HeadObject => head_object(self, read).await,
            _ => get_object(self, read).await,
        };
        match served {
            Ok(answer) => Ok(Some(answer)),
            Err(Unserved::Forward) => Ok(None),
            Err(Unserved::Absent) => {
                let error = S3Error::no_such_key();
                Ok(Some(Answer::refusal(error, HeaderMap::new(), Outcome::Hit)))
            }
            Err(Unserved::Refuse(error)) => Err(error),
        }
    }

    fn finish(
        &self,
        answer: Answer,
        exchange: Exchange,
        mut line: Option<Box<Line>>,
    ) -> Response<ResponseBody> {
        if let Some(line) = &mut line {
            let code = answer.error_code();
            line.answered((answer.status, &answer.headers), code, answer.outcome);
        }
        let Answer { status, mut headers, source, outcome, .. } = answer;
        if let Some(outcome) = outcome {
            self.stats().count_outcome(outcome);
            headers.insert(X_CACHE, HeaderValue::from_static(outcome.name()));
        }
        let body = ResponseBody::new(source, self.stats().clone(), exchange, line);
        let mut response = Response::new(body);
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        response
    }
}

/// Gives an answer the name of its request, and a refusal its document.
fn named(mut answer: Answer, id: RequestId, uri: &Uri, method: &Method) -> Answer {
    let headers = &mut answer.headers;
    // What an S3 endpoint answered keeps its name: it stands in its document too, and its operator asks for it.
    headers.entry(REQUEST_ID).or_insert_with(|| id.to_header());
    if let Some(error) = &answer.refusal {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/xml"));
        if method != Method::HEAD {
            let document = error.to_xml(uri.path(), id.as_str());
            headers.insert(CONTENT_LENGTH, document.len().into());
            answer.source = Source::Document(Bytes::from(document));
        }
    }
    answer
}

/// What a request asks for.
pub(crate) struct Asked<'a> {
    pub(crate) operation: Operation,
    pub(crate) target: Target<'a>,
    pub(crate) query: Query<'a>,
    /// As the client wrote it: in virtual-hosted style all of it is a key.
    pub(crate) path: &'a str,
    style: Style,
}

/// Where the bucket stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Path,
    VirtualHosted,
}

impl<'a> Asked<'a> {
    pub(crate) fn of(domains: &Domains, uri: &'a Uri, request: &Parts) -> Result<Self, S3Error> {
        let query = Query::parse(uri.query()).map_err(|_| S3Error::invalid_uri())?;
        let path = uri.path();
        let (style, target) = match domains.bucket_of(request)? {
            None => (Style::Path, Target::parse(path)),
            Some(bucket) => (Style::VirtualHosted, Target::within(bucket, path)),
        };
        let target = target.map_err(|bad| match bad {
            BadTarget::Uri => S3Error::invalid_uri(),
            BadTarget::BucketName => S3Error::invalid_bucket_name(),
        })?;
        let operation = Operation::of(&request.method, &target, &query, &request.headers)?;
        Ok(Self { operation, target, query, path, style })
    }

    /// The same request with the bucket in its path, as origins take it. Its signature does not fit any more.
    fn in_path_style(&self, mut request: Parts) -> Parts {
        if let (Style::VirtualHosted, Target::Object { bucket, .. } | Target::Bucket(bucket)) =
            (self.style, &self.target)
        {
            let query = request.uri.query().map_or(String::new(), |query| format!("?{query}"));
            let uri = format!("/{bucket}{}{query}", self.path);
            request.uri = uri.parse().expect("a bucket's name is legal in a path");
        }
        request
    }

    /// The object that is asked for, if it is one.
    pub(crate) fn object(&self) -> Option<ObjectName> {
        match &self.target {
            Target::Object { bucket, key } => Some(ObjectName::new(bucket, key)),
            Target::Bucket(_) | Target::Service => None,
        }
    }
}

pub(crate) const NOT_OF_ONE: &str =
    "There are several origins behind this endpoint: only their buckets can be asked.";
const NO_COPY: &str =
    "The source of this copy is not in the origin of its target: read it and write it.";
const X_CACHE: HeaderName = HeaderName::from_static("x-cache");
const REQUEST_ID: HeaderName = HeaderName::from_static("x-amz-request-id");
