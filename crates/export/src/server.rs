//! NBD server: accepts connections and serves them until shutdown.
//!
//! 1. Accept; beyond the limit close at once.
//! 2. Serve each connection as a task of the thread that all of them share with their volumes. One that panics is closed, and
//!    no other.
//! 3. At the end let go: no new connections, no new requests on old ones, what is under way is answered.

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
use crate::received::Received;
use crate::stats::Counts;
use crate::volume::Volume;

/// How long a client may take to choose an export: 30 s.
const HANDSHAKE: Duration = Duration::from_secs(30);

/// After `accept` failed, mostly for lack of file descriptors: until it is tried again.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long a client may go on sending after our last byte: a socket that is closed with unread bytes may lose what was
/// sent before. 2 s.
const FAREWELL: Duration = Duration::from_secs(2);

/// A client that is gone without a word is noticed after a minute of silence and some questions; a disk may be idle for
/// days.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// Where clients come from.
#[derive(Debug)]
pub enum Listener {
    /// A socket in the file system.
    Unix(UnixListener),
    /// An address.
    Tcp(TcpListener),
}

enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Listener {
    async fn accept(&self) -> io::Result<Stream> {
        match self {
            Self::Unix(listener) => listener.accept().await.map(|(stream, _)| Stream::Unix(stream)),
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                // A reply must not wait for an acknowledgement of the one before. Who refuses either is gone.
                let _ = stream.set_nodelay(true);
                let keepalive = TcpKeepalive::new().with_time(KEEPALIVE);
                let _ = SockRef::from(&stream).set_tcp_keepalive(&keepalive);
                Ok(Stream::Tcp(stream))
            }
        }
    }
}

/// A client's connection, from its first byte to its last.
pub type ConnectionTask = Pin<Box<dyn Future<Output = ()>>>;

/// Serves exports. Clones share them.
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

    /// The task of a connection has ended.
    fn note(&self, ended: &Result<(), JoinError>) {
        if ended.is_err() {
            self.fail();
        }
    }
}

/// What is known of all connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionStats {
    /// Those that are open.
    pub open: usize,
    /// Those that were closed at once, because there were too many.
    pub refused: u64,
    /// Those that ended without leave: gone, too slow to choose, not speaking the protocol, or by a panic of ours.
    pub failed: u64,
}

impl<V> Clone for Server<V> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), wrap: self.wrap }
    }
}

impl<V: Volume> Server<V> {
    /// A server of these exports to so many connections at once. Each takes up to 32 MiB for its requests, twice that
    /// while it writes what is not whole blocks.
    ///
    /// Requires: no two exports of one name.
    #[must_use]
    pub fn new(exports: Vec<Export<V>>, connections_max: usize) -> Self {
        let offers: Vec<Offer> = exports.iter().map(Export::offer).collect();
        let counts = Connections::default();
        let shared = Rc::new(ServerState { exports, offers, connections_max, counts });
        Self { shared, wrap: |connection| connection }
    }

    /// Has every connection run within what `wrap` makes of it: so the caller knows of a panic whether it is one client's.
    #[must_use]
    pub fn wrapping_connections(self, wrap: fn(ConnectionTask) -> ConnectionTask) -> Self {
        Self { wrap, ..self }
    }

    /// The exports, in their order.
    #[must_use]
    pub fn exports(&self) -> &[Export<V>] {
        &self.shared.exports
    }

    /// What is known of all connections.
    #[must_use]
    pub fn connections(&self) -> ConnectionStats {
        let Connections { open, refused, failed } = &self.shared.counts;
        ConnectionStats { open: open.get(), refused: refused.get(), failed: failed.get() }
    }

    /// Serves clients until `stopping` changes or is dropped, and returns when all of them have been answered, or
    /// have not taken their answers for ten seconds.
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
                    Stream::Unix(stream) => place.serve(stream, stopping).await,
                    Stream::Tcp(stream) => place.serve(stream, stopping).await,
                }
            })));
        }
        drop(listener);
        while let Some(ended) = connections.join_next().await {
            self.shared.counts.note(&ended);
        }
    }
}

/// One of the connections that there may be.
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
        let mut received = Received::new();
        let choice = select! {
            choice = timeout(HANDSHAKE, shake_hands(&mut stream, &mut received, offers)) => choice,
            _ = stopping.changed() => return,
        };
        let Ok(Ok(agreed)) = choice else { return counts.fail() };
        if let Some(agreed) = agreed {
            let export = &exports[agreed.export];
            let chosen = Chosen::begin(export.counts());
            let ended = transmit(&mut stream, received, (export, &agreed), &mut stopping).await;
            drop(chosen);
            if ended.is_err() {
                return counts.fail();
            }
        }
        let _ = timeout(FAREWELL, part(&mut stream)).await;
    }
}

/// A client is connected to an export for as long as this lives.
struct Chosen<'a>(&'a Counts);

impl<'a> Chosen<'a> {
    fn begin(counts: &'a Counts) -> Self {
        counts.connections.add(1);
        Self(counts)
    }
}

impl Drop for Chosen<'_> {
    fn drop(&mut self) {
        self.0.disconnections.add(1);
    }
}

/// Closes our side, and reads what still comes until the client closes its own.
async fn part<S: Wire>(stream: &mut S) -> io::Result<()> {
    stream.shutdown().await?;
    let mut ignored = [0; 4096];
    while 0 < stream.read(&mut ignored).await? {}
    Ok(())
}
