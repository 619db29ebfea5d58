//! Event loop of the simulation: runs the engine, the drive model and the origin model in virtual
//! time.

use zonal_base::{Bytes, Checksum, Contents, Nanos, PoolClass};
use zonal_cache::{Cache, Ports, PrefetchSlots};
use zonal_device::{Geometry, ZonedDevice};
use zonal_runtime::{Buffers, Executor, Port};
use zonal_watch::Watched;
use zonal_zonelog::Generations;

use super::OriginTimes;
use super::origin::{SimulatedOrigin, Wanted};

/// A drive with its current time.
#[derive(Debug)]
pub struct Ground<D> {
    /// The drive, with no command in flight.
    pub drive: D,
    /// Current time. Every event of the drive is earlier or now.
    pub now: Nanos,
}

impl<D> From<D> for Ground<D> {
    /// A drive at time 0.
    fn from(drive: D) -> Self {
        Self { drive, now: Nanos(0) }
    }
}

/// Everything in a simulation except the cache.
pub(super) struct World<D> {
    pub(super) executor: Executor,
    pub(super) ports: Ports,
    pub(super) now: Nanos,
    drive: D,
    origin: SimulatedOrigin,
    watched: Watched,
    /// Engine that the watcher sees.
    shown: Option<Cache>,
}

/// The real checksum. It covers headers, and the tags of payloads.
const CHECKSUM: Checksum = Checksum(crc32c::crc32c_append);

/// Limit of tasks: those of the engine, and the readers.
const TASKS_MAX: usize = 1 << 16;

/// Memory for payload buffers of each size. A tag touches a page of its own, so more memory would
/// only be slower.
const BUFFERS: Bytes = Bytes::mib(64);

/// Polls of tasks per iteration.
const POLLS_PER_TURN: usize = 1024;

impl<D: ZonedDevice> World<D> {
    /// `piece` is the largest buffer that tasks need.
    pub(super) fn new(
        ground: Ground<D>,
        piece: Bytes,
        (origin, wanted): (OriginTimes, Wanted),
    ) -> Self {
        let Ground { drive, now } = ground;
        let executor = Executor::new(TASKS_MAX);
        executor.advance(now);
        // Heads and footers need buffers of 64 KiB as well.
        let sizes = [Bytes::kib(8), Bytes::kib(64).max(piece)];
        let classes = sizes.map(|size| {
            let count = zonal_base::low_u32(zonal_base::index(BUFFERS.0 / size.0));
            PoolClass { blocks: size.blocks_ceil(), count }
        });
        let ports = Ports {
            device: Port::new(),
            origin: Port::new(),
            clock: executor.clock().clone(),
            spawner: executor.spawner().clone(),
            buffers: Buffers::holding(Contents::Tags, executor.spawner(), &classes),
            checksum: CHECKSUM,
            generations: Generations::default(),
            prefetch_slots: PrefetchSlots::new(usize::MAX),
        };
        let origin = SimulatedOrigin::new(origin, wanted);
        Self { executor, ports, now, drive, origin, watched: Watched::default(), shown: None }
    }

    /// Shows the cache to a watcher from now on.
    pub(super) fn show(&mut self, cache: &Cache, watched: &Watched) {
        watched.started(self.now, cache.into());
        (self.watched, self.shown) = (watched.clone(), Some(cache.clone()));
    }

    /// Shows the cache for the last time.
    pub(super) fn show_end(&self) {
        self.watched.ended(self.now, self.shown.as_ref());
    }

    pub(super) fn geometry(&self) -> &Geometry {
        self.drive.geometry()
    }

    /// Returns the drive after its last command. The completions are dropped.
    pub(super) fn into_ground(mut self) -> Ground<D> {
        loop {
            while self.drive.poll(self.now).is_some() {}
            match self.drive.next_event() {
                Some(next) => self.now = self.now.max(next),
                None => return Ground { drive: self.drive, now: self.now },
            }
        }
    }

    /// Runs iterations until `done`, or until no event is left.
    pub(super) fn run(&mut self, done: impl Fn() -> bool) {
        while !done() {
            self.turn();
            if self.is_idle() && !self.wait() {
                return;
            }
        }
    }

    /// One iteration: deliver completions, run ready tasks, submit new commands.
    fn turn(&mut self) {
        while let Some((ticket, completion)) = self.drive.poll(self.now) {
            self.ports.device.complete(ticket, completion);
        }
        while let Some((ticket, fetched)) = self.origin.poll(self.now) {
            self.ports.origin.complete(ticket, fetched);
        }
        self.executor.run(POLLS_PER_TURN);
        while let Some((ticket, command)) = self.ports.device.take() {
            if let Err(command) = self.drive.submit(self.now, ticket, command) {
                self.ports.device.put_back(ticket, command);
                break;
            }
        }
        while let Some((ticket, fetch)) = self.ports.origin.take() {
            self.origin.start(self.now, ticket, fetch);
        }
    }

    /// True when no task is ready. A completion that takes no time may still follow.
    fn is_idle(&self) -> bool {
        !self.executor.has_ready()
    }

    /// Advances the clock to the next event. False when there is none.
    fn wait(&mut self) -> bool {
        self.watched.moment(self.now, self.shown.as_ref());
        let of_tasks = self.executor.next_deadline();
        let of_ports = sooner(self.drive.next_event(), self.origin.next_event());
        let Some(next) = sooner(of_tasks, of_ports) else { return false };
        self.now = self.now.max(next);
        self.executor.advance(self.now);
        true
    }
}

fn sooner(one: Option<Nanos>, other: Option<Nanos>) -> Option<Nanos> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
