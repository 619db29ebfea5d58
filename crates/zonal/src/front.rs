//! Front end: the gateway, with a listener and connections on each shard's thread.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use zonal_cli::Failure;
use zonal_gateway::{Config, Gateway, Terms};
use zonal_host::Client;
use zonal_origin::Origins;

use crate::listeners::Address;

/// Beyond the gateway's own bound on draining: until its threads have noticed. A guess, for a machine that
/// is busy.
const DRAIN_MARGIN: Duration = Duration::from_secs(2);

/// Shards that can report at once that they listen; more wait.
const REPORTS_MAX: usize = 64;

/// What all shards share of the front end.
#[derive(Clone)]
pub(crate) struct Front {
    shared: Arc<FrontendState>,
}

struct FrontendState {
    address: Address,
    config: Config,
    /// Those of the start.
    terms: Terms,
    origins: Arc<Origins>,
    /// One for all shards, so that its bounds and counters are those of the endpoint. Made by the first
    /// shard that has the handle of the caches.
    gateway: OnceLock<Gateway>,
    stop: watch::Sender<Stop>,
    /// Shards that serve.
    serving: watch::Sender<usize>,
    listening: mpsc::Sender<io::Result<()>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    No,
    Now,
}

/// Hears from each shard whether it listens.
pub(crate) struct Listening(mpsc::Receiver<io::Result<()>>);

impl Front {
    pub(crate) fn new(
        address: Address,
        (config, terms): (Config, Terms),
        origins: Arc<Origins>,
    ) -> (Self, Listening) {
        let (listening, reports) = mpsc::channel(REPORTS_MAX);
        let (stop, serving) = (watch::Sender::new(Stop::No), watch::Sender::new(0));
        let gateway = OnceLock::new();
        let shared =
            FrontendState { address, config, terms, origins, gateway, stop, serving, listening };
        (Self { shared: Arc::new(shared) }, Listening(reports))
    }

    /// What a node runs on each of its threads.
    pub(crate) fn on_each_shard(&self) -> zonal_host::Front {
        let shared = self.shared.clone();
        Arc::new(move |_, client| {
            let serve: Pin<Box<dyn Future<Output = ()>>> = Box::pin(shared.clone().serve(client));
            serve
        })
    }

    /// The gateway, once a shard has made it.
    pub(crate) fn gateway(&self) -> Option<&Gateway> {
        self.shared.gateway.get()
    }

    /// Stops accepting, and waits for requests that are under way, for as long as the gateway allows.
    pub(crate) async fn drain(&self) {
        self.shared.stop.send_replace(Stop::Now);
        let mut serving = self.shared.serving.subscribe();
        let ended = serving.wait_for(|count| *count == 0);
        let _ = tokio::time::timeout(self.shared.config.limits.drain + DRAIN_MARGIN, ended).await;
    }
}

impl Listening {
    /// Waits until every shard listens.
    pub(crate) async fn everywhere(mut self, shard_count: usize) -> Result<(), Failure> {
        for _ in 0..shard_count {
            match self.0.recv().await {
                Some(Ok(())) => (),
                Some(Err(error)) => {
                    return Err(Failure::work(format!("a shard cannot listen: {error}")));
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
        // Nobody listens to the report any more once another shard has failed.
        let _ = self.listening.send(outcome).await;
        if let Some(listener) = listener {
            let gateway = self.gateway.get_or_init(|| {
                let (config, terms) = (self.config.clone(), self.terms.clone());
                Gateway::new(config, terms, client, self.origins.clone())
            });
            let mut stop = self.stop.subscribe();
            let stopped = async move {
                let _ = stop.wait_for(|stop| *stop == Stop::Now).await;
            };
            zonal_gateway::serve(listener, gateway.clone(), stopped).await;
        }
        self.serving.send_modify(|count| *count -= 1);
    }
}
