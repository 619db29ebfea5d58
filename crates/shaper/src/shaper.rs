//! The block device handle: one owner, two tiers, one executor.

use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

use zonal_base::Checksum;
use zonal_device::{Command, Completion};
use zonal_runtime::{Buffers, Event, Port};

use crate::flush::Flusher;
use crate::layout::Layout;
use crate::open::Identity;
use crate::planted::Planted;
use crate::settings::MapPlace;
use crate::state::State;
use crate::{
    BlockError, Export, ExportId, Extent, Ports, Recovery, Settings, ShaperStats, TenantStats, Tier,
};

/// A block device with some exports. Clones share it.
///
/// The futures of [`Shaper::read`], [`Shaper::write`] and the others may be dropped at any time: what was queued is
/// written all the same, but nobody is told.
#[derive(Clone)]
pub struct Shaper {
    pub(crate) inner: Rc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) ports: Ports,
    pub(crate) layout: Layout,
    pub(crate) settings: Settings,
    pub(crate) identity: Identity,
    /// Stands in every header that this opening writes.
    pub(crate) session: u32,
    pub(crate) exports: Vec<Export>,
    /// Of each export, the number of its tenant.
    pub(crate) tenants: Vec<u16>,
    pub(crate) recovery: Cell<Recovery>,
    /// Memory for what is written of our own and for what is moved: never waits behind reads of users.
    pub(crate) own: Buffers,
    pub(crate) state: RefCell<State>,
    pub(crate) flushers: [Flusher; 2],
    /// Something may be written to the buffer.
    pub(crate) queued: Event,
    /// There is room in the queue of writes.
    pub(crate) queue_room: Event,
    /// A zone lost its last pin.
    pub(crate) unpinned: Event,
    /// Something changed that the merging of the map may wait for.
    pub(crate) map_changed: Event,
    /// Pages of the map are being merged, or its task was asked to look.
    pub(crate) is_merging: Cell<bool>,
    /// Lists of the map are shorter than they were.
    pub(crate) map_room: Event,
    /// Zones that pages of the map lie in; none if all of it is in memory.
    pub(crate) map_place: Option<MapPlace>,
    /// Something changed that compaction or collection may wait for.
    pub(crate) work: Event,
}

/// What is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Blocks of writes that wait for the buffer device.
    pub queued_blocks: u64,
    /// Zones of the buffer tier: empty, open, full, being emptied, retired.
    pub buffer_zones: [u32; 5],
    /// The same of the capacity tier.
    pub capacity_zones: [u32; 5],
    /// Reads from devices that are under way, and buffers of our own that are in use: 0 at rest.
    pub held: u64,
}

impl Shaper {
    /// All exports of the devices, also those that were made at an earlier opening.
    #[must_use]
    pub fn exports(&self) -> &[Export] {
        &self.inner.exports
    }

    /// The export of that name.
    #[must_use]
    pub fn export(&self, name: &str) -> Option<ExportId> {
        let at = self.inner.exports.iter().position(|export| export.name == name)?;
        u16::try_from(at).ok().map(ExportId)
    }

    /// Which block device this is.
    #[must_use]
    pub fn identity(&self) -> Identity {
        self.inner.identity
    }

    /// What opening it took.
    #[must_use]
    pub fn recovery(&self) -> Recovery {
        self.inner.recovery.get()
    }

    /// The counters of the whole.
    #[must_use]
    pub fn stats(&self) -> ShaperStats {
        self.inner.state.borrow().stats
    }

    /// The counters of each tenant, by its name, in the order of their first exports.
    #[must_use]
    pub fn tenant_stats(&self) -> Vec<(&str, TenantStats)> {
        let state = self.inner.state.borrow();
        let tenants = &self.inner.tenants;
        let name = |tenant: usize| {
            let at = tenants.iter().position(|of| usize::from(*of) == tenant);
            self.inner.exports[at.expect("a tenant has an export")].tenant.as_str()
        };
        let mapped = state.mapped.iter().map(|mapped| u64::try_from(*mapped).unwrap_or(0));
        let stats = state.tenant_stats.iter().zip(mapped);
        let stats = stats.map(|(stats, mapped_blocks)| TenantStats { mapped_blocks, ..*stats });
        stats.enumerate().map(|(at, stats)| (name(at), stats)).collect()
    }

