//! Slot store with LRU eviction, on a drive that takes overwrites.
//!
//! With byte capacities a slot has 4 KiB, and an object takes as many free slots as it needs,
//! anywhere; the unused rest of its last slot is lost. Otherwise each object takes one slot. All
//! free slots are equal, so only their number is stored.

use super::super::shelf::{Shelf, Slot};
use super::super::{Capacity, FlashBytes};
use super::store::Store;
/// Objects in slots, evicted in LRU order.
pub(in crate::trace) struct Chunks {
    /// Slot size in units of the capacity: 1 object, or 4096 bytes.
    slot: u64,
    count: u64,
    free: u64,
    shelf: Shelf,
    was_full: bool,
    filled: u64,
}

/// Maximum number of slots: 8 TiB of 4 KiB.
const SLOTS_MAX: u64 = (1 << 31) - 1;

/// Slot size in bytes: the block size of most drives.
const SLOT_BYTES: u64 = 4096;

/// Number of the only list.
const LIST: u8 = 0;

impl Chunks {
    /// # Errors
    /// When the capacity is less than a slot, or more than the maximum number of slots.
    pub(super) fn new(capacity: Capacity) -> Result<Self, String> {
        let slot = match capacity {
            Capacity::Objects(_) => 1,
            Capacity::Bytes(_) => SLOT_BYTES,
        };
        let count = capacity.amount() / slot;
        if count == 0 || SLOTS_MAX < count {
            return Err(format!(
                "a capacity of {capacity} is {count} slots: 1 to {SLOTS_MAX} are allowed"
            ));
        }
        let shelf = Shelf::new(capacity, count);
        Ok(Self { slot, count, free: count, shelf, was_full: false, filled: 0 })
    }

    fn forget(&mut self, object: Slot) {
        self.free += self.shelf.weight(object).div_ceil(self.slot);
        self.shelf.remove(object);
    }
}

impl Store for Chunks {
    fn read(&mut self, id: u64, len: u64) -> bool {
        let Some(object) = self.shelf.find(id) else { return false };
        if self.shelf.weight(object) != len {
            // The size changed: the object is written again.
            self.forget(object);
            return false;
        }
        self.shelf.move_to(object, LIST);
        true
    }

    fn write(&mut self, id: u64, len: u64) {
        let slots = len.div_ceil(self.slot);
        if self.count < slots {
            return;
        }
        while self.free < slots {
            self.was_full = true;
            let oldest = self.shelf.first(LIST).expect("what is not free is held");
            self.forget(oldest);
        }
        self.free -= slots;
        self.shelf.add(id, len, LIST);
        self.filled += len;
    }

    fn forget_object(&mut self, id: u64) {
        if let Some(object) = self.shelf.find(id) {
            self.forget(object);
        }
    }

    fn was_full(&self) -> bool {
        self.was_full
    }

    fn written(&self) -> FlashBytes {
        FlashBytes { filled: self.filled, moved: 0 }
    }
}

#[cfg(test)]
impl Chunks {
    /// Panics when a slot is lost or used twice.
    pub(super) fn check(&mut self) {
        let held = self.shelf.weights().map(|len| len.div_ceil(self.slot));
        assert_eq!(held.sum::<u64>() + self.free, self.count);
        self.shelf.check();
    }
}
