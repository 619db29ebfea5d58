//! Hot retention (second chance): compaction keeps frequently overwritten blocks in the write
//! buffer.
//!
//! 1. Each buffered block has a *heat* from 0 to 3: how often it was overwritten while in the
//!    buffer. A write takes the heat of the buffered version that it replaces, plus one. A write
//!    that replaces a block in a young capacity zone starts at 2: a somewhat larger buffer would
//!    have avoided that move.
//! 2. Compaction puts a live block with heat at the head of the write queue instead of moving it to
//!    the capacity tier. The copy keeps its sequence, as in any move. Its heat is halved, so a
//!    block cannot stay in the buffer forever.
//! 3. When the device completes the write, the map names the copy, unless a client overwrote the
//!    block meanwhile.
//! 4. The share of a zone that may be copied depends on the benefit. It is an eighth while at least
//!    one in twelve of the copies that compaction reaches again was overwritten in time, and
//!    otherwise a small probe. When the buffer is short of zones, queued copies are cancelled and
//!    compaction moves those blocks to the capacity tier.
//!
//! Heat is a hint and only in memory: after a restart every block has heat 0.

use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;

use zonal_base::{BLOCK_BYTES, Blocks, Buffer, Lba, Payload, index, low_u32};

use crate::format::{DATA_BLOCKS, Entry, EntryKind, Header, Key, SEGMENT_BLOCKS};
use crate::layout::{Layout, PhysAddr, Zone};
use crate::map::MapEntry;
use crate::mutation::Mutation;
use crate::relocate::MovingBlock;
use crate::shaper::Inner;
use crate::state::State;
use crate::tier::OpenZone;
use crate::write::{Item, ItemKind, Ticket, WriteQueue};
use crate::{BlockError, Extent, Tier};

const HEAT_MAX: u8 = 3;

/// Initial heat of a write that replaces a block in a young capacity zone.
const HEAT_OF_RETURNED: u8 = 2;

/// A capacity zone is young while it is among this percentage of the zones opened last.
const YOUNG_PERCENT: u64 = 30;

/// Copying pays while at least one copy in this many was overwritten before compaction reached it.
const PAYS: u32 = 12;

/// While copying pays, one block in this many of a zone may be copied back into the buffer.
const SHARE: u32 = 8;

/// While copying does not pay, one block in this many is copied as a probe, at least one per zone.
const PROBE: u32 = 128;

/// Copies that must have been observed before their benefit is judged.
const SEEN_MIN: u32 = 8;

/// Segments of copies in flight before compaction waits for the oldest.
const FLYING_MAX: usize = 2;

/// Heat of each buffered block, and how many retained copies were overwritten in time.
pub(crate) struct HotRetention {
    /// Heat, two bits for each buffer block. Empty if both tiers share one device: there a copy
    /// costs as much as it saves.
    heat: Vec<u8>,
    /// Retained copies that compaction recently reached again, and how many of them were
    /// overwritten. Both counts decay by a quarter with each zone.
    seen: u32,
    overwritten: u32,
}

impl HotRetention {
    pub(crate) fn new(layout: &Layout) -> Self {
        Self { heat: vec![0; heat_bytes(layout)], seen: 0, overwritten: 0 }
    }

    /// Byte index and bit shift of a buffer block's heat. `None` for any other address.
    fn place(&self, spot: PhysAddr) -> Option<(usize, u32)> {
        let at = spot.0.checked_sub(1)?;
        let byte = index(u64::from(at / 4));
        (byte < self.heat.len()).then_some((byte, at % 4 * 2))
    }

    fn heat(&self, spot: PhysAddr) -> u8 {
        self.place(spot).map_or(0, |(byte, shift)| self.heat[byte] >> shift & HEAT_MAX)
    }

    fn set(&mut self, spot: PhysAddr, heat: u8) {
        if let Some((byte, shift)) = self.place(spot) {
            self.heat[byte] = self.heat[byte] & !(HEAT_MAX << shift) | heat << shift;
        }
    }

    /// Number of blocks of a zone that compaction may copy back into the buffer. `blocks`: written
    /// blocks of the zone.
    fn allowance(&mut self, blocks: u32) -> u32 {
        if self.heat.is_empty() {
            return 0;
        }
        let pays = SEEN_MIN <= self.seen && self.seen <= self.overwritten.saturating_mul(PAYS);
        // Exponential decay: old observations lose weight.
        self.seen -= self.seen / 4;
        self.overwritten -= self.overwritten.div_ceil(4);
        if pays { blocks / SHARE } else { (blocks / PROBE).max(1) }
    }
}

/// Memory for the heat table, in bytes.
pub(crate) fn heat_bytes(layout: &Layout) -> usize {
    if layout.is_one_device { 0 } else { index(layout.buffer.blocks().div_ceil(4)) }
}

/// A block that compaction copies back into the buffer.
pub(crate) struct Copied {
    /// Entry and old address. The copy is published only if the map still names that address.
    pub(crate) moved: MovingBlock,
    pub(crate) data: Payload,
}

