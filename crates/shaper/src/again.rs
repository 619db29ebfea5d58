//! Hot retention (second chance): compaction keeps frequently overwritten blocks in the write buffer.
//!
//! 1. A write takes over how often its block was written while it lay in the buffer (*heat*, 0 to 3): one more than the version
//!    that it replaces there. One that replaces what a young zone of the capacity tier holds begins with 2: had the buffer been
//!    somewhat larger, that would never have been moved.
//! 2. Compaction puts a live block with heat at the head of the queue of writes, in place of moving it on: with the sequence it
//!    has, as any move. Its heat is halved, so it cannot go round for ever.
//! 3. When the device has answered, the map names the copy, unless somebody has written the block meanwhile.
//! 4. Of a zone only a share may go round, and only while copies pay: an eighth while at least one in twelve of those that
//!    compaction comes by was overwritten in time, and otherwise a few, to find out. When the buffer is short of zones they are
//!    turned back, and what has not gone round is moved on.
//!
//! Heat is a hint, and in memory only: after a start every block is cold.

use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;

use zonal_base::{BLOCK_BYTES, Blocks, Buffer, Lba, Payload, index, low_u32};

use crate::format::{DATA_BLOCKS, Entry, Header, Key, Kind, SEGMENT_BLOCKS};
use crate::layout::{Layout, Spot, Zone};
use crate::planted::Planted;
use crate::relocate::Moved;
use crate::shaper::Inner;
use crate::state::State;
use crate::tier::OpenZone;
use crate::write::{Item, Log, Ticket, What};
use crate::{BlockError, Extent, Tier};

const HEAT_MAX: u8 = 3;

/// Of what replaces a block that was moved on a short while ago.
const HEAT_OF_RETURNED: u8 = 2;

/// A zone of the capacity tier is young while it is among so many in a hundred that were begun last.
const YOUNG_PERCENT: u64 = 30;

/// That copies pay: one in so many was overwritten in time.
const PAYS: u32 = 12;

/// Of a zone one block in so many goes round while they do.
const SHARE: u32 = 8;

/// And one in so many, one at least, while it does not.
const PROBE: u32 = 128;

/// Copies of which too few to judge were seen.
const SEEN_MIN: u32 = 8;

/// Segments of copies under way at once.
const FLYING_MAX: usize = 2;

/// What is known of the buffer's blocks and their rounds.
pub(crate) struct Rounds {
    /// Four blocks of the buffer a byte. None where both tiers share a device: there a copy costs what it saves.
    heat: Vec<u8>,
    /// Copies that compaction came by lately, and those of them that had been overwritten.
    seen: u32,
    overwritten: u32,
}

impl Rounds {
    pub(crate) fn new(layout: &Layout) -> Self {
        Self { heat: vec![0; heat_bytes(layout)], seen: 0, overwritten: 0 }
    }

    /// The byte and the shift, if it is a block of the buffer.
    fn place(&self, spot: Spot) -> Option<(usize, u32)> {
        let at = spot.0.checked_sub(1)?;
        let byte = index(u64::from(at / 4));
        (byte < self.heat.len()).then_some((byte, at % 4 * 2))
    }

    fn heat(&self, spot: Spot) -> u8 {
        self.place(spot).map_or(0, |(byte, shift)| self.heat[byte] >> shift & HEAT_MAX)
    }

    fn set(&mut self, spot: Spot, heat: u8) {
        if let Some((byte, shift)) = self.place(spot) {
            self.heat[byte] = self.heat[byte] & !(HEAT_MAX << shift) | heat << shift;
        }
    }

    /// Compaction begins with a zone of so many blocks: how many of them may go round.
    fn allowance(&mut self, blocks: u32) -> u32 {
        if self.heat.is_empty() {
            return 0;
        }
        let pays = SEEN_MIN <= self.seen && self.seen <= self.overwritten.saturating_mul(PAYS);
        // What was seen long ago counts ever less.
        self.seen -= self.seen / 4;
        self.overwritten -= self.overwritten.div_ceil(4);
        if pays { blocks / SHARE } else { (blocks / PROBE).max(1) }
    }
}

/// Bytes of memory for heat.
pub(crate) fn heat_bytes(layout: &Layout) -> usize {
    if layout.is_one_device { 0 } else { index(layout.buffer.blocks().div_ceil(4)) }
}

/// A block that goes round.
pub(crate) struct Copied {
    /// As it was, and where the map must still say that it lies.
    pub(crate) moved: Moved,
    pub(crate) data: Payload,
}

/// What compaction sends round.
#[derive(Default)]
pub(crate) struct Sender {
    /// Of the zone that is being emptied, so many more may go round.
    left: u32,
    gathered: Option<(Buffer, Vec<Moved>)>,
    flying: VecDeque<Rc<Ticket>>,
    /// Since it was last asked.
    sent: u32,
}

impl Sender {
    /// Compaction begins with a zone.
    pub(crate) fn begin(&mut self, inner: &Inner, zone: Zone) {
        let mut state = inner.state.borrow_mut();
        let blocks = state.zone(zone).written;
        self.left = state.rounds.allowance(blocks);
    }

    /// True when the block, which lives and is whole, is to go round.
    pub(crate) fn wants(&self, inner: &Inner, moved: &Moved) -> bool {
        if self.left == 0 || moved.entry.key.kind() != Kind::Data {
            return false;
        }
        let state = inner.state.borrow();
        0 < state.rounds.heat(moved.from) && 0 < state.empty_count(Tier::Buffer)
    }

