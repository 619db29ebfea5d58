//! FIFO eviction: the oldest object leaves, however often it was read.

use super::super::shelf::{Shelf, Slot};
use super::kept::{EvictionOrder, LIST};

#[derive(Debug, Default)]
pub(super) struct Fifo;

impl EvictionOrder for Fifo {
    fn hit(&mut self, _shelf: &mut Shelf, _slot: Slot) {}

    fn victim(&mut self, shelf: &mut Shelf) -> Option<Slot> {
        shelf.first(LIST)
    }
}
