//! A node: the shards of all its devices, started and stopped together.

use std::fmt;
use std::future::Future;
use std::io::{Read, Seek, SeekFrom};
use std::pin::Pin;
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::sync::{mpsc, oneshot};
use zonal_base::{BLOCK_BYTES, Bytes};
use zonal_hostdev::{DeviceSpec, Drive};
use zonal_zonelog::{Identity, OpenMode};

use crate::origin::Backend;
use crate::request::Request;
use crate::shard::{Place, Setup, spawn};
use crate::{CHECKSUM, Client};

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
    /// A name that `zonal_policy::by_name` knows.
    pub policy: String,
    /// Chunk size.
    pub chunk: Bytes,
    /// Buffer memory of each shard.
    pub buffers: Bytes,
}

/// A node.
#[derive(Clone, Debug)]
pub struct NodeSettings {
    /// Its devices: at least one.
    pub devices: Vec<DeviceSettings>,
    /// What may become of what is on them.
    pub mode: OpenMode,
}

/// Why a node could not start. What is on its devices is as it was.
#[derive(Debug)]
pub enum StartError {
    /// The device could not be opened.
    Device(zonal_hostdev::OpenError),
    /// The cache could not be opened on it.
    Cache(zonal_cache::StartError),
    /// There is no such policy.
    Policy(String),
    /// The system refused a thread or a descriptor.
    Thread(String),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(error) => error.fmt(f),
            Self::Cache(error) => error.fmt(f),
            Self::Policy(name) => write!(
                f,
                "there is no policy {name:?}: write one of {}",
                zonal_policy::NAMES.join(", ")
            ),
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

/// Requests that wait for one shard. Beyond it, front ends wait.
const REQUESTS_MAX: usize = 1024;

/// Zones with which a shard is worth having.
const ZONES_PER_SHARD_MIN: u32 = 8;

/// A running node.
pub struct Node {
    client: Client,
    threads: Vec<JoinHandle<()>>,
}

struct Starting {
    started: oneshot::Receiver<Result<(), StartError>>,
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
        let (mut threads, mut senders, mut starting) = (Vec::new(), Vec::new(), Vec::new());
        for (device, of) in settings.devices.iter().enumerate() {
            let drive = Arc::new(Drive::open(&of.spec)?);
            let found = identity_on(&drive);
            let shard_count = shard_count(of, &drive, found, settings.mode);
            let log = random_id()?;
            for shard in 0..shard_count {
                let (sender, requests) = mpsc::channel::<Request>(REQUESTS_MAX);
                let (started, is_started) = oneshot::channel();
                let (go, may_go) = oneshot::channel();
                let narrow = |n: usize| u16::try_from(n).expect("fewer shards than zones");
                let identity =
                    Identity { log, shard: narrow(shard), shard_count: narrow(shard_count) };
                let setup = Setup {
                    place: Place { device, shard, shard_count },
                    drive: drive.clone(),
                    settings: of.clone(),
                    identity,
                    mode: settings.mode,
                    backend: backend.clone(),
                    requests,
                    started,
                    go: may_go,
                    front: front.clone(),
                };
                let thread = spawn(setup).map_err(|e| StartError::Thread(e.to_string()))?;
                threads.push(thread);
                senders.push(sender);
                starting.push(Starting { started: is_started, go });
            }
        }
        let node = Self { client: Client::new(senders), threads };
        match all_started(starting, &node.client).await {
            Ok(()) => Ok(node),
            Err(error) => {
                node.stop().await;
                Err(error)
            }
        }
    }

    /// The handle for front ends.
    #[must_use]
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// Puts everything that was admitted on flash, and ends.
    pub async fn stop(self) {
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

async fn all_started(starting: Vec<Starting>, client: &Client) -> Result<(), StartError> {
    let mut ready = Vec::with_capacity(starting.len());
    for Starting { started, go } in starting {
        let ended = || StartError::Thread("a shard's thread ended".into());
        started.await.map_err(|_| ended())??;
        ready.push(go);
    }
    for go in ready {
        let _ = go.send(client.clone());
    }
    Ok(())
}

fn shard_count(
    of: &DeviceSettings,
    drive: &Drive,
    found: Option<Identity>,
    mode: OpenMode,
) -> usize {
    let zones = drive.geometry().zone_count;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let affordable = (zones / ZONES_PER_SHARD_MIN).max(1) as usize;
    let found = found.filter(|_| mode == OpenMode::Recover);
    match (of.shards, found) {
        (Some(wanted), _) => wanted,
        (None, Some(found)) => usize::from(found.shard_count).max(1),
        (None, None) => cores.min(affordable),
    }
}

/// Whose device this is, as the first zone that says so tells.
fn identity_on(drive: &Drive) -> Option<Identity> {
    let mut file = std::fs::File::open(drive.path()).ok()?;
    let geometry = drive.geometry();
    let mut block = [0; BLOCK_BYTES];
    geometry.zones().find_map(|zone| {
        let at = geometry.zone_start(zone).0 * BLOCK_BYTES as u64;
        file.seek(SeekFrom::Start(at)).ok()?;
        file.read_exact(&mut block).ok()?;
        zonal_zonelog::identify(&block, CHECKSUM)
    })
}

fn random_id() -> Result<[u8; 16], StartError> {
    let mut id = [0; 16];
    getrandom::fill(&mut id).map_err(|error| StartError::Thread(error.to_string()))?;
    Ok(id)
}
