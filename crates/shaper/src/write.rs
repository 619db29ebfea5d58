//! Write path: queues blocks for the write buffer, and acknowledges them once the device has
//! written their segment.
//!
//! 1. Wait for room in the queue (`throttle`), and enter it.
//! 2. The log task takes all waiting blocks into one segment: one device write for many client
//!    writes. While a segment is in flight, others follow only when they are full.
//! 3. When the device completes the write, the map names the new addresses and the client is
//!    acknowledged, both in log order.
//! 4. A segment that the device refuses is written again to another zone, with all that follow it. A
//!    device that takes no writes at all is waited for instead (`read_only`).
//!
//! Zone releases and second copies of tables share segments with client writes, because a header of
//! their own would cost a block each (`internal_entry`). Their caller learns that the entry is
//! written, or that the log cannot write now.

mod internal_entry;
mod item;
mod queue;

use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::Poll;

use zonal_base::{BLOCK_BYTES, Blocks, Buffer, Lba, Payload, index, low_u32};
use zonal_device::{Completion, whole_blocks};
use zonal_runtime::Event;

use crate::format::{
    DATA_BLOCKS, Entry, EntryKind, FRONT_BLOCKS, Key, PAGE_SPAN, SEED, SegmentRoom, TRIM_BLOCKS,
};
use crate::hot_retention::Copied;
use crate::layout::PhysAddr;
use crate::map::MapEntry;
use crate::mutation::Mutation;
use crate::refused::Writer;
use crate::shaper::Inner;
use crate::state::State;
use crate::tier::{OpenZone, SubmittedSegment};
use crate::zones::Stream;
use crate::{BlockError, Durability, ExportId, Extent, Shaper, Tier};
use internal_entry::InternalEntry;
pub(crate) use item::{Item, ItemKind, Ticket};
pub(crate) use queue::WriteQueue;

/// Segments of the log in flight: enough that the device always has the next one.
const FLYING_MAX: usize = 4;

/// A segment of the log in flight.
struct InFlightSegment {
    begun: SubmittedSegment,
    parts: Vec<(Item, PhysAddr)>,
    /// Checksums of its blocks.
    checks: Vec<u32>,
    /// Internal entries, each with the address of its block.
    internal: Vec<(InternalEntry, PhysAddr)>,
}

impl Shaper {
    /// Writes whole blocks from `first` on, one piece after the other. They are acknowledged
    /// together.
    ///
    /// Each piece is whole blocks at a block-aligned memory address. Pieces are shared, not copied:
    /// the caller must not change them.
    ///
    /// # Errors
    /// When the request is invalid, or no write is possible any more. Then each block has its old
    /// or its new content.
    pub async fn write(
        &self,
        export: ExportId,
        first: Lba,
        data: Vec<Payload>,
        durability: Durability,
    ) -> Result<(), BlockError> {
        let blocks = whole_blocks(&data).map_err(|_| BlockError::Misaligned)?;
        self.check(Extent { export, first, blocks })?;
        let tenant = self.inner.tenant_of(export);
        self.enter_queue(blocks).await?;
        let mut at = first;
        let items = data.into_iter().map(|piece| {
            let extent = Extent { export, first: at, blocks: blocks_of(&piece) };
            at = at + extent.blocks;
            Item::new(extent, ItemKind::Data(piece))
        });
        let ticket = self.inner.enqueue(items, blocks);
        ticket.done().await?;
        self.inner.state.borrow_mut().tenant_mut(tenant).user_written_bytes += blocks.bytes().0;
        self.make_durable(durability).await
    }

    pub(crate) async fn enter_queue(&self, blocks: Blocks) -> Result<(), BlockError> {
        let inner = &self.inner;
        let mut counted = false;
        let look = || {
            let mut state = inner.state.borrow_mut();
            if let Some(error) = state.failure {
                return Some(Err(error));
            }
            if let Some(error) = state.refusal(true) {
                return Some(Err(error));
            }
            if state.admit(inner, blocks.0) {
                return Some(Ok(()));
            }
            if state.is_throttled(inner)
                && let Some(error) = state.refusal(false)
            {
                return Some(Err(error));
            }
            if !counted && state.is_throttled(inner) {
                counted = true;
                state.stats.throttled += 1;
            }
            None
        };
        inner.queue_room.wait_fifo(look).await
    }

