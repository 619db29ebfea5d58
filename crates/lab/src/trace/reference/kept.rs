//! What the policies with a single list have in common: an object is kept after each miss, and the policy says which
//! one leaves for it.

use super::super::shelf::{Shelf, Slot};
use super::super::{Capacity, Contender, FlashBytes, Outcome, Request};

/// Which object leaves.
pub(super) trait Order: Default + Send {
    /// The object in this slot was a hit.
    fn hit(&mut self, shelf: &mut Shelf, slot: Slot);

    /// The object that leaves next; `None` when there is none.
    fn victim(&mut self, shelf: &mut Shelf) -> Option<Slot>;

    /// An object has left, chosen or not.
    fn left(&mut self, _shelf: &mut Shelf) {}
}

/// The list in which they are.
pub(super) const LIST: u8 = 0;

/// Objects in one list.
#[derive(Debug)]
pub(super) struct ObjectList<O> {
    capacity: Capacity,
    shelf: Shelf,
    order: O,
    flash: FlashBytes,
}

impl<O: Order> ObjectList<O> {
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

impl<O: Order> Contender for ObjectList<O> {
    fn read(&mut self, request: &Request) -> Outcome {
        if let Some(slot) = self.shelf.find(request.id) {
            self.order.hit(&mut self.shelf, slot);
            return Outcome::Hit;
        }
        let weight = self.capacity.weight(request.size);
        if self.capacity.amount() < weight {
            return Outcome::Miss;
        }
        while self.capacity.amount() < self.shelf.weight_of(LIST) + weight {
            let victim = self.order.victim(&mut self.shelf);
            self.remove(victim.expect("what is too much is in the list"));
        }
        self.shelf.add(request.id, request.size, LIST);
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