    /// What is under way now.
    #[must_use]
    pub fn waiting(&self) -> Waiting {
        let state = self.inner.state.borrow();
        Waiting {
            queued_blocks: state.log.queued_blocks,
            buffer_zones: state.counts(Tier::Buffer),
            capacity_zones: state.counts(Tier::Capacity),
            held: state.pins() + self.inner.own.pool().in_use(),
        }
    }

    /// Why nothing can be written any more, if so.
    #[must_use]
    pub fn failure(&self) -> Option<BlockError> {
        self.inner.state.borrow().failure
    }

    /// Why nothing goes from the buffer to the capacity tier any more, if so. Writes go on until the buffer is full, and then
    /// this is the failure.
    #[must_use]
    pub fn halted(&self) -> Option<BlockError> {
        self.inner.state.borrow().halted
    }

    /// Bytes of memory that the map takes.
    #[must_use]
    pub fn map_memory_bytes(&self) -> u64 {
        self.inner.state.borrow().map.memory_bytes()
    }

    /// The tier in which pages of the map lie. `None`: all of it is in memory.
    #[must_use]
    pub fn map_pages_on(&self) -> Option<Tier> {
        self.inner.map_place.map(|place| place.tier)
    }

    /// Waits until compaction, collection and the map have nothing to do, and flushes: what a graceful end does. Nobody may write
    /// meanwhile.
    ///
    /// # Errors
    /// When a device failed.
    pub async fn settle(&self) -> Result<(), BlockError> {
        while !self.inner.is_settled() {
            self.inner.work.wait().await;
        }
        self.flush().await
    }

    /// The blocks, if they are there.
    pub(crate) fn check(&self, extent: Extent) -> Result<(), BlockError> {
        let export = self.inner.exports.get(usize::from(extent.export.0));
        let export = export.ok_or(BlockError::OutOfRange)?;
        let end = extent.first.0.checked_add(extent.blocks.0).ok_or(BlockError::OutOfRange)?;
        if export.blocks.0 < end {
            return Err(BlockError::OutOfRange);
        }
        if extent.blocks.0 == 0 { Err(BlockError::Misaligned) } else { Ok(()) }
    }
}

impl Inner {
    pub(crate) fn port(&self, tier: Tier) -> &Port<Command, Completion> {
        match tier {
            Tier::Buffer => &self.ports.buffer,
            Tier::Capacity => &self.ports.capacity,
        }
    }

    pub(crate) fn checksum(&self) -> Checksum {
        self.ports.checksum
    }

    pub(crate) fn has(&self, bug: Planted) -> bool {
        self.settings.has(bug)
    }

    pub(crate) fn tenant_of(&self, export: ExportId) -> u16 {
        self.tenants[usize::from(export.0)]
    }

    pub(crate) fn streams_per_mover(&self) -> u32 {
        let tenant_count = self.tenants.iter().max().map_or(1, |last| u32::from(*last) + 1);
        let kept = self.settings.zones_kept_for_map(&self.layout, &self.exports);
        self.layout.streams_per_mover(tenant_count, kept)
    }

    /// Zones of the buffer that are not the map's.
    pub(crate) fn log_zones(&self) -> u32 {
        let of_map = self.map_place.filter(|place| place.tier == Tier::Buffer);
        self.layout.buffer.count - of_map.map_or(0, |place| place.zones)
    }

    fn is_settled(&self) -> bool {
        let state = self.state.borrow();
        state.failure.or(state.halted).is_some()
            || (state.log.is_idle()
                && !self.is_merging.get()
                && !state.wants_compaction(self)
                && !state.wants_collection(self))
    }

    /// Nothing can be written any more. Everybody who waits is told.
    pub(crate) fn fail(&self, error: BlockError) {
        let mut state = self.state.borrow_mut();
        state.failure.get_or_insert(error);
        let lost = state.log.give_up();
        drop(state);
        for ticket in lost {
            ticket.fail(error);
        }
        self.queue_room.notify_all();
        self.work.notify_all();
        self.queued.notify_all();
        self.unpinned.notify_all();
        self.map_changed.notify_all();
        self.map_room.notify_all();
    }
}
