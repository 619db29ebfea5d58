//! CLOCK eviction (second chance): FIFO that spares objects read since they were last examined.
//!
//! A spared object loses its mark and becomes the newest.

use super::super::shelf::{Shelf, Slot};
use super::kept::{EvictionOrder, LIST};

#[derive(Debug, Default)]
pub(super) struct Clock;

const TOUCHED: u8 = 1;

impl EvictionOrder for Clock {
    fn hit(&mut self, shelf: &mut Shelf, slot: Slot) {
        shelf.set_mark(slot, TOUCHED);
    }

    fn victim(&mut self, shelf: &mut Shelf) -> Option<Slot> {
        loop {
            let oldest = shelf.first(LIST)?;
            if shelf.mark(oldest) != TOUCHED {
                return Some(oldest);
            }
            shelf.set_mark(oldest, 0);
            shelf.move_to(oldest, LIST);
        }
    }
}
