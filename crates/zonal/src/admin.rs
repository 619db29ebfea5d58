//! The admin endpoint: metrics, health, readiness. No keys are asked for; it changes nothing.

mod metrics;
mod process;
mod readiness;
mod trouble;

use std::convert::Infallible;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use zonal_host::{Client, ShardStats};
use zonal_origin::Origin;

use crate::front::Front;

pub(crate) use readiness::Phase;
use readiness::Share;

/// Connections at once; more wait to be accepted. 64: monitoring has a few, and nobody else comes here.
const CONNECTIONS_MAX: usize = 64;

/// Until the head of a request is there, also on a connection that is kept. 30 s: longer than the usual
/// interval between two scrapes.
const HEAD_PATIENCE: Duration = Duration::from_secs(30);

/// After `accept` failed, mostly for lack of file descriptors: until it is tried again.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Until a shard that does not answer counts as stuck. 2 s: probes give up after a few seconds themselves.
const SHARD_PATIENCE: Duration = Duration::from_secs(2);

/// What the admin endpoint looks at.
#[derive(Clone)]
pub(crate) struct Admin {
    phase: watch::Receiver<Phase>,
    /// Set when the node is up.
    node: Arc<OnceLock<Observed>>,
}

/// The parts of a running Zonal that can be looked at.
pub(crate) struct Observed {
    pub(crate) client: Client,
    pub(crate) front: Front,
    pub(crate) origin: Arc<Origin>,
    /// How the devices were named, in their order.
    pub(crate) devices: Vec<String>,
}

impl Observed {
    /// What every shard tells of itself; `None` when one does not answer.
    async fn shards(&self) -> Option<Vec<ShardStats>> {
        tokio::time::timeout(SHARD_PATIENCE, self.client.stats()).await.ok()
    }
}

impl Admin {
    pub(crate) fn new(phase: watch::Receiver<Phase>) -> Self {
        Self { phase, node: Arc::default() }
    }

    /// From here on there is something to look at, and the origin's troubles are logged.
    pub(crate) fn observe(&self, node: Observed) {
        tokio::spawn(trouble::tell(node.origin.clone()));
        // A node is started once.
        let _ = self.node.set(node);
    }

    /// Serves until the process ends.
    pub(crate) async fn serve(self, listener: TcpListener) {
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        loop {
            let Ok(place) = places.clone().acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, _)) => drop(tokio::spawn(self.clone().connection(stream, place))),
                Err(error) => {
                    tracing::warn!(%error, "the admin endpoint cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    async fn connection(self, stream: TcpStream, _place: OwnedSemaphorePermit) {
        let service = service_fn(|request| {
            let admin = &self;
            async move { Ok::<_, Infallible>(admin.respond(&request).await) }
        });
        // Errors are the client's affair.
        let _ = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_PATIENCE)
            .serve_connection(TokioIo::new(stream), service)
            .await;
    }

    async fn respond(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        if !matches!(request.method(), &Method::GET | &Method::HEAD) {
            return answer(StatusCode::METHOD_NOT_ALLOWED, PLAIN, "only GET\n");
        }
        match request.uri().path() {
            "/" => answer(StatusCode::OK, PLAIN, INDEX),
            "/healthz" => answer(StatusCode::OK, PLAIN, "the process is up\n"),
            "/readyz" => self.readiness().await,
            "/metrics" => self.metrics().await,
            _ => answer(StatusCode::NOT_FOUND, PLAIN, INDEX),
        }
    }

    async fn readiness(&self) -> Response<Full<Bytes>> {
        let phase = *self.phase.borrow();
        let shards = match self.node.get() {
            Some(node) => node.shards().await,
            None => Some(Vec::new()),
        };
        let devices = self.node.get().map_or(&[][..], |node| &node.devices);
        let shares: Option<Vec<Share>> = shards.map(|shards| {
            let share = |of: &ShardStats| Share { device: of.device, is_lost: of.is_gone };
            shards.iter().map(share).collect()
        });
        let mut readiness = readiness::judge(phase, shares.as_deref(), devices);
        let trouble = self.node.get().and_then(|node| node.origin.stats().trouble());
        readiness.origin_trouble = trouble.map(|error| error.to_string());
        let status = match readiness.ready {
            true => StatusCode::OK,
            false => StatusCode::SERVICE_UNAVAILABLE,
        };
        answer(status, JSON, readiness.to_json())
    }

    async fn metrics(&self) -> Response<Full<Bytes>> {
        let (shards, front, origin) = match self.node.get() {
            Some(node) => {
                let shards = node.shards().await.unwrap_or_default();
                (
                    shards,
                    node.front.gateway().map(|gateway| gateway.stats().clone()),
                    Some(&node.origin),
                )
            }
            None => (Vec::new(), None, None),
        };
        let origin = origin.map(|origin| origin.stats());
        match metrics::text(&shards, front.as_deref(), origin) {
            Ok(text) => answer(StatusCode::OK, OPEN_METRICS, text),
            Err(error) => answer(StatusCode::INTERNAL_SERVER_ERROR, PLAIN, error.to_string()),
        }
    }
}

fn answer(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Bytes>,
) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

const PLAIN: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

const INDEX: &str = "\
Zonal
/metrics  counters and gauges for Prometheus
/healthz  200 while the process is up
/readyz   200 when requests are served from the cache, 503 and why when not
";
