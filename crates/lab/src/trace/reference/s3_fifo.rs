//! S3-FIFO (Yang and others, SOSP 2023): three queues, first in, first out.
//!
//! 1. What is new waits in a small queue, a tenth of the room. If it was asked for twice while it waited it goes on to the
//!    main queue, otherwise only its number is kept, in a ghost queue that remembers as much as the main queue holds.
//! 2. What misses and is in the ghost queue goes to the main queue at once.
//! 3. In the main queue an object is spared as often as it was asked for, up to three times, and becomes the newest.
//!
//! Until the room is full for the first time the small queue takes all of it, as the paper has it. Later versions of
//! libCacheSim fill the main queue then; on traces that the cache holds a large part of, that differs by much.

use super::super::{Capacity, Contender, FlashBytes, Outcome, Request};
use super::shelf::{List, Shelf, Slot};

#[derive(Debug)]
pub(super) struct S3Fifo {
    capacity: Capacity,
    small_most: u64,
    shelf: Shelf,
    small: List,
    main: List,
    /// Their numbers and sizes only.
    ghosts: List,
    flash: FlashBytes,
}

/// In which list an object is, in its mark above how often it was asked for.
const SMALL: u8 = 0;
const MAIN: u8 = 4;
const GHOST: u8 = 8;
const LISTS: u8 = MAIN | GHOST;
/// Hits that are remembered at most.
const HITS_MAX: u8 = 3;
/// Hits that lead from the small queue to the main one.
const HITS_TO_MAIN: u8 = 2;

impl S3Fifo {
    pub(super) fn new(capacity: Capacity) -> Self {
        let room = capacity.amount();
        Self {
            capacity,
            small_most: room / 10,
            // All that is cached, and ghosts.
            shelf: Shelf::new(capacity, room + ghosts_most(room) + 1),
            small: List::new(),
            main: List::new(),
            ghosts: List::new(),
            flash: FlashBytes::default(),
        }
    }

    /// Lets something leave, so that there is more room than before.
    fn make_room(&mut self) {
        let main_most = self.capacity.amount() - self.small_most;
        if main_most < self.main.weight || self.small.weight == 0 {
            self.shrink_main();
        } else {
            self.shrink_small();
        }
    }

    fn shrink_small(&mut self) {
        while self.small.weight != 0 {
            let slot = self.small.oldest;
            self.shelf.unlink(&mut self.small, slot);
            let hits = self.shelf.mark(slot);
            if hits < HITS_TO_MAIN {
                return self.remember(slot);
            }
            self.shelf.set_mark(slot, MAIN);
            self.shelf.push(&mut self.main, slot);
        }
    }

    fn shrink_main(&mut self) {
        loop {
            let slot = self.main.oldest;
            self.shelf.unlink(&mut self.main, slot);
            let hits = self.shelf.mark(slot) & !LISTS;
            if hits == 0 {
                return self.shelf.remove(slot);
            }
            self.shelf.set_mark(slot, MAIN | (hits - 1));
            self.shelf.push(&mut self.main, slot);
        }
    }

    /// Makes a ghost of an object that is in no list.
    fn remember(&mut self, slot: Slot) {
        let most = ghosts_most(self.capacity.amount());
        let weight = self.shelf.weight(slot);
        if most < weight {
            return self.shelf.remove(slot);
        }
        while most < self.ghosts.weight + weight {
            let oldest = self.ghosts.oldest;
            self.shelf.unlink(&mut self.ghosts, oldest);
            self.shelf.remove(oldest);
        }
        self.shelf.set_mark(slot, GHOST);
        self.shelf.push(&mut self.ghosts, slot);
    }

    fn forget(&mut self, slot: Slot) {
        let list = match self.shelf.mark(slot) & LISTS {
            SMALL => &mut self.small,
            MAIN => &mut self.main,
            _ => &mut self.ghosts,
        };
        self.shelf.unlink(list, slot);
        self.shelf.remove(slot);
    }
}

/// As much as the main queue holds, rounded down.
const fn ghosts_most(room: u64) -> u64 {
    room - room.div_ceil(10)
}

impl Contender for S3Fifo {
    fn read(&mut self, request: &Request) -> Outcome {
        let found = self.shelf.find(request.id);
        if let Some(slot) = found {
            let mark = self.shelf.mark(slot);
            if mark & GHOST == 0 {
                if mark & !LISTS < HITS_MAX {
                    self.shelf.set_mark(slot, mark + 1);
                }
                return Outcome::Hit;
            }
            self.forget(slot);
        }
        let was_ghost = found.is_some();
        let weight = self.capacity.weight(request.size);
        let most = if was_ghost { self.capacity.amount() } else { self.small_most.max(1) };
        if most < weight {
            return Outcome::Miss;
        }
        while self.capacity.amount() < self.small.weight + self.main.weight + weight {
            self.make_room();
        }
        let slot = self.shelf.add(request.id, request.size);
        if was_ghost {
            self.shelf.set_mark(slot, MAIN);
            self.shelf.push(&mut self.main, slot);
        } else {
            self.shelf.push(&mut self.small, slot);
        }
        self.flash.filled += weight;
        Outcome::Miss
    }

    fn invalidate(&mut self, id: u64) {
        if let Some(slot) = self.shelf.find(id) {
            self.forget(slot);
        }
    }

    fn flash(&self) -> FlashBytes {
        self.flash
    }
}
