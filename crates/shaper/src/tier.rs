//! Tier I/O: writes a segment to a zone, retires zones that refuse writes, and resets empty ones.

use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;

use zonal_base::{BLOCK_BYTES, Blocks, Buffer, Payload, low_u32};
use zonal_device::{Action, Answer, Command, Completion, DeviceError, DeviceKind, ZoneState};
use zonal_runtime::Call;

use crate::format::{Entry, HEADER_BLOCKS, Header, Shape, VERSION};
use crate::layout::{Layout, Spot, Zone};
use crate::planted::Planted;
use crate::shaper::Inner;
use crate::state::ZoneUse;
use crate::{BlockError, Tier};

/// A zone that is being filled, by one writer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenZone {
    pub(crate) zone: Zone,
    /// Where the next segment begins.
    pub(crate) at: u32,
    /// Checksum of the last header; 0 before the first.
    previous: u32,
}

/// A segment on its way.
pub(crate) struct Begun {
    pub(crate) call: Call<Command, Completion>,
    pub(crate) zone: Zone,
    /// Where its first block is, behind the header.
    pub(crate) data: Spot,
    number: u64,
    /// Checksum of its header.
    sum: u32,
    /// All of it.
    blocks: u32,
    end: u32,
}

impl OpenZone {
    pub(crate) const fn new(zone: Zone) -> Self {
        Self { zone, at: 0, previous: 0 }
    }

    /// A zone that an earlier opening left half full.
    pub(crate) const fn resume(zone: Zone, at: u32, previous: u32) -> Self {
        Self { zone, at, previous }
    }

    /// Blocks that are left.
    pub(crate) fn room(&self, layout: &Layout) -> u32 {
        low_u32(zonal_base::index(layout.zone_capacity(self.zone).0)) - self.at
    }
}

impl Inner {
    /// Both tiers, as headers tell it.
    pub(crate) fn shape(&self) -> Shape {
        Shape::of(&self.layout)
    }

    /// Takes the zone of the tier that has been empty longest, and lets those know who see to it that there are some.
    pub(crate) fn open_zone(&self, tier: Tier) -> Option<Zone> {
        let zone = self.state.borrow_mut().open_zone(&self.layout, tier)?;
        self.work.notify_all();
        Some(zone)
    }

    /// Sends a segment on its way. Requires: there is room for it, and `data` has a block for each entry that takes one.
    pub(crate) fn begin_segment(
        &self,
        open: &mut OpenZone,
        entries: Vec<Entry>,
        data: Vec<Payload>,
        mut front: Buffer,
    ) -> Begun {
        let mut state = self.state.borrow_mut();
        let tier = self.layout.tier_of(open.zone);
        let number = state.next_number;
        state.next_number += 1;
        let last = &mut state.last_number[usize::from(tier.id())];
        let tier_previous = core::mem::replace(last, number);
        state.unanswered[usize::from(tier.id())].insert(number, tier_previous);
        let header = Header {
            version: VERSION,
            tier,
            identity: self.identity,
            shape: self.shape(),
            zone: open.zone,
            at: open.at,
            number,
            previous: open.previous,
            session: self.session,
            durable: state.durable,
            tier_previous,
            epoch: state.epoch_durable,
            next_sequence: state.next_sequence,
            entries,
        };
        let facts = state.zone_mut(open.zone);
        facts.last_number = number;
        if open.at == 0 {
            facts.number = number;
        }
        let blocks = HEADER_BLOCKS + u64::from(header.blocks());
        let blocks = low_u32(zonal_base::index(blocks));
        drop(state);
        let sum = header.encode(self.checksum(), &mut front.bytes_mut()[..BLOCK_BYTES]);
        open.previous = sum;
        let at = Blocks(u64::from(open.at));
        let lba = self.layout.lba(open.zone, at);
        let mut pieces = vec![front.freeze(BLOCK_BYTES)];
        pieces.extend(data);
        open.at += blocks;
        let call = self.port(tier).call(Command::Write { lba, data: pieces });
        // A segment without blocks may end the zone: the name of what would follow is never used.
        let data = self.layout.spot(open.zone, at).plus(1);
        Begun { call, zone: open.zone, data, number, sum, blocks, end: open.at }
    }

    /// The segment was answered so.
    pub(crate) fn end_segment(&self, begun: &Begun, answer: &Completion) {
        let tier = self.layout.tier_of(begun.zone);
        let mut state = self.state.borrow_mut();
        if answer.is_err() {
            return state.note_torn(begun.zone, begun.number);
        }
        state.unanswered[usize::from(tier.id())].remove(&begun.number);
        let facts = state.zone_mut(begun.zone);
        (facts.written, facts.sum) = (begun.end, begun.sum);
        state.unflushed_zones[usize::from(tier.id())].insert(begun.zone);
        state.note_written(tier, u64::from(begun.blocks));
        state.stats.buffer_segments += u64::from(tier == Tier::Buffer);
        let is_due = self.settings.flush_every.0 <= state.unflushed[usize::from(tier.id())];
        drop(state);
        if is_due {
            self.flushers[usize::from(tier.id())].ask();
        }
    }

