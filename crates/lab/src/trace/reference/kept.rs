//! What the policies with a single list have in common: an object is kept after each miss, and the policy says which
//! one leaves for it.

use super::super::{Capacity, Contender, FlashBytes, Outcome, Request};
use super::shelf::{List, Shelf, Slot};

/// Which object leaves.
pub(super) trait Order: Default + Send {
    /// The object in this slot was a hit.
    fn hit(&mut self, shelf: &mut Shelf, list: &mut List, slot: Slot);

    /// The object that leaves next. Requires: the list is not empty.
    fn victim(&mut self, shelf: &mut Shelf, list: &mut List) -> Slot;

    /// The object in this slot leaves, chosen or not; it is still in the list.
    fn leaves(&mut self, _shelf: &Shelf, _slot: Slot) {}
}

/// Objects in one list.
#[derive(Debug)]
pub(super) struct Kept<O> {
    capacity: Capacity,
    shelf: Shelf,
    list: List,
    order: O,
    flash: FlashBytes,
}

impl<O: Order> Kept<O> {
    pub(super) fn new(capacity: Capacity) -> Self {
        Self {
            capacity,
            shelf: Shelf::new(capacity, capacity.amount()),
            list: List::new(),
            order: O::default(),
            flash: FlashBytes::default(),
        }
    }

    fn remove(&mut self, slot: Slot) {
        self.order.leaves(&self.shelf, slot);
        self.shelf.unlink(&mut self.list, slot);
        self.shelf.remove(slot);
    }
}

impl<O: Order> Contender for Kept<O> {
    fn read(&mut self, request: &Request) -> Outcome {
        if let Some(slot) = self.shelf.find(request.id) {
            self.order.hit(&mut self.shelf, &mut self.list, slot);
            return Outcome::Hit;
        }
        let weight = self.capacity.weight(request.size);
        if self.capacity.amount() < weight {
            return Outcome::Miss;
        }
        while self.capacity.amount() < self.list.weight + weight {
            let victim = self.order.victim(&mut self.shelf, &mut self.list);
            self.remove(victim);
        }
        let slot = self.shelf.add(request.id, request.size);
        self.shelf.push(&mut self.list, slot);
        self.flash.filled += weight;
        Outcome::Miss
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
