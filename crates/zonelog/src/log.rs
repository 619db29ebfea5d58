//! The log handle: one owner, one shard of a device, one executor.

use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;

use zonal_base::{Blocks, Bytes, Checksum, PoolClass, ZoneId};
use zonal_device::{Command, Completion, Geometry};
use zonal_runtime::{Buffers, Clock, Event, Port, Spawner};

use crate::backpressure::Backpressure;
use crate::damage::Damage;
use crate::segment::FRONT_BLOCKS;
use crate::state::State;
use crate::{Generations, Identity, LogStats, Settings, Stream, ZoneStatus, ZoneUse};

/// Ports: the log's only access to the device, time, tasks and memory.
#[derive(Clone)]
pub struct Ports {
    /// Command and completion queues of the device.
    pub device: Port<Command, Completion>,
    /// Time source, in nanoseconds: real in the host, virtual in the simulator.
    pub clock: Clock,
    /// Executor on which the log starts its own tasks (zone writers, linger timers).
    pub spawner: Spawner,
    /// Buffers for the reads of recovery and inspection. [`Log::start_read`] gets its buffer from
    /// the caller.
    pub buffers: Buffers,
    /// CRC-32C implementation for headers, footers and granules.
    pub checksum: Checksum,
    /// Generation numbers, one sequence for the records of all logs of the node.
    pub generations: Generations,
}

/// A log over the zones of one shard. Clones refer to the same log.
#[derive(Clone)]
pub struct Log {
    pub(crate) inner: Rc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) ports: Ports,
    pub(crate) geometry: Geometry,
    pub(crate) settings: Settings,
    pub(crate) identity: Identity,
    /// Random number of this opening of the log, written in every segment header.
    pub(crate) session: u32,
    /// Buffers for segment fronts, footers and marks. They are apart from read buffers, so that
    /// writes never wait for readers.
    pub(crate) fronts: Buffers,
    pub(crate) state: RefCell<State>,
    pub(crate) room: Backpressure,
    /// Notified when a zone loses its last pin or its last unpublished record.
    pub(crate) unpinned: Event,
    /// Notified when the owner should check for reclaim: a zone changed its use, a zone has no
    /// unpublished record any more, or an append waits for a zone.
    pub(crate) reclaim_wanted: Event,
}

impl Log {
    pub(crate) fn new(
        ports: Ports,
        geometry: Geometry,
        settings: Settings,
        identity: Identity,
        state: State,
    ) -> Self {
        let fronts = Buffers::new(&ports.spawner, &front_classes(&settings));
        let session = (zonal_base::mix64(ports.clock.now().0) >> 32) as u32;
        let inner = Inner {
            session,
            ports,
            geometry,
            settings,
            identity,
            fronts,
            state: RefCell::new(state),
            room: Backpressure::default(),
            unpinned: Event::default(),
            reclaim_wanted: Event::default(),
        };
        Self { inner: Rc::new(inner) }
    }

    /// Geometry of this shard of the device.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        &self.inner.geometry
    }

    /// Identity of the log: the one on flash, or the one that [`Log::open`] formatted the device
    /// with.
    #[must_use]
    pub fn identity(&self) -> Identity {
        self.inner.identity
    }

    /// Snapshot of the counters.
    #[must_use]
    pub fn stats(&self) -> LogStats {
        self.inner.state.borrow().stats
    }

    /// True once the device stopped answering, the owner gave it up, or no zone can be emptied any
    /// more. All appends fail from then on.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.inner.state.borrow().is_gone
    }

    /// Abandons the device: from now on all appends fail, and waiting appends fail at once.
    pub fn give_up(&self) {
        self.inner.state.borrow_mut().is_gone = true;
        self.inner.note_change_of_use();
    }

    /// Sequence number of the zone's last fill. Fills that began later have higher numbers.
    #[must_use]
    pub fn zone_sequence(&self, zone: ZoneId) -> u64 {
        self.inner.state.borrow().zone(zone).sequence
    }

    /// Status of each zone, in the order of their numbers.
    #[must_use]
    pub fn zone_status(&self) -> Vec<ZoneStatus> {
        self.inner.state.borrow().status(self.inner.geometry.zone_capacity)
    }

    /// Number of zones by use: empty, open, sealed, reclaiming, retired.
    #[must_use]
    pub fn zone_counts(&self) -> [u32; 5] {
        let mut counts = [0; 5];
        for zone in &self.inner.state.borrow().zones {
            counts[match zone.usage {
                ZoneUse::Empty => 0,
                ZoneUse::Open => 1,
                ZoneUse::Sealed => 2,
                ZoneUse::Reclaiming => 3,
                ZoneUse::Retired => 4,
            }] += 1;
        }
        counts
    }

    /// What was damaged or lost when the log was opened.
    #[must_use]
    pub fn damage(&self) -> Vec<Damage> {
        self.inner.state.borrow().damage.clone()
    }

    /// Records of a lower generation may have been removed by a tombstone that is lost, in this log
    /// or in another one of the node. 0: no tombstone was lost.
    #[must_use]
    pub fn suspect_below(&self) -> u64 {
        self.inner.ports.generations.suspect_below()
    }

    /// Bytes of records that were admitted to the backlog and are not yet on flash.
    #[must_use]
    pub fn backlog(&self) -> Bytes {
        Bytes(self.inner.state.borrow().backlog_bytes)
    }

    /// Upper limit of [`Log::backlog`], in bytes. An append into an empty backlog may exceed it.
    #[must_use]
    pub fn backlog_max(&self) -> Bytes {
        self.inner.settings.backlog_max
    }

    /// True when the backlog has room for `len` bytes, or is empty: an append would not wait for
    /// earlier ones.
    #[must_use]
    pub fn has_room(&self, len: u32) -> bool {
        let state = self.inner.state.borrow();
        let backlog = state.backlog_bytes;
        backlog == 0 || backlog + u64::from(len) <= self.inner.settings.backlog_max.0
    }

    /// Leak check: pins, unpublished records and buffers in use. The sum is zero when the log is
    /// idle.
    #[must_use]
    pub fn held(&self) -> u64 {
        let state = self.inner.state.borrow();
        let zones = state.zones.iter().map(|zone| u64::from(zone.pins + zone.unpublished));
        zones.sum::<u64>() + self.inner.fronts.pool().in_use()
    }

    /// Consistency check: the number of active slots in use equals the number of open zones and of
    /// writers.
    #[must_use]
    pub fn slots_balance(&self) -> bool {
        let state = self.inner.state.borrow();
        let all = crate::state::Slots::new(&self.inner.settings, &self.inner.geometry).free();
        let open = state.zones.iter().filter(|zone| zone.usage == ZoneUse::Open).count();
        state.slots.free() as usize + open == all as usize && open == state.writers.len()
    }
}

/// Buffer pool of the log: for each writer one segment front and one footer piece.
fn front_classes(settings: &Settings) -> [PoolClass; 2] {
    let writers = settings.fill_zones + zonal_base::low_u32(Stream::ALL.len());
    [
        PoolClass { blocks: FRONT_BLOCKS, count: writers },
        PoolClass { blocks: FOOTER_PIECE, count: writers },
    ]
}

/// Largest piece of a footer write: 1 MiB.
pub(crate) const FOOTER_PIECE: Blocks = Blocks(256);
