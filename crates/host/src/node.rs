//! Node: starts and stops the shards of all devices together.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::mpsc::WeakSender;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;
use zonal_base::{Bytes, Nanos};
use zonal_cache::{ChunkRules, Regained};
use zonal_device::DeviceKind;
use zonal_hostdev::{DeviceSpec, Drive};
use zonal_zonelog::{Generations, Identity, OpenMode};

use crate::Client;
use crate::chunks::{ChunkLimits, ChunkRefused};
use crate::convention;
use crate::holds::Difference;
use crate::keeper::Keeper;
use crate::opened::Opened;
use crate::origin::Backend;
use crate::peers::Peers;
use crate::request::Request;
use crate::routes::Routes;
use crate::shard::{Begun, Setup, ShardAddress, Share, spawn};
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
    /// How much of it may be pinned, in percent.
    pub pinned_percent: u32,
    /// Nothing is to be pinned as it starts: what was is no longer.
    pub forgets_pins: bool,
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
    /// What objects are cut into whose names begin with a prefix; all others by the chunk size of each device.
    pub chunks: Arc<ChunkRules>,
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
        /// What differs.
        difference: Box<Difference>,
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
    /// A chunk size by prefix that the devices have no room for.
    Chunks(ChunkRefused),
    /// Two devices were used without each other: format one of them.
    Apart {
        /// The device that was used last, by its own account, and the other.
        specs: Box<[DeviceSpec; 2]>,
    },
    /// More devices than a node can have.
    TooMany,
    /// A device cannot be told which others there are.
    Roster {
        /// The device.
        spec: DeviceSpec,
    },
    /// The system refused a thread or a descriptor.
    Thread(String),
}

impl StartError {
    /// Whether the same may go well later although nobody changes what was asked for.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Device(error) => error.may_pass(),
            // What else is wrong with a log was found before it was opened.
            Self::Cache { error: zonal_cache::StartError::Log(error), .. } => {
                matches!(error, zonal_zonelog::OpenError::Device(_))
            }
            Self::Roster { .. } | Self::Thread(_) => true,
            Self::Cache { error: zonal_cache::StartError::Chunk { .. }, .. }
            | Self::Foreign { .. }
            | Self::OtherVersion { .. }
            | Self::Divided { .. }
            | Self::Unfit { .. }
            | Self::Chunks(_)
            | Self::Apart { .. }
            | Self::TooMany => false,
        }
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = |spec: &DeviceSpec| spec.place.path().display().to_string();
        match self {
            Self::Device(error) => error.fmt(f),
            Self::Foreign { spec, what } => {
                write!(f, "{}: holds something that is not a cache ({what})", path(spec))
            }
            Self::OtherVersion { spec, version } => write!(
                f,
                "{}: holds a log of format version {version}, which this program does not read",
                path(spec)
            ),
            Self::Divided { spec, difference, .. } => write!(f, "{}: {difference}", path(spec)),
            Self::Unfit { spec, error } | Self::Cache { spec, error } => {
                write!(f, "{}: {error}", path(spec))
            }
            Self::Apart { specs } => {
                let [one, other] = &**specs;
                write!(
                    f,
                    "{} and {} were used apart from each other, and nobody knows what each of them has missed",
                    path(one),
                    path(other)
                )
            }
            Self::Chunks(refused) => refused.fmt(f),
            Self::TooMany => write!(f, "a node has {} devices at most", crate::roster::DEVICES_MAX),
            Self::Roster { spec } => {
                write!(f, "{}: it did not take the list of the node's devices", path(spec))
            }
            Self::Thread(why) => write!(f, "the system refused what a shard needs: {why}"),
        }
    }
}

impl std::error::Error for StartError {}

impl From<zonal_hostdev::OpenError> for StartError {
    fn from(error: zonal_hostdev::OpenError) -> Self {
        Self::Device(error)
    }
}

