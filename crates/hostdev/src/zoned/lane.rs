//! Per-zone write queue: writes in flight, and writes that wait.
//!
//! One write at a time is on its way, or any number of appends: those the drive puts where it likes. What has landed is
//! answered in the order of its blocks, so that the zone is never told to be written where it is not.

use std::collections::{BTreeMap, VecDeque};

use rustix::io::Errno;
use zonal_base::{Blocks, Lba, Payload, Ticket};

use super::passthrough::Order;

/// What goes on in a zone.
#[derive(Default)]
pub(super) struct Lane {
    /// On their way to the drive, by slot.
    running: BTreeMap<u32, Write>,
    /// On the drive, by their first block there; before them something is missing.
    landed: BTreeMap<Lba, Write>,
    /// Those that failed, and why the first of them did. Nothing is started any more until the kernel has said what is left of
    /// the zone.
    failed: Vec<Write>,
    errno: Option<Errno>,
    /// Those that come after them, with their data.
    waiting: VecDeque<(Write, Vec<Payload>)>,
    /// Zone commands that were asked for. Writes wait for them.
    pub(super) commands: u32,
}

#[derive(Clone, Copy)]
pub(super) struct Write {
    pub(super) ticket: Ticket,
    /// Where it is to go; where an append goes the drive says.
    pub(super) lba: Lba,
    pub(super) blocks: Blocks,
    pub(super) order: Order,
}

impl Lane {
    pub(super) fn wait(&mut self, write: Write, data: Vec<Payload>) {
        self.waiting.push_back((write, data));
    }

    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// True when nothing goes on.
    pub(super) fn is_over(&self) -> bool {
        self.running.is_empty()
            && self.landed.is_empty()
            && self.errno.is_none()
            && self.waiting.is_empty()
            && self.commands == 0
    }

    /// The write that may begin now.
    pub(super) fn next(&mut self) -> Option<(Write, Vec<Payload>)> {
        if self.errno.is_some() || 0 < self.commands {
            return None;
        }
        let (next, _) = self.waiting.front()?;
        let is_append = |write: &Write| write.order == Order::Append;
        let may_begin =
            self.running.is_empty() || is_append(next) && self.running.values().all(is_append);
        if may_begin { self.waiting.pop_front() } else { None }
    }

    pub(super) fn begin(&mut self, slot: u32, write: Write) {
        self.running.insert(slot, write);
    }

    /// A write is on the drive, at `lba` if it says so.
    pub(super) fn land(&mut self, slot: u32, lba: Option<Lba>) {
        let write = self.take(slot);
        let lba = lba.unwrap_or(write.lba);
        if let Some(other) = self.landed.insert(lba, Write { lba, ..write }) {
            // No drive puts two in one place: nobody knows where this one is.
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

    /// The write that begins where the zone is written to.
    pub(super) fn landed_at(&mut self, lba: Lba) -> Option<Write> {
        self.landed.remove(&lba)
    }

    /// Why the kernel is to be asked what is left of the zone, now that nothing is on its way there: something failed, or has
    /// landed where nothing leads to.
    pub(super) fn lost(&mut self) -> Option<Errno> {
        if !self.running.is_empty() {
            return None;
        }
        if !self.landed.is_empty() {
            self.errno.get_or_insert(Errno::IO);
        }
        self.errno
    }

    /// Something in it has failed.
    pub(super) const fn has_failed(&self) -> bool {
        self.errno.is_some()
    }

    /// Everything that has not been answered, first what failed. Requires: nothing is on its way.
    pub(super) fn give_up(&mut self) -> Vec<Write> {
        assert!(self.running.is_empty(), "the drive still has it");
        self.errno = None;
        let mut all = std::mem::take(&mut self.failed);
        all.extend(std::mem::take(&mut self.landed).into_values());
        all.extend(self.waiting.drain(..).map(|(write, _)| write));
        all
    }
}
