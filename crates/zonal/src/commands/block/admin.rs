//! Admin endpoint of `zonal block`: metrics, liveness and readiness probes, statistics, and the
//! command that starts a scrub.

use std::convert::Infallible;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use zonal_base::Blocks;
use zonal_block::{BlockDevice, BlockSettings, BlockVolume, Tier};
use zonal_export::Server;
use zonal_host::contained;

use super::metrics;
use super::scrubber::Scrubber;
use super::serve::takes_no_writes;
use crate::admin_access::{AccessDenied, AccessLevel, AdminAccess};
use crate::block_stats::{
    self, BlockDeviceStats, BlockStats, Connections, CurrentValues, Devices, Export, Recovery,
    Tenant, Zones,
};
use crate::listeners::AcceptWarnings;
use crate::metrics::Format;

/// Concurrent connections; more wait to be accepted. 16: a few probes and an operator.
const CONNECTIONS_MAX: usize = 16;

/// Timeout for the head of a request, also on a kept-alive connection.
const HEAD_PATIENCE: Duration = Duration::from_secs(30);

/// Pause after a failed `accept`, which is mostly a lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// State of the admin endpoint. It runs on the thread of the block device.
#[derive(Clone)]
pub(super) struct Admin {
    admin_access: Rc<AdminAccess>,
    server: Server<BlockVolume>,
    block: Rc<BlockDevice>,
    scrubber: Rc<Scrubber>,
    capacity: String,
    buffer: Option<String>,
}

impl Admin {
    pub(super) fn new(
        admin_access: AdminAccess,
        server: Server<BlockVolume>,
        (block, scrubber): (Rc<BlockDevice>, Rc<Scrubber>),
        settings: &BlockSettings,
    ) -> Self {
        let (admin_access, capacity) = (Rc::new(admin_access), settings.capacity.to_string());
        Self {
            admin_access,
            server,
            block,
            scrubber,
            capacity,
            buffer: settings.buffer.as_ref().map(ToString::to_string),
        }
    }

