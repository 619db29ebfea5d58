//! Per-zone write queue: writes in flight, and writes that wait.
//!
//! A zone has one write in flight, or any number of appends, which the drive places in any order.
//! Landed writes complete in the order of their blocks, so that the zone's write pointer never
//! passes a gap.

use std::collections::{BTreeMap, VecDeque};

use rustix::io::Errno;
use zonal_base::{Blocks, Lba, Payload, Ticket};

use super::passthrough::Placement;

/// Write queue and pending commands of one zone.
#[derive(Default)]
pub(super) struct ZoneWriteQueue {
    /// Writes in flight, by slot.
    running: BTreeMap<u32, Write>,
    /// Writes on the drive that have not completed, by their first block: an earlier block is still
    /// missing.
    landed: BTreeMap<Lba, Write>,
    /// Failed writes, and the error of the first one. No write starts until the kernel has reported
    /// the zone.
    failed: Vec<Write>,
    errno: Option<Errno>,
    /// Writes that have not started, with their data.
    waiting: VecDeque<(Write, Vec<Payload>)>,
    /// Zone commands in flight. Writes wait for them.
    pub(super) commands: u32,
}

#[derive(Clone, Copy)]
pub(super) struct Write {
    pub(super) ticket: Ticket,
    /// Target block. For an append, the expected block until the drive reports the real one.
    pub(super) lba: Lba,
    pub(super) blocks: Blocks,
    pub(super) order: Placement,
}

impl ZoneWriteQueue {
    pub(super) fn wait(&mut self, write: Write, data: Vec<Payload>) {
        self.waiting.push_back((write, data));
    }

    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// True when the zone has neither writes nor commands.
    pub(super) fn is_over(&self) -> bool {
        self.running.is_empty()
            && self.landed.is_empty()
            && self.errno.is_none()
            && self.waiting.is_empty()
            && self.commands == 0
    }

    /// Takes the next write that may start now.
    pub(super) fn next(&mut self) -> Option<(Write, Vec<Payload>)> {
        if self.errno.is_some() || 0 < self.commands {
            return None;
        }
        let (next, _) = self.waiting.front()?;
        let is_append = |write: &Write| write.order == Placement::Append;
        let may_begin =
            self.running.is_empty() || is_append(next) && self.running.values().all(is_append);
        if may_begin { self.waiting.pop_front() } else { None }
    }

    pub(super) fn begin(&mut self, slot: u32, write: Write) {
        self.running.insert(slot, write);
    }

    /// Records a write that landed, at `lba` if the drive reported it.
    pub(super) fn land(&mut self, slot: u32, lba: Option<Lba>) {
        let write = self.take(slot);
        let lba = lba.unwrap_or(write.lba);
        if let Some(other) = self.landed.insert(lba, Write { lba, ..write }) {
            // No drive places two writes in one location: the position of the other write is
            // unknown.
            self.fail_one(other, Errno::IO);
        }
    }

    pub(super) fn fail(&mut self, slot: u32, errno: Errno) {
        let write = self.take(slot);
        self.fail_one(write, errno);
    }

    fn fail_one(&mut self, write: Write, errno: Errno) {
        self.failed.push(write);
        self.errno.get_or_insert(errno);
    }

    fn take(&mut self, slot: u32) -> Write {
        self.running.remove(&slot).expect("the write was on its way")
    }

    /// Takes the landed write that begins at this block, the zone's write pointer.
    pub(super) fn landed_at(&mut self, lba: Lba) -> Option<Write> {
        self.landed.remove(&lba)
    }

    /// The error for which the kernel must report the zone. `None` while writes are in flight, or
    /// when there is no error. A write that landed behind a gap, with no write in flight to
    /// fill it, is an error, too.
    pub(super) fn lost(&mut self) -> Option<Errno> {
        if !self.running.is_empty() {
            return None;
        }
        if !self.landed.is_empty() {
            self.errno.get_or_insert(Errno::IO);
        }
        self.errno
    }

    /// True when a write of the zone has failed.
    pub(super) const fn has_failed(&self) -> bool {
        self.errno.is_some()
    }

    /// Takes all writes that have not completed, the failed ones first. Requires: no write is in
    /// flight.
    pub(super) fn give_up(&mut self) -> Vec<Write> {
        assert!(self.running.is_empty(), "the drive still has it");
        self.errno = None;
        let mut all = std::mem::take(&mut self.failed);
        all.extend(std::mem::take(&mut self.landed).into_values());
        all.extend(self.waiting.drain(..).map(|(write, _)| write));
        all
    }
}
