//! The block device handle: one owner, two tiers, one executor.

use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

use zonal_base::Checksum;
use zonal_device::{Command, Completion};
use zonal_runtime::{Buffers, Event, Port};

use crate::events::{BlockChange, RecentEvents};
use crate::flush::Flusher;
use crate::layout::Layout;
use crate::mutation::Mutation;
use crate::open::Identity;
use crate::settings::MapPlace;
use crate::state::{State, ZoneUse};
use crate::{
    BlockError, Export, ExportId, Extent, Ports, Recovery, Settings, ShaperStats, TenantStats, Tier,
};

/// A block device with its exports. Clones share it.
///
/// The futures of [`Shaper::read`], [`Shaper::write`] and the others may be dropped at any time.
/// Queued writes are still written, without an acknowledgement.
#[derive(Clone)]
pub struct Shaper {
    pub(crate) inner: Rc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) ports: Ports,
    pub(crate) layout: Layout,
    pub(crate) settings: Settings,
    pub(crate) identity: Identity,
    /// Session number in every header that this opening writes.
    pub(crate) session: u32,
    pub(crate) exports: Vec<Export>,
    /// Tenant number of each export.
    pub(crate) tenants: Vec<u16>,
    pub(crate) recovery: Cell<Recovery>,
    /// Failed reads of single blocks that are still waited for.
    pub(crate) waits_left: Cell<u32>,
    /// True between the start and the shutdown: writes wait for a device that takes none.
    pub(crate) holds_writes: Cell<bool>,
    /// Buffers for internal writes and moves, separate from client reads, so that they never wait
    /// for them.
    pub(crate) own: Buffers,
    pub(crate) state: RefCell<State>,
    pub(crate) events: RecentEvents,
    pub(crate) flushers: [Flusher; 2],
    /// Wakes the log task: it may have something to write.
    pub(crate) queued: Event,
    /// Wakes writers: the write queue may have room.
    pub(crate) queue_room: Event,
    /// A zone lost its last pin.
    pub(crate) unpinned: Event,
    /// Wakes the map task: something that a merge may wait for has changed.
    pub(crate) map_changed: Event,
    /// True while the map task merges pages, or has been asked to check.
    pub(crate) is_merging: Cell<bool>,
    /// Wakes movers that wait because the lists of the map were full.
    pub(crate) map_room: Event,
    /// Zones for map pages; `None` if the whole map is in memory.
    pub(crate) map_place: Option<MapPlace>,
    /// Wakes compaction and garbage collection: something that they may wait for has changed.
    pub(crate) work: Event,
}

/// Load at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShaperLoad {
    /// Queue room taken by waiting and submitted writes, in blocks; at most
    /// [`Settings::QUEUE_BLOCKS`](crate::Settings::QUEUE_BLOCKS), except for a single larger
    /// request.
    pub queued_blocks: u64,
    /// Zones of the buffer tier: empty, open, sealed, being emptied, retired, kept because of
    /// unreadable blocks.
    pub buffer_zones: [u32; 6],
    /// Zones of the capacity tier, in the same order.
    pub capacity_zones: [u32; 6],
    /// Pinned reads in flight plus internal buffers in use: 0 when idle.
    pub held: u64,
}

/// Reads of clients and of moves that failed, and what they led to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadFailures {
    /// Gauge: zones kept because of blocks that could not be read.
    pub zones_kept: u32,
    /// Blocks given up. They return errors until they are written.
    pub blocks_lost: u64,
    /// Blocks that did not fit their checksums, each time they were read.
    pub checksum_errors: u64,
    /// The last one of them.
    pub last_corrupt: Option<crate::DamagedBlock>,
}

impl Shaper {
    /// All exports of the devices, also those of earlier openings.
    #[must_use]
    pub fn exports(&self) -> &[Export] {
        &self.inner.exports
    }

