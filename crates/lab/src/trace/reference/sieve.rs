//! SIEVE eviction (Zhang and others, NSDI 2024): a moving hand, no reordering on hits.
//!
//! The hand moves from the oldest object to the newest and around again. It spares objects read
//! since its last visit and evicts the first object that was not.

use super::super::shelf::{Shelf, Slot};
use super::kept::{EvictionOrder, LIST};

/// SIEVE state. The hand is at the first object of the list that was not passed.
#[derive(Debug, Default)]
pub(super) struct Sieve;

const TOUCHED: u8 = 1;

impl EvictionOrder for Sieve {
    fn hit(&mut self, shelf: &mut Shelf, slot: Slot) {
        shelf.set_mark(slot, TOUCHED);
    }

    fn victim(&mut self, shelf: &mut Shelf) -> Option<Slot> {
        loop {
            let at = shelf.first(LIST)?;
            if shelf.mark(at) != TOUCHED {
                return Some(at);
            }
            shelf.set_mark(at, 0);
            shelf.pass(at);
            self.left(shelf);
        }
    }

    fn left(&mut self, shelf: &mut Shelf) {
        // Past the end the hand starts over: objects added later are newer than all passed ones.
        if shelf.first(LIST).is_none() {
            shelf.rewind(LIST);
        }
    }
}
