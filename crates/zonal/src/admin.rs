//! Admin endpoint of `zonal serve`: metrics, liveness and readiness probes, and operator commands.
//! Read-only requests need no token; [access control](crate::admin_access) guards commands.

mod commands;
mod latencies;
mod listed_objects;
mod metrics;
mod origin_health;
mod pin;
mod purge;
mod readiness;
mod report;
mod savings;
mod scrub;
mod summary;
mod warm;
mod zones;

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use futures_util::stream;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde::Serialize;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use zonal_gateway::{Caching, Gateway};
use zonal_host::{Client, ShardStats, contained};
use zonal_origin::{ConfiguredOrigin, Origins};

use crate::admin_access::{AccessDenied, AccessLevel, AdminAccess};
use crate::api;
use crate::api::latency::{self, Latencies};
use crate::config::{Prices, ScrubSettings};
use crate::frontend::Frontend;
use crate::listeners::AcceptWarnings;
use crate::metrics::Format;
use crate::pins::PinsFile;
use crate::stats;

use commands::AdminCommand;
pub(crate) use readiness::Phase;
use readiness::ShardState;
use savings::savings;
use scrub::Scrubber;
use summary::{answers, summary};

/// Concurrent connections; more wait to be accepted. 64: a few monitoring systems are the only
/// clients.
const CONNECTIONS_MAX: usize = 64;

/// Timeout for the TLS handshake, and for the head of a request, also on a kept-alive connection.
/// 30 s: longer than the usual interval between two scrapes.
const HEAD_PATIENCE: Duration = Duration::from_secs(30);

/// Pause after a failed `accept`, which is mostly a lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Time after which a shard that does not answer counts as stuck. 2 s: probes give up after a few
/// seconds themselves.
const SHARD_PATIENCE: Duration = Duration::from_secs(2);

/// Response body: a text, or a report that is streamed line by line.
type Body = UnsyncBoxBody<Bytes, Infallible>;

/// State of the admin endpoint; clones share it.
#[derive(Clone)]
pub(crate) struct Admin {
    admin_access: Arc<ArcSwap<AdminAccess>>,
    prices: Arc<ArcSwap<Prices>>,
    phase: watch::Receiver<Phase>,
    /// Empty until the node has started.
    node: Arc<OnceLock<Observed>>,
    /// Permit for one warm-up at a time.
    warming: Arc<Semaphore>,
    /// Permit for one purge at a time.
    purging: Arc<Semaphore>,
    scrubber: Arc<Scrubber>,
}

/// The parts of a running Zonal that the endpoint reports on and controls.
pub(crate) struct Observed {
    pub(crate) client: Client,
    pub(crate) front: Frontend,
    pub(crate) origins: Arc<Origins>,
    /// The file of objects and prefixes that the operator has pinned.
    pub(crate) pins: Arc<PinsFile>,
    /// Origin requests of a warm-up at a time.
    pub(crate) background_reads: usize,
    /// Device specs as configured, in the order of the configuration.
    pub(crate) devices: Vec<String>,
}

impl Observed {
    /// Statistics of every shard; `None` if one does not answer within [`SHARD_PATIENCE`].
    async fn shards(&self) -> Option<Vec<ShardStats>> {
        tokio::time::timeout(SHARD_PATIENCE, self.client.stats()).await.ok()
    }

    fn latencies(&self, gateway: &Gateway, shards: &[ShardStats]) -> Latencies {
        let origins = self.origins.iter().map(|named| (named.name.as_str(), named.origin.stats()));
        latencies::collect(shards, gateway, origins)
    }
}

impl Admin {
    pub(crate) fn new(
        admin_access: AdminAccess,
        (scrub, prices): (ScrubSettings, Prices),
        phase: watch::Receiver<Phase>,
    ) -> Self {
        let one = || Arc::new(Semaphore::new(1));
        let admin_access = Arc::new(ArcSwap::from_pointee(admin_access));
        Self {
            admin_access,
            prices: Arc::new(ArcSwap::from_pointee(prices)),
            phase,
            node: Arc::default(),
            warming: one(),
            purging: one(),
            scrubber: Scrubber::new(scrub),
        }
    }

    /// Replaces the access control; later requests are checked with the new one.
    pub(crate) fn set_access(&self, admin_access: AdminAccess) {
        self.admin_access.store(Arc::new(admin_access));
    }

    /// Replaces the prices of the origins.
    pub(crate) fn set_prices(&self, prices: Prices) {
        self.prices.store(Arc::new(prices));
    }