/// Gathers the blocks that compaction retains, and writes them back to the buffer in segments.
#[derive(Default)]
pub(crate) struct Sender {
    /// Blocks of the current victim zone that may still be copied.
    left: u32,
    gathered: Option<(Buffer, Vec<MovingBlock>)>,
    flying: VecDeque<Rc<Ticket>>,
    /// Blocks copied since the last [`Sender::take_sent`].
    sent: u32,
}

impl Sender {
    /// Starts the budget for a victim zone.
    pub(crate) fn begin(&mut self, inner: &Inner, zone: Zone) {
        let mut state = inner.state.borrow_mut();
        let blocks = state.zone(zone).written;
        self.left = state.rounds.allowance(blocks);
    }

    /// True if the block is copied back into the buffer. Requires: the block is live and its
    /// checksum matches.
    pub(crate) fn wants(&self, inner: &Inner, moved: &MovingBlock) -> bool {
        if self.left == 0 || moved.entry.key.kind() != EntryKind::Data {
            return false;
        }
        let state = inner.state.borrow();
        0 < state.rounds.heat(moved.from) && 0 < state.empty_count(Tier::Buffer)
    }

    /// Adds a block to the current segment of copies, and sends the segment when it is full.
    pub(crate) async fn push(
        &mut self,
        inner: &Inner,
        moved: MovingBlock,
        (from, at): (&Buffer, usize),
    ) -> Result<(), BlockError> {
        self.left -= 1;
        self.sent += 1;
        if self.gathered.is_none() {
            let buffer = inner.own.take(Blocks(SEGMENT_BLOCKS)).await;
            self.gathered = Some((buffer, Vec::new()));
        }
        let (buffer, gathered) = self.gathered.as_mut().expect("made just now");
        let to = gathered.len() * BLOCK_BYTES;
        buffer.copy_from(to, &from.bytes()[at..at + BLOCK_BYTES]);
        gathered.push(moved);
        if gathered.len() < DATA_BLOCKS {
            return Ok(());
        }
        self.send(inner);
        while FLYING_MAX < self.flying.len() {
            self.settle().await?;
        }
        Ok(())
    }

    fn send(&mut self, inner: &Inner) {
        let Some((buffer, gathered)) = self.gathered.take() else { return };
        let data = buffer.freeze(gathered.len() * BLOCK_BYTES);
        let copies = gathered.into_iter().enumerate().map(|(n, moved)| {
            let data = data.slice(n * BLOCK_BYTES..(n + 1) * BLOCK_BYTES);
            Copied { moved, data }
        });
        self.flying.push_back(inner.enqueue_again(copies));
    }

    async fn settle(&mut self) -> Result<(), BlockError> {
        match self.flying.pop_front() {
            Some(ticket) => ticket.done().await,
            None => Ok(()),
        }
    }

    /// Waits until all copies are written or cancelled. Cancelled blocks stay live at their old
    /// address, and the rest of this zone gets no more copies.
    pub(crate) async fn finish(&mut self, inner: &Inner) -> Result<(), BlockError> {
        self.left = 0;
        self.send(inner);
        while !self.flying.is_empty() {
            self.settle().await?;
        }
        Ok(())
    }

    /// Blocks copied since the last call. They occupy as much of the buffer as they free, so they
    /// grant no room to new writes.
    pub(crate) fn take_sent(&mut self) -> u32 {
        core::mem::take(&mut self.sent)
    }
}

impl Inner {
    /// Queues copies ahead of all waiting writes: they are older, and their zone waits for its
    /// reset.
    fn enqueue_again(&self, copies: impl DoubleEndedIterator<Item = Copied>) -> Rc<Ticket> {
        let ticket = Rc::new(Ticket::default());
        let items = copies.map(|copied| {
            let key = copied.moved.entry.key;
            let first = Lba(key.number());
            let extent = Extent { export: key.export(), first, blocks: Blocks(1) };
            Item::new(extent, ItemKind::Again(copied))
        });
        let mut state = self.state.borrow_mut();
        state.log.put_first(items, &ticket);
        if let Some(error) = state.failure {
            let lost = state.log.give_up();
            drop(state);
            lost.into_iter().for_each(|ticket| ticket.fail(error));
            return ticket;
        }
        drop(state);
        self.queued.notify_one();
        ticket
    }

    /// Cancels queued copies when the log cannot continue until compaction empties a zone.
    /// Otherwise compaction and the log would wait for each other.
    pub(crate) fn turn_back(&self, open: Option<&OpenZone>) {
        let mut state = self.state.borrow_mut();
        let has_room = open.is_some_and(|open| 0 < open.room(&self.layout));
        if has_room || 0 < state.empty_count(Tier::Buffer) {
            return;
        }
        let turned = state.log.take_copies();
        drop(state);
        for item in turned {
            item.end();
        }
    }

    /// Publishes a written copy, unless a client overwrote the block meanwhile.
    pub(crate) fn publish_again(&self, state: &mut State, moved: &MovingBlock, to: PhysAddr) {
        let MovingBlock { entry: Entry { key, check, .. }, from } = *moved;
        let tenant = self.tenant_of_key(key);
        state.tenant_mut(tenant).retained_bytes += BLOCK_BYTES as u64;
        let heat = state.rounds.heat(from) / 2;
        state.rounds.set(to, heat);
        if state.still_names(&self.layout, key, from) {
            state.publish(&self.layout, tenant, (key, Some(from)), MapEntry { spot: to, check });
        } else if self.has(Mutation::RoundStale) {
            state.publish(&self.layout, tenant, (key, None), MapEntry { spot: to, check });
        }
    }
}

