//! Completion queue of a drive: commands in flight, ordered by the time of their completion.

use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;

use zonal_base::{Nanos, low_u32};

/// Slot of a command in flight; the slot is reused once the command is answered.
pub(crate) type SlotId = u32;

/// Commands in flight. Scheduled commands come out in the order of their due times. Equal times come out in the order
/// in which they were scheduled.
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

    /// Adds a command. The command does not come out before it is scheduled.
    pub(crate) fn insert(&mut self, item: T) -> SlotId {
        if let Some(slot) = self.free.pop() {
            self.slots[slot as usize] = Some(item);
            return slot;
        }
        self.slots.push(Some(item));
        low_u32(self.slots.len() - 1)
    }

    /// Schedules the completion of a command at `due`. Requires: the command is in flight and was not scheduled yet.
    pub(crate) fn schedule(&mut self, slot: SlotId, due: Nanos) {
        self.scheduled_count += 1;
        self.due.push(Reverse((due, self.scheduled_count, slot)));
    }

    pub(crate) fn get_mut(&mut self, slot: SlotId) -> Option<&mut T> {
        self.slots[slot as usize].as_mut()
    }

    /// All commands in flight, in no defined order.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().flatten()
    }

    /// Due time of the first scheduled command.
    pub(crate) fn next_due(&self) -> Option<Nanos> {
        self.due.peek().map(|Reverse((due, ..))| *due)
    }

    /// Takes the first command whose due time has come.
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

    /// Takes out all commands, in the order of their slots.
    pub(crate) fn take_all(&mut self) -> Vec<T> {
        self.due.clear();
        self.free.clear();
        core::mem::take(&mut self.slots).into_iter().flatten().collect()
    }
}
