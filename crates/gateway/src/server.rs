//! HTTP server: accepts connections and serves them until shutdown.
//!
//! 1. Accept. A connection beyond a limit takes the place of one that waits for a request; if none
//!    does, it gets a 503 and is closed.
//! 2. Serve each connection in a task of its own, with a TLS handshake first if there is a
//!    certificate. A panic ends only its own connection.
//! 3. Graceful shutdown: no new connections, no new requests on open ones; running requests may
//!    end.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::select;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use zonal_host::contained;
use zonal_s3::S3Error;

use crate::config::Limits;
use crate::connections::{Admitted, ConnectionRefused, Place};
use crate::gateway::Gateway;
use crate::latencies::ListenerStats;
use crate::socket::{Activity, ExchangeGuard, Socket, TimeoutDetector, Timeouts};

/// Maximum size of a request head, in bytes. S3 takes 8 KiB; a presigned URL with every override
/// fits twice.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// Maximum of headers in a request. S3's 2 KiB of user metadata in the smallest possible pieces are
/// fewer, prefixes included.
const HEADERS_MAX: usize = 256;

/// Maximum that hyper buffers of a request, and of a response beyond the piece that it is sending,
/// in bytes. So a slow reader holds this and one piece.
const BUFFER_BYTES_MAX: usize = 64 << 10;

/// Pause after a failed `accept`. Usually the process is out of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long a connection that was accepted before a shutdown may take to its first request: 1 s, more
/// than a round trip.
const FIRST_REQUEST: Duration = Duration::from_secs(1);

/// How long a client may go on sending after the last byte of the response, so that it can read the
/// response: 2 s, enough for the data in flight on a slow line.
const FAREWELL: Duration = Duration::from_secs(2);

/// Serves `listener` until `shutdown` resolves. Then running requests may end, within
/// [`Limits::drain`].
///
/// Requires: a runtime of one thread. With more, latencies could lose counts.
pub async fn serve(listener: TcpListener, gateway: Gateway, shutdown: impl Future<Output = ()>) {
    let (stop, stopping) = watch::channel(());
    let stats = gateway.add_listener();
    let mut connections = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    loop {
        let accepted = poll_fn(|cx| {
            while let Poll::Ready(Some(_)) = connections.poll_join_next(cx) {}
            if shutdown.as_mut().poll(cx).is_ready() {
                return Poll::Ready(None);
            }
            listener.poll_accept(cx).map(Some)
        });
        match accepted.await {
            None => break,
            Some(Err(_)) => {
                gateway.stats().accept_errors.add(1);
                sleep(ACCEPT_PAUSE).await;
            }
            Some(Ok((stream, client))) => {
                gateway.stats().connections_accepted.add(1);
                let activity = Arc::<Activity>::default();
                match gateway.connections().admit(client.ip(), activity.clone()) {
                    Ok(Admitted { place, has_evicted }) => {
                        gateway.stats().connections_evicted.add(u64::from(has_evicted));
                        let (gateway, stats) = (gateway.clone(), stats.clone());
                        let connection = Connection { gateway, stats, client, activity, place };
                        connections.spawn(contained(connection.serve(stream, stopping.clone())));
                    }
                    Err(refused) => refuse(stream, &gateway, refused),
                }
            }
        }
    }
    drop((listener, stop));
    drain(connections, &gateway).await;
}

/// Waits for connections, then for writes whose clients have disconnected.
async fn drain(mut connections: JoinSet<()>, gateway: &Gateway) {
    let ended = async {
        while connections.join_next().await.is_some() {}
        gateway.places().writes_have_ended().await;
    };
    let _ = timeout(gateway.config().limits.drain, ended).await;
}

/// An open connection, with its permit.
struct Connection {
    gateway: Gateway,
    stats: Arc<ListenerStats>,
    client: SocketAddr,
    activity: Arc<Activity>,
    place: Place,
}

