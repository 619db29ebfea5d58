//! Tier I/O: writes a segment to a zone, retires zones that refuse writes, and resets empty ones.

use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;

use zonal_base::{BLOCK_BYTES, Blocks, Buffer, Payload, low_u32};
use zonal_device::{Answer, Command, Completion, DeviceError, DeviceKind, ZoneAction, ZoneReport};

use crate::events::ZoneChange;
use crate::format::{Echo, Entry, Header, SegmentRoom, Shape};
use crate::layout::{Layout, PhysAddr, Zone};
use crate::mutation::Mutation;
use crate::read_only::ZoneWrite;
use crate::refused::Writer;
use crate::shaper::Inner;
use crate::state::ZoneUse;
use crate::zones::Stream;
use crate::{BlockError, Tier};

/// A zone being filled, by one writer.
#[derive(Clone, Debug)]
pub(crate) struct OpenZone {
    pub(crate) zone: Zone,
    /// Position of the next segment, in blocks.
    pub(crate) at: u32,
    /// Checksum of the last header; 0 before the first.
    previous: u32,
    /// The last segment, which the next header repeats.
    last: Option<Echo>,
}

/// A submitted segment.
pub(crate) struct SubmittedSegment {
    pub(crate) write: ZoneWrite,
    /// Address of its first data block, behind the header.
    pub(crate) data: PhysAddr,
    number: u64,
    writer: Writer,
    /// False for a header that closes a zone.
    has_entries: bool,
    /// Checksums of the segment's header, and of the one before it in the zone.
    sum: u32,
    previous: u32,
    /// Number of the segment that its header repeats, if that one has entries.
    repeats: Option<u64>,
    /// Blocks in front of its data.
    front: Blocks,
    /// Length of the segment with its front, and its end position in the zone, in blocks.
    blocks: u32,
    end: u32,
}

impl SubmittedSegment {
    pub(crate) const fn zone(&self) -> Zone {
        self.write.zone
    }

    /// Bytes of its header and of the echo's own block.
    pub(crate) const fn front_bytes(&self) -> u64 {
        self.front.bytes().0
    }
}

impl OpenZone {
    pub(crate) const fn new(zone: Zone) -> Self {
        Self { zone, at: 0, previous: 0, last: None }
    }

    /// A zone that an earlier opening left partly filled. `previous`: checksum of its last header.
    pub(crate) fn resume(zone: Zone, at: u32, (previous, last): (u32, Echo)) -> Self {
        Self { zone, at, previous, last: Some(last) }
    }

    /// True when only its own header holds the last segment together.
    pub(crate) fn is_exposed(&self) -> bool {
        self.last.as_ref().is_some_and(|last| !last.entries.is_empty())
    }

    /// Room for a segment of up to `wanted` entries. Requires: at least one block is left.
    pub(crate) fn segment_room(&self, layout: &Layout, wanted: usize) -> SegmentRoom {
        let echoed = self.last.as_ref().map_or(0, |last| last.entries.len());
        SegmentRoom::new(self.room(layout), echoed, wanted)
    }

    /// Blocks left.
    pub(crate) fn room(&self, layout: &Layout) -> u32 {
        low_u32(zonal_base::index(layout.zone_capacity(self.zone).0)) - self.at
    }
}

impl Inner {
    /// Geometry of both tiers, as stored in headers.
    pub(crate) fn shape(&self) -> Shape {
        Shape::of(&self.layout)
    }

    /// Opens the zone that has been empty longest, and wakes compaction and garbage collection.
    pub(crate) fn open_zone(&self, stream: Stream) -> Option<Zone> {
        let tier = match stream {
            Stream::User => Tier::Buffer,
            _ => Tier::Capacity,
        };
        let zone = self.state.borrow_mut().open_zone(&self.layout, (tier, stream))?;
        self.note_zone(zone, ZoneChange::Opened(stream));
        self.work.notify_all();
        Some(zone)
    }

