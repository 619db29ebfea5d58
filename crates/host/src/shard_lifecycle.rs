//! Shard lifecycle: open the log, serve, fail over to the origin, drain when a reopened instance
//! takes over.
//!
//! 1. Start: the log is recovered or formatted.
//! 2. Serve. While its device is isolated, the instance serves from the origin, without flash.
//! 3. When the device is available again, a new instance opens beside this one. It replays the
//!    removals that were recorded while the device was offline, and takes over the request queue.
//!    No request is cut off: the old instance drains.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use zonal_base::{Nanos, low_u32};
use zonal_cache::{Cache, ChunkRules, PendingInvalidations, Ports, RemoveError};
use zonal_device::{DeviceError, Geometry};
use zonal_hostdev::{DeviceSpec, Drive, QUEUE_DEPTH, ShardOptions};
use zonal_runtime::{Buffers, Executor, Port};
use zonal_zonelog::{Damage, Identity, OpenError, OpenMode};

use crate::CHECKSUM;
use crate::alarm::Alarm;
use crate::chunks;
use crate::clock::RealClock;
use crate::device_driver::DeviceDriver;
use crate::memory::classes;
use crate::node::StartError;
use crate::origin::OriginDriver;
use crate::request::{Rejoin, Request};
use crate::shard::{ShardAddress, ShardShared, ShardStarted};
use crate::shard_loop::{ShardLoop, TASKS_MAX};

/// Time limit for a new instance to open beside the old one: 2 min. Recovery of a large drive takes
/// seconds.
const COME_UP_MAX: Duration = Duration::from_secs(120);

/// Time limit for an old instance to drain: 10 min. Its buffers are memory in addition to the new
/// one's.
const WIND_UP_MAX: Duration = Duration::from_secs(600);

/// Replays of pending removals while requests are served. After them requests wait for the last
/// replay.
const ROUNDS_MAX: u32 = 3;

/// Parameters to start a cache.
pub(crate) struct OpenParams {
    spec: DeviceSpec,
    geometry: Geometry,
    settings: zonal_cache::Settings,
    chunks: Arc<ChunkRules>,
    rules: zonal_policy::Rules,
    ports: Ports,
}

impl ShardLoop {
    /// Creates an instance with everything but its cache.
    pub(crate) fn new(
        share: &ShardShared,
        clock: RealClock,
        drive: &Drive,
    ) -> Result<(Self, OpenParams), StartError> {
        use zonal_device::ZonedDevice;
        let executor = Executor::new(TASKS_MAX);
        executor.advance(clock.now());
        let pieces = chunks::pieces(share.settings.chunk, &share.chunks);
        let pool = classes(share.settings.buffers, pieces);
        let buffers = Buffers::new(executor.spawner(), &pool);
        let options = ShardOptions {
            shard: low_u32(share.place.shard),
            shard_count: low_u32(share.place.shard_count),
            queue_depth: QUEUE_DEPTH,
            pool: buffers.pool(),
        };
        let (first_zone, _) = drive.part(options.shard, options.shard_count)?;
        let device = drive.shard(&options)?;
        let geometry = *device.geometry();
        let mut settings = zonal_cache::Settings::for_device(&geometry);
        settings.chunk = share.settings.chunk;
        settings.pinned_percent = share.settings.pinned_percent;
        settings.forgets_pins = share.settings.forgets_pins;
        settings.prefetch = share.settings.prefetch;
        let ports = Ports {
            device: Port::new(),
            origin: Port::new(),
            clock: executor.clock().clone(),
            spawner: executor.spawner().clone(),
            buffers,
            checksum: CHECKSUM,
            generations: share.generations.clone(),
            prefetch_slots: share.prefetch_slots.clone(),
        };
        let rules = share.settings.policy.rules(&settings.layout(&geometry), share.settings.dram);
        let event_loop = Self {
            place: share.place,
            first_zone,
            peers: share.peers.clone(),
            executor,
            clock,
            device: DeviceDriver::new(device, ports.device.clone())
                .map_err(|e| StartError::Thread(e.to_string()))?,
            origin: OriginDriver::new(share.backend.clone(), ports.origin.clone()),
            buffers: ports.buffers.clone(),
            requests: None,
            cache: None,
            alarm: Alarm::unset(),
            standing: share.standing.clone(),
            pending_invalidations: Rc::default(),
            queue_latency: Arc::default(),
            releases: Vec::new(),
            rejoin: None,
            is_stopped: false,
            has_told: false,
            damage_told: (0, Nanos(0)),
        };
        let spec = share.settings.spec.clone();
        let chunks = share.chunks.clone();
        Ok((event_loop, OpenParams { spec, geometry, settings, chunks, rules, ports }))
    }

