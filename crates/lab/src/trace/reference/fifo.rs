//! First in, first out: the oldest object leaves, however often it was asked for.

use super::super::{Capacity, Contender, FlashBytes, Outcome, Request};
use super::shelf::{List, Shelf};

#[derive(Debug)]
pub(super) struct Fifo {
    capacity: Capacity,
    shelf: Shelf,
    all: List,
    flash: FlashBytes,
}

impl Fifo {
    pub(super) fn new(capacity: Capacity) -> Self {
        let shelf = Shelf::new(capacity, capacity.amount());
        Self { capacity, shelf, all: List::new(), flash: FlashBytes::default() }
    }
}

impl Contender for Fifo {
    fn read(&mut self, request: &Request) -> Outcome {
        if self.shelf.find(request.id).is_some() {
            return Outcome::Hit;
        }
        let weight = self.capacity.weight(request.size);
        if self.capacity.amount() < weight {
            return Outcome::Miss;
        }
        while self.capacity.amount() < self.all.weight + weight {
            let victim = self.all.oldest;
            self.shelf.unlink(&mut self.all, victim);
            self.shelf.remove(victim);
        }
        let slot = self.shelf.add(request.id, request.size);
        self.shelf.push(&mut self.all, slot);
        self.flash.filled += u64::from(request.size);
        Outcome::Miss
    }

    fn invalidate(&mut self, id: u64) {
        if let Some(slot) = self.shelf.find(id) {
            self.shelf.unlink(&mut self.all, slot);
            self.shelf.remove(slot);
        }
    }

    fn flash(&self) -> FlashBytes {
        self.flash
    }
}
