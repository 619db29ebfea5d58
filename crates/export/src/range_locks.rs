//! Range locks: serialize read-modify-write of partial blocks against overlapping writes.
//!
//! Writes of whole blocks may run concurrently. A write of part of a block reads the block, changes
//! the part and writes it back, so it would lose any overlapping write that happens in between.
//! Therefore all writes of a volume take a lock, in the order of their arrival. A lock is granted
//! when no earlier lock conflicts with it. That is immediately for nearly all writes, and costs a
//! map entry.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::ops::Range;
use std::task::{Poll, Waker};

use zonal_base::Lba;

/// Lock mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockMode {
    /// Shared: compatible with other shared locks on the same blocks.
    Shared,
    /// Exclusive.
    Exclusive,
}

/// All range locks of a volume, held or waited for. Bounded by the number of running requests.
#[derive(Debug, Default)]
pub(crate) struct RangeLocks {
    entries: RefCell<BTreeMap<u64, Entry>>,
    next: Cell<u64>,
    /// Number of exclusive locks, held or waited for. While it is zero, no lock conflicts with
    /// another.
    alone: Cell<usize>,
}

#[derive(Debug)]
struct Entry {
    blocks: Range<u64>,
    mode: LockMode,
    /// Waker of the task that waits for this lock.
    waker: Option<Waker>,
}

/// A range lock. Dropping it releases the lock.
#[derive(Debug)]
pub(crate) struct RangeLockGuard<'a> {
    locks: &'a RangeLocks,
    ticket: u64,
    mode: LockMode,
}

impl Entry {
    fn conflicts_with(&self, other: &Self) -> bool {
        let overlap = self.blocks.start < other.blocks.end && other.blocks.start < self.blocks.end;
        overlap && (self.mode == LockMode::Exclusive || other.mode == LockMode::Exclusive)
    }
}

impl RangeLocks {
    /// Waits until no earlier lock conflicts. The lock is held until the returned value is dropped.
    pub(crate) async fn acquire(&self, blocks: Range<Lba>, mode: LockMode) -> RangeLockGuard<'_> {
        let ticket = self.next.replace(self.next.get() + 1);
        let blocks = blocks.start.0..blocks.end.0;
        self.entries.borrow_mut().insert(ticket, Entry { blocks, mode, waker: None });
        if mode == LockMode::Exclusive {
            self.alone.set(self.alone.get() + 1);
        }
        let guard = RangeLockGuard { locks: self, ticket, mode };
        poll_fn(|cx| {
            if self.is_granted(ticket) {
                return Poll::Ready(());
            }
            let mut entries = self.entries.borrow_mut();
            let entry = entries.get_mut(&ticket).expect("it leaves with its guard");
            entry.waker = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
        guard
    }

    fn is_granted(&self, ticket: u64) -> bool {
        if self.alone.get() == 0 {
            return true;
        }
        let entries = self.entries.borrow();
        let own = &entries[&ticket];
        !entries.range(..ticket).any(|(_, earlier)| earlier.conflicts_with(own))
    }
}

impl Drop for RangeLockGuard<'_> {
    fn drop(&mut self) {
        let alone = &self.locks.alone;
        let was_crowded = 0 < alone.get();
        if self.mode == LockMode::Exclusive {
            alone.set(alone.get() - 1);
        }
        let mut entries = self.locks.entries.borrow_mut();
        entries.remove(&self.ticket);
        if was_crowded {
            // All later waiters check again; those with an earlier conflict wait on.
            for later in entries.range_mut(self.ticket..).map(|(_, entry)| entry) {
                if let Some(waker) = later.waker.take() {
                    waker.wake();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
