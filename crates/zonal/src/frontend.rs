//! Front end: runs the S3 gateway, with a listener and connections on each shard's thread.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use zonal_cli::Failure;
use zonal_gateway::{Config, Gateway, RuntimeConfig};
use zonal_host::Client;
use zonal_origin::Origins;

use crate::listeners::Address;

/// Time beyond the gateway's own drain limit, for its threads to stop. 2 s: a guess for a busy
/// machine.
const DRAIN_MARGIN: Duration = Duration::from_secs(2);

/// Capacity of the channel on which shards report that they listen; further shards wait.
const REPORTS_MAX: usize = 64;

/// Front end shared by all shards; clones share its state.
#[derive(Clone)]
pub(crate) struct Frontend {
    shared: Arc<FrontendState>,
}

struct FrontendState {
    address: Address,
    config: Config,
    /// Access and freshness rules at start. A reload changes those of the gateway.
    runtime_config: RuntimeConfig,
    origins: Arc<Origins>,
    /// The one gateway of all shards: its limits and counters apply to the whole endpoint. The
    /// first shard that receives the cache client creates it.
    gateway: OnceLock<Gateway>,
    stop: watch::Sender<StopMode>,
    /// Number of shards that serve.
    serving: watch::Sender<usize>,
    listening: mpsc::Sender<io::Result<()>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum StopMode {
    No,
    Now,
}

/// Receives one report per shard: listening, or the error.
pub(crate) struct Listening(mpsc::Receiver<io::Result<()>>);

impl Frontend {
    pub(crate) fn new(
        address: Address,
        (config, runtime_config): (Config, RuntimeConfig),
        origins: Arc<Origins>,
    ) -> (Self, Listening) {
        let (listening, reports) = mpsc::channel(REPORTS_MAX);
        let (stop, serving) = (watch::Sender::new(StopMode::No), watch::Sender::new(0));
        let gateway = OnceLock::new();
        let shared = FrontendState {
            address,
            config,
            runtime_config,
            origins,
            gateway,
            stop,
            serving,
            listening,
        };
        (Self { shared: Arc::new(shared) }, Listening(reports))
    }

    /// The front-end task that the node runs on each shard's thread.
    pub(crate) fn on_each_shard(&self) -> zonal_host::FrontEndTask {
        let shared = self.shared.clone();
        Arc::new(move |_, client| {
            let serve: Pin<Box<dyn Future<Output = ()>>> = Box::pin(shared.clone().serve(client));
            serve
        })
    }

    /// The gateway; `None` until a shard has created it.
    pub(crate) fn gateway(&self) -> Option<&Gateway> {
        self.shared.gateway.get()
    }

    /// Graceful shutdown: stops accepting, and waits for running requests within the gateway's
    /// drain limit.
    pub(crate) async fn drain(&self) {
        self.shared.stop.send_replace(StopMode::Now);
        let mut serving = self.shared.serving.subscribe();
        let ended = serving.wait_for(|count| *count == 0);
        let _ = tokio::time::timeout(self.shared.config.limits.drain + DRAIN_MARGIN, ended).await;
    }
}

impl Listening {
    /// Waits until every shard listens, or one fails.
    pub(crate) async fn everywhere(mut self, shard_count: usize) -> Result<(), Failure> {
        for _ in 0..shard_count {
            match self.0.recv().await {
                Some(Ok(())) => (),
                Some(Err(error)) => {
                    return Err(Failure::work(format!("a shard failed to listen: {error}")));
                }
                None => return Err(Failure::work("a shard ended before it listened")),
            }
        }
        Ok(())
    }
}

impl FrontendState {
    async fn serve(self: Arc<Self>, client: Client) {
        let listener = self.address.listen().and_then(TcpListener::from_std);
        let (listener, outcome) = match listener {
            Ok(listener) => (Some(listener), Ok(())),
            Err(error) => (None, Err(error)),
        };
        self.serving.send_modify(|count| *count += 1);
        // The receiver is gone once another shard has failed.
        let _ = self.listening.send(outcome).await;
        if let Some(listener) = listener {
            let gateway = self.gateway.get_or_init(|| {
                let (config, runtime_config) = (self.config.clone(), self.runtime_config.clone());
                Gateway::new(config, runtime_config, client, self.origins.clone())
            });
            let mut stop = self.stop.subscribe();
            let stopped = async move {
                let _ = stop.wait_for(|stop| *stop == StopMode::Now).await;
            };
            zonal_gateway::serve(listener, gateway.clone(), stopped).await;
        }
        self.serving.send_modify(|count| *count -= 1);
    }
}
