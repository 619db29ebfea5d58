//! Clock, also known as second chance: FIFO in which an object that was asked for since it came, or since it was spared
//! last, is spared once more and becomes the newest.

use super::kept::Order;
use super::shelf::{List, Shelf, Slot};

#[derive(Debug, Default)]
pub(super) struct Clock;

const TOUCHED: u8 = 1;

impl Order for Clock {
    fn hit(&mut self, shelf: &mut Shelf, _list: &mut List, slot: Slot) {
        shelf.set_mark(slot, TOUCHED);
    }

    fn victim(&mut self, shelf: &mut Shelf, list: &mut List) -> Slot {
        while shelf.mark(list.oldest) == TOUCHED {
            let spared = list.oldest;
            shelf.set_mark(spared, 0);
            shelf.renew(list, spared);
        }
        list.oldest
    }
}