    pub(crate) async fn make_durable(&self, durability: Durability) -> Result<(), BlockError> {
        match durability {
            Durability::Answered => Ok(()),
            Durability::Durable => self.flush().await,
        }
    }
}

impl Inner {
    /// Queues items. Requires: room for this many blocks was admitted.
    pub(crate) fn enqueue(
        &self,
        items: impl IntoIterator<Item = Item>,
        blocks: Blocks,
    ) -> Rc<Ticket> {
        let ticket = Rc::new(Ticket::default());
        let mut state = self.state.borrow_mut();
        for mut item in items {
            item.share(&ticket);
            state.log.queue.push_back(item);
        }
        if let Some(error) = state.failure {
            let lost = state.log.give_up();
            drop(state);
            lost.into_iter().for_each(|ticket| ticket.fail(error));
            return ticket;
        }
        debug_assert!(blocks.0 <= state.log.queued_blocks);
        drop(state);
        self.queued.notify_one();
        ticket
    }

    /// Log task: writes the queue to the buffer in segments. It ends when the block device fails.
    pub(crate) async fn run_log(self: Rc<Self>) {
        let mut open: Option<OpenZone> = None;
        let mut flying: VecDeque<InFlightSegment> = VecDeque::new();
        let mut refused = 0;
        loop {
            while self.may_begin(open.as_ref(), flying.len()) {
                let front = self.own.take(FRONT_BLOCKS).await;
                match self.begin(&mut open, front) {
                    Some(begun) => flying.push_back(begun),
                    None => break,
                }
            }
            if flying.is_empty() {
                // Only a sealed zone can be emptied, and there may be no other one.
                self.seal_if_full(&mut open);
                // The log cannot write now, for an unknown time: the caller must write the entry
                // elsewhere.
                let internal = core::mem::take(&mut self.state.borrow_mut().log.internal);
                internal.into_iter().for_each(|internal| internal.end(false));
                let failure = self.state.borrow().failure;
                if let Some(error) = failure {
                    // Writes in flight when it failed may be back in the queue.
                    return self.fail(error);
                }
            }
            let Some(first) = flying.front_mut() else {
                self.turn_back(open.as_ref());
                self.give_up_if_full();
                self.queued.wait().await;
                continue;
            };
            let Some(mut answer) = answer_or(&mut first.begun.write.call, &self.queued).await
            else {
                continue;
            };
            if self.holds(&answer, refused) {
                let clients = flying.iter().flat_map(|flying| &flying.parts);
                clients.for_each(|(item, _)| item.refuse());
                let first = flying.front_mut().expect("it was just looked at");
                answer = self.hold(&mut first.begun.write, answer).await;
            }
            let first = flying.pop_front().expect("it was just looked at");
            self.end_segment(&first.begun, &answer);
            match answer {
                Ok(_) => {
                    refused = 0;
                    self.publish(first);
                }
                Err(error) => {
                    refused += 1;
                    flying.push_front(first);
                    self.write_again(&mut open, &mut flying).await;
                    match self.verdict(Tier::Buffer, error, refused) {
                        Some(verdict) => self.fail(verdict),
                        None => self.wait_after_refusal(refused).await,
                    }
                }
            }
        }
    }

    /// True when another segment may be submitted now.
    fn may_begin(&self, open: Option<&OpenZone>, flying: usize) -> bool {
        let state = self.state.borrow();
        if state.failure.is_some() {
            return false;
        }
        let has_room = open.is_some_and(|open| 0 < open.room(&self.layout));
        let has_zone = has_room || (flying == 0 && 0 < state.empty_count(Tier::Buffer));
        if state.log.queue.is_empty() {
            return has_zone && flying == 0 && !state.log.internal.is_empty();
        }
        let is_full = DATA_BLOCKS as u64 <= state.log.queued_blocks;
        if state.map.is_full() {
            drop(state);
            self.map_changed.notify_all();
            return false;
        }
        has_zone && (flying == 0 || (is_full && flying < FLYING_MAX))
    }

    /// Fails the block device when moves have halted and the buffer is full, and only the waiting
    /// writes when a device takes no writes for a while.
    fn give_up_if_full(&self) {
        let state = self.state.borrow();
        let is_full = state.empty_count(Tier::Buffer) == 0 || state.map.is_full();
        if !is_full || state.log.queue.is_empty() {
            return;
        }
        let halted = state.halted;
        drop(state);
        match halted {
            Some(error) => self.fail(error),
            None => self.refuse_waiting(false),
        }
    }

