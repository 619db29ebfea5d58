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
use zonal_cache::{ChunkRules, PrefetchSlots, RecoveryStats};
use zonal_device::DeviceKind;
use zonal_hostdev::{DeviceSpec, Drive};
use zonal_zonelog::{Generations, Identity, OpenMode};

use crate::Client;
use crate::chunks::{ChunkLimits, ChunkRefused};
use crate::device_contents::GeometryMismatch;
use crate::device_health::DeviceHealth;
use crate::device_open::Opened;
use crate::device_supervisor::DeviceSupervisor;
use crate::membership;
use crate::origin::Backend;
use crate::peers::Peers;
use crate::request::Request;
use crate::routes::Routes;
use crate::shard::{ShardAddress, ShardConfig, ShardShared, ShardStarted, spawn};

/// A front end's task on each shard's thread, which serves its share of the connections. Gets the
/// shard's number. It ends with the shard.
pub type FrontEndTask =
    Arc<dyn Fn(usize, Client) -> Pin<Box<dyn Future<Output = ()>>> + Send + Sync>;

/// Settings of one device of a node.
#[derive(Clone, Debug)]
pub struct DeviceSettings {
    /// The device, and how it is divided.
    pub spec: DeviceSpec,
    /// Shards on it. `None`: as many as it was formatted with, or for a new device one for each
    /// core, if it is large enough.
    pub shards: Option<usize>,
    /// Admission and eviction policy.
    pub policy: zonal_policy::Spec,
    /// Chunk size.
    pub chunk: Bytes,
    /// DRAM tier of each shard: chunks that wait for admission, and frequently read chunks.
    pub dram: Bytes,
    /// Maximum pinned share of the device, in percent.
    pub pinned_percent: u32,
    /// True: the start unpins everything that was pinned before.
    pub forgets_pins: bool,
    /// Buffer memory of each shard.
    pub buffers: Bytes,
    /// Maximum prefetch window of a sequential reader, for objects whose first stripe is on this
    /// device. 0 turns prefetch off.
    pub prefetch: Bytes,
    /// Read timeout; after it the bytes come from the origin. A device with repeated timeouts is
    /// isolated.
    pub patience: Nanos,
    /// Probe window: how long an isolated device must answer in time before it is used again.
    pub rejoin: Nanos,
}

/// Settings of a node.
#[derive(Clone, Debug)]
pub struct NodeSettings {
    /// At least one device.
    pub devices: Vec<DeviceSettings>,
    /// Chunk size rules by prefix. Other objects use the chunk size of each device.
    pub chunks: Arc<ChunkRules>,
    /// Maximum prefetches in flight on all shards together.
    pub prefetches: usize,
    /// Whether existing data on the devices are kept.
    pub mode: OpenMode,
}

/// Why a node could not start. Files that the start created are removed again. Data on the devices
/// are unchanged, except with `OpenMode::Format`, or where a device that missed removals was
/// already wiped.
#[derive(Debug)]
pub enum StartError {
    /// A device could not be opened.
    Device(zonal_hostdev::OpenError),
    /// The device holds foreign data: use another device, or format this one.
    Foreign {
        /// The device.
        spec: DeviceSpec,
        /// The foreign data.
        what: String,
    },
    /// The device holds a log of another format version: use that version's program, or format.
    OtherVersion {
        /// The device.
        spec: DeviceSpec,
        /// Format version on the device.
        version: u16,
    },
    /// The device was formatted with other shards or zones: request those, or format.
    Divided {
        /// The device.
        spec: DeviceSpec,
        /// Requested shards.
        shards: Option<usize>,
        /// The difference.
        difference: Box<GeometryMismatch>,
    },
    /// The device is too small for a cache with these settings: change them.
    Unfit {
        /// The device.
        spec: DeviceSpec,
        /// The limit that is exceeded.
        error: zonal_cache::StartError,
    },
    /// The cache on the device could not be opened.
    Cache {
        /// The device.
        spec: DeviceSpec,
        /// The reason.
        error: zonal_cache::StartError,
    },
    /// A chunk size rule exceeds a limit of the devices.
    Chunks(ChunkRefused),
    /// Two devices were used apart (split brain): format one of them.
    SplitBrain {
        /// The device with the newest roster, and the other one.
        specs: Box<[DeviceSpec; 2]>,
    },
    /// More devices than a node can have.
    TooMany,
    /// A device did not store the list of the node's devices.
    Roster {
        /// The device.
        spec: DeviceSpec,
    },
    /// The system refused a thread, a descriptor or random numbers.
    Thread(String),
}