    /// Opens the cache.
    pub(crate) async fn open_cache(
        &mut self,
        opening: OpenParams,
        drive: &Drive,
        (identity, mode): (Identity, OpenMode),
    ) -> Result<(), StartError> {
        let OpenParams { spec, geometry, settings, chunks, rules, ports } = opening;
        let start = Cache::start(ports, geometry, settings, identity, (rules, mode));
        match self.carry_out(start).await {
            Ok(cache) => {
                name_damage(drive, self.place, &cache);
                cache.set_chunks(chunks);
                self.cache = Some(cache);
                Ok(())
            }
            Err(error) => Err(StartError::Cache { spec, error }),
        }
    }

    /// Results of the start. Requires: the cache is open.
    pub(crate) fn begun(&self) -> ShardStarted {
        let cache = self.cache();
        ShardStarted {
            log: self.identity().log,
            roster: cache.roster(),
            regained: cache.regained(),
        }
    }

    fn identity(&self) -> Identity {
        self.cache().log().identity()
    }

    fn cache(&self) -> &Cache {
        self.cache.as_ref().expect("it has come up")
    }

    /// Starts to serve requests, with `patience` as read timeout of the device.
    pub(crate) fn serve(&mut self, requests: mpsc::Receiver<Request>, patience: Nanos) {
        self.requests = Some(requests);
        self.device.set_read_timeout(self.clock.now(), patience);
    }

    /// Serves until the device is available again; `None` when the shard was told to stop.
    pub(crate) async fn order(&mut self) -> Option<Rejoin> {
        let order = |event_loop: &mut Self| match event_loop.is_stopped {
            true => Some(None),
            false => event_loop.rejoin.take().map(Some),
        };
        self.run_until(order).await
    }

    async fn stopped(&mut self) {
        self.run_until(|event_loop| event_loop.is_stopped.then_some(())).await;
    }

    /// Replays the removals that the previous instance could not write.
    async fn replay_invalidations(
        &mut self,
        pending_invalidations: &Rc<PendingInvalidations>,
    ) -> Result<(), RemoveError> {
        let (cache, pending_invalidations) = (self.cache().clone(), pending_invalidations.clone());
        self.carry_out(async move { cache.replay_invalidations(&pending_invalidations).await })
            .await
    }

    /// Runs a task on the engine's executor until it is done.
    async fn carry_out<T: 'static>(&mut self, task: impl Future<Output = T> + 'static) -> T {
        let (done, mut outcome) = oneshot::channel();
        self.executor.spawner().spawn(async move {
            let _ = done.send(task.await);
        });
        self.run_until(|_| outcome.try_recv().ok()).await
    }

    /// Drains: serves the remaining requests and takes no new ones.
    async fn wind_up(mut self) {
        self.isolate();
        self.pending_invalidations.close();
        self.alarm.hand_over();
        let wound_up = self.run_until(|event_loop| event_loop.is_drained().then_some(()));
        let _ = tokio::time::timeout(WIND_UP_MAX, wound_up).await;
    }
}