    /// Submits a segment, or without entries the header that closes its zone or a run of moves.
    ///
    /// Requires: its entries and data fit `room`, which is the zone's now; `data` has a block for
    /// each entry that takes one; and `front` has two blocks.
    pub(crate) fn begin_segment(
        &self,
        (writer, open, room): (Writer, &mut OpenZone, SegmentRoom),
        entries: Vec<Entry>,
        data: Vec<Payload>,
        mut front: Buffer,
    ) -> SubmittedSegment {
        let mut state = self.state.borrow_mut();
        let tier = self.layout.tier_of(open.zone);
        let of_tier = usize::from(tier.id());
        let number = state.next_number;
        state.next_number += 1;
        let tier_previous = state.last_number[of_tier];
        let has_entries = !entries.is_empty();
        if has_entries {
            state.last_number[of_tier] = number;
            state.unsettled[of_tier].insert(number, (tier_previous, open.zone));
            state.zone_mut(open.zone).last_number = number;
        }
        if open.at == 0 {
            state.zone_mut(open.zone).number = number;
        }
        let echo = open.last.take();
        let repeats = echo.as_ref().filter(|echo| !echo.entries.is_empty());
        let repeats = repeats.map(|echo| echo.number);
        let header = Header {
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
            has_echo_block: room.has_echo_block,
            entries,
        };
        drop(state);
        let (blocks, front_blocks) = (header.segment_blocks(), header.front_blocks());
        let front_bytes = zonal_base::index(u64::from(front_blocks)) * BLOCK_BYTES;
        let out = &mut front.bytes_mut()[..front_bytes];
        let sum = header.encode(echo.as_ref(), self.checksum(), out);
        let previous = core::mem::replace(&mut open.previous, sum);
        open.last = Some(Echo::of(header));
        let at = Blocks(u64::from(open.at));
        let mut pieces = blocks_of(&front.freeze(front_bytes));
        pieces.extend(data);
        open.at += blocks;
        let write = ZoneWrite::submit(self, (open.zone, at), pieces);
        // A header may fill the last block of the zone. The address behind it is then not used.
        let data = self.layout.spot(open.zone, at).plus(front_blocks);
        let front = Blocks(u64::from(front_blocks));
        SubmittedSegment {
            write,
            data,
            number,
            writer,
            has_entries,
            sum,
            previous,
            repeats,
            front,
            blocks,
            end: open.at,
        }
    }

    /// Records the completion of a segment.
    pub(crate) fn end_segment(&self, begun: &SubmittedSegment, answer: &Completion) {
        let zone = begun.zone();
        let tier = self.layout.tier_of(zone);
        let mut state = self.state.borrow_mut();
        if answer.is_err() {
            state.stats.write_errors += 1;
            if begun.has_entries {
                state.note_refused(tier, zone, (begun.number, begun.writer));
            }
            return;
        }
        let facts = state.zone_mut(zone);
        facts.written = begun.end;
        if begun.has_entries {
            facts.last = (begun.end, begun.sum);
        }
        if let Some(repeated) = begun.repeats {
            facts.repeated = (begun.end - begun.blocks, begun.previous);
            state.note_repeated(tier, repeated);
        }
        state.unflushed_zones[usize::from(tier.id())].insert(zone);
        state.note_written(tier, u64::from(begun.blocks));
        state.stats.buffer_segments += u64::from(tier == Tier::Buffer);
        let is_due = self.settings.flush_every.0 <= state.unflushed[usize::from(tier.id())];
        drop(state);
        if is_due {
            self.flushers[usize::from(tier.id())].ask();
        }
    }

    /// Marks a zone as full, or closed early: it can be emptied.
    pub(crate) fn seal_zone(&self, zone: Zone) {
        self.state.borrow_mut().set_usage(&self.layout, zone, ZoneUse::Sealed);
        let written = Blocks(u64::from(self.state.borrow().zone(zone).written)).bytes();
        self.note_zone(zone, ZoneChange::Sealed { written });
        self.work.notify_all();
    }

    /// Closes a zone after a refused write, once none is in flight. Its earlier blocks stay
    /// readable. No header repeats its last segment.
    pub(crate) async fn abandon(&self, zone: Zone) {
        self.state.borrow_mut().settle_zone(&self.layout, zone);
        self.finish_zone(zone).await;
        self.seal_zone(zone);
    }

    /// Finishes the zone on the device if it is active, to free its active-zone slot.
    pub(crate) async fn finish_zone(&self, zone: Zone) {
        if self.report(zone).await.is_some_and(|report| report.state.is_active()) {
            let zone_id = self.layout.zone_id(zone);
            let finish = Command::Manage { zone: zone_id, action: ZoneAction::Finish };
            let _ = self.port(self.layout.tier_of(zone)).call(finish).await;
        }
    }

