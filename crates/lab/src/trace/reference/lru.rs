//! Least recently used: the object leaves that was not asked for the longest.

use super::kept::Order;
use super::shelf::{List, Shelf, Slot};

#[derive(Debug, Default)]
pub(super) struct Lru;

impl Order for Lru {
    fn hit(&mut self, shelf: &mut Shelf, list: &mut List, slot: Slot) {
        shelf.renew(list, slot);
    }

    fn victim(&mut self, _shelf: &mut Shelf, list: &mut List) -> Slot {
        list.oldest
    }
}