impl StartError {
    /// True if a retry with the same settings may succeed.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Device(error) => error.may_pass(),
            // All other faults of a log are found before it is opened.
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
            | Self::SplitBrain { .. }
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
                write!(f, "{}: holds data that is not a cache ({what})", path(spec))
            }
            Self::OtherVersion { spec, version } => write!(
                f,
                "{}: holds a log of format version {version}, which this program cannot read",
                path(spec)
            ),
            Self::Divided { spec, difference, .. } => write!(f, "{}: {difference}", path(spec)),
            Self::Unfit { spec, error } | Self::Cache { spec, error } => {
                write!(f, "{}: {error}", path(spec))
            }
            Self::SplitBrain { specs } => {
                let [one, other] = &**specs;
                write!(
                    f,
                    "{} and {} were used separately, so each may have missed invalidations",
                    path(one),
                    path(other)
                )
            }
            Self::Chunks(refused) => refused.fmt(f),
            Self::TooMany => {
                write!(f, "a node is limited to {} devices", crate::roster::DEVICES_MAX)
            }
            Self::Roster { spec } => {
                write!(f, "{}: writing the node's device list to it failed", path(spec))
            }
            Self::Thread(why) => write!(f, "cannot create a shard: {why}"),
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

/// Request queue limit of one shard. Beyond it, front ends wait.
const REQUESTS_MAX: usize = 1024;

/// A running node.
pub struct Node {
    client: Client,
    keepers: JoinSet<()>,
    threads: Vec<JoinHandle<()>>,
}

/// An open device of a node.
pub(crate) struct NodeDevice {
    pub(crate) settings: DeviceSettings,
    pub(crate) drive: Arc<Drive>,
    pub(crate) shard_count: u16,
    /// True if the device was blank.
    pub(crate) is_new: bool,
    pub(crate) standing: Arc<DeviceHealth>,
}

impl NodeDevice {
    /// Capacity of a zone, and the chunk size.
    fn zone_and_chunk(&self) -> (Bytes, Bytes) {
        (self.drive.geometry().zone_capacity.bytes(), self.settings.chunk)
    }
}

struct Starting {
    started: oneshot::Receiver<Result<ShardStarted, StartError>>,
    go: oneshot::Sender<Client>,
}

impl Node {
    /// Starts all shards of all devices, then the front end on each of their threads.
    ///
    /// # Errors
    /// When one of them cannot start; then none runs.
    pub async fn start(
        settings: &NodeSettings,
        backend: Arc<dyn Backend>,
        front: Option<FrontEndTask>,
    ) -> Result<Self, StartError> {
        let begin = Instant::now();
        let devices = open_all(settings.clone()).await?;
        let sizes = devices.iter().map(NodeDevice::zone_and_chunk);
        let chunk_limits = ChunkLimits::of(sizes, &settings.chunks)?;
        let (mut threads, mut starting, mut spawned) = (Vec::new(), Vec::new(), Ok(()));
        let shards = shards_of(&devices)?;
        let generations: Vec<Generations> = Generations::of_node(shards.len()).collect();
        let prefetch_slots = PrefetchSlots::new(settings.prefetches);
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
            let share = ShardShared {
                place,
                peers: Peers { shards: peers.clone(), routes: routes.clone(), own },
                settings: devices[place.device].settings.clone(),
                chunks: settings.chunks.clone(),
                prefetch_slots: prefetch_slots.clone(),
                generations,
                backend: backend.clone(),
                standing: devices[place.device].standing.clone(),
            };
            let setup = ShardConfig {
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
            let convened =
                membership::agree_membership(devices, begun, of_node, settings.mode).await?;
            Ok((convened, go))
        };
        match started.await {
            Ok((keepers, go)) => {
                node.serve(keepers, go);
                Ok(node)
            }
            Err(error) => {
                // When the last shard has closed them, the drives remove what this start created.
                node.stop().await;
                Err(error)
            }
        }
    }

