//! Admin endpoint of `zonal serve`: metrics, liveness and readiness probes, and operator commands.
//! Read-only requests need no token; [access control](zonal_admin::AdminAccess) guards commands.

mod commands;
mod documents;
mod events;
mod history;
mod latencies;
mod list;
mod listed_objects;
mod live;
mod metrics;
mod origin_health;
mod pin;
mod prefixes;
mod purge;
mod readiness;
mod report;
mod savings;
mod scrub;
mod summary;
mod warm;

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use zonal_admin::{
    ACCEPT_PAUSE, Body, CONNECTIONS_MAX, HEAD_PATIENCE, JSON, PLAIN, Recorder, Recording, Span,
    Viewers, answer, file, not_allowed, of_another_site, turned_away,
};
use zonal_admin::{AccessLevel, is_of_another_site};
use zonal_api::latency::Latencies;
use zonal_base::Nanos;
use zonal_gateway::{Caching, Gateway};
use zonal_host::{Client, DeviceSettings, RealClock, ShardStats, contained};
use zonal_origin::{ConfiguredOrigin, Origins};

use crate::config::{AdminSecurity, Prices, ScrubSettings};
use crate::frontend::Frontend;
use crate::listeners::AcceptWarnings;
use crate::metrics::Format;
use crate::pins::PinsFile;
use crate::wear::{WatchedDrive, watch_wear};

use commands::AdminCommand;
use events::OriginEvents;
use history::HISTORY;
use prefixes::CachedBytes;
pub(crate) use readiness::Phase;
use readiness::{Readiness, ShardState};
use savings::savings;
use scrub::Scrubber;
use summary::answers;

/// Time after which a shard that does not answer counts as stuck. 2 s: probes give up after a few
/// seconds themselves.
const SHARD_PATIENCE: Duration = Duration::from_secs(2);

/// State of the admin endpoint; clones share it.
#[derive(Clone)]
pub(crate) struct Admin {
    security: Arc<ArcSwap<AdminSecurity>>,
    prices: Arc<ArcSwap<Prices>>,
    phase: watch::Receiver<Phase>,
    /// Empty until the node has started.
    node: Arc<OnceLock<Observed>>,
    /// Permit for one warm-up at a time.
    warming: Arc<Semaphore>,
    /// Permit for one purge at a time.
    purging: Arc<Semaphore>,
    /// Permit for one listing at a time.
    listing: Arc<Semaphore>,
    /// Permit for one sample of the cached objects at a time.
    sampling: Arc<Semaphore>,
    cached_bytes: Arc<CachedBytes>,
    scrubber: Arc<Scrubber>,
    /// Start of the process.
    started_at: Nanos,
    history: Arc<Recorder>,
    origin_events: Arc<OriginEvents>,
    viewers: Viewers,
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
    /// Devices in the order of the configuration.
    pub(crate) devices: Vec<ObservedDevice>,
}

/// A device as configured.
pub(crate) struct ObservedDevice {
    drive: WatchedDrive,
    policy: String,
}

impl ObservedDevice {
    pub(crate) fn of(settings: &DeviceSettings) -> Self {
        let (spec, policy) = (settings.spec.clone(), settings.policy.to_string());
        Self { drive: WatchedDrive::new(spec), policy }
    }
}

impl Observed {
    /// Statistics of every shard; `None` if one does not answer within [`SHARD_PATIENCE`].
    async fn shards(&self) -> Option<Vec<ShardStats>> {
        tokio::time::timeout(SHARD_PATIENCE, self.client.stats()).await.ok()
    }

    fn device_names(&self) -> Vec<String> {
        self.devices.iter().map(|device| device.drive.spec().to_string()).collect()
    }

    fn latencies(&self, gateway: &Gateway, shards: &[ShardStats]) -> Latencies {
        let origins = self.origins.iter().map(|named| (named.name.as_str(), named.origin.stats()));
        latencies::collect(shards, gateway, origins)
    }
}

impl Admin {
    pub(crate) fn new(
        security: AdminSecurity,
        (scrub, prices): (ScrubSettings, Prices),
        phase: watch::Receiver<Phase>,
    ) -> Self {
        let one = || Arc::new(Semaphore::new(1));
        let security = Arc::new(ArcSwap::from_pointee(security));
        Self {
            security,
            prices: Arc::new(ArcSwap::from_pointee(prices)),
            phase,
            node: Arc::default(),
            warming: one(),
            purging: one(),
            listing: one(),
            sampling: one(),
            cached_bytes: Arc::default(),
            scrubber: Scrubber::new(scrub),
            started_at: RealClock::start().now(),
            history: Arc::new(Recorder::new(&HISTORY)),
            origin_events: Arc::default(),
            viewers: Viewers::default(),
        }
    }

    /// Records what viewers see.
    pub(crate) fn record(&self, recording: Recording) {
        recording.start(self.viewers.clone());
    }

    /// Replaces the access control; later requests are checked with the new one.
    pub(crate) fn set_security(&self, security: AdminSecurity) {
        self.security.store(Arc::new(security));
    }

    /// Replaces the prices of the origins.
    pub(crate) fn set_prices(&self, prices: Prices) {
        self.prices.store(Arc::new(prices));
    }

