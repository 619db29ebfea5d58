//! Commands that were taken and not answered yet, in the order in which they will be.

use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;

use zonal_base::{Nanos, low_u32};

/// Names a command in flight; used again once it is answered.
pub(crate) type SlotId = u32;

/// Commands in flight. Those with a due time come out in its order, equal times in the order in which
/// the times were set.
#[derive(Debug)]
pub(crate) struct InFlight<T> {
    slots: Vec<Option<T>>,
    free: Vec<SlotId>,
    due: BinaryHeap<Reverse<(Nanos, u64, SlotId)>>,
    scheduled_count: u64,
}

impl<T> InFlight<T> {
    pub(crate) const fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), due: BinaryHeap::new(), scheduled_count: 0 }
    }

    pub(crate) const fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Takes a command; it does not come out before it is scheduled.
    pub(crate) fn insert(&mut self, item: T) -> SlotId {
        if let Some(slot) = self.free.pop() {
            self.slots[slot as usize] = Some(item);
            return slot;
        }
        self.slots.push(Some(item));
        low_u32(self.slots.len() - 1)
    }

    /// The command comes out at `due`. Requires: it is in flight and was not scheduled yet.
    pub(crate) fn schedule(&mut self, slot: SlotId, due: Nanos) {
        self.scheduled_count += 1;
        self.due.push(Reverse((due, self.scheduled_count, slot)));
    }

    pub(crate) fn get_mut(&mut self, slot: SlotId) -> Option<&mut T> {
        self.slots[slot as usize].as_mut()
    }

    /// All commands in flight, in no order that means anything.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().flatten()
    }

    /// When the first scheduled command is due.
    pub(crate) fn next_due(&self) -> Option<Nanos> {
        self.due.peek().map(|Reverse((due, ..))| *due)
    }

    /// The first command that is due.
    pub(crate) fn pop(&mut self, now: Nanos) -> Option<(SlotId, T)> {
        let Reverse((due, _, slot)) = *self.due.peek()?;
        if now < due {
            return None;
        }
        self.due.pop();
        let item = self.slots[slot as usize].take()?;
        self.free.push(slot);
        Some((slot, item))
    }

    /// Takes everything out, in the order in which it was taken in.
    pub(crate) fn take_all(&mut self) -> Vec<T> {
        self.due.clear();
        self.free.clear();
        core::mem::take(&mut self.slots).into_iter().flatten().collect()
    }
}
