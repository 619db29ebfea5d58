//! HTTP server: accepts connections and serves them until shutdown.
//!
//! 1. Accept; beyond the limit answer 503 and close.
//! 2. Serve each connection as a task of the runtime that `serve` runs on; with a certificate, shake hands first. A panic there
//!    ends the connection, and no other.
//! 3. At the end let go: no new connections, no new requests on old ones, what is under way may end.

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
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use zonal_host::contained;
use zonal_s3::S3Error;

use crate::config::Limits;
use crate::gateway::Gateway;
use crate::socket::{Exchange, Notes, Patience, Socket, Watch};

/// Bytes of a request's head. S3 takes 8 KiB; a presigned URL with every override fits twice.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// Headers of a request. S3's 2 KiB of user metadata in the smallest possible pieces are fewer.
const HEADERS_MAX: usize = 128;

/// Bytes that hyper buffers of a request, and of an answer beyond the piece that it is sending: a
/// slow reader holds this and one piece.
const BUFFER_BYTES_MAX: usize = 64 << 10;

/// After `accept` failed, mostly for lack of file descriptors: until it is tried again.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Connections beyond the limit that are told so at once; further ones are just closed.
const REFUSALS_AT_ONCE: usize = 64;

/// How long a client may go on sending after our last byte, so that it can read why we stopped: 2 s,
/// enough for what is under way on a long line.
const FAREWELL: Duration = Duration::from_secs(2);

/// Serves `listener` until `shutdown` resolves, then lets what is under way end, for as long as
/// [`Limits::drain`] at most.
pub async fn serve(listener: TcpListener, gateway: Gateway, shutdown: impl Future<Output = ()>) {
    let (stop, stopping) = watch::channel(());
    let refusals = Arc::new(Semaphore::new(REFUSALS_AT_ONCE));
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
                match gateway.connections().clone().try_acquire_owned() {
                    Ok(place) => {
                        let gateway = gateway.clone();
                        let connection = Connection { gateway, client, _place: place };
                        connections.spawn(contained(connection.serve(stream, stopping.clone())));
                    }
                    Err(_) => refuse(stream, &gateway, &refusals),
                }
            }
        }
    }
    drop((listener, stop));
    drain(connections, &gateway).await;
}

/// Waits for connections, then for writes whose clients are gone.
async fn drain(mut connections: JoinSet<()>, gateway: &Gateway) {
    let ended = async {
        while connections.join_next().await.is_some() {}
        gateway.places().writes_have_ended().await;
    };
    let _ = timeout(gateway.config().limits.drain, ended).await;
}

/// An open connection; it holds its place among them.
struct Connection {
    gateway: Gateway,
    client: SocketAddr,
    _place: OwnedSemaphorePermit,
}

impl Connection {
    async fn serve(self, stream: TcpStream, mut stopping: watch::Receiver<()>) {
        // An answer's last packet must not wait for an acknowledgement of the one before.
        let _ = stream.set_nodelay(true);
        let Some(certificate) = self.gateway.terms().certificate.clone() else {
            return self.converse(stream, stopping).await;
        };
        let patience = self.gateway.config().limits.head;
        let handshake = timeout(patience, certificate.accept(stream));
        let secured = select! {
            secured = handshake => secured,
            _ = stopping.changed() => return,
        };
        match secured {
            Ok(Ok(stream)) => self.converse(stream, stopping).await,
            // Clients that do not trust the certificate, that speak plain HTTP, or that only look whether we are there.
            Ok(Err(_)) => self.gateway.stats().handshakes_failed.add(1),
            Err(_) => self.gateway.stats().connections_timed_out.add(1),
        }
    }

    async fn converse<S>(&self, stream: S, mut stopping: watch::Receiver<()>)
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let gateway = &self.gateway;
        let notes = Arc::new(Notes::default());
        let mut watch = Watch::new(notes.clone(), patience(&gateway.config().limits));
        let socket = Socket::new(stream, notes.clone());
        let service = service_fn(|request| {
            let exchange = (self.client, Exchange::begin(&notes));
            async move { Ok::<_, Infallible>(gateway.respond(request, exchange).await) }
        });
        let connection = http1::Builder::new()
            .max_buf_size(BUFFER_BYTES_MAX)
            .max_header_size(HEAD_BYTES_MAX)
            .max_headers(HEADERS_MAX)
            .header_read_timeout(None)
            .serve_connection(TokioIo::new(socket), service);
        let mut connection = pin!(connection);
        let mut stop = pin!(stopping.changed());
        let mut asked_to_stop = false;
        poll_fn(|cx| {
            if !asked_to_stop && stop.as_mut().poll(cx).is_ready() {
                asked_to_stop = true;
                connection.as_mut().graceful_shutdown();
            }
            // Errors are the client's affair: garbage was answered 400, and whoever went away is gone.
            if connection.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            watch.poll(cx).map(|()| gateway.stats().connections_timed_out.add(1))
        })
        .await;
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.gateway.stats().connections_closed.add(1);
    }
}

const fn patience(limits: &Limits) -> Patience {
    let Limits { idle, head, write, .. } = *limits;
    Patience { idle, head, write, farewell: FAREWELL }
}

/// Tells a client beyond the limit that it is one, if there is room even for that.
fn refuse(stream: TcpStream, gateway: &Gateway, refusals: &Arc<Semaphore>) {
    let stats = gateway.stats();
    stats.connections_refused.add(1);
    stats.connections_closed.add(1);
    // What is not encrypted would be noise to a client that wants to shake hands.
    if gateway.terms().certificate.is_some() {
        return;
    }
    let Ok(place) = refusals.clone().try_acquire_owned() else { return };
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