/// Replaces the instance by one on the reopened device. Returns the old instance if that fails.
pub(crate) async fn join_again(
    mut life: ShardLoop,
    share: &ShardShared,
    clock: RealClock,
    rejoin: Rejoin,
) -> ShardLoop {
    let Rejoin { drive, log, mode, homes, reply } = rejoin;
    let (mut next, opening) = match ShardLoop::new(share, clock, &drive) {
        Ok(begun) => begun,
        Err(error) => {
            let _ = reply.send(Err(error));
            return life;
        }
    };
    let identity = Identity { log, ..life.identity() };
    let coming_up = next.open_cache(opening, &drive, (identity, mode));
    let mut came_up = tokio::select! {
        came_up = tokio::time::timeout(COME_UP_MAX, coming_up) => came_up.unwrap_or_else(|_| Err(failed(share))),
        () = life.stopped() => Err(failed(share)),
    };
    // A formatted device has no data that a missed removal could concern.
    if came_up.is_ok() && mode == OpenMode::Recover {
        came_up = catch_up(&mut life, &mut next).await.map_err(|RemoveError| failed(share));
    }
    drop(drive);
    if let Err(error) = came_up {
        let _ = reply.send(Err(error));
        tokio::task::spawn_local(next.wind_up());
        return life;
    }
    life.pending_invalidations.close();
    next.cache().set_placement_epochs(homes);
    // The rules may have changed since the start.
    next.cache().set_chunks(life.cache().chunks());
    if let Some(requests) = life.requests.take() {
        next.serve(requests, share.settings.patience);
    }
    next.is_stopped = life.is_stopped;
    let _ = reply.send(Ok(()));
    tokio::task::spawn_local(life.wind_up());
    next
}

/// Replays all removals that `life` recorded. On return none is left, and none can be added before
/// the takeover.
async fn catch_up(life: &mut ShardLoop, next: &mut ShardLoop) -> Result<(), RemoveError> {
    let pending_invalidations = life.pending_invalidations.clone();
    for _ in 0..ROUNDS_MAX {
        if pending_invalidations.count() == 0 || life.is_stopped {
            break;
        }
        tokio::select! {
            made_up = next.replay_invalidations(&pending_invalidations) => made_up?,
            () = life.stopped() => (),
        }
    }
    match pending_invalidations.has_overflowed() {
        true => Err(RemoveError),
        false => next.replay_invalidations(&pending_invalidations).await,
    }
}

fn failed(share: &ShardShared) -> StartError {
    let error = OpenError::Device(DeviceError::TimedOut);
    StartError::Cache {
        spec: share.settings.spec.clone(),
        error: zonal_cache::StartError::Log(error),
    }
}

/// Most zones that are named in the log after a loss.
const NAMED_MAX: usize = 16;

/// Logs each damaged zone once. Zones are numbered over the whole device, as in `zonal inspect`.
fn name_damage(drive: &Drive, place: ShardAddress, cache: &Cache) {
    let ShardAddress { shard, shard_count, .. } = place;
    let zones_of = |shard| drive.share(low_u32(shard), low_u32(shard_count));
    let first: u32 = (0..shard).filter_map(|s| zones_of(s).ok()).map(|of| of.zone_count).sum();
    let path = drive.path().display();
    let mut zones = BTreeSet::new();
    for damage in cache.log().damage() {
        let is_silent = |zone| !zones.insert(zone) || NAMED_MAX < zones.len();
        if damage.zone().is_some_and(is_silent) {
            continue;
        }
        match (damage, damage.zone()) {
            (Damage::Unreadable(_), Some(zone)) => tracing::warn!(
                %path,
                shard,
                zone = first + zone.0,
                "zone read error during recovery: its unreadable records are lost, and the zone is \
                 not written before it is reset"
            ),
            (_, Some(zone)) => {
                tracing::error!(%path, shard, zone = first + zone.0, %damage, "zone lost");
            }
            (_, None) => tracing::error!(%path, shard, %damage, "zones lost"),
        }
    }
    if NAMED_MAX < zones.len() {
        let count = zones.len() - NAMED_MAX;
        tracing::error!(%path, shard, count, "further zones lost or unreadable");
    }
    if 0 < cache.log().stats().losses {
        tracing::error!(
            %path,
            shard,
            "removals may be lost with the zones: the origin confirms each cached object before it \
             is served"
        );
    }
}