    /// The export with this name.
    #[must_use]
    pub fn export(&self, name: &str) -> Option<ExportId> {
        let at = self.inner.exports.iter().position(|export| export.name == name)?;
        u16::try_from(at).ok().map(ExportId)
    }

    /// Identity stored on both devices.
    #[must_use]
    pub fn identity(&self) -> Identity {
        self.inner.identity
    }

    /// Statistics of the recovery at the start; zeros if the devices were formatted.
    #[must_use]
    pub fn recovery(&self) -> Recovery {
        self.inner.recovery.get()
    }

    /// Counters of the whole block device.
    #[must_use]
    pub fn stats(&self) -> ShaperStats {
        self.inner.state.borrow().stats
    }

    /// Counters of each tenant with its name, in the order of their first exports.
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

    /// The load now.
    #[must_use]
    pub fn waiting(&self) -> ShaperLoad {
        let state = self.inner.state.borrow();
        ShaperLoad {
            queued_blocks: state.log.queued_blocks,
            buffer_zones: state.counts(Tier::Buffer),
            capacity_zones: state.counts(Tier::Capacity),
            held: state.pins() + self.inner.own.pool().in_use(),
        }
    }

    /// Error that made all writes impossible, if any.
    #[must_use]
    pub fn failure(&self) -> Option<BlockError> {
        self.inner.state.borrow().failure
    }

    /// Error that stopped moves from the buffer to the capacity tier, if any. Writes continue until
    /// the buffer is full, and then this becomes the failure.
    #[must_use]
    pub fn halted(&self) -> Option<BlockError> {
        self.inner.state.borrow().halted
    }

    /// Waits until there are more failures than these.
    pub async fn read_failures_beyond(&self, known: ReadFailures) -> ReadFailures {
        loop {
            let now = {
                let state = self.inner.state.borrow();
                let of_tier = |tier| state.count(tier, ZoneUse::Unreadable);
                ReadFailures {
                    zones_kept: Tier::ALL.into_iter().map(of_tier).sum(),
                    blocks_lost: state.stats.blocks_lost,
                    checksum_errors: state.stats.checksum_errors,
                    last_corrupt: state.last_corrupt,
                }
            };
            if now != known {
                return now;
            }
            self.inner.work.wait().await;
        }
    }

    /// Memory of the map, in bytes.
    #[must_use]
    pub fn map_memory_bytes(&self) -> u64 {
        self.inner.state.borrow().map.memory_bytes()
    }

    /// Tier that has the map pages. `None`: the whole map is in memory.
    #[must_use]
    pub fn map_pages_on(&self) -> Option<Tier> {
        self.inner.map_place.map(|place| place.tier)
    }

    /// Waits until compaction, garbage collection and the map are idle, then flushes. Requires: no
    /// client writes meanwhile.
    ///
    /// # Errors
    /// When a device failed.
    pub async fn settle(&self) -> Result<(), BlockError> {
        while !self.inner.is_settled() {
            self.inner.work.wait().await;
        }
        self.flush().await
    }

    /// Checks that the extent is within its export and not empty.
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

    pub(crate) fn has(&self, bug: Mutation) -> bool {
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

    /// Buffer zones of the log, without those of the map.
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
                && !state.wants_collection(self)
                && !state.has_rewritten())
    }

    /// Makes the block device fail: no write is possible any more, and every waiting request gets
    /// the error.
    pub(crate) fn fail(&self, error: BlockError) {
        let mut state = self.state.borrow_mut();
        if state.failure.is_none() {
            state.failure = Some(error);
            self.note(BlockChange::Failed(error));
        }
        let lost = state.log.give_up();
        drop(state);
        for ticket in lost {
            ticket.fail(error);
        }
        self.wake_all();
    }

    /// Wakes every task and every client that waits: something basic has changed.
    pub(crate) fn wake_all(&self) {
        self.queue_room.notify_all();
        self.work.notify_all();
        self.queued.notify_all();
        self.unpinned.notify_all();
        self.map_changed.notify_all();
        self.map_room.notify_all();
    }
}
