//! SIEVE (Zhang and others, NSDI 2024): a hand goes from the oldest object to the newest and round again, spares what was
//! asked for since it came by last, and takes the first that was not. Nothing is ever moved.

use super::super::shelf::{Shelf, Slot};
use super::kept::{LIST, Order};

/// The hand is at the first object of the list that was not passed.
#[derive(Debug, Default)]
pub(super) struct Sieve;

const TOUCHED: u8 = 1;

impl Order for Sieve {
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
        // Who comes next is newer than all that the hand has passed.
        if shelf.first(LIST).is_none() {
            shelf.rewind(LIST);
        }
    }
}
