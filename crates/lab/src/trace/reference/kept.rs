//! Single-list cache shared by LRU, FIFO, CLOCK and SIEVE.
//!
//! Every missed object that fits is cached; the policy picks the victims that make room.

use super::super::shelf::{Shelf, Slot};
use super::super::{Capacity, Contender, FlashBytes, ReplayOutcome, Request};

/// Eviction order of a single list.
pub(super) trait EvictionOrder: Default + Send {
    /// Notes a hit on the object in this slot.
    fn hit(&mut self, shelf: &mut Shelf, slot: Slot);

    /// Next victim; `None` when the list is empty.
    fn victim(&mut self, shelf: &mut Shelf) -> Option<Slot>;

    /// Called after an object left, as a victim or by invalidation.
    fn left(&mut self, _shelf: &mut Shelf) {}
}

/// Number of the only list.
pub(super) const LIST: u8 = 0;

/// A cache of objects in one list.
#[derive(Debug)]
pub(super) struct ObjectList<O> {
    capacity: Capacity,
    shelf: Shelf,
    order: O,
    flash: FlashBytes,
}

impl<O: EvictionOrder> ObjectList<O> {
    pub(super) fn new(capacity: Capacity) -> Self {
        Self {
            capacity,
            shelf: Shelf::new(capacity, capacity.amount()),
            order: O::default(),
            flash: FlashBytes::default(),
        }
    }

    fn remove(&mut self, slot: Slot) {
        self.shelf.remove(slot);
        self.order.left(&mut self.shelf);
    }
}

impl<O: EvictionOrder> Contender for ObjectList<O> {
    fn read(&mut self, request: &Request) -> ReplayOutcome {
        if let Some(slot) = self.shelf.find(request.id) {
            self.order.hit(&mut self.shelf, slot);
            return ReplayOutcome::Hit;
        }
        let weight = self.capacity.weight(request.size);
        if self.capacity.amount() < weight {
            return ReplayOutcome::Miss;
        }
        while self.capacity.amount() < self.shelf.weight_of(LIST) + weight {
            let victim = self.order.victim(&mut self.shelf);
            self.remove(victim.expect("what is too much is in the list"));
        }
        self.shelf.add(request.id, request.size, LIST);
        self.flash.filled += weight;
        ReplayOutcome::Miss
    }

    fn invalidate(&mut self, id: u64) {
        if let Some(slot) = self.shelf.find(id) {
            self.remove(slot);
        }
    }

    fn flash(&self) -> FlashBytes {
        self.flash
    }
}