    /// The block goes round, with others.
    pub(crate) async fn push(
        &mut self,
        inner: &Inner,
        moved: Moved,
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

    /// Waits for all of them. Those that were turned back still live where they were: none follows until the next zone.
    pub(crate) async fn finish(&mut self, inner: &Inner) -> Result<(), BlockError> {
        self.left = 0;
        self.send(inner);
        while !self.flying.is_empty() {
            self.settle().await?;
        }
        Ok(())
    }

    /// Blocks that went round since this was last asked: they take as much of the buffer as they leave.
    pub(crate) fn take_sent(&mut self) -> u32 {
        core::mem::take(&mut self.sent)
    }
}

impl Inner {
    /// Puts copies before everything that waits: they are older, and their zone waits to be reset.
    fn enqueue_again(&self, copies: impl DoubleEndedIterator<Item = Copied>) -> Rc<Ticket> {
        let ticket = Rc::new(Ticket::default());
        let items = copies.map(|copied| {
            let key = copied.moved.entry.key;
            let first = Lba(key.number());
            let extent = Extent { export: key.export(), first, blocks: Blocks(1) };
            Item::new(extent, What::Again(copied))
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

    /// The log cannot go on before compaction has emptied a zone: nothing goes round any more, so that it can.
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

    /// The device has a copy: the map names it, unless somebody has written the block meanwhile.
    pub(crate) fn publish_again(&self, state: &mut State, moved: &Moved, to: Spot) {
        let Moved { entry: Entry { key, .. }, from } = *moved;
        let tenant = self.tenant_of_key(key);
        state.tenant_mut(tenant).second_round_bytes += BLOCK_BYTES as u64;
        let heat = state.rounds.heat(from) / 2;
        state.rounds.set(to, heat);
        if state.still_names(&self.layout, key, from) {
            state.publish(&self.layout, tenant, (key, Some(from)), to);
        } else if self.has(Planted::RoundStale) {
            state.publish(&self.layout, tenant, (key, None), to);
        }
    }
}

impl State {
    /// A user's block is on the device: the map names it, and it takes over the heat of what it replaces.
    pub(crate) fn publish_written(&mut self, layout: &Layout, tenant: u16, key: Key, to: Spot) {
        let was = self.publish(layout, tenant, (key, None), to);
        let heat = match self.rounds.place(was) {
            Some(_) => (self.rounds.heat(was) + 1).min(HEAT_MAX),
            None if was != Spot::NONE && self.is_young(layout, layout.locate(was).0) => {
                HEAT_OF_RETURNED
            }
            None => 0,
        };
        self.rounds.set(to, heat);
    }

    fn is_young(&self, layout: &Layout, zone: Zone) -> bool {
        // What an earlier opening began is old.
        let begun = self.zone(zone).begun;
        0 < begun
            && (self.zones_begun - begun) * 100 < u64::from(layout.capacity.count) * YOUNG_PERCENT
    }

    /// Compaction comes by a segment, of which this lives.
    pub(crate) fn note_copies(&mut self, header: &Header, live: &[Moved]) {
        // What users wrote has the last sequences that there were; copies keep theirs, which are long gone by.
        let first = header.next_sequence.saturating_sub(header.entries.len() as u64);
        let count = |sequences: &mut dyn Iterator<Item = u64>| {
            low_u32(sequences.filter(|sequence| *sequence < first).count())
        };
        let with_block = header.entries.iter().filter(|entry| entry.key.kind().takes_block());
        let seen = count(&mut with_block.map(|entry| entry.sequence));
        let left = count(&mut live.iter().map(|moved| moved.entry.sequence));
        self.rounds.seen += seen;
        self.rounds.overwritten += seen - left;
    }
}

impl Log {
    /// Before everything that waits, in their order.
    fn put_first(&mut self, items: impl DoubleEndedIterator<Item = Item>, ticket: &Rc<Ticket>) {
        for mut item in items.rev() {
            item.share(ticket);
            self.queue.push_front(item);
        }
    }

    fn take_copies(&mut self) -> VecDeque<Item> {
        let (copies, others) = core::mem::take(&mut self.queue)
            .into_iter()
            .partition::<VecDeque<_>, _>(|item| matches!(item.what, What::Again(_)));
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
        let mut rounds = Rounds::new(&layout());
        let expected = |spot: u32| (spot % 4) as u8;
        for spot in 1..=40 {
            rounds.set(Spot(spot), 3);
            rounds.set(Spot(spot), expected(spot));
        }
        for spot in 1..=40 {
            assert_eq!(rounds.heat(Spot(spot)), expected(spot));
        }
        for none in [Spot::NONE, Spot(41), Spot(u32::MAX)] {
            rounds.set(none, 3);
            assert_eq!(rounds.heat(none), 0);
        }
    }

    #[test]
    fn many_go_round_only_while_one_copy_in_twelve_is_overwritten_in_time() {
        let mut rounds = Rounds::new(&layout());
        assert_eq!(rounds.allowance(1024), 8, "a few, to find out");
        assert_eq!(rounds.allowance(16), 1);
        for (overwritten, allowed) in [(10, 128), (9, 128), (2, 8), (0, 8), (20, 128)] {
            // Of 96 each time; what was seen long ago has faded.
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
        let mut rounds = Rounds::new(&Layout::one_device(two.capacity.geometry, 4));
        (rounds.seen, rounds.overwritten) = (100, 100);
        assert_eq!(rounds.allowance(1024), 0);
    }
}