    /// The zone is full, or takes no more: it can be emptied.
    pub(crate) fn seal_zone(&self, zone: Zone) {
        self.state.borrow_mut().set_usage(&self.layout, zone, ZoneUse::Sealed);
        self.work.notify_all();
    }

    /// A write to the zone failed and none is under way: what was written before stays readable, and no more is written.
    pub(crate) async fn abandon(&self, zone: Zone) {
        self.finish_zone(zone).await;
        self.seal_zone(zone);
    }

    /// The zone takes no more, and gives up its place among the active ones.
    pub(crate) async fn finish_zone(&self, zone: Zone) {
        let port = self.port(self.layout.tier_of(zone));
        let zone_id = self.layout.zone_id(zone);
        let state = match port.call(Command::Report { first: zone_id, count: 1 }).await {
            Ok(Answer::Report(zones)) => zones.first().map(|report| report.state),
            _ => None,
        };
        if state.is_some_and(ZoneState::is_active) {
            let _ = port.call(Command::Manage { zone: zone_id, action: Action::Finish }).await;
        }
    }

    /// Empties a zone: waits until nobody reads there, and resets it. Requires: the map names nothing in it any more, and it
    /// was released on flash or the zone table there does not have it.
    pub(crate) async fn reset_flushed(&self, zone: Zone) -> Result<(), BlockError> {
        while 0 < self.state.borrow().zone(zone).pins && !self.has(Planted::CollectionRace) {
            self.unpinned.wait().await;
        }
        let tier = self.layout.tier_of(zone);
        let place = self.layout.place(tier);
        let mut outcome = self.reset_on_device(zone).await;
        // A start has to find room for the map before it knows what lives where.
        let is_marked = self.map_place.is_some() && place.geometry.kind == DeviceKind::Conventional;
        if is_marked && outcome.is_ok() {
            outcome = self.mark_empty(zone).await;
        }
        let mut state = self.state.borrow_mut();
        match outcome {
            Ok(()) => {
                state.set_usage(&self.layout, zone, ZoneUse::Empty);
                match tier {
                    Tier::Buffer => state.stats.buffer_zones_reset += 1,
                    Tier::Capacity => state.stats.capacity_zones_reset += 1,
                }
            }
            Err(DeviceError::DeviceGone) => return Err(gone(tier)),
            Err(_) => state.give_up(&self.layout, zone),
        }
        drop(state);
        self.work.notify_all();
        self.queued.notify_all();
        self.queue_room.notify_all();
        Ok(())
    }

    /// A header that tells of nothing: its zone is empty.
    pub(crate) fn mark(&self, zone: Zone) -> Header {
        Header {
            version: VERSION,
            tier: self.layout.tier_of(zone),
            identity: self.identity,
            shape: self.shape(),
            zone,
            at: 0,
            number: 0,
            previous: 0,
            session: self.session,
            durable: [0; 2],
            tier_previous: 0,
            epoch: 0,
            next_sequence: 0,
            entries: Vec::new(),
        }
    }

    pub(crate) async fn reset_on_device(&self, zone: Zone) -> Result<(), DeviceError> {
        let reset = Command::Manage { zone: self.layout.zone_id(zone), action: Action::Reset };
        self.port(self.layout.tier_of(zone)).call(reset).await.map(drop)
    }

    /// Puts a header that tells of nothing at the begin of a zone that was reset: a device without zones does not remember it.
    pub(crate) async fn mark_empty(&self, zone: Zone) -> Result<(), DeviceError> {
        let mut front = self.own.take(Blocks(1)).await;
        self.mark(zone).encode(self.checksum(), &mut front.bytes_mut()[..BLOCK_BYTES]);
        let lba = self.layout.lba(zone, Blocks(0));
        let data = vec![front.freeze(BLOCK_BYTES)];
        self.port(self.layout.tier_of(zone)).call(Command::Write { lba, data }).await?;
        self.reset_on_device(zone).await
    }

    /// Reads under way keep the zone.
    pub(crate) fn pin(self: &Rc<Self>, zone: Zone) -> Pin {
        self.state.borrow_mut().zone_mut(zone).pins += 1;
        Pin { inner: self.clone(), zone }
    }
}

/// A zone is not reset while this is held.
pub(crate) struct Pin {
    inner: Rc<Inner>,
    zone: Zone,
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut state = self.inner.state.borrow_mut();
        let facts = state.zone_mut(self.zone);
        facts.pins -= 1;
        if facts.pins == 0 {
            drop(state);
            self.inner.unpinned.notify_all();
        }
    }
}

impl Shape {
    pub(crate) fn of(layout: &Layout) -> Self {
        let blocks = |tier| low_u32(zonal_base::index(layout.place(tier).geometry.zone_capacity.0));
        Self {
            zones: Tier::ALL.map(|tier| layout.place(tier).count),
            zone_blocks: Tier::ALL.map(blocks),
        }
    }
}

/// What it means that a tier's device does not answer.
pub(crate) const fn gone(tier: Tier) -> BlockError {
    match tier {
        Tier::Buffer => BlockError::BufferGone,
        Tier::Capacity => BlockError::CapacityGone,
    }
}
