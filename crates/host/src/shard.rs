//! One shard: its thread, its runtime, its engine.

use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use tokio::sync::{mpsc, oneshot};
use tokio::task::LocalSet;
use zonal_base::low_u32;
use zonal_cache::{Cache, Ports};
use zonal_hostdev::{Drive, QUEUE_DEPTH, ShardOptions};
use zonal_runtime::{Buffers, Executor, Port};
use zonal_zonelog::{Generations, Identity, OpenMode};

use crate::clock::RealClock;
use crate::crank::{Crank, DeviceWake, TASKS_MAX};
use crate::memory::classes;
use crate::node::{DeviceSettings, Front, StartError};
use crate::origin::{Backend, OriginDriver};
use crate::peers::Peers;
use crate::request::Request;
use crate::{CHECKSUM, Client};

/// Which share of which device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) device: usize,
    pub(crate) shard: usize,
    pub(crate) shard_count: usize,
}

/// What a shard's thread is given.
pub(crate) struct Setup {
    pub(crate) place: Place,
    pub(crate) peers: Peers,
    pub(crate) drive: Arc<Drive>,
    pub(crate) settings: DeviceSettings,
    pub(crate) identity: Identity,
    pub(crate) generations: Generations,
    pub(crate) mode: OpenMode,
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) requests: mpsc::Receiver<Request>,
    /// Hears when the cache is up, or why not.
    pub(crate) started: oneshot::Sender<Result<(), StartError>>,
    /// Comes when all shards are up: then the front end starts.
    pub(crate) go: oneshot::Receiver<Client>,
    pub(crate) front: Option<Front>,
}

pub(crate) fn spawn(setup: Setup) -> std::io::Result<JoinHandle<()>> {
    let name = format!("shard-{}-{}", setup.place.device, setup.place.shard);
    Builder::new().name(name).spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        match runtime {
            Ok(runtime) => LocalSet::new().block_on(&runtime, run(setup)),
            Err(error) => drop(setup.started.send(Err(StartError::Thread(error.to_string())))),
        }
    })
}

async fn run(setup: Setup) {
    let parts = match Parts::open(&setup) {
        Ok(parts) => parts,
        Err(error) => return drop(setup.started.send(Err(error))),
    };
    let (started_cache, mut starting) = oneshot::channel();
    let start = Cache::start(
        parts.ports.clone(),
        parts.geometry,
        parts.settings,
        setup.identity,
        (parts.rules, setup.mode),
    );
    parts.executor.spawner().spawn(async move {
        let _ = started_cache.send(start.await);
    });
    let mut crank = Crank {
        place: setup.place,
        peers: setup.peers,
        executor: parts.executor,
        clock: parts.clock,
        device: parts.device,
        device_port: parts.ports.device,
        origin: OriginDriver::new(setup.backend, parts.ports.origin),
        buffers: parts.ports.buffers,
        requests: setup.requests,
        cache: None,
        wake: parts.wake,
        timer: Box::pin(tokio::time::sleep(std::time::Duration::ZERO)),
        is_stopped: false,
        has_told: false,
    };
    match crank.turn_until(|_| starting.try_recv().ok()).await {
        Ok(cache) => {
            name_unreadable_zones(&setup.drive, setup.place, &cache);
            crank.cache = Some(cache);
        }
        Err(error) => {
            let spec = setup.settings.spec;
            return drop(setup.started.send(Err(StartError::Cache { spec, error })));
        }
    }
    if setup.started.send(Ok(())).is_err() {
        return;
    }
    let front = setup.front;
    tokio::task::spawn_local(async move {
        if let (Ok(client), Some(front)) = (setup.go.await, front) {
            front(setup.place.shard, client).await;
        }
    });
    crank.turn_until(|crank| crank.is_stopped.then_some(())).await;
}

/// Zones are numbered as `zonal inspect` shows them: over the whole device.
fn name_unreadable_zones(drive: &Drive, place: Place, cache: &Cache) {
    let Place { shard, shard_count, .. } = place;
    let zones_of = |shard| drive.share(low_u32(shard), low_u32(shard_count));
    let first: u32 = (0..shard).filter_map(|s| zones_of(s).ok()).map(|of| of.zone_count).sum();
    for zone in cache.log().unreadable_zones() {
        tracing::warn!(
            path = %drive.path().display(),
            shard,
            zone = first + zone.0,
            "a part of the zone cannot be read: what stands there is missed, and nothing is written to it before it was emptied"
        );
    }
}

/// What a shard is built from, before the engine runs.
struct Parts {
    executor: Executor,
    clock: RealClock,
    device: zonal_hostdev::HostDevice,
    wake: DeviceWake,
    geometry: zonal_device::Geometry,
    settings: zonal_cache::Settings,
    rules: zonal_policy::Rules,
    ports: Ports,
}

impl Parts {
    fn open(setup: &Setup) -> Result<Self, StartError> {
        use zonal_device::ZonedDevice;
        let executor = Executor::new(TASKS_MAX);
        let clock = RealClock::start();
        executor.advance(clock.now());
        let piece = setup.settings.chunk.min(zonal_zonelog::Settings::SEGMENT);
        let pool = classes(setup.settings.buffers, piece);
        let buffers = Buffers::new(executor.spawner(), &pool);
        let options = ShardOptions {
            shard: low_u32(setup.place.shard),
            shard_count: low_u32(setup.place.shard_count),
            queue_depth: QUEUE_DEPTH,
            pool: buffers.pool(),
        };
        let device = setup.drive.shard(&options)?;
        let wake = DeviceWake::new(&device).map_err(|e| StartError::Thread(e.to_string()))?;
        let geometry = *device.geometry();
        let mut settings = zonal_cache::Settings::for_device(&geometry);
        settings.chunk = setup.settings.chunk;
        settings.pinned_percent = setup.settings.pinned_percent;
        settings.prefetch = setup.settings.prefetch;
        let ports = Ports {
            device: Port::new(),
            origin: Port::new(),
            clock: executor.clock().clone(),
            spawner: executor.spawner().clone(),
            buffers,
            checksum: CHECKSUM,
            generations: setup.generations.clone(),
        };
        let rules = setup.settings.policy.rules(&settings.layout(&geometry), setup.settings.dram);
        Ok(Self { executor, clock, device, wake, geometry, settings, rules, ports })
    }
}
