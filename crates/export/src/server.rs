//! NBD server: accepts connections and serves them until shutdown.
//!
//! 1. Accept. Connections beyond the limit are closed at once.
//! 2. Serve each connection in a task on the thread of the volumes. A panic ends only its own
//!    connection.
//! 3. Graceful shutdown: no new connections, no new requests on open ones; running requests are
//!    answered.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::select;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{sleep, timeout};

use crate::connection::{Wire, shake_hands, transmit};
use crate::export::Export;
use crate::handshake::Offer;
use crate::receive_buffer::ReceiveBuffer;
use crate::stats::Counts;
use crate::volume::Volume;

/// Time limit of the handshake, until the client has chosen an export: 30 s.
const HANDSHAKE: Duration = Duration::from_secs(30);

/// Pause after a failed `accept`. Usually the process is out of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long a client may go on sending after the last reply: 2 s. A socket that is closed with
/// unread bytes is reset, and the client may lose replies that were sent before.
const FAREWELL: Duration = Duration::from_secs(2);

/// TCP keepalive: the kernel probes a client after 60 s of silence, to detect one that has
/// vanished. A disk can legitimately be idle for days.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// Listening socket.
#[derive(Debug)]
pub enum Listener {
    /// Unix domain socket.
    Unix(UnixListener),
    /// TCP socket.
    Tcp(TcpListener),
}

enum ClientStream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Listener {
    async fn accept(&self) -> io::Result<ClientStream> {
        match self {
            Self::Unix(listener) => {
                listener.accept().await.map(|(stream, _)| ClientStream::Unix(stream))
            }
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                // Without Nagle's algorithm, because a reply must not wait for an acknowledgement.
                // Both options fail only if the client is gone.
                let _ = stream.set_nodelay(true);
                let keepalive = TcpKeepalive::new().with_time(KEEPALIVE);
                let _ = SockRef::from(&stream).set_tcp_keepalive(&keepalive);
                Ok(ClientStream::Tcp(stream))
            }
        }
    }
}

/// The task of one connection.
pub type ConnectionTask = Pin<Box<dyn Future<Output = ()>>>;

/// NBD server. Clones share its exports and counters.
#[derive(Debug)]
pub struct Server<V> {
    shared: Rc<ServerState<V>>,
    wrap: fn(ConnectionTask) -> ConnectionTask,
}

#[derive(Debug)]
struct ServerState<V> {
    exports: Vec<Export<V>>,
    offers: Vec<Offer>,
    connections_max: usize,
    counts: Connections,
}

#[derive(Debug, Default)]
struct Connections {
    open: Cell<usize>,
    refused: Cell<u64>,
    failed: Cell<u64>,
}

impl Connections {
    fn fail(&self) {
        self.failed.set(self.failed.get() + 1);
    }

    /// Counts a connection task that panicked.
    fn note(&self, ended: &Result<(), JoinError>) {
        if ended.is_err() {
            self.fail();
        }
    }
}

/// Connection statistics of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionStats {
    /// Open connections.
    pub open: usize,
    /// Connections beyond the limit, which were closed at once.
    pub refused: u64,
    /// Connections that failed: broken off or against the protocol after an export was chosen, an
    /// I/O error or timeout in the handshake, replies not taken during shutdown, or a panic.
    /// Leaving during the handshake is no failure.
    pub failed: u64,
}

impl<V> Clone for Server<V> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), wrap: self.wrap }
    }
}

impl<V: Volume> Server<V> {
    /// Creates a server for these exports, with a limit of connections. A connection uses up to 32
    /// MiB for its requests, and twice that while it writes partial blocks.
    ///
    /// Requires: the names of the exports are distinct.
    #[must_use]
    pub fn new(exports: Vec<Export<V>>, connections_max: usize) -> Self {
        let offers: Vec<Offer> = exports.iter().map(Export::offer).collect();
        let counts = Connections::default();
        let shared = Rc::new(ServerState { exports, offers, connections_max, counts });
        Self { shared, wrap: |connection| connection }
    }

