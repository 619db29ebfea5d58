//! Shard thread: one tokio runtime, on which the engine lives (`life`), once for each time its device joins.

use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use tokio::sync::{mpsc, oneshot};
use tokio::task::LocalSet;
use zonal_cache::{ChunkRules, Regained};
use zonal_hostdev::Drive;
use zonal_zonelog::{Generations, Identity, OpenMode};

use crate::Client;
use crate::clock::RealClock;
use crate::crank::Crank;
use crate::life::join_again;
use crate::node::{DeviceSettings, Front, StartError};
use crate::origin::Backend;
use crate::peers::Peers;
use crate::request::Request;
use crate::roster::Id;
use crate::standing::Standing;

/// Which share of which device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShardAddress {
    pub(crate) device: usize,
    pub(crate) shard: usize,
    pub(crate) shard_count: usize,
}

/// What a shard keeps over all its lives.
pub(crate) struct Share {
    pub(crate) place: ShardAddress,
    pub(crate) peers: Peers,
    pub(crate) settings: DeviceSettings,
    /// Those that the node was started with.
    pub(crate) chunks: Arc<ChunkRules>,
    pub(crate) generations: Generations,
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) standing: Arc<Standing>,
}

/// What a shard found when it came up.
pub(crate) struct Begun {
    pub(crate) log: Id,
    pub(crate) roster: Option<Vec<u8>>,
    pub(crate) regained: Regained,
}

/// What a shard's thread is given.
pub(crate) struct Setup {
    pub(crate) share: Share,
    pub(crate) drive: Arc<Drive>,
    pub(crate) identity: Identity,
    pub(crate) mode: OpenMode,
    pub(crate) requests: mpsc::Receiver<Request>,
    /// Hears what the cache found when it is up, or why it is not.
    pub(crate) started: oneshot::Sender<Result<Begun, StartError>>,
    /// Comes when all shards are up: then the front end starts.
    pub(crate) go: oneshot::Receiver<Client>,
    pub(crate) front: Option<Front>,
}

pub(crate) fn spawn(setup: Setup) -> std::io::Result<JoinHandle<()>> {
    let ShardAddress { device, shard, .. } = setup.share.place;
    let name = format!("shard-{device}-{shard}");
    Builder::new().name(name).spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        match runtime {
            Ok(runtime) => LocalSet::new().block_on(&runtime, run(setup)),
            Err(error) => drop(setup.started.send(Err(StartError::Thread(error.to_string())))),
        }
    })
}

async fn run(setup: Setup) {
    let Setup { share, drive, identity, mode, requests, started, go, front } = setup;
    let clock = RealClock::start();
    let begun = Crank::begin(&share, clock, &drive);
    let mut crank = match begun {
        Ok((mut crank, opening)) => match crank.come_up(opening, &drive, (identity, mode)).await {
            Ok(()) => crank,
            Err(error) => return drop(started.send(Err(error))),
        },
        Err(error) => return drop(started.send(Err(error))),
    };
    // Whoever keeps the device has it from here on.
    drop(drive);
    if started.send(Ok(crank.begun())).is_err() {
        return;
    }
    let shard = share.place.shard;
    tokio::task::spawn_local(async move {
        if let (Ok(client), Some(front)) = (go.await, front) {
            front(shard, client).await;
        }
    });
    crank.serve(requests, share.settings.patience);
    while let Some(rejoin) = crank.order().await {
        crank = join_again(crank, &share, clock, rejoin).await;
    }
}
