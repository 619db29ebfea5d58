//! ARC eviction (Megiddo and Modha, FAST 2003): recency and frequency lists with ghosts.
//!
//! Objects read once and objects read again form two LRU lists. Hits on the ghosts of a list shift
//! capacity to it.
//!
//! The paper's `p` is a real number here; the paper does not say whether it is an integer. The
//! paper's rules assume pages of one size. With capacities in bytes, |T1| and the others are bytes,
//! and as many objects leave as the new one needs.

use super::super::shelf::{Shelf, Slot};
use super::super::{Capacity, Contender, FlashBytes, ReplayOutcome, Request};

#[derive(Debug)]
pub(super) struct Arc {
    capacity: Capacity,
    shelf: Shelf,
    /// Target size of list `ONCE`, in units of the capacity.
    target: f64,
    flash: FlashBytes,
}

const ONCE: u8 = 0;
const AGAIN: u8 = 1;
/// Ghosts: names and sizes only.
const ONCE_GHOST: u8 = 2;
const AGAIN_GHOST: u8 = 3;

impl Arc {
    pub(super) fn new(capacity: Capacity) -> Self {
        Self {
            capacity,
            shelf: Shelf::new(capacity, capacity.amount().saturating_mul(2)),
            target: 0.0,
            flash: FlashBytes::default(),
        }
    }

    const fn weight(&self, list: u8) -> u64 {
        self.shelf.weight_of(list)
    }

    fn oldest(&mut self, list: u8) -> Slot {
        self.shelf.first(list).expect("the list is not empty")
    }

    fn drop_oldest(&mut self, list: u8) {
        let slot = self.oldest(list);
        self.shelf.remove(slot);
    }

    /// REPLACE of the paper: turns one object into a ghost.
    fn replace(&mut self, was_again_ghost: Again) {
        let once = self.weight(ONCE) as f64;
        let is_once_too_large = match was_again_ghost {
            Again::Ghost => self.target <= once,
            Again::No => self.target < once,
        };
        let from = if self.weight(ONCE) != 0 && (is_once_too_large || self.weight(AGAIN) == 0) {
            ONCE
        } else {
            AGAIN
        };
        let slot = self.oldest(from);
        self.shelf.move_to(slot, from + ONCE_GHOST);
    }

    const fn needs_room(&self, weight: u64) -> bool {
        self.capacity.amount() < self.weight(ONCE) + self.weight(AGAIN) + weight
    }

    /// Grows the target of the list whose ghost was read.
    fn adapt(&mut self, list: u8) {
        let (once, again) = (self.weight(ONCE_GHOST) as f64, self.weight(AGAIN_GHOST) as f64);
        self.target = match list {
            ONCE_GHOST => {
                let room = self.capacity.amount() as f64;
                (self.target + (again / once).max(1.0)).min(room)
            }
            _ => (self.target - (once / again).max(1.0)).max(0.0),
        };
    }

    fn ghost(&mut self, slot: Slot, request: &Request) {
        let list = self.shelf.list(slot);
        self.adapt(list);
        self.shelf.remove(slot);
        let weight = self.capacity.weight(request.size);
        if self.capacity.amount() < weight {
            return;
        }
        while self.needs_room(weight) {
            self.replace(if list == AGAIN_GHOST { Again::Ghost } else { Again::No });
        }
        self.insert(request, AGAIN);
    }

    fn miss(&mut self, request: &Request) {
        let weight = self.capacity.weight(request.size);
        let room = self.capacity.amount();
        if room < weight {
            return;
        }
        while self.needs_room(weight) {
            if room < self.weight(ONCE) + self.weight(ONCE_GHOST) + weight {
                if self.weight(ONCE_GHOST) == 0 {
                    self.drop_oldest(ONCE);
                    continue;
                }
                self.drop_oldest(ONCE_GHOST);
            } else if room * 2
                < (ONCE..=AGAIN_GHOST).map(|list| self.weight(list)).sum::<u64>() + weight
                && self.weight(AGAIN_GHOST) != 0
            {
                self.drop_oldest(AGAIN_GHOST);
            }
            self.replace(Again::No);
        }
        self.insert(request, ONCE);
    }

    fn insert(&mut self, request: &Request, to: u8) {
        self.shelf.add(request.id, request.size, to);
        self.flash.filled += self.capacity.weight(request.size);
    }
}

/// Whether the object that needs room was a ghost of `AGAIN`.
#[derive(Clone, Copy)]
enum Again {
    Ghost,
    No,
}

impl Contender for Arc {
    fn read(&mut self, request: &Request) -> ReplayOutcome {
        let Some(slot) = self.shelf.find(request.id) else {
            self.miss(request);
            return ReplayOutcome::Miss;
        };
        if self.shelf.list(slot) < ONCE_GHOST {
            self.shelf.move_to(slot, AGAIN);
            return ReplayOutcome::Hit;
        }
        self.ghost(slot, request);
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
