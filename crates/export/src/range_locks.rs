//! Range locks: serialize read-modify-write of partial blocks against overlapping writes.
//!
//! Writes of whole blocks may run concurrently. A write of part of a block reads the block, changes
//! the part and writes it back, so it would lose any overlapping write that happens in between.
//! Therefore all writes of a volume take a lock, in the order of their arrival.
//!
//! A lock is granted when no earlier lock conflicts with it. Each lock counts those that do, and a
//! released one is subtracted from its conflicting successors: only they are looked at, and only a
//! task whose lock is granted is woken. So a client with many partial writes in flight does not
//! slow down others.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::ops::Range;
use std::rc::Rc;
use std::task::{Poll, Waker};

use iset::IntervalMap;
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
    locks: RefCell<IntervalMap<u64, Rc<Lock>>>,
    next: Cell<u64>,
}

/// A lock that is held or waited for.
#[derive(Debug)]
struct Lock {
    /// Order of arrival.
    ticket: u64,
    mode: LockMode,
    /// Earlier locks that conflict with this one.
    blockers: Cell<usize>,
    /// Waker of the task that waits for this lock.
    waker: RefCell<Option<Waker>>,
}

/// A range lock. Dropping it releases the lock.
#[derive(Debug)]
pub(crate) struct RangeLockGuard<'a> {
    locks: &'a RangeLocks,
    blocks: Range<u64>,
    lock: Rc<Lock>,
}

impl Lock {
    /// Requires: both locks have blocks in common.
    fn conflicts_with(&self, other: &Self) -> bool {
        self.mode == LockMode::Exclusive || other.mode == LockMode::Exclusive
    }
}

impl RangeLocks {
    /// Waits until no earlier lock conflicts. The lock is held until the returned value is dropped.
    ///
    /// Requires: the range is not empty.
    pub(crate) async fn acquire(&self, blocks: Range<Lba>, mode: LockMode) -> RangeLockGuard<'_> {
        let guard = self.enter(blocks.start.0..blocks.end.0, mode);
        poll_fn(|cx| {
            if guard.lock.blockers.get() == 0 {
                return Poll::Ready(());
            }
            *guard.lock.waker.borrow_mut() = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
        guard
    }

    fn enter(&self, blocks: Range<u64>, mode: LockMode) -> RangeLockGuard<'_> {
        let ticket = self.next.replace(self.next.get() + 1);
        let lock = Lock { ticket, mode, blockers: Cell::new(0), waker: RefCell::default() };
        let lock = Rc::new(lock);
        let mut locks = self.locks.borrow_mut();
        let earlier = locks.values(blocks.clone());
        lock.blockers.set(earlier.filter(|earlier| earlier.conflicts_with(&lock)).count());
        locks.force_insert(blocks.clone(), lock.clone());
        RangeLockGuard { locks: self, blocks, lock }
    }
}

impl Drop for RangeLockGuard<'_> {
    fn drop(&mut self) {
        let Self { locks, blocks, lock } = self;
        let mut locks = locks.locks.borrow_mut();
        locks.remove_where(blocks.clone(), |other| other.ticket == lock.ticket);
        let later = locks.values(blocks.clone());
        for later in later.filter(|later| lock.ticket < later.ticket && later.conflicts_with(lock))
        {
            later.blockers.set(later.blockers.get() - 1);
            if later.blockers.get() == 0
                && let Some(waker) = later.waker.take()
            {
                waker.wake();
            }
        }
    }
}

#[cfg(test)]
mod tests;