impl From<ChunkRefused> for StartError {
    fn from(refused: ChunkRefused) -> Self {
        Self::Chunks(refused)
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
pub(crate) struct Device {
    pub(crate) settings: DeviceSettings,
    pub(crate) drive: Arc<Drive>,
    pub(crate) shard_count: u16,
    /// It was blank.
    pub(crate) is_new: bool,
    pub(crate) standing: Arc<Standing>,
}

struct Starting {
    started: oneshot::Receiver<Result<Begun, StartError>>,
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
        let begin = Instant::now();
        let devices = open_all(settings.clone()).await?;
        let chunk_limits = ChunkLimits::of(&devices, &settings.chunks)?;
        let (mut threads, mut starting, mut spawned) = (Vec::new(), Vec::new(), Ok(()));
        let shards = shards_of(&devices)?;
        let generations: Vec<Generations> = Generations::of_node(shards.len()).collect();
        let routes = Arc::<Routes>::default();
        let queues = shards.iter().map(|_| mpsc::channel::<Request>(REQUESTS_MAX));
        let (senders, queues): (Vec<_>, Vec<_>) = queues.unzip();
        let peers: Arc<[WeakSender<Request>]> =
            senders.iter().map(mpsc::Sender::downgrade).collect();
        let numbered = queues.into_iter().enumerate();
        let shards = shards.into_iter().zip(generations.clone()).zip(numbered);
        for (((place, drive, identity), generations), (own, requests)) in shards {
            let (started, is_started) = oneshot::channel();
            let (go, may_go) = oneshot::channel();
            let share = Share {
                place,
                peers: Peers { shards: peers.clone(), routes: routes.clone(), own },
                settings: devices[place.device].settings.clone(),
                chunks: settings.chunks.clone(),
                generations,
                backend: backend.clone(),
                standing: devices[place.device].standing.clone(),
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
        let client = Client::new(senders, routes.clone(), chunk_limits);
        let mut node = Self { client, keepers: JoinSet::new(), threads };
        let started = async {
            spawned?;
            let (begun, go) = all_started(starting, (&devices, begin)).await?;
            let of_node = (&*peers, &*routes, &generations[0]);
            let convened = convention::convene(devices, begun, of_node, settings.mode).await?;
            Ok((convened, go))
        };
        match started.await {
            Ok((keepers, go)) => {
                node.serve(keepers, go);
                Ok(node)
            }
            Err(error) => {
                // When the last shard has let go of them, the drives undo what was done.
                node.stop().await;
                Err(error)
            }
        }
    }

    fn serve(&mut self, keepers: Vec<Keeper>, go: Vec<oneshot::Sender<Client>>) {
        for keeper in keepers {
            self.keepers.spawn(keeper.keep());
        }
        for go in go {
            let _ = go.send(self.client.clone());
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

/// What each shard found, which is told to the log, and who waits for the word to serve.
async fn all_started(
    starting: Vec<Starting>,
    (devices, begin): (&[Device], Instant),
) -> Result<(Vec<Begun>, Vec<oneshot::Sender<Client>>), StartError> {
    let (mut all, mut ready) = (Vec::new(), Vec::new());
    for Starting { started, go } in starting {
        let ended = || StartError::Thread("a shard's thread ended".into());
        all.push(started.await.map_err(|_| ended())??);
        ready.push(go);
    }
    tell_of_recovery((devices, &all), begin.elapsed());
    Ok((all, ready))
}

/// A line of the log for each device: what a start took the time for.
fn tell_of_recovery((devices, begun): (&[Device], &[Begun]), took: Duration) {
    let mut shards = begun.iter();
    for Device { settings, shard_count, is_new, .. } in devices {
        let of_device = shards.by_ref().take((*shard_count).into());
        let found = of_device.fold(Regained::default(), |all, one| all.and(one.regained));
        let Regained { heads, pieces, bytes } = found;
        let (device, seconds) = (&settings.spec, took.as_secs_f64());
        match is_new {
            true => tracing::info!(%device, shards = shard_count, seconds, "formatted"),
            false => tracing::info!(
                %device,
                shards = shard_count,
                objects = heads,
                pieces,
                bytes,
                seconds,
                "recovered what the device held"
            ),
        }
    }
}

/// All devices, each with its shards. Every one is judged before the first is changed.
async fn open_all(settings: NodeSettings) -> Result<Vec<Device>, StartError> {
    let open = move || {
        let NodeSettings { devices, mode, .. } = settings;
        let opened = devices.iter().map(|of| Opened::open(of, mode));
        let opened = opened.collect::<Result<Vec<_>, _>>()?;
        let claimed = devices.into_iter().zip(opened).map(|(mut settings, opened)| {
            let Opened { drive, shard_count, log } = opened;
            let drive = Arc::new(drive.claim()?);
            if drive.geometry().kind == DeviceKind::Conventional {
                // Whatever takes its place while the node runs is divided in the same way.
                settings.spec.zone = Some(drive.geometry().zone_capacity.bytes());
            }
            let (is_new, standing) = (log.is_none(), Arc::default());
            Ok(Device { settings, drive, shard_count, is_new, standing })
        });
        claimed.collect()
    };
    // A device may take its time to be read or allocated, and the caller has others to attend to.
    let opened = tokio::task::spawn_blocking(open).await;
    opened.map_err(|error| StartError::Thread(error.to_string()))?
}

/// Where each shard is, and whose it is if its device is blank.
fn shards_of(devices: &[Device]) -> Result<Vec<(ShardAddress, Arc<Drive>, Identity)>, StartError> {
    let mut shards = Vec::new();
    for (device, Device { drive, shard_count, .. }) in devices.iter().enumerate() {
        let log = random_id()?;
        shards.extend((0..*shard_count).map(|shard| {
            let place =
                ShardAddress { device, shard: shard.into(), shard_count: (*shard_count).into() };
            (place, drive.clone(), Identity { log, shard, shard_count: *shard_count })
        }));
    }
    Ok(shards)
}

/// A name that nobody else has.
pub(crate) fn random_id() -> Result<[u8; 16], StartError> {
    let mut id = [0; 16];
    getrandom::fill(&mut id).map_err(|error| StartError::Thread(error.to_string()))?;
    Ok(id)
}
