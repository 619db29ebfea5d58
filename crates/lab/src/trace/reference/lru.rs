//! LRU eviction: the least recently read object leaves.

use super::super::shelf::{Shelf, Slot};
use super::kept::{EvictionOrder, LIST};

#[derive(Debug, Default)]
pub(super) struct Lru;

impl EvictionOrder for Lru {
    fn hit(&mut self, shelf: &mut Shelf, slot: Slot) {
        shelf.move_to(slot, LIST);
    }

    fn victim(&mut self, shelf: &mut Shelf) -> Option<Slot> {
        shelf.first(LIST)
    }
}