impl State {
    /// Publishes a written client block. It inherits the heat of the version it replaces.
    pub(crate) fn publish_written(
        &mut self,
        layout: &Layout,
        tenant: u16,
        (key, entry): (Key, MapEntry),
    ) {
        let was = self.publish(layout, tenant, (key, None), entry);
        let heat = match self.rounds.place(was) {
            Some(_) => (self.rounds.heat(was) + 1).min(HEAT_MAX),
            None if was != PhysAddr::NONE && self.is_young(layout, layout.locate(was).0) => {
                HEAT_OF_RETURNED
            }
            None => 0,
        };
        self.rounds.set(entry.spot, heat);
    }

    fn is_young(&self, layout: &Layout, zone: Zone) -> bool {
        // Zones opened before this start have `begun` 0 and count as old.
        let begun = self.zone(zone).begun;
        0 < begun
            && (self.zones_begun - begun) * 100 < u64::from(layout.capacity.count) * YOUNG_PERCENT
    }

    /// Updates the statistics of retained copies for a segment. `live`: its blocks that are still
    /// live.
    pub(crate) fn note_copies(&mut self, header: &Header, live: &[MovingBlock]) {
        // The header's newest sequences belong to client writes of this segment. A copy keeps its
        // old, lower sequence, and that identifies it.
        let first = header.next_sequence.saturating_sub(header.entries.len() as u64);
        let count = |sequences: &mut dyn Iterator<Item = u64>| {
            low_u32(sequences.filter(|sequence| *sequence < first).count())
        };
        let users = header.entries.iter().filter(|entry| entry.key.kind().is_users());
        let seen = count(&mut users.map(|entry| entry.sequence));
        let users = live.iter().filter(|moved| moved.entry.key.kind().is_users());
        let left = count(&mut users.map(|moved| moved.entry.sequence));
        self.rounds.seen += seen;
        self.rounds.overwritten += seen - left;
    }
}

impl WriteQueue {
    /// Puts items at the head of the queue and keeps their order.
    fn put_first(&mut self, items: impl DoubleEndedIterator<Item = Item>, ticket: &Rc<Ticket>) {
        for mut item in items.rev() {
            item.share(ticket);
            self.queue.push_front(item);
        }
    }

    fn take_copies(&mut self) -> VecDeque<Item> {
        let (copies, others) = core::mem::take(&mut self.queue)
            .into_iter()
            .partition::<VecDeque<_>, _>(|item| matches!(item.what, ItemKind::Again(_)));
        self.queue = others;
        copies
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zonal_device::{DeviceKind, Geometry};

    fn layout() -> Layout {
        let geometry = Geometry {
            kind: DeviceKind::Zoned,
            zone_count: 8,
            zone_size: Blocks(1024),
            zone_capacity: Blocks(1021),
            max_open_zones: None,
            max_active_zones: None,
        };
        Layout::two_devices(Geometry { zone_capacity: Blocks(5), ..geometry }, geometry)
    }

    #[test]
    fn each_block_of_the_buffer_has_a_heat_of_its_own_and_no_other_block_has_one() {
        let mut rounds = HotRetention::new(&layout());
        let expected = |spot: u32| (spot % 4) as u8;
        for spot in 1..=40 {
            rounds.set(PhysAddr(spot), 3);
            rounds.set(PhysAddr(spot), expected(spot));
        }
        for spot in 1..=40 {
            assert_eq!(rounds.heat(PhysAddr(spot)), expected(spot));
        }
        for none in [PhysAddr::NONE, PhysAddr(41), PhysAddr(u32::MAX)] {
            rounds.set(none, 3);
            assert_eq!(rounds.heat(none), 0);
        }
    }

    #[test]
    fn many_go_round_only_while_one_copy_in_twelve_is_overwritten_in_time() {
        let mut rounds = HotRetention::new(&layout());
        assert_eq!(rounds.allowance(1024), 8, "a few, to find out");
        assert_eq!(rounds.allowance(16), 1);
        for (overwritten, allowed) in [(10, 128), (9, 128), (2, 8), (0, 8), (20, 128)] {
            // Of 96 copies each time. Earlier observations have decayed.
            for _ in 0..20 {
                rounds.allowance(1024);
                (rounds.seen, rounds.overwritten) =
                    (rounds.seen + 96, rounds.overwritten + overwritten);
            }
            assert_eq!(rounds.allowance(1024), allowed, "{overwritten} of 96");
        }
    }

    #[test]
    fn on_one_device_nothing_goes_round() {
        let two = layout();
        let mut rounds = HotRetention::new(&Layout::one_device(two.capacity.geometry, 4));
        (rounds.seen, rounds.overwritten) = (100, 100);
        assert_eq!(rounds.allowance(1024), 0);
    }
}
