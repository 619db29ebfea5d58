//! The queue of the log: what waits for a segment.

use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::vec::Vec;

use zonal_base::index;

use super::internal_entry::InternalEntry;
use super::item::{Item, ItemKind, Ticket};
use crate::format::ENTRIES_MAX;

/// The write queue of the buffer device.
#[derive(Default)]
pub(crate) struct WriteQueue {
    pub(crate) queue: VecDeque<Item>,
    /// Room taken in the queue, in blocks, by queued items, items in flight and admitted requests.
    pub(crate) queued_blocks: u64,
    /// First sequence of each segment in flight.
    pub(super) flying: VecDeque<u64>,
    /// Requests with parts in refused segments, until they are complete.
    pub(super) retried: Vec<Rc<Ticket>>,
    /// Internal entries for the next segment.
    pub(super) internal: VecDeque<InternalEntry>,
}

impl WriteQueue {
    /// Entries that wait for a segment, counted up to what one can hold.
    pub(super) fn waiting_entries(&self) -> usize {
        let mut count = self.internal.len();
        for item in &self.queue {
            if ENTRIES_MAX <= count {
                break;
            }
            count += match item.what {
                ItemKind::Hole => 1,
                ItemKind::Data(_) | ItemKind::Again(_) => index(item.extent.blocks.0),
            };
        }
        count
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.flying.is_empty() && self.internal.is_empty()
    }

    pub(crate) fn lowest_unpublished(&self) -> Option<u64> {
        self.flying.front().copied()
    }

    /// Returns the items of refused segments to the head of the queue, in order.
    pub(super) fn put_back(&mut self, items: impl DoubleEndedIterator<Item = Item>) {
        self.flying.clear();
        for item in items.rev() {
            self.retried.push(item.ticket.clone());
            self.queue.push_front(item);
        }
    }

    /// Drops clients' items that wait, except those of refused segments: these may be on the device
    /// in part. Returns the tickets of all to fail.
    pub(crate) fn refuse_clients(&mut self) -> Vec<Rc<Ticket>> {
        let (mut kept, mut tickets) = (VecDeque::new(), Vec::new());
        for item in self.queue.drain(..) {
            let is_clients = !matches!(item.what, ItemKind::Again(_));
            if is_clients {
                tickets.push(item.ticket.clone());
            }
            if !is_clients || self.retried.iter().any(|ticket| Rc::ptr_eq(ticket, &item.ticket)) {
                kept.push_back(item);
            } else {
                self.queued_blocks = self.queued_blocks.saturating_sub(item.room);
                item.end();
            }
        }
        self.queue = kept;
        tickets
    }

    /// Clears the queue after a failure. Returns the tickets to fail.
    pub(crate) fn give_up(&mut self) -> Vec<Rc<Ticket>> {
        self.queued_blocks = 0;
        self.queue.drain(..).map(|item| item.ticket).collect()
    }
}
