//! S3-FIFO eviction (Yang and others, SOSP 2023): a small, a main and a ghost FIFO queue.
//!
//! 1. New objects enter the small queue, a tenth of the capacity. An object read twice there moves
//!    on to the main queue. Otherwise only its name enters the ghost queue, which remembers as much
//!    as the main queue holds.
//! 2. A miss on a ghost inserts the object into the main queue at once.
//! 3. The main queue spares an object once per read, up to three times, and makes it the newest.
//!
//! Until the cache is full for the first time, the small queue takes all of it, as in the paper.
//! Later versions of libCacheSim fill the main queue then. The results differ by much on traces of
//! which the cache holds a large part.

use super::super::shelf::{Shelf, Slot};
use super::super::{Capacity, Contender, FlashBytes, ReplayOutcome, Request};

#[derive(Debug)]
pub(super) struct S3Fifo {
    capacity: Capacity,
    small_most: u64,
    /// Each object is in one of three lists; its mark counts its reads.
    shelf: Shelf,
    flash: FlashBytes,
}

const SMALL: u8 = 0;
const MAIN: u8 = 1;
/// Ghosts: names and sizes only.
const GHOSTS: u8 = 2;
/// Maximum of the hit counter.
const HITS_MAX: u8 = 3;
/// Hits that promote an object from the small to the main queue.
const HITS_TO_MAIN: u8 = 2;

impl S3Fifo {
    pub(super) fn new(capacity: Capacity) -> Self {
        let room = capacity.amount();
        Self {
            capacity,
            small_most: room / 10,
            // Cached objects and ghosts.
            shelf: Shelf::new(capacity, room + ghosts_most(room) + 1),
            flash: FlashBytes::default(),
        }
    }

    /// Evicts an object, or moves one to the ghost queue, to free capacity.
    fn make_room(&mut self) {
        let main_most = self.capacity.amount() - self.small_most;
        if main_most < self.shelf.weight_of(MAIN) || self.shelf.weight_of(SMALL) == 0 {
            self.shrink_main();
        } else {
            self.shrink_small();
        }
    }

    fn shrink_small(&mut self) {
        while let Some(slot) = self.shelf.first(SMALL) {
            if self.shelf.mark(slot) < HITS_TO_MAIN {
                return self.remember(slot);
            }
            self.shelf.set_mark(slot, 0);
            self.shelf.move_to(slot, MAIN);
        }
    }

    fn shrink_main(&mut self) {
        while let Some(slot) = self.shelf.first(MAIN) {
            let hits = self.shelf.mark(slot);
            if hits == 0 {
                return self.shelf.remove(slot);
            }
            self.shelf.set_mark(slot, hits - 1);
            self.shelf.move_to(slot, MAIN);
        }
    }

    /// Turns an object into a ghost.
    fn remember(&mut self, slot: Slot) {
        let most = ghosts_most(self.capacity.amount());
        if most < self.shelf.weight(slot) {
            return self.shelf.remove(slot);
        }
        self.shelf.move_to(slot, GHOSTS);
        while most < self.shelf.weight_of(GHOSTS) {
            let Some(oldest) = self.shelf.first(GHOSTS) else { return };
            self.shelf.remove(oldest);
        }
    }
}

/// Capacity of the ghost queue: that of the main queue, rounded down.
const fn ghosts_most(room: u64) -> u64 {
    room - room.div_ceil(10)
}

impl Contender for S3Fifo {
    fn read(&mut self, request: &Request) -> ReplayOutcome {
        let found = self.shelf.find(request.id);
        if let Some(slot) = found {
            if self.shelf.list(slot) != GHOSTS {
                let hits = self.shelf.mark(slot);
                self.shelf.set_mark(slot, (hits + 1).min(HITS_MAX));
                return ReplayOutcome::Hit;
            }
            self.shelf.remove(slot);
        }
        let was_ghost = found.is_some();
        let weight = self.capacity.weight(request.size);
        let most = if was_ghost { self.capacity.amount() } else { self.small_most.max(1) };
        if most < weight {
            return ReplayOutcome::Miss;
        }
        while self.capacity.amount()
            < self.shelf.weight_of(SMALL) + self.shelf.weight_of(MAIN) + weight
        {
            self.make_room();
        }
        self.shelf.add(request.id, request.size, if was_ghost { MAIN } else { SMALL });
        self.flash.filled += weight;
        ReplayOutcome::Miss
    }

    fn invalidate(&mut self, id: u64) {
        if let Some(slot) = self.shelf.find(id) {
            self.shelf.remove(slot);
        }
    }

    fn flash(&self) -> FlashBytes {
        self.flash
    }
}