    /// Wraps the task of every connection, so that the caller can tell a panic in one connection
    /// from others.
    #[must_use]
    pub fn wrapping_connections(self, wrap: fn(ConnectionTask) -> ConnectionTask) -> Self {
        Self { wrap, ..self }
    }

    /// The exports, in the order in which they were given.
    #[must_use]
    pub fn exports(&self) -> &[Export<V>] {
        &self.shared.exports
    }

    /// Connection statistics.
    #[must_use]
    pub fn connections(&self) -> ConnectionStats {
        let Connections { open, refused, failed } = &self.shared.counts;
        ConnectionStats { open: open.get(), refused: refused.get(), failed: failed.get() }
    }

    /// Serves clients until `stopping` changes or is dropped. It returns when all clients have been
    /// answered, or have not taken their replies within a grace period of ten seconds.
    ///
    /// Requires: it runs within a `LocalSet`.
    pub async fn serve(&self, listener: Listener, mut stopping: watch::Receiver<()>) {
        let mut connections = JoinSet::new();
        loop {
            let accepted = select! {
                _ = stopping.changed() => break,
                Some(ended) = connections.join_next() => {
                    self.shared.counts.note(&ended);
                    continue;
                }
                accepted = listener.accept() => accepted,
            };
            let Ok(stream) = accepted else {
                sleep(ACCEPT_PAUSE).await;
                continue;
            };
            let Some(place) = ConnectionPermit::take(&self.shared) else { continue };
            let stopping = stopping.clone();
            connections.spawn_local((self.wrap)(Box::pin(async move {
                match stream {
                    ClientStream::Unix(stream) => place.serve(stream, stopping).await,
                    ClientStream::Tcp(stream) => place.serve(stream, stopping).await,
                }
            })));
        }
        drop(listener);
        while let Some(ended) = connections.join_next().await {
            self.shared.counts.note(&ended);
        }
    }
}

/// Permit for a connection.
struct ConnectionPermit<V> {
    shared: Rc<ServerState<V>>,
}

impl<V> ConnectionPermit<V> {
    fn take(shared: &Rc<ServerState<V>>) -> Option<Self> {
        let counts = &shared.counts;
        if counts.open.get() == shared.connections_max {
            counts.refused.set(counts.refused.get() + 1);
            return None;
        }
        counts.open.set(counts.open.get() + 1);
        Some(Self { shared: shared.clone() })
    }
}

impl<V> Drop for ConnectionPermit<V> {
    fn drop(&mut self) {
        let open = &self.shared.counts.open;
        open.set(open.get() - 1);
    }
}

impl<V: Volume> ConnectionPermit<V> {
    async fn serve<S: Wire>(self, mut stream: S, mut stopping: watch::Receiver<()>) {
        let ServerState { exports, offers, counts, .. } = &*self.shared;
        let mut received = ReceiveBuffer::new();
        let choice = select! {
            choice = timeout(HANDSHAKE, shake_hands(&mut stream, &mut received, offers)) => choice,
            _ = stopping.changed() => return,
        };
        let Ok(Ok(agreed)) = choice else { return counts.fail() };
        if let Some(agreed) = agreed {
            let export = &exports[agreed.export];
            let chosen = OpenExport::begin(export.counts());
            let ended = transmit(&mut stream, received, (export, &agreed), &mut stopping).await;
            drop(chosen);
            if ended.is_err() {
                return counts.fail();
            }
        }
        let _ = timeout(FAREWELL, part(&mut stream)).await;
    }
}

/// Counts a connection to an export, and its end when dropped.
struct OpenExport<'a>(&'a Counts);

impl<'a> OpenExport<'a> {
    fn begin(counts: &'a Counts) -> Self {
        counts.connections.add(1);
        Self(counts)
    }
}

impl Drop for OpenExport<'_> {
    fn drop(&mut self) {
        self.0.disconnections.add(1);
    }
}

/// Closes our side, and discards input until the client closes its own.
async fn part<S: Wire>(stream: &mut S) -> io::Result<()> {
    stream.shutdown().await?;
    let mut ignored = [0; 4096];
    while 0 < stream.read(&mut ignored).await? {}
    Ok(())
}
