//! Belady's rule (1966), which knows the future: the object leaves that is asked for again the latest. What is not asked for
//! again is not kept, though it takes room once, as if it had been. By bytes it is no bound, but a line to compare with.
//!
//! An object is known here by the position at which it is asked for next: a request is a hit if its own position
//! is one of these. So no number of an object is kept, and what is invalidated is never waited for.

use std::collections::BinaryHeap;

use zonal_base::{index, low_u32};

use super::super::shelf::Shelf;
use super::super::{Capacity, Contender, FlashBytes, NEVER, Outcome, Request};

#[derive(Debug)]
pub(super) struct Belady {
    capacity: Capacity,
    /// What is cached, by its next request: numbers below 2^32, so that none is taken for another.
    shelf: Shelf,
    /// The next requests of what is cached, the latest first; and some that have been.
    latest: BinaryHeap<u32>,
    /// Of the request that comes.
    position: u32,
    flash: FlashBytes,
}

/// The list in which all objects are.
const LIST: u8 = 0;

/// Next requests that have been may make up a fifth of the heap; below this many it does not matter.
const STALE_MIN: usize = 64;

impl Belady {
    pub(super) fn new(capacity: Capacity) -> Self {
        Self {
            capacity,
            shelf: Shelf::new(capacity, capacity.amount()),
            latest: BinaryHeap::new(),
            position: 0,
            flash: FlashBytes::default(),
        }
    }

    fn keep(&mut self, next: u32, size: u32) {
        if next == NEVER {
            return;
        }
        self.shelf.add(next.into(), size, LIST);
        if self.shelf.len() / 4 * 5 + STALE_MIN <= self.latest.len() {
            let now = self.position;
            self.latest.retain(|next| now <= *next);
        }
        if self.latest.len() == self.latest.capacity() {
            // An eighth more, so that little lies idle.
            self.latest.reserve_exact(self.latest.len() / 8 + STALE_MIN);
        }
        self.latest.push(next);
    }

    /// Takes out what is asked for at a position, and says how large it was.
    fn take(&mut self, position: u32) -> Option<u32> {
        let slot = self.shelf.find(position.into())?;
        let size = low_u32(index(self.shelf.weight(slot)));
        self.shelf.remove(slot);
        Some(size)
    }

    /// Those that have been are the least of all, and never come up while there is something to evict.
    fn evict(&mut self) {
        let latest = self.latest.pop().and_then(|latest| self.take(latest));
        latest.expect("what is cached is in the heap");
    }
}

impl Contender for Belady {
    fn read(&mut self, request: &Request) -> Outcome {
        let known = self.take(self.position);
        self.position += 1;
        if let Some(size) = known {
            self.keep(request.next, size);
            return Outcome::Hit;
        }
        let weight = self.capacity.weight(request.size);
        if self.capacity.amount() < weight {
            return Outcome::Miss;
        }
        while self.capacity.amount() < self.shelf.weight_of(LIST) + weight {
            self.evict();
        }
        self.keep(request.next, request.size);
        self.flash.filled += weight;
        Outcome::Miss
    }

    fn invalidate(&mut self, _id: u64) {
        self.position += 1;
    }

    fn flash(&self) -> FlashBytes {
        self.flash
    }

    fn needs_future(&self) -> bool {
        true
    }
}
