//! Shard thread: one tokio runtime that runs the engine. A new engine instance (`life`) starts each
//! time the device joins.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use tokio::runtime::{Builder as RuntimeBuilder, LocalOptions};
use tokio::sync::{mpsc, oneshot};
use zonal_cache::{ChunkRules, PrefetchSlots, RecoveryStats};
use zonal_hostdev::Drive;
use zonal_zonelog::{Generations, Identity, OpenMode};

use crate::Client;
use crate::clock::RealClock;
use crate::device_health::DeviceHealth;
use crate::node::{DeviceSettings, FrontEndTask, StartError};
use crate::origin::Backend;
use crate::peers::Peers;
use crate::request::Request;
use crate::roster::Id;
use crate::shard_lifecycle::join_again;
use crate::shard_loop::ShardLoop;

/// Numbers of a device and of a shard on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShardAddress {
    pub(crate) device: usize,
    pub(crate) shard: usize,
    pub(crate) shard_count: usize,
}

/// Parts of a shard that all its engine instances share.
pub(crate) struct ShardShared {
    pub(crate) place: ShardAddress,
    pub(crate) peers: Peers,
    pub(crate) settings: DeviceSettings,
    /// Chunk size rules at the start of the node.
    pub(crate) chunks: Arc<ChunkRules>,
    pub(crate) prefetch_slots: PrefetchSlots,
    pub(crate) generations: Generations,
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) standing: Arc<DeviceHealth>,
}

/// Results of a shard's start.
pub(crate) struct ShardStarted {
    pub(crate) log: Id,
    pub(crate) roster: Option<Vec<u8>>,
    pub(crate) regained: RecoveryStats,
}

/// Parameters of a shard's thread.
pub(crate) struct ShardConfig {
    pub(crate) share: ShardShared,
    pub(crate) drive: Arc<Drive>,
    pub(crate) identity: Identity,
    pub(crate) mode: OpenMode,
    pub(crate) requests: mpsc::Receiver<Request>,
    /// Gets the results of the start, or the error.
    pub(crate) started: oneshot::Sender<Result<ShardStarted, StartError>>,
    /// Completes when all shards have started: then the front end starts.
    pub(crate) go: oneshot::Receiver<Client>,
    pub(crate) front: Option<FrontEndTask>,
}

pub(crate) fn spawn(setup: ShardConfig) -> std::io::Result<JoinHandle<()>> {
    let ShardAddress { device, shard, .. } = setup.share.place;
    let name = format!("shard-{device}-{shard}");
    Builder::new().name(name).spawn(move || {
        let mut runtime = RuntimeBuilder::new_current_thread();
        let runtime = match runtime.enable_all().build_local(LocalOptions::default()) {
            Ok(runtime) => runtime,
            Err(error) => {
                return drop(setup.started.send(Err(StartError::Thread(error.to_string()))));
            }
        };
        // A task like those of the connections: a request is passed on within one round of tasks.
        // The runtime polls the sockets before each poll of the future that it blocks on.
        let running = runtime.spawn_local(run(setup));
        if let Err(error) = runtime.block_on(running) {
            resume_unwind(error.into_panic());
        }
    })
}

async fn run(setup: ShardConfig) {
    let ShardConfig { share, drive, identity, mode, requests, started, go, front } = setup;
    let clock = RealClock::start();
    let begun = ShardLoop::new(&share, clock, &drive);
    let mut event_loop = match begun {
        Ok((mut event_loop, opening)) => {
            match event_loop.open_cache(opening, &drive, (identity, mode)).await {
                Ok(()) => event_loop,
                Err(error) => return drop(started.send(Err(error))),
            }
        }
        Err(error) => return drop(started.send(Err(error))),
    };
    // From here on only the device supervisor holds the drive.
    drop(drive);
    if started.send(Ok(event_loop.begun())).is_err() {
        return;
    }
    let shard = share.place.shard;
    tokio::task::spawn_local(async move {
        if let (Ok(client), Some(front)) = (go.await, front) {
            front(shard, client).await;
        }
    });
    event_loop.serve(requests, share.settings.patience);
    while let Some(rejoin) = event_loop.order().await {
        event_loop = join_again(event_loop, &share, clock, rejoin).await;
    }
}
