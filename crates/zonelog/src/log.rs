//! The log handle: one owner, one share of a device, one executor.

use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;

use zonal_base::{Blocks, Bytes, Checksum, PoolClass, ZoneId};
use zonal_device::{Command, Completion, Geometry};
use zonal_runtime::{Buffers, Clock, Event, Port, Spawner};

use crate::room::Room;
use crate::segment::FRONT_BLOCKS;
use crate::state::State;
use crate::{Generations, Identity, LogStats, Settings, Stream, ZoneUse};

/// Everything that the log asks of the world.
#[derive(Clone)]
pub struct Ports {
    /// The device.
    pub device: Port<Command, Completion>,
    /// The time.
    pub clock: Clock,
    /// What starts the log's own tasks.
    pub spawner: Spawner,
    /// Memory for reads.
    pub buffers: Buffers,
    /// CRC-32C.
    pub checksum: Checksum,
    /// What numbers the records of all logs of the node.
    pub generations: Generations,
}

/// A log over the zones of one device share. Clones share it.
#[derive(Clone)]
pub struct Log {
    pub(crate) inner: Rc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) ports: Ports,
    pub(crate) geometry: Geometry,
    pub(crate) settings: Settings,
    pub(crate) identity: Identity,
    /// Stands in every header that this opening of the log writes.
    pub(crate) session: u32,
    /// Memory for what the log writes of its own: never waits behind reads.
    pub(crate) fronts: Buffers,
    pub(crate) state: RefCell<State>,
    pub(crate) room: Room,
    /// A zone lost its last pin or its last unpublished record.
    pub(crate) unpinned: Event,
    /// Fewer empty zones than the low watermark, or somebody waits for one.
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
            room: Room::default(),
            unpinned: Event::default(),
            reclaim_wanted: Event::default(),
        };
        Self { inner: Rc::new(inner) }
    }

    /// What the device is.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        &self.inner.geometry
    }

    /// Whose log this is.
    #[must_use]
    pub fn identity(&self) -> Identity {
        self.inner.identity
    }

    /// The counters.
    #[must_use]
    pub fn stats(&self) -> LogStats {
        self.inner.state.borrow().stats
    }

    /// True once the device stopped answering, or no zone can be emptied any more: nothing can be appended then.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.inner.state.borrow().is_gone
    }

    /// Does without the device from now on: nothing is appended any more, and nobody waits for it.
    pub fn give_up(&self) {
        self.inner.state.borrow_mut().is_gone = true;
        self.inner.note_change_of_use();
    }

    /// Which filling of a zone the last one was: higher for those that were begun later.
    #[must_use]
    pub fn zone_sequence(&self, zone: ZoneId) -> u64 {
        self.inner.state.borrow().zone(zone).sequence
    }

    /// Zones by use: empty, open, sealed, reclaiming, retired.
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

    /// Zones of which something could not be read when the log was opened.
    #[must_use]
    pub fn unreadable_zones(&self) -> Vec<ZoneId> {
        self.inner.state.borrow().unreadable.clone()
    }

    /// Bytes to be appended and not yet on flash.
    #[must_use]
    pub fn backlog(&self) -> Bytes {
        Bytes(self.inner.state.borrow().backlog_bytes)
    }

    /// What the backlog may grow to.
    #[must_use]
    pub fn backlog_max(&self) -> Bytes {
        self.inner.settings.backlog_max
    }

    /// True when an append would not have to wait for earlier ones.
    #[must_use]
    pub fn has_room(&self, len: u32) -> bool {
        let state = self.inner.state.borrow();
        let backlog = state.backlog_bytes;
        backlog == 0 || backlog + u64::from(len) <= self.inner.settings.backlog_max.0
    }

    /// What must be zero when nothing is under way: pins, unpublished records, buffers of the log.
    #[must_use]
    pub fn held(&self) -> u64 {
        let state = self.inner.state.borrow();
        let zones = state.zones.iter().map(|zone| u64::from(zone.pins + zone.unpublished));
        zones.sum::<u64>() + self.inner.fronts.pool().in_use()
    }

    /// Slots taken and zones open: the two are always equal.
    #[must_use]
    pub fn slots_balance(&self) -> bool {
        let state = self.inner.state.borrow();
        let all = crate::state::Slots::new(&self.inner.settings, &self.inner.geometry).free();
        let open = state.zones.iter().filter(|zone| zone.usage == ZoneUse::Open).count();
        state.slots.free() as usize + open == all as usize && open == state.writers.len()
    }
}

/// One front for each writer's segment in flight, and as much for its footer.
fn front_classes(settings: &Settings) -> [PoolClass; 2] {
    let writers = settings.fill_zones + zonal_base::low_u32(Stream::ALL.len());
    [
        PoolClass { blocks: FRONT_BLOCKS, count: writers },
        PoolClass { blocks: FOOTER_PIECE, count: writers },
    ]
}

/// Footers are written in pieces of at most 1 MiB.
pub(crate) const FOOTER_PIECE: Blocks = Blocks(256);