    /// Attaches the started node. It also starts the tasks that probe origins and log their
    /// outages, the one that re-pins the operator's pins, and the one that scrubs.
    pub(crate) fn observe(&self, node: Observed) {
        for place in 0..node.origins.iter().count() {
            tokio::spawn(origin_health::watch(node.origins.clone(), place));
            tokio::spawn(origin_health::watch_circuit(node.origins.clone(), place));
        }
        if let Some(gateway) = node.front.gateway() {
            tokio::spawn(pin::pin_again(node.client.clone(), gateway.runtime_config()));
        }
        let scrubs = self.scrubber.clone().run(node.client.clone(), node.devices.clone());
        tokio::spawn(scrubs);
        // A node starts only once, so the cell is still empty.
        let _ = self.node.set(node);
    }

    /// Serves until the process ends.
    pub(crate) async fn serve(self, listener: TcpListener) {
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let mut warnings = AcceptWarnings::default();
        loop {
            let Ok(place) = places.clone().acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, peer)) => {
                    let connection = self.clone().connection((stream, peer.ip()), place);
                    drop(tokio::spawn(contained(connection)));
                }
                Err(error) => {
                    warnings.note(&error);
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Serves one connection. A failed or late TLS handshake closes the connection without a
    /// response.
    async fn connection(self, (stream, peer): (TcpStream, IpAddr), _place: OwnedSemaphorePermit) {
        let Some(certificate) = self.admin_access.load().certificate().cloned() else {
            return self.speak(stream, peer).await;
        };
        let shaken = tokio::time::timeout(HEAD_PATIENCE, certificate.accept(stream)).await;
        if let Ok(Ok(stream)) = shaken {
            self.speak(stream, peer).await;
        }
    }

    async fn speak<S: AsyncRead + AsyncWrite + Unpin>(&self, stream: S, peer: IpAddr) {
        let service =
            service_fn(
                |request| async move { Ok::<_, Infallible>(self.respond(request, peer).await) },
            );
        // Connection errors concern only the client, so they are not logged.
        let _ = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_PATIENCE)
            .serve_connection(TokioIo::new(stream), service)
            .await;
    }

    async fn respond(&self, request: Request<Incoming>, peer: IpAddr) -> Response<Body> {
        let order = AdminCommand::of(request.uri().path());
        let errand = if order.is_some() { AccessLevel::Order } else { AccessLevel::Look };
        if let Err(refusal) = self.admin_access.load().check(&request, (peer, errand)) {
            return turned_away(refusal);
        }
        if let Some(order) = order {
            return self.order(order, request).await.unwrap_or_else(|refusal| refusal);
        }
        if !matches!(request.method(), &Method::GET | &Method::HEAD) {
            return answer(StatusCode::METHOD_NOT_ALLOWED, PLAIN, "only GET\n");
        }
        match request.uri().path() {
            "/" => answer(StatusCode::OK, PLAIN, INDEX),
            "/healthz" => answer(StatusCode::OK, PLAIN, "the process is up\n"),
            "/readyz" => self.readiness().await,
            "/metrics" => self.metrics(Format::of(request.headers())).await,
            stats::PATH => self.stats().await,
            latency::PATH => self.latencies().await,
            api::zones::PATH => self.zones().await,
            _ => answer(StatusCode::NOT_FOUND, PLAIN, INDEX),
        }
    }

    async fn stats(&self) -> Response<Body> {
        self.document(|node, gateway, shards| {
            let scrub = self.scrubber.stats(&node.devices, shards);
            summary(node, gateway, shards, (scrub, &self.prices.load()))
        })
        .await
    }

    async fn latencies(&self) -> Response<Body> {
        self.document(|node, gateway, shards| node.latencies(gateway, shards)).await
    }

    async fn zones(&self) -> Response<Body> {
        let Some(node) = self.node.get() else { return starting() };
        match tokio::time::timeout(SHARD_PATIENCE, node.client.zones()).await {
            Ok(shards) => json(&zones::zones(&shards)),
            Err(_) => stuck(),
        }
    }

    /// A JSON document about the running node.
    async fn document<T: Serialize>(
        &self,
        of: impl FnOnce(&Observed, &Gateway, &[ShardStats]) -> T,
    ) -> Response<Body> {
        let node = self.node.get().and_then(|node| Some((node, node.front.gateway()?)));
        let Some((node, gateway)) = node else { return starting() };
        let Some(shards) = node.shards().await else { return stuck() };
        json(&of(node, gateway, &shards))
    }