    fn serve(&mut self, keepers: Vec<DeviceSupervisor>, go: Vec<oneshot::Sender<Client>>) {
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

    /// Writes all admitted bytes to flash, and stops the node.
    pub async fn stop(mut self) {
        self.keepers.shutdown().await;
        self.client.settle().await;
        self.client.stop().await;
        drop(self.client);
        let threads = self.threads;
        // A panic of a shard was reported before; the other shards still stop in order.
        let joined = tokio::task::spawn_blocking(move || {
            threads.into_iter().for_each(|thread| drop(thread.join()));
        });
        let _ = joined.await;
    }
}

/// Waits until all shards have started. Returns what each found, and the senders that let them
/// serve.
async fn all_started(
    starting: Vec<Starting>,
    (devices, begin): (&[NodeDevice], Instant),
) -> Result<(Vec<ShardStarted>, Vec<oneshot::Sender<Client>>), StartError> {
    let (mut all, mut ready) = (Vec::new(), Vec::new());
    for Starting { started, go } in starting {
        let ended = || StartError::Thread("a shard's thread ended".into());
        all.push(started.await.map_err(|_| ended())??);
        ready.push(go);
    }
    tell_of_recovery((devices, &all), begin.elapsed());
    Ok((all, ready))
}

/// Logs one line per device: what the start recovered, and how long it took.
fn tell_of_recovery((devices, begun): (&[NodeDevice], &[ShardStarted]), took: Duration) {
    let mut shards = begun.iter();
    for NodeDevice { settings, shard_count, is_new, .. } in devices {
        let of_device = shards.by_ref().take((*shard_count).into());
        let found = of_device.fold(RecoveryStats::default(), |all, one| all.and(one.regained));
        let RecoveryStats { heads, pieces, bytes } = found;
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
                "recovered the device"
            ),
        }
    }
}

/// Opens all devices with their shards. All devices are checked before the first one is changed.
async fn open_all(settings: NodeSettings) -> Result<Vec<NodeDevice>, StartError> {
    let open = move || {
        let NodeSettings { devices, mode, .. } = settings;
        let opened = devices.iter().map(|of| Opened::open(of, mode));
        let opened = opened.collect::<Result<Vec<_>, _>>()?;
        let claimed = devices.into_iter().zip(opened).map(|(mut settings, opened)| {
            let Opened { drive, shard_count, log } = opened;
            let drive = Arc::new(drive.claim()?);
            if drive.geometry().kind == DeviceKind::Conventional {
                // A device that replaces this one while the node runs is divided in the same way.
                settings.spec.zone = Some(drive.geometry().zone_capacity.bytes());
            }
            let (is_new, standing) = (log.is_none(), Arc::default());
            Ok(NodeDevice { settings, drive, shard_count, is_new, standing })
        });
        claimed.collect()
    };
    // Reading or allocating a device may take long, and must not block the caller's runtime.
    let opened = tokio::task::spawn_blocking(open).await;
    opened.map_err(|error| StartError::Thread(error.to_string()))?
}

/// Address, drive and identity of each shard. The identity is used if the device is blank.
fn shards_of(
    devices: &[NodeDevice],
) -> Result<Vec<(ShardAddress, Arc<Drive>, Identity)>, StartError> {
    let mut shards = Vec::new();
    for (device, NodeDevice { drive, shard_count, .. }) in devices.iter().enumerate() {
        let log = random_id()?;
        shards.extend((0..*shard_count).map(|shard| {
            let place =
                ShardAddress { device, shard: shard.into(), shard_count: (*shard_count).into() };
            (place, drive.clone(), Identity { log, shard, shard_count: *shard_count })
        }));
    }
    Ok(shards)
}

/// A random 128-bit identifier.
pub(crate) fn random_id() -> Result<[u8; 16], StartError> {
    let mut id = [0; 16];
    getrandom::fill(&mut id).map_err(|error| StartError::Thread(error.to_string()))?;
    Ok(id)
}
