//! Belady's clairvoyant policy (1966): evicts the object whose next read is farthest away.
//!
//! A missed object without a next read is not kept, though room is made for it as for the others.
//! With capacities in bytes the result is no bound, only a line to compare with.
//!
//! An object is identified by the position of its next read: a request hits if its own position is
//! in the set. So no object ids are stored, and an invalidated object never takes room.

use std::collections::BinaryHeap;

use super::super::shelf::Shelf;
use super::super::{Capacity, Contender, FlashBytes, NEVER, ReplayOutcome, Request};

#[derive(Debug)]
pub(super) struct Belady {
    capacity: Capacity,
    /// Cached objects by next position. Positions below 2^32 never collide.
    shelf: Shelf,
    /// Next positions of cached objects, the latest first, and some stale ones.
    latest: BinaryHeap<u32>,
    /// Position of the next request in the trace.
    position: u32,
    flash: FlashBytes,
}

/// Number of the only list.
const LIST: u8 = 0;

/// Stale positions in the heap below which it is not cleaned. Above, they may make up a fifth of
/// it.
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

    fn keep(&mut self, next: u32, size: u64) {
        if next == NEVER {
            return;
        }
        self.shelf.add(next.into(), size, LIST);
        if self.shelf.len() / 4 * 5 + STALE_MIN <= self.latest.len() {
            let now = self.position;
            self.latest.retain(|next| now <= *next);
        }
        if self.latest.len() == self.latest.capacity() {
            // Grows by only an eighth, so that little memory stays unused.
            self.latest.reserve_exact(self.latest.len() / 8 + STALE_MIN);
        }
        self.latest.push(next);
    }

    /// Removes the object read at `position`, and returns its size.
    fn take(&mut self, position: u32) -> Option<u64> {
        let slot = self.shelf.find(position.into())?;
        let size = self.shelf.weight(slot);
        self.shelf.remove(slot);
        Some(size)
    }

    /// Evicts the object read latest. Stale positions are the smallest, so they never come up while
    /// an object can be evicted.
    fn evict(&mut self) {
        let latest = self.latest.pop().and_then(|latest| self.take(latest));
        latest.expect("what is cached is in the heap");
    }
}

impl Contender for Belady {
    fn read(&mut self, request: &Request) -> ReplayOutcome {
        let known = self.take(self.position);
        self.position += 1;
        if let Some(size) = known {
            self.keep(request.next, size);
            return ReplayOutcome::Hit;
        }
        let weight = self.capacity.weight(request.size);
        if self.capacity.amount() < weight {
            return ReplayOutcome::Miss;
        }
        while self.capacity.amount() < self.shelf.weight_of(LIST) + weight {
            self.evict();
        }
        self.keep(request.next, request.size);
        self.flash.filled += weight;
        ReplayOutcome::Miss
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
