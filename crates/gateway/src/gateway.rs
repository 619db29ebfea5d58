//! Request handling: from the request head to the response.
//!
//! 1. Parse the framing and the request: bucket (host or path), key, query, operation.
//! 2. Authenticate and authorize; or let the origin do it (`as_signed`).
//! 3. Carry out the operation: each has its own file. Forwarded ones share `forward` and `write`.
//! 4. Build the response: request id, `X-Cache`, the XML of a refusal.

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use http::header::{CONNECTION, ETAG, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Request, Response, StatusCode, Uri};
use hyper::body::{Body, Incoming};
use zonal_host::{Client, ObjectName, monotonic};
use zonal_origin::{AccountRow, OfUpload, Origins};
use zonal_s3::full_body;
use zonal_s3::{BoxBody, S3Error};

use crate::access;
use crate::access_log::{PendingEntry, REASON};
use crate::accounts;
use crate::admission::Admitted;
use crate::answer::{Answer, named};
use crate::api::{Cached, Handling};
use crate::auth::Verifier;
use crate::body::ResponseBody;
use crate::bypass::{BypassReason, Warnings};
use crate::cache_control::CacheControl;
use crate::concurrency_limits::{ConcurrencyLimits, DocumentPermit, Requester, WritePermit};
use crate::config::{Authorization, Caching, Config, RuntimeConfig};
use crate::connections::Connections;
use crate::copy_source::BadCopySource;
use crate::delete_objects::delete_objects;
use crate::error;
use crate::fair_semaphore::{ClientId, PermitRefused};
use crate::forward::{self, UploadProgress, forward};
use crate::framing::{self, After};
use crate::latencies::{self, ListenerStats, RequestLatencies, RequestTimer};
use crate::list_buckets::list_buckets;
use crate::operation::Operation;
use crate::origin_authorization;
use crate::owner_cache::OwnerCache;
use crate::part_ranges::PartRanges;
use crate::pins::Pins;
use crate::request_id::{RequestId, RequestIds};
use crate::s3_request::S3Request;
use crate::serve::serve;
use crate::socket::ExchangeGuard;
use crate::stats::Stats;
use crate::target::Target;
use crate::write::{self, Changes, write};

/// S3 endpoint over one cache and its origins. Cheap to clone; it can serve any number of listeners
/// and threads.
#[derive(Clone)]
pub struct Gateway {
    shared: Arc<GatewayState>,
}

struct GatewayState {
    config: Config,
    runtime_config: ArcSwap<RuntimeConfig>,
    /// Not part of the terms, because reloading the configuration must not change it.
    is_caching_off: AtomicBool,
    client: Client,
    origins: Arc<Origins>,
    verifier: Verifier,
    stats: Arc<Stats>,
    listeners: Mutex<Vec<Arc<ListenerStats>>>,
    request_ids: RequestIds,
    connections: Arc<Connections>,
    places: ConcurrencyLimits,
    owners: OwnerCache,
    part_ranges: PartRanges,
    warnings: Warnings,
}

