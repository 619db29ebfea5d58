//! Admin endpoint of `zonal block`: metrics, liveness and readiness probes, statistics, the live
//! view, and the command that starts a scrub.

mod documents;
mod history;
mod live;
mod summary;

use std::convert::Infallible;
use std::future::Future;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use zonal_admin::{
    ACCEPT_PAUSE, Body, CONNECTIONS_MAX, HEAD_PATIENCE, PLAIN, Recorder, Recording, Span, Viewers,
    answer, file, not_allowed, of_another_site, turned_away,
};
use zonal_admin::{AccessLevel, AdminAccess, is_of_another_site};
use zonal_api::{block_stats, tiers};
use zonal_base::Nanos;
use zonal_block::{BlockDevice, BlockSettings, BlockVolume};
use zonal_export::Server;
use zonal_host::{RealClock, contained};

use super::metrics;
use super::scrubber::Scrubber;
use crate::listeners::AcceptWarnings;
use crate::metrics::Format;
use crate::wear::{WatchedDrive, watch_wear};
use history::HISTORY;

/// State of the admin endpoint. It runs on the thread of the block device; clones share it.
#[derive(Clone)]
pub(super) struct Admin {
    admin_access: Rc<AdminAccess>,
    server: Server<BlockVolume>,
    block: Rc<BlockDevice>,
    scrubber: Rc<Scrubber>,
    /// Devices of the capacity tier and of the buffer, if that has its own.
    drives: Rc<(WatchedDrive, Option<WatchedDrive>)>,
    /// Start of the process.
    started_at: Nanos,
    history: Rc<Recorder>,
    viewers: Viewers,
}

impl Admin {
    pub(super) fn new(
        admin_access: AdminAccess,
        server: Server<BlockVolume>,
        (block, scrubber): (Rc<BlockDevice>, Rc<Scrubber>),
        settings: &BlockSettings,
    ) -> Self {
        let buffer = settings.buffer.clone().map(WatchedDrive::new);
        Self {
            admin_access: Rc::new(admin_access),
            server,
            block,
            scrubber,
            drives: Rc::new((WatchedDrive::new(settings.capacity.clone()), buffer)),
            started_at: RealClock::start().now(),
            history: Rc::new(Recorder::new(&HISTORY)),
            viewers: Viewers::default(),
        }
    }

    /// Records what viewers see.
    pub(super) fn record(&self, recording: Recording) {
        recording.start(self.viewers.clone());
    }

    /// Serves until `stopped`, and then ends all connections.
    pub(super) async fn serve(self, listener: TcpListener, stopped: impl Future<Output = ()>) {
        let mut tasks = JoinSet::new();
        for span in 0..Span::ALL.len() {
            tasks.spawn_local(contained(self.clone().keep_history(span)));
        }
        tasks.spawn_local(contained(self.clone().sample_for_viewers()));
        let drives = self.drives.clone();
        tasks.spawn_local(contained(async move {
            watch_wear([&drives.0].into_iter().chain(&drives.1)).await;
        }));
        tokio::select! {
            () = self.accept(listener, &mut tasks) => {}
            () = stopped => {}
        }
        // They hold the block device.
        tasks.shutdown().await;
    }

    async fn accept(self, listener: TcpListener, tasks: &mut JoinSet<()>) {
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let mut warnings = AcceptWarnings::default();
        loop {
            let Ok(place) = places.clone().acquire_owned().await else { return };
            while tasks.try_join_next().is_some() {}
            match listener.accept().await {
                Ok((stream, peer)) => {
                    let connection = self.clone().connection((stream, peer.ip()), place);
                    tasks.spawn_local(contained(connection));
                }
                Err(error) => {
                    warnings.note(&error);
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    async fn connection(self, (stream, peer): (TcpStream, IpAddr), _place: OwnedSemaphorePermit) {
        let cut = Arc::new(Notify::new());
        let service = service_fn(|request| {
            let answer = self.respond(&request, (peer, &cut));
            async move { Ok::<_, Infallible>(answer) }
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

    fn respond(
        &self,
        request: &Request<Incoming>,
        (peer, cut): (IpAddr, &Arc<Notify>),
    ) -> Response<Body> {
        let path = request.uri().path();
        let is_scrub = path == block_stats::SCRUB_PATH;
        let level = if is_scrub { AccessLevel::Order } else { AccessLevel::Look };
        if let Err(refusal) = self.admin_access.check(request, (peer, level)) {
            return turned_away(refusal);
        }
        match *request.method() {
            Method::POST if is_scrub && self.scrubber.ask() => {
                return answer(StatusCode::OK, PLAIN, "a scrub begins\n");
            }
            Method::POST if is_scrub => {
                return answer(StatusCode::CONFLICT, PLAIN, "a scrub is running\n");
            }
            Method::GET | Method::HEAD if !is_scrub => (),
            _ if is_scrub => return not_allowed("POST"),
            _ => return not_allowed("GET, HEAD"),
        }
        if path == zonal_api::live::PATH && is_of_another_site(request) {
            return of_another_site();
        }
        match path {
            "/" => answer(StatusCode::OK, PLAIN, INDEX),
            "/healthz" => answer(StatusCode::OK, PLAIN, "the process is up\n"),
            "/readyz" => match tiers::unready(self.block.shaper()) {
                None => answer(StatusCode::OK, PLAIN, "reads and writes are served\n"),
                Some(why) => answer(StatusCode::SERVICE_UNAVAILABLE, PLAIN, why + "\n"),
            },
            "/metrics" => self.metrics(Format::of(request.headers())),
            _ => {
                let found = self.document(request.uri(), cut).or_else(|| file(path));
                found.unwrap_or_else(|| answer(StatusCode::NOT_FOUND, PLAIN, INDEX))
            }
        }
    }

    fn metrics(&self, format: Format) -> Response<Body> {
        let latencies: Vec<_> =
            self.server.exports().iter().map(zonal_export::Export::latencies).collect();
        match metrics::snapshot(&self.stats(), &latencies, self.block.commands()).encode(format) {
            Ok(body) => answer(StatusCode::OK, format.content_type(), body),
            Err(error) => answer(StatusCode::INTERNAL_SERVER_ERROR, PLAIN, error.to_string()),
        }
    }
}

const INDEX: &str = "\
Zonal, a block device
/ui/      the block device live, in a browser
/metrics  counters, gauges and latency histograms for Prometheus
/healthz  200 while the process is up
/readyz   200 while writes succeed, else 503 with the reason
/stats    statistics since the start as JSON, see zonal block stats
/api/v1/live     state and changes once a second, as server-sent events
/api/v1/zones    every zone: its use, write pointer and live bytes, as JSON; /api/v1/zones/N one
/api/v1/events   what happened to zones and devices lately, as JSON
/api/v1/history  the last hour and the last day, as JSON
/api/v1/latency  latencies since the start as JSON
/scrub    POST: verifies both devices, see zonal block scrub --help
";
