//! The NBD server with clients: a test client that controls every byte, and real ones.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod client;
mod endings;
mod limits;
mod memory;
mod protocol;
mod real;
mod unaligned;

use std::future::Future;
use std::path::PathBuf;

use tempfile::TempDir;
use tokio::net::UnixListener;
use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::task::{JoinHandle, LocalSet, spawn_local};
use zonal_export::{Export, Listener, Server};

use client::Client;
use memory::Memory;

/// A running server with the exports `a` of 1 GiB and `b` of 2 GiB.
struct Served {
    directory: TempDir,
    server: Server<Memory>,
    a: Memory,
    stop: watch::Sender<()>,
    serving: JoinHandle<()>,
}

const CONNECTIONS_MAX: usize = 8;

impl Served {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let volumes = [1, 2].map(|gib: u64| Memory::new(zonal_base::Bytes::mib(gib << 10)));
        let a = volumes[0].clone();
        let names = ["a", "b"].into_iter();
        let exports = names
            .zip(volumes)
            .map(|(name, volume)| Export::new(name.to_owned(), format!("volume {name}"), volume));
        let server = Server::new(exports.collect(), CONNECTIONS_MAX);
        let listener = UnixListener::bind(directory.path().join("socket")).unwrap();
        let (stop, stopping) = watch::channel(());
        let serving = {
            let server = server.clone();
            spawn_local(async move { server.serve(Listener::Unix(listener), stopping).await })
        };
        Self { directory, server, a, stop, serving }
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    /// A client in the transmission phase.
    async fn client(&self, export: &str) -> Client {
        let mut client = Client::connect(&self.socket()).await;
        client.go(export).await;
        client
    }
}

/// Runs a test next to a server, on one thread as in production.
fn served<F: Future<Output = ()>>(test: impl FnOnce(Served) -> F) {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async move { test(Served::start()).await });
}

/// Waits until the server has nothing more to do.
async fn settle() {
    // Data takes several iterations of the runtime to pass through a socket, and there is no event
    // to wait for.
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}
