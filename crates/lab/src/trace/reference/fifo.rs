//! First in, first out: the oldest object leaves, however often it was asked for.

use super::kept::Order;
use super::shelf::{List, Shelf, Slot};

#[derive(Debug, Default)]
pub(super) struct Fifo;

impl Order for Fifo {
    fn hit(&mut self, _shelf: &mut Shelf, _list: &mut List, _slot: Slot) {}

    fn victim(&mut self, _shelf: &mut Shelf, list: &mut List) -> Slot {
        list.oldest
    }
}