    /// Attaches the started node. It also starts the tasks that probe origins and log their
    /// outages, the one that re-pins the operator's pins, the one that scrubs, and those that record
    /// the history and the wear of the drives.
    pub(crate) fn observe(&self, node: Observed) {
        for place in 0..node.origins.iter().count() {
            let events = self.origin_events.clone();
            tokio::spawn(origin_health::watch(node.origins.clone(), place, events.clone()));
            tokio::spawn(origin_health::watch_circuit(node.origins.clone(), place, events));
        }
        if let Some(gateway) = node.front.gateway() {
            tokio::spawn(pin::pin_again(node.client.clone(), gateway.runtime_config()));
        }
        let scrubs = self.scrubber.clone().run(node.client.clone(), node.device_names());
        tokio::spawn(scrubs);
        for span in 0..Span::ALL.len() {
            tokio::spawn(self.clone().keep_history(span));
        }
        // A node starts only once, so the cell is still empty.
        let _ = self.node.set(node);
        let admin = self.clone();
        tokio::spawn(async move {
            let Some(node) = admin.node.get() else { return };
            watch_wear(node.devices.iter().map(|device| &device.drive)).await;
        });
        tokio::spawn(contained(self.clone().sample_for_viewers()));
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
        let Some(certificate) = self.security.load().certificate.clone() else {
            return self.speak(stream, peer).await;
        };
        let shaken = tokio::time::timeout(HEAD_PATIENCE, certificate.accept(stream)).await;
        if let Ok(Ok(stream)) = shaken {
            self.speak(stream, peer).await;
        }
    }

    async fn speak<S: AsyncRead + AsyncWrite + Unpin>(&self, stream: S, peer: IpAddr) {
        let cut = Arc::new(Notify::new());
        let service = service_fn(async |request| {
            Ok::<_, Infallible>(self.respond(request, (peer, &cut)).await)
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_PATIENCE)
            .serve_connection(TokioIo::new(stream), service);
        tokio::select! {
            // Connection errors concern only the client, so they are not logged.
            _ = connection => {}
            () = cut.notified() => {}
        }
    }

    async fn respond(
        &self,
        request: Request<Incoming>,
        (peer, cut): (IpAddr, &Arc<Notify>),
    ) -> Response<Body> {
        let order = AdminCommand::of(request.uri().path());
        let errand = if order.is_some() { AccessLevel::Order } else { AccessLevel::Look };
        if let Err(refusal) = self.security.load().access.check(&request, (peer, errand)) {
            return turned_away(refusal);
        }
        if let Some(order) = order {
            return self.order(order, request).await.unwrap_or_else(|refusal| refusal);
        }
        if !matches!(request.method(), &Method::GET | &Method::HEAD) {
            return not_allowed("GET, HEAD");
        }
        if request.uri().path() == zonal_api::live::PATH && is_of_another_site(&request) {
            return of_another_site();
        }
        match request.uri().path() {
            "/" => answer(StatusCode::OK, PLAIN, INDEX),
            "/healthz" => answer(StatusCode::OK, PLAIN, "the process is up\n"),
            "/readyz" => self.readiness().await,
            "/metrics" => self.metrics(Format::of(request.headers())).await,
            _ => match self.document(request.uri(), cut).await {
                Some(document) => document,
                None => file(request.uri().path())
                    .unwrap_or_else(|| answer(StatusCode::NOT_FOUND, PLAIN, INDEX)),
            },
        }
    }

    async fn readiness(&self) -> Response<Body> {
        let shards = match self.node.get() {
            Some(node) => node.shards().await,
            None => Some(Vec::new()),
        };
        let readiness = self.readiness_with(shards.as_deref());
        let status = match readiness.ready {
            true => StatusCode::OK,
            false => StatusCode::SERVICE_UNAVAILABLE,
        };
        answer(status, JSON, readiness.to_json())
    }

    /// Readiness; `shards` is `None` if one does not answer.
    fn readiness_with(&self, shards: Option<&[ShardStats]>) -> Readiness {
        let states: Option<Vec<ShardState>> = shards.map(|shards| {
            let state = |of: &ShardStats| ShardState {
                device: of.device,
                is_lost: of.is_gone,
                is_isolated: of.is_isolated,
            };
            shards.iter().map(state).collect()
        });
        let devices = self.node.get().map(Observed::device_names).unwrap_or_default();
        let mut readiness = readiness::judge(*self.phase.borrow(), states.as_deref(), &devices);
        let gateway = self.node.get().and_then(|node| node.front.gateway());
        if gateway.is_some_and(|gateway| gateway.caching() == Caching::Off) {
            readiness.switched_off();
        }
        if let Some(node) = self.node.get() {
            readiness.origin_trouble = origin_health::of_all(&node.origins);
            readiness.silent_origins = origin_health::silent(&node.origins);
            readiness.origin_credentials = origin_health::credentials(&node.origins);
        }
        readiness
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

const INDEX: &str = "\
Zonal
/ui/      the cache live, in a browser
/metrics  counters, gauges and latency histograms for Prometheus
/healthz  200 while the process is up
/readyz   200 while requests are served from the cache, else 503 with the reason
/stats    statistics since the start as JSON, see zonal cache stats
/api/v1/live     state and changes once a second, as server-sent events
/api/v1/zones    every zone: its use, write pointer and live bytes, as JSON; /api/v1/zones/N one
/api/v1/events   what happened to zones, devices and origins lately, as JSON
/api/v1/history  the last hour and the last day, as JSON
/api/v1/latency  latencies since the start as JSON; /api/v1/devices, /api/v1/origins their state
/api/v1/prefixes requests, savings and cached bytes by bucket and prefix, as JSON
/cache/warm   POST of a list: fetches objects to flash, see zonal cache warm --help
/cache/pin    POST of a list: pins objects, see zonal cache pin --help; /cache/unpin releases them
/cache/purge  POST of a list: removes objects from the cache, see zonal cache purge --help
/cache/list   POST of a list: which objects are cached, see zonal cache ls --help
/cache/scrub  POST: reads and verifies everything on the devices, see zonal cache scrub --help
/cache/off    POST: all reads go to the origin, until /cache/on or a restart
";