    /// Serves until the future is dropped, which also ends the connections.
    pub(super) async fn serve(self, listener: TcpListener) {
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let mut warnings = AcceptWarnings::default();
        let mut connections = JoinSet::new();
        loop {
            let Ok(place) = places.clone().acquire_owned().await else { return };
            while connections.try_join_next().is_some() {}
            match listener.accept().await {
                Ok((stream, peer)) => {
                    let connection = self.clone().connection((stream, peer.ip()), place);
                    connections.spawn_local(contained(connection));
                }
                Err(error) => {
                    warnings.note(&error);
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    async fn connection(self, (stream, peer): (TcpStream, IpAddr), _place: OwnedSemaphorePermit) {
        let service = service_fn(|request| {
            let answer = self.respond(&request, peer);
            async move { Ok::<_, Infallible>(answer) }
        });
        // Connection errors concern only the client, so they are not logged.
        let _ = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_PATIENCE)
            .serve_connection(TokioIo::new(stream), service)
            .await;
    }

    fn respond(&self, request: &Request<Incoming>, peer: IpAddr) -> Response<Full<Bytes>> {
        let is_scrub = request.uri().path() == block_stats::SCRUB_PATH;
        let level = if is_scrub { AccessLevel::Order } else { AccessLevel::Look };
        if let Err(AccessDenied { status, why }) = self.admin_access.check(request, (peer, level)) {
            return answer(status, PLAIN, format!("{why}\n"));
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
        match request.uri().path() {
            "/" => answer(StatusCode::OK, PLAIN, INDEX),
            "/healthz" => answer(StatusCode::OK, PLAIN, "the process is up\n"),
            "/readyz" => match self.trouble() {
                None => answer(StatusCode::OK, PLAIN, "reads and writes are served\n"),
                Some(why) => answer(StatusCode::SERVICE_UNAVAILABLE, PLAIN, why + "\n"),
            },
            "/metrics" => self.metrics(Format::of(request.headers())),
            block_stats::PATH => {
                let json = serde_json::to_string(&self.stats()).expect("text and numbers are JSON");
                answer(StatusCode::OK, JSON, json + "\n")
            }
            _ => answer(StatusCode::NOT_FOUND, PLAIN, INDEX),
        }
    }

    fn metrics(&self, format: Format) -> Response<Full<Bytes>> {
        let latencies: Vec<_> =
            self.server.exports().iter().map(zonal_export::Export::latencies).collect();
        match metrics::snapshot(&self.stats(), &latencies, self.block.commands()).encode(format) {
            Ok(body) => answer(StatusCode::OK, format.content_type(), body),
            Err(error) => answer(StatusCode::INTERNAL_SERVER_ERROR, PLAIN, error.to_string()),
        }
    }

    fn stats(&self) -> BlockStats {
        let shaper = self.block.shaper();
        let (stats, waiting, recovery) = (shaper.stats(), shaper.waiting(), shaper.recovery());
        let connections = self.server.connections();
        BlockStats {
            capacity: BlockDeviceStats { spec: self.capacity.clone() },
            buffer: self.buffer.clone().map(|spec| BlockDeviceStats { spec }),
            connections: Connections {
                open: connections.open as u64,
                refused: connections.refused,
                failed: connections.failed,
            },
            exports: self.exports(),
            tenants: self.tenants(),
            devices: Devices {
                buffer_written_bytes: stats.buffer_device_bytes,
                capacity_written_bytes: stats.capacity_device_bytes,
                map_written_bytes: stats.map_written_bytes,
                map_read_bytes: stats.map_read_bytes,
                buffer_segments: stats.buffer_segments,
                flushes: stats.flushes,
                throttled: stats.throttled,
                buffer_zones_reset: stats.buffer_zones_reset,
                capacity_zones_reset: stats.capacity_zones_reset,
                blocks_lost: stats.blocks_lost,
                checksum_errors: stats.checksum_errors,
                write_errors: stats.write_errors,
                read_errors: stats.read_errors,
                zones_retired: stats.zones_retired,
            },
            now: CurrentValues {
                queued_bytes: Blocks(waiting.queued_blocks).bytes().0,
                buffer_zones: zones(waiting.buffer_zones),
                capacity_zones: zones(waiting.capacity_zones),
                map_memory_bytes: shaper.map_memory_bytes(),
                map_pages_on: shaper.map_pages_on().map(|tier| tier.name().to_owned()),
            },
            scrub: self.scrubber.stats(),
            recovery: Recovery {
                segments: recovery.segments,
                read_bytes: recovery.read_bytes,
                torn_blocks: recovery.torn_blocks,
            },
            failure: shaper.failure().map(|error| error.to_string()),
            halted: shaper.halted().map(|error| error.to_string()),
            read_only: [Tier::Buffer, Tier::Capacity]
                .into_iter()
                .filter(|tier| shaper.is_read_only(*tier))
                .map(|tier| tier.name().to_owned())
                .collect(),
        }
    }

    /// Why the device is not ready; `None` if it is healthy.
    fn trouble(&self) -> Option<String> {
        let shaper = self.block.shaper();
        let failed = shaper.failure().map(|error| format!("writes fail: {error}"));
        let halted = shaper.halted().map(|error| {
            format!("compaction stopped, writes continue until the buffer is full: {error}")
        });
        failed.or(halted).or_else(|| shaper.read_only().map(takes_no_writes))
    }

    fn exports(&self) -> Vec<Export> {
        let made = self.block.shaper().exports().iter();
        let exports = made.zip(self.server.exports()).map(|(made, served)| {
            let stats = served.stats();
            Export {
                name: made.name.clone(),
                tenant: made.tenant.clone(),
                size_bytes: made.blocks.bytes().0,
                verify: made.is_verified,
                connections_open: stats.connections - stats.disconnections,
                reads: stats.reads,
                read_bytes: stats.read_bytes,
                writes: stats.writes,
                written_bytes: stats.written_bytes,
                trims: stats.clears,
                trimmed_bytes: stats.cleared_bytes,
                flushes: stats.flushes,
                refusals: stats.refusals,
                failures: stats.failures,
            }
        });
        exports.collect()
    }

    fn tenants(&self) -> Vec<Tenant> {
        let tenants = self.block.shaper().tenant_stats().into_iter().map(|(name, stats)| Tenant {
            name: name.to_owned(),
            user_written_bytes: stats.user_written_bytes,
            user_read_bytes: stats.user_read_bytes,
            user_trimmed_bytes: stats.user_trimmed_bytes,
            buffer_written_bytes: stats.buffer_written_bytes,
            retained_bytes: stats.retained_bytes,
            compacted_bytes: stats.compacted_bytes,
            collected_bytes: stats.collected_bytes,
            map_bytes: stats.map_bytes,
            metadata_bytes: stats.metadata_bytes,
            capacity_written_bytes: stats.capacity_written_bytes,
            stored_bytes: Blocks(stats.mapped_blocks).bytes().0,
        });
        tenants.collect()
    }
}

const fn zones([empty, open, full, emptying, retired, unreadable]: [u32; 6]) -> Zones {
    Zones { empty, open, full, emptying, retired, unreadable }
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

fn not_allowed(methods: &'static str) -> Response<Full<Bytes>> {
    let why = format!("only {methods}\n");
    let mut response = answer(StatusCode::METHOD_NOT_ALLOWED, PLAIN, why);
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
    response
}

const PLAIN: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

const INDEX: &str = "\
Zonal, a block device
/metrics  counters, gauges and latency histograms for Prometheus
/healthz  200 while the process is up
/readyz   200 while writes succeed, else 503 with the reason
/stats    statistics since the start as JSON, see zonal block stats
";