impl Gateway {
    /// Creates an endpoint that serves objects of `origins` from the cache of `client`.
    #[must_use]
    pub fn new(
        config: Config,
        runtime_config: RuntimeConfig,
        client: Client,
        origins: Arc<Origins>,
    ) -> Self {
        let runtime_config = ArcSwap::from_pointee(runtime_config);
        let verifier = Verifier::new(config.region.clone());
        let connections = Connections::new(&config.limits);
        let places = ConcurrencyLimits::new(&config.limits);
        let mut stats = Stats::default();
        if let Some(log) = &config.access_log {
            stats.access_lines_lost = log.lost().clone();
        }
        let (stats, request_ids) = (Arc::new(stats), RequestIds::new());
        let shared = GatewayState {
            config,
            runtime_config,
            is_caching_off: AtomicBool::new(false),
            client,
            origins,
            verifier,
            stats,
            listeners: Mutex::default(),
            request_ids,
            connections,
            places,
            owners: OwnerCache::default(),
            part_ranges: PartRanges::default(),
            warnings: Warnings::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Replaces the terms. Requests already running keep the old ones.
    pub fn set_runtime_config(&self, runtime_config: RuntimeConfig) {
        self.shared.runtime_config.store(Arc::new(runtime_config));
        self.stats().terms_changed.add(1);
    }

    /// Replaces the set of objects pinned by an operator.
    pub fn set_pins(&self, pins: Arc<Pins>) {
        self.shared.runtime_config.rcu(|runtime_config| RuntimeConfig {
            pins: pins.clone(),
            ..RuntimeConfig::clone(runtime_config)
        });
    }

    /// The current terms.
    #[must_use]
    pub fn runtime_config(&self) -> Arc<RuntimeConfig> {
        self.shared.runtime_config.load_full()
    }

    /// Whether reads are answered from the cache. Initially they are.
    #[must_use]
    pub fn caching(&self) -> Caching {
        // Relaxed: the flag guards no other memory.
        match self.shared.is_caching_off.load(Ordering::Relaxed) {
            true => Caching::Off,
            false => Caching::On,
        }
    }

    /// Switches caching on or off, for requests whose head arrives after this call. Returns the
    /// previous setting.
    pub fn set_caching(&self, caching: Caching) -> Caching {
        match self.shared.is_caching_off.swap(caching == Caching::Off, Ordering::SeqCst) {
            true => Caching::Off,
            false => Caching::On,
        }
    }

    /// Counters of this gateway.
    #[must_use]
    pub fn stats(&self) -> &Arc<Stats> {
        &self.shared.stats
    }

    /// Latencies of the requests so far, by operation and by what they waited for.
    #[must_use]
    pub fn latencies(&self) -> Vec<RequestLatencies> {
        latencies::merged(&self.listeners())
    }

    /// Statistics for a new listener.
    pub(crate) fn add_listener(&self) -> Arc<ListenerStats> {
        let listener = ListenerStats::new(self.stats().clone(), self.config().accounts);
        self.listeners().push(listener.clone());
        listener
    }

    pub(crate) fn listeners(&self) -> MutexGuard<'_, Vec<Arc<ListenerStats>>> {
        self.shared.listeners.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Verifier of signatures.
    pub(crate) fn verifier(&self) -> &Verifier {
        &self.shared.verifier
    }

    /// Confirmed owners of buckets.
    pub(crate) fn owners(&self) -> &OwnerCache {
        &self.shared.owners
    }

    /// Ranges of the parts of multipart objects.
    pub(crate) fn part_ranges(&self) -> &PartRanges {
        &self.shared.part_ranges
    }

    /// Records a read that bypassed the cache, and may log a warning. A refused request gives no
    /// warning, because its bucket may not exist. A refusal of the cache's own request does.
    pub(crate) fn note_bypass(&self, name: &ObjectName, answer: &Answer) {
        let Some(bypass) = &answer.bypass else { return };
        if answer.status.is_success() || bypass.reason.is_refusal() {
            self.shared.warnings.note(bypass, name.bucket());
        }
        if bypass.reason == BypassReason::NoEtag {
            self.learn_etag(name, answer);
        }
    }

    /// Open client connections.
    pub(crate) fn connections(&self) -> &Arc<Connections> {
        &self.shared.connections
    }

    /// Concurrency limits of writes and documents.
    pub(crate) fn places(&self) -> &ConcurrencyLimits {
        &self.shared.places
    }

    /// Permit for a write, or for another request with a body. A request that would not be sent,
    /// because its origin answers nothing, waits for no permit.
    pub(crate) fn place_for<'a>(
        &'a self,
        request: &Request<BoxBody>,
        document: Option<&DocumentPermit>,
    ) -> impl Future<Output = Result<WritePermit, S3Error>> + use<'a> {
        let target = Target::parse(request.uri().path());
        let bucket = target.as_ref().ok().and_then(Target::bucket);
        let circuit = bucket.map_or(Ok(()), |bucket| self.origins().check_circuit(bucket));
        let place = self.places().for_write(request, document);
        async move {
            circuit.map_err(forward::failed)?;
            let asked_at = monotonic();
            let place = place.await;
            self.stats().permit_waits.record_shared(monotonic().since(asked_at));
            place.map_err(|refused| self.refuse_write(refused))
        }
    }

