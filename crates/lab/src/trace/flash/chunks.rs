//! Objects in place, on a drive that takes overwrites: each takes slots of its own, and the one that was not read
//! for longest goes.
//!
//! Where objects have sizes a slot has 4 KiB, and an object takes as many as it needs, wherever they are free: what it does not
//! fill of its last is lost. Otherwise each object takes one slot. As any free slot is as good as another, they are only counted.

use super::super::shelf::{Shelf, Slot};
use super::super::{Capacity, FlashBytes};
use super::store::Store;
use zonal_base::{index, low_u32};

/// See the module.
pub(in crate::trace) struct Chunks {
    /// What a slot holds.
    slot: u64,
    count: u64,
    free: u64,
    shelf: Shelf,
    was_full: bool,
    filled: u64,
}

/// Slots at most: 8 TiB of them.
const SLOTS_MAX: u64 = (1 << 31) - 1;

/// A block of most drives.
const SLOT_BYTES: u64 = 4096;

/// The list in which all objects are.
const LIST: u8 = 0;

impl Chunks {
    /// # Errors
    /// When there is no room for a slot, or for too many.
    pub(super) fn new(capacity: Capacity) -> Result<Self, String> {
        let slot = match capacity {
            Capacity::Objects(_) => 1,
            Capacity::Bytes(_) => SLOT_BYTES,
        };
        let count = capacity.amount() / slot;
        if count == 0 || SLOTS_MAX < count {
            return Err(format!("room for {capacity} is {count} slots: from 1 to {SLOTS_MAX}"));
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
            // It will be written anew.
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
        self.shelf.add(id, low_u32(index(len)), LIST);
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
    /// Panics when a slot is lost or held twice.
    pub(super) fn check(&mut self) {
        let held = self.shelf.weights().map(|len| len.div_ceil(self.slot));
        assert_eq!(held.sum::<u64>() + self.free, self.count);
        self.shelf.check();
    }
}