impl Connection {
    async fn serve(self, stream: TcpStream, stopping: watch::Receiver<()>) {
        // Without Nagle's algorithm: the last packet of a response must not wait for an
        // acknowledgement.
        let _ = stream.set_nodelay(true);
        let Some(certificate) = self.gateway.runtime_config().certificate.clone() else {
            return self.converse(stream, stopping).await;
        };
        let patience = self.gateway.config().limits.head;
        let handshake = timeout(patience, certificate.accept(stream));
        let secured = select! {
            secured = handshake => secured,
            () = first_request_is_late(stopping.clone()) => return,
            () = self.place.evicted() => return,
        };
        match secured {
            Ok(Ok(stream)) => self.converse(stream, stopping).await,
            // A client that rejects the certificate, speaks plain HTTP, or probes the port.
            Ok(Err(_)) => self.gateway.stats().handshakes_failed.add(1),
            Err(_) => self.gateway.stats().connections_timed_out.add(1),
        }
    }

    async fn converse<S>(&self, stream: S, mut stopping: watch::Receiver<()>)
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let gateway = &self.gateway;
        let notes = &self.activity;
        let mut watch = TimeoutDetector::new(notes.clone(), patience(&gateway.config().limits));
        let socket = Socket::new(stream, notes.clone());
        let service = service_fn(|request| {
            let exchange = (self.client, ExchangeGuard::begin(notes));
            async move { Ok::<_, Infallible>(gateway.respond(request, exchange, &self.stats).await) }
        });
        let connection = http1::Builder::new()
            .max_buf_size(BUFFER_BYTES_MAX)
            .max_header_size(HEAD_BYTES_MAX)
            .max_headers(HEADERS_MAX)
            .header_read_timeout(None)
            .serve_connection(TokioIo::new(socket), service);
        let mut connection = pin!(connection);
        let mut late = pin!(first_request_is_late(stopping.clone()));
        let mut stop = pin!(stopping.changed());
        let mut evicted = pin!(self.place.evicted());
        let (mut is_stopping, mut asked_to_stop) = (false, false);
        poll_fn(|cx| {
            is_stopping = is_stopping || stop.as_mut().poll(cx).is_ready();
            // A new connection that is told to stop before it has received anything is closed at
            // once. So what has arrived is read first, and what is on its way is awaited.
            let is_new = is_stopping && !asked_to_stop && !notes.has_received();
            if is_new && connection.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            let mut has_begun = || notes.has_received() || late.as_mut().poll(cx).is_ready();
            if is_stopping && !asked_to_stop && has_begun() {
                asked_to_stop = true;
                connection.as_mut().graceful_shutdown();
            }
            if !asked_to_stop && evicted.as_mut().poll(cx).is_ready() {
                if notes.waits_since().is_some() {
                    return Poll::Ready(());
                }
                // A request has arrived in the meantime.
                asked_to_stop = true;
                connection.as_mut().graceful_shutdown();
            }
            // An error concerns this client only: a malformed request was answered 400, or the
            // client disconnected.
            if connection.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            watch.poll(cx).map(|()| gateway.stats().connections_timed_out.add(1))
        })
        .await;
    }
}

/// Resolves when a new connection need not wait for its first request any longer.
async fn first_request_is_late(mut stopping: watch::Receiver<()>) {
    let _ = stopping.changed().await;
    sleep(FIRST_REQUEST).await;
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.gateway.stats().connections_closed.add(1);
    }
}

const fn patience(limits: &Limits) -> Timeouts {
    let Limits { idle, head, write, .. } = *limits;
    Timeouts { idle, head, write, farewell: FAREWELL }
}

/// Answers 503 to a connection beyond the limit, if few such answers are running.
fn refuse(stream: TcpStream, gateway: &Gateway, refused: ConnectionRefused) {
    let stats = gateway.stats();
    stats.connections_refused.add(1);
    let is_of_address = refused == ConnectionRefused::OfAddress;
    stats.connections_refused_by_address.add(u64::from(is_of_address));
    stats.connections_closed.add(1);
    // A client that starts a TLS handshake could not read a plain response.
    if gateway.runtime_config().certificate.is_some() {
        return;
    }
    let Some(place) = gateway.places().for_refusal() else { return };
    let document = S3Error::slow_down().to_xml("", gateway.next_request_id().as_str());
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/xml\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{document}",
        document.len()
    );
    tokio::spawn(contained(async move {
        let _ = timeout(FAREWELL, send_and_close(stream, answer)).await;
        drop(place);
    }));
}

async fn send_and_close(stream: TcpStream, answer: String) -> io::Result<()> {
    let mut socket = Socket::new(stream, Arc::default());
    socket.write_all(answer.as_bytes()).await?;
    socket.shutdown().await
}