    fn seal_if_full(&self, open: &mut Option<OpenZone>) {
        if let Some(full) = open.take_if(|open| open.room(&self.layout) == 0) {
            self.seal_zone(full.zone);
        }
    }

    fn begin(&self, open: &mut Option<OpenZone>, front: Buffer) -> Option<InFlightSegment> {
        self.seal_if_full(open);
        let zone = match open {
            Some(zone) => zone,
            None => {
                let zone = self.open_zone(Stream::User)?;
                open.insert(OpenZone::new(zone))
            }
        };
        let waiting = self.state.borrow().log.waiting_entries();
        let room = zone.segment_room(&self.layout, waiting);
        let mut state = self.state.borrow_mut();
        let first_sequence = state.next_sequence;
        let (parts, mut entries, mut data) = self.gather(&mut state, room);
        let internal = state.log.take_internal(room, &mut entries, &mut data);
        state.log.flying.push_back(first_sequence);
        drop(state);
        let with_block = entries.iter().filter(|entry| entry.key.kind().takes_block());
        let checks = with_block.map(|entry| entry.check).collect();
        let begun = self.begin_segment((Writer::Log, zone, room), entries, data, front);
        let parts =
            parts.into_iter().map(|(item, at)| (item, begun.data.plus(low_u32(at)))).collect();
        let internal = internal
            .into_iter()
            .map(|(internal, at)| (internal, begun.data.plus(low_u32(at))))
            .collect();
        let flying = InFlightSegment { begun, parts, checks, internal };
        if self.has(Mutation::MapEarly) {
            self.note_published(&flying);
        }
        Some(flying)
    }

    /// Takes queued items that fit the segment. Returns the parts with the offset of their first
    /// block, the entries and the data.
    fn gather(
        &self,
        state: &mut State,
        room: SegmentRoom,
    ) -> (Vec<(Item, usize)>, Vec<Entry>, Vec<Payload>) {
        let (mut parts, mut entries, mut data) = (Vec::new(), Vec::new(), Vec::new());
        let (mut taken, mut trimmed) = (0, 0);
        while let Some(first) = state.log.queue.front() {
            let fits = match first.what {
                ItemKind::Data(_) | ItemKind::Again(_) => {
                    (room.blocks - taken).min(room.entries - entries.len())
                }
                // Bounds the trimmed blocks of one segment, because the map changes all of them at
                // one instant.
                ItemKind::Hole => {
                    usize::from(entries.len() < room.entries) * index(TRIM_BLOCKS - trimmed)
                }
            };
            if fits == 0 {
                break;
            }
            let mut item = state.log.queue.pop_front().expect("it was just looked at");
            if let Some(rest) = item.split(Blocks(fits as u64)) {
                state.log.queue.push_front(rest);
            }
            let Extent { export, first, blocks } = item.extent;
            parts.push((item, taken));
            let item = &parts.last().expect("just pushed").0;
            let mut sequence = || {
                state.next_sequence += 1;
                state.next_sequence - 1
            };
            match &item.what {
                ItemKind::Hole => {
                    let key = Key::new(EntryKind::Trim, export, first.0);
                    trimmed += blocks.0;
                    let check = low_u32(index(blocks.0));
                    entries.push(Entry { key, sequence: sequence(), check });
                }
                ItemKind::Again(Copied { moved, data: block }) => {
                    entries.push(moved.entry);
                    taken += 1;
                    data.push(block.clone());
                }
                ItemKind::Data(payload) => {
                    for n in 0..blocks.0 {
                        let key = Key::data(export, first.0 + n);
                        let sequence = sequence();
                        let part = index(n) * BLOCK_BYTES..(index(n) + 1) * BLOCK_BYTES;
                        let check = payload.checksum(self.checksum(), &SEED, part);
                        entries.push(Entry { key, sequence, check });
                    }
                    taken += index(blocks.0);
                    data.push(payload.clone());
                }
            }
        }
        (parts, entries, data)
    }