    /// The zone as the device reports it.
    pub(crate) async fn report(&self, zone: Zone) -> Option<ZoneReport> {
        let report = Command::Report { first: self.layout.zone_id(zone), count: 1 };
        match self.port(self.layout.tier_of(zone)).call(report).await {
            Ok(Answer::Report(zones)) => zones.first().copied(),
            _ => None,
        }
    }

    /// Resets a zone after its reads have ended. Requires: the map names nothing in it, and it was
    /// released on flash or is not in the zone table there.
    pub(crate) async fn reset_flushed(&self, zone: Zone) -> Result<(), BlockError> {
        while 0 < self.state.borrow().zone(zone).pins && !self.has(Mutation::CollectionRace) {
            self.unpinned.wait().await;
        }
        let tier = self.layout.tier_of(zone);
        let place = self.layout.place(tier);
        // Before the device forgets them.
        assert!(self.state.borrow().zone(zone).live == 0, "the map names blocks of {zone:?}");
        let mut outcome = self.reset_on_device(zone).await;
        // With a paged map, a start must find empty zones for map pages before it knows which
        // blocks are live.
        let is_marked = self.map_place.is_some() && place.geometry.kind == DeviceKind::Conventional;
        if is_marked && outcome.is_ok() {
            outcome = self.mark_empty(zone).await;
        }
        let mut state = self.state.borrow_mut();
        let change = match outcome {
            Ok(()) => {
                state.set_usage(&self.layout, zone, ZoneUse::Empty);
                match tier {
                    Tier::Buffer => state.stats.buffer_zones_reset += 1,
                    Tier::Capacity => state.stats.capacity_zones_reset += 1,
                }
                ZoneChange::Reset
            }
            Err(DeviceError::DeviceGone) => return Err(gone(tier)),
            Err(_) => {
                state.give_up(&self.layout, zone);
                ZoneChange::Retired
            }
        };
        drop(state);
        self.note_zone(zone, change);
        self.work.notify_all();
        self.queued.notify_all();
        self.queue_room.notify_all();
        Ok(())
    }

    /// An empty header (mark): recovery treats its zone as empty.
    pub(crate) fn mark(&self, zone: Zone) -> Header {
        Header {
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
            has_echo_block: false,
            entries: Vec::new(),
        }
    }

    pub(crate) async fn reset_on_device(&self, zone: Zone) -> Result<(), DeviceError> {
        let reset = Command::Manage { zone: self.layout.zone_id(zone), action: ZoneAction::Reset };
        self.port(self.layout.tier_of(zone)).call(reset).await.map(drop)
    }

    /// Writes a mark to a zone that was reset, because a conventional device does not remember
    /// resets.
    pub(crate) async fn mark_empty(&self, zone: Zone) -> Result<(), DeviceError> {
        let mut front = self.own.take(Blocks(1)).await;
        self.mark(zone).encode(None, self.checksum(), &mut front.bytes_mut()[..BLOCK_BYTES]);
        let data = vec![front.freeze(BLOCK_BYTES)];
        let mut write = ZoneWrite::submit(self, (zone, Blocks(0)), data);
        self.written(&mut write, 0).await?;
        self.reset_on_device(zone).await
    }

    /// Pins a zone for a read.
    pub(crate) fn pin(self: &Rc<Self>, zone: Zone) -> Pin {
        self.state.borrow_mut().zone_mut(zone).pins += 1;
        Pin { inner: self.clone(), zone }
    }
}

/// Read reference: the zone is not reset while it is held.
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

/// Splits the data into single blocks. Devices that keep only tags keep the first tag of each
/// piece.
pub(crate) fn blocks_of(data: &Payload) -> Vec<Payload> {
    let blocks = (0..data.len()).step_by(BLOCK_BYTES);
    blocks.map(|at| data.slice(at..at + BLOCK_BYTES)).collect()
}

/// The error for a tier whose device does not answer.
pub(crate) const fn gone(tier: Tier) -> BlockError {
    match tier {
        Tier::Buffer => BlockError::BufferGone,
        Tier::Capacity => BlockError::CapacityGone,
    }
}