    /// The answer to a write without a permit, which is counted.
    pub(crate) fn refuse_write(&self, refused: PermitRefused) -> S3Error {
        self.stats().writes_refused.add(1);
        let is_of_client = refused == PermitRefused::OfClient;
        self.stats().writes_refused_by_client.add(is_of_client.into());
        S3Error::slow_down()
    }

    pub(crate) fn next_request_id(&self) -> RequestId {
        self.shared.request_ids.next()
    }

    /// Answers a request.
    pub(crate) async fn respond(
        &self,
        request: Request<Incoming>,
        (client, exchange): (SocketAddr, ExchangeGuard),
        listener: &Arc<ListenerStats>,
    ) -> Response<ResponseBody> {
        let since = monotonic();
        let (mut request, body) = request.into_parts();
        let upload = (!body.is_end_stream()).then(UploadProgress::default);
        if let Some(upload) = &upload {
            request.extensions.insert(upload.clone());
        }
        let (uri, method) = (request.uri.clone(), request.method.clone());
        let id = self.next_request_id();
        let log = self.config().access_log.as_ref();
        let line = log.map(|log| log.begin((id, client), &request, &self.runtime_config().domains));
        let framing = framing::check(&request.headers, exchange.stated_length);
        let is_last = framing != Ok(After::Others);
        let (operation, account, result) = match framing {
            Ok(_) => self.handle((id, client.ip()), &uri, (request, body), listener).await,
            Err(error) => (Operation::Other, None, Err(error)),
        };
        let answer = result.unwrap_or_else(Answer::from);
        self.stats().count_request(operation, answer.status);
        let mut answer = named(answer, id, &uri, &method);
        let is_bad = answer.refusal.is_some() && answer.status == StatusCode::BAD_REQUEST;
        if is_bad && self.config().authorization == Authorization::Keys {
            self.name_region(&mut answer.headers);
        }
        if is_last || upload.is_some_and(|upload| upload.is_under_way()) {
            answer.headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        let result = (answer.outcome, answer.status);
        let of_request = (since, account);
        let timer = RequestTimer::new(listener.clone(), operation, result, of_request);
        self.finish(answer, timer, (exchange, line))
    }

    async fn handle(
        &self,
        (id, client): (RequestId, IpAddr),
        uri: &Uri,
        (request, body): (Parts, Incoming),
        listener: &ListenerStats,
    ) -> (Operation, Option<AccountRow>, Result<Answer, S3Error>) {
        let runtime_config = self.runtime_config();
        let asked = match S3Request::of(&runtime_config.domains, uri, &request) {
            Ok(asked) => asked,
            Err(error) => return (Operation::Other, None, Err(error)),
        };
        let settings = (&*runtime_config, &asked);
        let result = self.carry_out((id, client), settings, request, body).await;
        // Anybody can send requests that are refused: they must take no rows.
        let is_allowed = result.as_ref().is_ok_and(|answer| {
            let refused =
                [StatusCode::BAD_REQUEST, StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN];
            !refused.contains(&answer.status)
        });
        let account = if is_allowed { accounts::begin(listener, &asked.target) } else { None };
        (asked.operation(), account, result)
    }

    async fn carry_out(
        &self,
        (id, client): (RequestId, IpAddr),
        (runtime_config, asked): (&RuntimeConfig, &S3Request<'_>),
        request: Parts,
        body: Incoming,
    ) -> Result<Answer, S3Error> {
        if self.config().authorization == Authorization::Origin {
            let (settings, request) = ((runtime_config, asked), (request, body));
            return origin_authorization::carry_out(self, settings, request, client).await;
        }
        let object = asked.object();
        let admitted = self.authorize(runtime_config, asked, object.as_ref(), &request)?;
        let Admitted { api, judged, key, payload } = admitted;
        let rules = &key.rules;
        self.check_origins(asked, &judged, &request)?;
        if let Some(bad) = judged.bad_source {
            return Box::pin(self.refuse_source(asked, bad)).await;
        }
        let bypass = match &object {
            Some(name) if api.cached == Cached::Answers => {
                let read = (asked, &judged, name);
                let request = (&request, !body.is_end_stream());
                match serve(self, runtime_config, read, request, &payload).await? {
                    Ok(answer) => {
                        self.note_bypass(name, &answer);
                        return Ok(answer);
                    }
                    Err(bypass) => bypass,
                }
            }
            _ => BypassReason::Operation.into(),
        };
        if api.handling == Handling::Serve && CacheControl::of(&request.headers).only_if_cached {
            return Err(error::not_cached());
        }
        let sees_all = runtime_config.access.are_one() && rules.are_one();
        if api.handling == Handling::Gather && !(self.origins().is_one() && sees_all) {
            return list_buckets(self, asked, [&runtime_config.access, rules], id).await;
        }
        let location = write::location(self, asked, &request.headers);
        let mut request = asked.rewritten(&api, &judged, request);
        if let Some(id) = asked.query.get("uploadId")
            && ![&runtime_config.access, rules].into_iter().all(access::may_do_all)
        {
            request.extensions.insert(OfUpload { id: id.into() });
        }
        let clients = vec![ClientId::Address(client.into()), ClientId::Key(key.name.clone())];
        let outgoing = forward::outgoing(self, (id, Requester(clients)), request, body, payload);
        match api.handling {
            Handling::Serve | Handling::Gather | Handling::Forward => {
                let mut answer = forward(self, outgoing, bypass).await?;
                match &object {
                    Some(name) => self.note_bypass(name, &answer),
                    None if api.is_head_bucket() => self.name_region(&mut answer.headers),
                    None => {}
                }
                Ok(answer)
            }
            Handling::Write => {
                let changes = Changes::of(&api, asked, outgoing.headers());
                write(self, outgoing, (changes, location), None).await
            }
            Handling::DeleteObjects => {
                delete_objects(self, asked, [&runtime_config.access, rules], outgoing).await
            }
        }
    }

    /// Refuses an invalid copy source. A missing target bucket takes precedence, so the origin is
    /// asked about it first.
    async fn refuse_source(
        &self,
        asked: &S3Request<'_>,
        bad: BadCopySource,
    ) -> Result<Answer, S3Error> {
        let refused = error::bad_copy_source(bad);
        let (Target::Object { bucket, .. } | Target::Bucket(bucket)) = &asked.target else {
            return Err(refused);
        };
        let question = Request::get(format!("/{bucket}?location")).body(full_body(""));
        let question = question.expect("a bucket's name is legal in a path");
        match self.origins().forward(question).await {
            Ok(answer) if answer.status() == StatusCode::NOT_FOUND => {
                Ok(forward::handed_on(answer, BypassReason::Operation.into()))
            }
            _ => Err(refused),
        }
    }

    /// Clears the cache's mark that the origin sends no ETag for this object, if the response has a
    /// strong one.
    fn learn_etag(&self, name: &ObjectName, answer: &Answer) {
        if answer.status.is_success()
            && answer.headers.get(ETAG).is_some_and(|etag| !etag.as_bytes().starts_with(b"W/"))
        {
            self.client().note_etag(name);
        }
    }

    /// Adds the region header. Clients that signed for another region read it, because the response
    /// to a HEAD has no document.
    fn name_region(&self, headers: &mut HeaderMap) {
        if let Ok(region) = HeaderValue::from_str(&self.config().region) {
            headers.insert(BUCKET_REGION, region);
        }
    }

    fn finish(
        &self,
        mut answer: Answer,
        timer: RequestTimer,
        (exchange, mut line): (ExchangeGuard, Option<Box<PendingEntry>>),
    ) -> Response<ResponseBody> {
        if let Some(bypass) = &answer.bypass {
            self.stats().count_bypass(bypass.reason);
            answer.headers.insert(REASON, bypass.to_header());
        }
        if let Some(line) = &mut line {
            let code = answer.error_code();
            line.answered((answer.status, &answer.headers), code, answer.outcome);
        }
        let Answer { status, mut headers, source, outcome, .. } = answer;
        if let Some(outcome) = outcome {
            self.stats().count_outcome(outcome);
            headers.insert(X_CACHE, HeaderValue::from_static(outcome.name()));
        }
        timer.first_byte(source.slowest());
        let body = ResponseBody::new(source, timer, exchange, line);
        let mut response = Response::new(body);
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        response
    }
}

const X_CACHE: HeaderName = HeaderName::from_static("x-cache");
const BUCKET_REGION: HeaderName = HeaderName::from_static("x-amz-bucket-region");
