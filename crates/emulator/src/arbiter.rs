//! Command arbitration: a read overtakes a limited number of earlier writes that wait for room in the write buffer.
//!
//! Both drives of the series show this limit under garbage collection (`gc.csv`). Four writers with 32 MiB in flight
//! each leave 4 KiB reads 0.6 to 1.4 MiB/s: one read for each time that 106 to 112 of the 128 MiB are drained. Writes
//! that have room do not delay a read: they are in the buffer.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use zonal_base::{Blocks, Lba, index};

use crate::in_flight::SlotId;

/// Writes that wait for room in the buffer, and the reads that queue behind them.
#[derive(Debug)]
pub(crate) struct Arbiter {
    /// Number of waiting writes that a read may overtake.
    passed: u64,
    /// For each write from number `first` on, in order of arrival: true while it waits for room. The first one waits.
    waiting: VecDeque<bool>,
    first: u64,
    /// By slot: the number of the write in it; 0 when the write does not wait.
    numbers: Vec<u64>,
    reads: VecDeque<QueuedRead>,
    /// Number of writes that have waited so far.
    count: u64,
}

/// A read that waits behind writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueuedRead {
    pub(crate) slot: SlotId,
    pub(crate) lba: Lba,
    pub(crate) blocks: Blocks,
    /// Number of the last waiting write when the read arrived.
    behind: u64,
}

impl Arbiter {
    pub(crate) const fn new(passed: u64) -> Self {
        Self {
            passed,
            waiting: VecDeque::new(),
            first: 0,
            numbers: Vec::new(),
            reads: VecDeque::new(),
            count: 0,
        }
    }

    /// Queues the write in `slot`: the buffer has no room for it yet.
    pub(crate) fn write_waits(&mut self, slot: SlotId) {
        let slot = index(slot.into());
        if self.numbers.len() <= slot {
            self.numbers.resize(slot + 1, 0);
        }
        self.count += 1;
        self.numbers[slot] = self.count;
        if self.waiting.is_empty() {
            self.first = self.count;
        }
        self.waiting.push_back(true);
    }

    /// Ends the wait of the command in `slot`, if it waited.
    pub(crate) fn has_room(&mut self, slot: SlotId) {
        let Some(number) = self.numbers.get_mut(index(slot.into())) else { return };
        let at = number.checked_sub(self.first).map(index);
        *number = 0;
        if let Some(waits) = at.and_then(|at| self.waiting.get_mut(at)) {
            *waits = false;
        }
        while self.waiting.pop_front_if(|waits| !*waits).is_some() {
            self.first += 1;
        }
    }

    /// True when the read may begin at once. Otherwise the read is queued and comes out of [`Arbiter::next_read`].
    pub(crate) fn takes_read(&mut self, slot: SlotId, lba: Lba, blocks: Blocks) -> bool {
        if self.reads.is_empty() && self.waiting.len() as u64 <= self.passed {
            return true;
        }
        self.reads.push_back(QueuedRead { slot, lba, blocks, behind: self.count });
        false
    }

    /// Takes the next read that the writes before it no longer delay.
    pub(crate) fn next_read(&mut self) -> Option<QueuedRead> {
        let oldest = if self.waiting.is_empty() { u64::MAX } else { self.first + self.passed };
        self.reads.pop_front_if(|held| held.behind < oldest)
    }
}
