//! A node: the shards of all its devices, started and stopped together.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::sync::mpsc::WeakSender;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use zonal_base::{Bytes, Nanos};
use zonal_hostdev::{DeviceSpec, Drive};
use zonal_zonelog::{Generations, Identity, OpenMode};

use crate::Client;
use crate::keeper::Keeper;
use crate::opened::Opened;
use crate::origin::Backend;
use crate::peers::Peers;
use crate::request::Request;
use crate::shard::{Place, Setup, Share, spawn};
use crate::standing::Standing;

/// What runs on each shard's thread besides the shard: the front end's share of connections. It ends with the
/// shard.
pub type Front = Arc<dyn Fn(usize, Client) -> Pin<Box<dyn Future<Output = ()>>> + Send + Sync>;

/// One device of a node.
#[derive(Clone, Debug)]
pub struct DeviceSettings {
    /// Which device.
    pub spec: DeviceSpec,
    /// Shards on it; `None`: as many as it was formatted with, or else as there are cores, if the device is
    /// large enough.
    pub shards: Option<usize>,
    /// What is kept.
    pub policy: zonal_policy::Spec,
    /// Chunk size.
    pub chunk: Bytes,
    /// Memory of each shard for chunks that wait before flash or are read often.
    pub dram: Bytes,
    /// How much of it may be pinned, in percent; 0: nothing is pinned.
    pub pinned_percent: u32,
    /// Buffer memory of each shard.
    pub buffers: Bytes,
    /// How far ahead of a reader that goes front to back is fetched at most, of objects whose first stripe is on it.
    /// 0: nothing is.
    pub prefetch: Bytes,
    /// How long a read of it is waited for; then the bytes come from the origin. A device that is late time and again
    /// is isolated.
    pub patience: Nanos,
    /// How long an isolated device has to answer well before it is used again.
    pub rejoin: Nanos,
}

/// A node.
#[derive(Clone, Debug)]
pub struct NodeSettings {
    /// Its devices: at least one.
    pub devices: Vec<DeviceSettings>,
    /// What may become of what is on them.
    pub mode: OpenMode,
}

/// Why a node could not start. What is on its devices is as it was; files that it made are gone again.
#[derive(Debug)]
pub enum StartError {
    /// The device could not be opened.
    Device(zonal_hostdev::OpenError),
    /// The device holds something that is not ours: name another, or format it.
    Foreign {
        /// The device.
        spec: DeviceSpec,
        /// What it holds.
        what: String,
    },
    /// The device holds a log that another version wrote: use that version, or format.
    OtherVersion {
        /// The device.
        spec: DeviceSpec,
        /// Of the format.
        version: u16,
    },
    /// The device was formatted for other shards or with other zones: ask for those, or format.
    Divided {
        /// The device.
        spec: DeviceSpec,
        /// Shards that were asked for.
        shards: Option<usize>,
        /// What differs, and what to write instead.
        how: String,
    },
    /// No cache can live on the device as it is to be divided: ask for something else.
    Unfit {
        /// The device.
        spec: DeviceSpec,
        /// Why not.
        error: zonal_cache::StartError,
    },
    /// The cache could not be opened on it.
    Cache {
        /// The device.
        spec: DeviceSpec,
        /// Why not.
        error: zonal_cache::StartError,
    },
    /// The system refused a thread or a descriptor.
    Thread(String),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = |spec: &DeviceSpec| spec.place.path().display().to_string();
        let lose = |spec| Loss { spec, shards: None };
        match self {
            Self::Device(error) => error.fmt(f),
            Self::Foreign { spec, what } => write!(
                f,
                "{}: holds something that is not Zonal's ({what}): name another device, or {}",
                path(spec),
                lose(spec)
            ),
            Self::OtherVersion { spec, version } => write!(
                f,
                "{}: holds a log of format version {version}, which this program does not read: \
                 use the program that wrote it, or {}",
                path(spec),
                lose(spec)
            ),
            Self::Divided { spec, shards, how } => {
                write!(f, "{}: {how}, or {}", path(spec), Loss { spec, shards: *shards })
            }
            Self::Unfit { spec, error } => write!(f, "{}: {error}", path(spec)),
            Self::Cache { spec, error } => {
                write!(f, "{}: {error} (you would {})", path(spec), lose(spec))
            }
            Self::Thread(why) => write!(f, "the system refused what a shard needs: {why}"),
        }
    }
}

/// The way out that loses what the device holds.
struct Loss<'a> {
    spec: &'a DeviceSpec,
    /// That were asked for.
    shards: Option<usize>,
}

impl fmt::Display for Loss<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lose what it holds: zonal device format '{}' --yes", self.spec)?;
        self.shards.map_or(Ok(()), |shards| write!(f, " --shards {shards}"))
    }
}

impl std::error::Error for StartError {}

impl From<zonal_hostdev::OpenError> for StartError {
    fn from(error: zonal_hostdev::OpenError) -> Self {
        Self::Device(error)
    }
}

/// Requests that wait for one shard. Beyond it, front ends wait.
const REQUESTS_MAX: usize = 1024;

/// A running node.
pub struct Node {
    client: Client,
    keepers: JoinSet<()>,
    threads: Vec<JoinHandle<()>>,
}

/// A device that has come up.
struct Kept {
    drive: Arc<Drive>,
    shard_count: u16,
    standing: Arc<Standing>,
}

struct Starting {
    started: oneshot::Receiver<Result<Identity, StartError>>,
    go: oneshot::Sender<Client>,
}

