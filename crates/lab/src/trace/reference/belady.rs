//! Belady's rule (1966), which knows the future: the object leaves that is asked for again the latest. What is not asked for
//! again is not kept, though it takes room once, as if it had been. By bytes it is no bound, but a line to compare with.
//!
//! An object is known here by the position at which it is asked for next: a request is a hit if its own position
//! is one of these. So no number of an object is kept, and what is invalidated is never waited for.

use std::collections::BinaryHeap;

use super::super::spread::NumberMap;
use super::super::{Capacity, Contender, FlashBytes, NEVER, Outcome, Request};

#[derive(Debug)]
pub(super) struct Belady {
    capacity: Capacity,
    used: u64,
    /// The sizes of what is cached, by its next request.
    sizes: NumberMap<u32, u32>,
    /// The next requests of what is cached, the latest first; and some that have been.
    latest: BinaryHeap<u32>,
    /// Of the request that comes.
    position: u32,
    flash: FlashBytes,
}

/// Next requests that have been may make up half of the heap; below this many it does not matter.
const STALE_MIN: usize = 64;

impl Belady {
    pub(super) fn new(capacity: Capacity) -> Self {
        Self {
            capacity,
            used: 0,
            sizes: NumberMap::default(),
            latest: BinaryHeap::new(),
            position: 0,
            flash: FlashBytes::default(),
        }
    }

    fn keep(&mut self, next: u32, size: u32) {
        if next == NEVER {
            return;
        }
        self.used += self.capacity.weight(size);
        self.sizes.insert(next, size);
        self.latest.push(next);
        if self.sizes.len() * 2 + STALE_MIN < self.latest.len() {
            let now = self.position;
            self.latest.retain(|next| now <= *next);
        }
    }

    /// Those that have been are the least of all, and never come up while there is something to evict.
    fn evict(&mut self) {
        let size = self.latest.pop().and_then(|latest| self.sizes.remove(&latest));
        let size = size.expect("what is used is in the heap");
        self.used -= self.capacity.weight(size);
    }
}

impl Contender for Belady {
    fn read(&mut self, request: &Request) -> Outcome {
        let known = self.sizes.remove(&self.position);
        self.position += 1;
        if let Some(size) = known {
            self.used -= self.capacity.weight(size);
            self.keep(request.next, size);
            return Outcome::Hit;
        }
        let weight = self.capacity.weight(request.size);
        if self.capacity.amount() < weight {
            return Outcome::Miss;
        }
        while self.capacity.amount() < self.used + weight {
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
