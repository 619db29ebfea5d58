//! SIEVE (Zhang and others, NSDI 2024): a hand goes from the oldest object to the newest and round again, spares what was
//! asked for since it came by last, and takes the first that was not. Nothing is ever moved.

use super::kept::Order;
use super::shelf::{List, NONE, Shelf, Slot};

#[derive(Debug)]
pub(super) struct Sieve {
    /// Where it goes on; [`NONE`]: at the oldest.
    hand: Slot,
}

const TOUCHED: u8 = 1;

impl Default for Sieve {
    fn default() -> Self {
        Self { hand: NONE }
    }
}

impl Order for Sieve {
    fn hit(&mut self, shelf: &mut Shelf, _list: &mut List, slot: Slot) {
        shelf.set_mark(slot, TOUCHED);
    }

    fn victim(&mut self, shelf: &mut Shelf, list: &mut List) -> Slot {
        let from = |hand| if hand == NONE { list.oldest } else { hand };
        let mut at = from(self.hand);
        while shelf.mark(at) == TOUCHED {
            shelf.set_mark(at, 0);
            at = from(shelf.newer(at));
        }
        self.hand = at;
        at
    }

    fn leaves(&mut self, shelf: &Shelf, slot: Slot) {
        if self.hand == slot {
            self.hand = shelf.newer(slot);
        }
    }
}