    /// Publishes a completed segment in the map, and acknowledges its requests.
    fn publish(&self, flying: InFlightSegment) {
        self.note_published(&flying);
        let mut state = self.state.borrow_mut();
        state.log.flying.pop_front();
        let was_refused = !state.log.retried.is_empty();
        for (item, _) in &flying.parts {
            // A failure has emptied the queue and reset the count.
            state.log.queued_blocks = state.log.queued_blocks.saturating_sub(item.room);
        }
        drop(state);
        self.queue_room.notify_one();
        for (item, _) in flying.parts {
            item.end();
        }
        if !flying.internal.is_empty() {
            // The log may be idle now, without a client that waited for that.
            self.work.notify_all();
        }
        flying.internal.into_iter().for_each(|(internal, _)| internal.end(true));
        if was_refused {
            self.note_retried();
        }
    }

    /// Looks whether everything that was in refused segments is on the device now.
    fn note_retried(&self) {
        let mut state = self.state.borrow_mut();
        state.log.retried.retain(|ticket| !ticket.is_done());
        if state.log.retried.is_empty() {
            drop(state);
            self.note_rewritten(Writer::Log);
        }
    }

    fn note_published(&self, flying: &InFlightSegment) {
        let mut state = self.state.borrow_mut();
        if let Some((item, _)) = flying.parts.first() {
            let tenant = self.tenant_of(item.extent.export);
            state.tenant_mut(tenant).metadata_bytes += flying.begun.front_bytes();
        }
        for (item, spot) in &flying.parts {
            let Extent { export, first, blocks } = item.extent;
            let tenant = self.tenant_of(export);
            match &item.what {
                ItemKind::Again(copied) => self.publish_again(&mut state, &copied.moved, *spot),
                ItemKind::Data(_) => {
                    state.tenant_mut(tenant).buffer_written_bytes += blocks.bytes().0;
                    for n in 0..blocks.0 {
                        let spot = spot.plus(low_u32(index(n)));
                        let check = flying.checks[index((spot.0 - flying.begun.data.0).into())];
                        let key = Key::data(export, first.0 + n);
                        let entry = MapEntry { spot, check };
                        state.publish_written(&self.layout, tenant, (key, entry));
                    }
                }
                ItemKind::Hole => {
                    for n in first.0..first.0 + blocks.0 {
                        let key = Key::data(export, n);
                        if state.map.look(key, &[]) != Ok(MapEntry::HOLE) {
                            state.publish(&self.layout, tenant, (key, None), MapEntry::HOLE);
                        }
                    }
                    let pages = first.0 / PAGE_SPAN..=(first.0 + blocks.0 - 1) / PAGE_SPAN;
                    let trimmed = &mut state.zone_mut(flying.begun.zone()).trimmed;
                    trimmed.extend(pages.map(|page| Key::new(EntryKind::Page, export, page)));
                }
            }
        }
        for (internal, spot) in &flying.internal {
            let Entry { key, sequence, check } = internal.entry;
            if key.kind().is_metadata() && state.map.renew(key, sequence) {
                state.publish(&self.layout, 0, (key, None), MapEntry { spot: *spot, check });
            }
        }
        self.ask_for_merge(&state);
    }

    /// Handles a refused segment. It and all behind it return to the head of the queue: those were
    /// refused, too, or must not overtake it. Their zone is closed.
    async fn write_again(
        &self,
        open: &mut Option<OpenZone>,
        flying: &mut VecDeque<InFlightSegment>,
    ) {
        let mut parts = Vec::new();
        for (at, InFlightSegment { mut begun, parts: these, internal, .. }) in
            flying.drain(..).enumerate()
        {
            parts.extend(these);
            internal.into_iter().for_each(|(internal, _)| internal.end(false));
            if 0 < at {
                let answer = (&mut begun.write.call).await;
                self.end_segment(&begun, &answer);
            }
        }
        self.state.borrow_mut().log.put_back(parts.into_iter().map(|(item, _)| item));
        if let Some(zone) = open.take() {
            self.abandon(zone.zone).await;
        }
    }
}

/// Completion of a call, or `None` as soon as something is queued.
async fn answer_or(
    call: &mut (impl Future<Output = Completion> + Unpin),
    queued: &Event,
) -> Option<Completion> {
    let mut queued = queued.wait();
    poll_fn(|cx| {
        if let Poll::Ready(answer) = Pin::new(&mut *call).poll(cx) {
            return Poll::Ready(Some(answer));
        }
        Pin::new(&mut queued).poll(cx).map(|()| None)
    })
    .await
}

fn blocks_of(payload: &Payload) -> Blocks {
    Blocks((payload.len() / BLOCK_BYTES) as u64)
}
