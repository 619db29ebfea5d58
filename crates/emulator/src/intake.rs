//! The order in which the controller takes commands in: a read passes some of the writes that came before it and wait
//! for room in the write buffer, but not more.
//!
//! Seen on both drives of the series under garbage collection (`gc.csv`): four writers with 32 MiB in flight each leave 4 KiB reads
//! 0.6 to 1.4 MiB/s, one for each time that 106 to 112 of the 128 MiB are drained. Reads that wait for nothing are not held up:
//! a write that has room is in the buffer.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use zonal_base::{Blocks, Lba, index};

use crate::in_flight::SlotId;

/// The writes that wait for room, and the reads that came behind them.
#[derive(Debug)]
pub(crate) struct Intake {
    /// As many of them a read passes.
    passed: u64,
    /// Whether the writes from number `first` on wait, in the order in which they came; the first one does.
    waiting: VecDeque<bool>,
    first: u64,
    /// By slot: the number of the write in it, 0 when it does not wait.
    numbers: Vec<u64>,
    reads: VecDeque<QueuedRead>,
    /// Writes that have waited so far.
    count: u64,
}

/// A read that waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueuedRead {
    pub(crate) slot: SlotId,
    pub(crate) lba: Lba,
    pub(crate) blocks: Blocks,
    /// The last write that waited when it came.
    behind: u64,
}

impl Intake {
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

    /// The write in `slot` has no room yet.
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

    /// Whatever waited in `slot` waits no more.
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

    /// True when the read may begin. Otherwise it comes out of [`Intake::next_read`].
    pub(crate) fn takes_read(&mut self, slot: SlotId, lba: Lba, blocks: Blocks) -> bool {
        if self.reads.is_empty() && self.waiting.len() as u64 <= self.passed {
            return true;
        }
        self.reads.push_back(QueuedRead { slot, lba, blocks, behind: self.count });
        false
    }

    /// The next read that the writes before it do not hold up any more.
    pub(crate) fn next_read(&mut self) -> Option<QueuedRead> {
        let oldest = if self.waiting.is_empty() { u64::MAX } else { self.first + self.passed };
        self.reads.pop_front_if(|held| held.behind < oldest)
    }
}