impl Node {
    /// Starts all shards of all devices, then the front end on each of their threads.
    ///
    /// # Errors
    /// When any of them cannot be started: then none is.
    pub async fn start(
        settings: &NodeSettings,
        backend: Arc<dyn Backend>,
        front: Option<Front>,
    ) -> Result<Self, StartError> {
        let drives = open_all(settings.clone()).await?;
        let (mut threads, mut starting) = (Vec::new(), Vec::new());
        let mut spawned = Ok(());
        let shards = shards_of(&drives)?;
        let generations = Generations::of_node(shards.len());
        let queues = shards.iter().map(|_| mpsc::channel::<Request>(REQUESTS_MAX));
        let (senders, queues): (Vec<_>, Vec<_>) = queues.unzip();
        let peers: Arc<[WeakSender<Request>]> =
            senders.iter().map(mpsc::Sender::downgrade).collect();
        let standings: Vec<Arc<Standing>> = drives.iter().map(|_| Arc::default()).collect();
        let numbered = queues.into_iter().enumerate();
        let shards = shards.into_iter().zip(generations).zip(numbered);
        for (((place, drive, identity), generations), (own, requests)) in shards {
            let (started, is_started) = oneshot::channel();
            let (go, may_go) = oneshot::channel();
            let share = Share {
                place,
                peers: Peers { shards: peers.clone(), own },
                settings: settings.devices[place.device].clone(),
                generations,
                backend: backend.clone(),
                standing: standings[place.device].clone(),
            };
            let setup = Setup {
                share,
                drive,
                identity,
                mode: settings.mode,
                requests,
                started,
                go: may_go,
                front: front.clone(),
            };
            match spawn(setup) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    spawned = Err(StartError::Thread(error.to_string()));
                    break;
                }
            }
            starting.push(Starting { started: is_started, go });
        }
        let mut node = Self { client: Client::new(senders), keepers: JoinSet::new(), threads };
        let started = match spawned {
            Ok(()) => all_started(starting, &node.client).await,
            Err(error) => Err(error),
        };
        let identities = match started {
            Ok(identities) => identities,
            Err(error) => {
                // When the last shard has let go of them, the drives undo what was done.
                node.stop().await;
                return Err(error);
            }
        };
        let opened = drives.into_iter().zip(standings);
        let kept =
            opened.map(|((drive, shard_count), standing)| Kept { drive, shard_count, standing });
        node.keep(settings, kept.collect(), (&peers, identities));
        Ok(node)
    }

    /// From here on each device has its keeper.
    fn keep(
        &mut self,
        settings: &NodeSettings,
        devices: Vec<Kept>,
        (peers, identities): (&[WeakSender<Request>], Vec<Identity>),
    ) {
        let (mut shards, mut identities) = (peers.iter().cloned(), identities.into_iter());
        for (settings, kept) in settings.devices.iter().zip(devices) {
            let Kept { drive, shard_count, standing } = kept;
            drive.keep();
            let count = usize::from(shard_count);
            let log = identities.by_ref().take(count).last().expect("a device has a shard").log;
            let shards = shards.by_ref().take(count).collect();
            let keeper = Keeper::new((settings.clone(), log), (drive, standing), shards);
            self.keepers.spawn(keeper.keep());
        }
    }

    /// The handle for front ends.
    #[must_use]
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// Puts everything that was admitted on flash, and ends.
    pub async fn stop(mut self) {
        self.keepers.shutdown().await;
        self.client.settle().await;
        self.client.stop().await;
        drop(self.client);
        let threads = self.threads;
        // A shard that panicked has said so; the others still end in order.
        let joined = tokio::task::spawn_blocking(move || {
            threads.into_iter().for_each(|thread| drop(thread.join()));
        });
        let _ = joined.await;
    }
}

/// What each shard found to be its log's.
async fn all_started(
    starting: Vec<Starting>,
    client: &Client,
) -> Result<Vec<Identity>, StartError> {
    let mut ready = Vec::with_capacity(starting.len());
    let mut identities = Vec::with_capacity(starting.len());
    for Starting { started, go } in starting {
        let ended = || StartError::Thread("a shard's thread ended".into());
        identities.push(started.await.map_err(|_| ended())??);
        ready.push(go);
    }
    for go in ready {
        let _ = go.send(client.clone());
    }
    Ok(identities)
}

/// All devices, each with its shards. Every one is judged before the first is changed.
async fn open_all(settings: NodeSettings) -> Result<Vec<(Arc<Drive>, u16)>, StartError> {
    let open = move || {
        let NodeSettings { devices, mode } = settings;
        let opened = devices.iter().map(|of| Opened::open(of, mode));
        let opened = opened.collect::<Result<Vec<_>, _>>()?.into_iter();
        opened
            .map(|Opened { drive, shard_count, .. }| Ok((Arc::new(drive.claim()?), shard_count)))
            .collect()
    };
    // A device may take its time to be read or allocated, and the caller has others to attend to.
    let opened = tokio::task::spawn_blocking(open).await;
    opened.map_err(|error| StartError::Thread(error.to_string()))?
}

/// Where each shard is, and whose it is if its device is blank.
fn shards_of(
    drives: &[(Arc<Drive>, u16)],
) -> Result<Vec<(Place, Arc<Drive>, Identity)>, StartError> {
    let mut shards = Vec::new();
    for (device, (drive, shard_count)) in drives.iter().enumerate() {
        let log = random_id()?;
        shards.extend((0..*shard_count).map(|shard| {
            let place = Place { device, shard: shard.into(), shard_count: (*shard_count).into() };
            (place, drive.clone(), Identity { log, shard, shard_count: *shard_count })
        }));
    }
    Ok(shards)
}

fn random_id() -> Result<[u8; 16], StartError> {
    let mut id = [0; 16];
    getrandom::fill(&mut id).map_err(|error| StartError::Thread(error.to_string()))?;
    Ok(id)
}