    async fn readiness(&self) -> Response<Body> {
        let phase = *self.phase.borrow();
        let shards = match self.node.get() {
            Some(node) => node.shards().await,
            None => Some(Vec::new()),
        };
        let devices = self.node.get().map_or(&[][..], |node| &node.devices);
        let shares: Option<Vec<ShardState>> = shards.map(|shards| {
            let share = |of: &ShardStats| ShardState {
                device: of.device,
                is_lost: of.is_gone,
                is_isolated: of.is_isolated,
            };
            shards.iter().map(share).collect()
        });
        let mut readiness = readiness::judge(phase, shares.as_deref(), devices);
        let gateway = self.node.get().and_then(|node| node.front.gateway());
        if gateway.is_some_and(|gateway| gateway.caching() == Caching::Off) {
            readiness.switched_off();
        }
        if let Some(node) = self.node.get() {
            readiness.origin_trouble = origin_health::of_all(&node.origins);
            readiness.silent_origins = origin_health::silent(&node.origins);
            readiness.origin_credentials = origin_health::credentials(&node.origins);
        }
        let status = match readiness.ready {
            true => StatusCode::OK,
            false => StatusCode::SERVICE_UNAVAILABLE,
        };
        answer(status, JSON, readiness.to_json())
    }

    async fn metrics(&self, format: Format) -> Response<Body> {
        let snapshot = match self.node.get() {
            Some(node) => {
                let answered = node.shards().await;
                let shards = answered.as_deref().unwrap_or_default();
                let gateway = node.front.gateway();
                let origins = node.origins.iter();
                let origins = origins.map(|ConfiguredOrigin { name, origin, .. }| {
                    let keys = origin.keys().map(|keys| keys.counts()).unwrap_or_default();
                    (name.as_str(), origin.stats(), keys)
                });
                let origins: Vec<_> = origins.collect();
                let mut snapshot = metrics::snapshot(shards, gateway, &origins);
                if let Some(gateway) = gateway {
                    let latencies = node.latencies(gateway, shards);
                    metrics::add_latencies(&mut snapshot, latencies);
                }
                // Without the bytes of a shard that is stuck, savings would seem to be lost.
                if let (Some(gateway), Some(_)) = (gateway, &answered) {
                    let answers = answers(node, gateway);
                    let saved = savings(&answers, shards, &self.prices.load());
                    metrics::add_savings(&mut snapshot, saved);
                }
                snapshot
            }
            None => metrics::snapshot(&[], None, &[]),
        };
        match snapshot.encode(format) {
            Ok(body) => answer(StatusCode::OK, format.content_type(), body),
            Err(error) => answer(StatusCode::INTERNAL_SERVER_ERROR, PLAIN, error.to_string()),
        }
    }
}

fn json(document: &impl Serialize) -> Response<Body> {
    let json = serde_json::to_string(document).expect("text and numbers are JSON");
    answer(StatusCode::OK, JSON, json + "\n")
}

fn starting() -> Response<Body> {
    answer(StatusCode::SERVICE_UNAVAILABLE, PLAIN, "starting: opening the devices\n")
}

fn stuck() -> Response<Body> {
    answer(StatusCode::SERVICE_UNAVAILABLE, PLAIN, "a shard does not answer\n")
}

fn answer(
    status: StatusCode,
    content_type: &'static str,
    text: impl Into<Bytes>,
) -> Response<Body> {
    let mut response = head(content_type, Full::new(text.into()).boxed_unsync());
    *response.status_mut() = status;
    response
}

/// Response that streams a report, line by line.
fn streamed(mut lines: mpsc::Receiver<Bytes>) -> Response<Body> {
    let frame = |line| Ok(Frame::data(line));
    let frames = stream::poll_fn(move |cx| lines.poll_recv(cx).map(|line| line.map(frame)));
    head(NDJSON, StreamBody::new(frames).boxed_unsync())
}

fn head(content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn turned_away(AccessDenied { status, why }: AccessDenied) -> Response<Body> {
    let mut response = answer(status, PLAIN, format!("{why}\n"));
    if status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

const PLAIN: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";
const NDJSON: &str = "application/x-ndjson";

const INDEX: &str = "\
Zonal
/metrics  counters, gauges and latency histograms for Prometheus
/healthz  200 while the process is up
/readyz   200 while requests are served from the cache, else 503 with the reason
/stats    statistics since the start as JSON, see zonal cache stats
/api/v1/latency  latencies since the start as JSON
/api/v1/zones    every zone: its use, write pointer and live bytes, as JSON
/cache/warm   POST of a list: fetches objects to flash, see zonal cache warm --help
/cache/pin    POST of a list: pins objects, see zonal cache pin --help; /cache/unpin releases them
/cache/purge  POST of a list: removes objects from the cache, see zonal cache purge --help
/cache/scrub  POST: reads and verifies everything on the devices, see zonal cache scrub --help
/cache/off    POST: all reads go to the origin, until /cache/on or a restart
";
