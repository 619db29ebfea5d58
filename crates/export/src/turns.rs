//! Range locks: serialize read-modify-write of partial blocks against overlapping writes.
//!
//! A write of whole blocks may go beside any other. One of less than a block reads the block, changes a part and writes
//! it again; whatever was written to that block meanwhile would be lost. So all writes of a volume take a turn, in the
//! order in which they came: it has come when nothing before it is in its way. That is at once for nearly all, and costs
//! an entry in a map.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::ops::Range;
use std::task::{Poll, Waker};

use zonal_base::Lba;

/// How a write wants its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Company {
    /// Beside others of its kind.
    Shared,
    /// Alone.
    Alone,
}

/// All writes to a volume that are under way or wait. As many as there are requests.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    entries: RefCell<BTreeMap<u64, Entry>>,
    next: Cell<u64>,
    /// Entries that want to be alone: while there are none, nobody is in anybody's way.
    alone: Cell<usize>,
}

#[derive(Debug)]
struct Entry {
    blocks: Range<u64>,
    company: Company,
    /// Of whom waits for its turn.
    waker: Option<Waker>,
}

/// A place in the line; it is given up with this.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    turns: &'a Turns,
    ticket: u64,
    company: Company,
}

impl Entry {
    fn is_in_the_way_of(&self, other: &Self) -> bool {
        let overlap = self.blocks.start < other.blocks.end && other.blocks.start < self.blocks.end;
        overlap && (self.company == Company::Alone || other.company == Company::Alone)
    }
}

impl Turns {
    /// Resolves when nothing that came before is in the way of a write to these blocks, and keeps what comes later out
    /// of its way until the turn is dropped.
    pub(crate) async fn take(&self, blocks: Range<Lba>, company: Company) -> Turn<'_> {
        let ticket = self.next.replace(self.next.get() + 1);
        let blocks = blocks.start.0..blocks.end.0;
        self.entries.borrow_mut().insert(ticket, Entry { blocks, company, waker: None });
        if company == Company::Alone {
            self.alone.set(self.alone.get() + 1);
        }
        let turn = Turn { turns: self, ticket, company };
        poll_fn(|cx| {
            if self.has_come(ticket) {
                return Poll::Ready(());
            }
            let mut entries = self.entries.borrow_mut();
            let entry = entries.get_mut(&ticket).expect("it leaves with its turn");
            entry.waker = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
        turn
    }

    fn has_come(&self, ticket: u64) -> bool {
        if self.alone.get() == 0 {
            return true;
        }
        let entries = self.entries.borrow();
        let own = &entries[&ticket];
        !entries.range(..ticket).any(|(_, earlier)| earlier.is_in_the_way_of(own))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let alone = &self.turns.alone;
        let was_crowded = 0 < alone.get();
        if self.company == Company::Alone {
            alone.set(alone.get() - 1);
        }
        let mut entries = self.turns.entries.borrow_mut();
        entries.remove(&self.ticket);
        if was_crowded {
            // Whoever still has somebody before it looks, and waits on.
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
