//! Objects in place, on a drive that takes overwrites: each takes slots of its own, and the one that was not read
//! for longest goes.
//!
//! Where objects have sizes a slot has 4 KiB, and an object takes as many as it needs, wherever they are free: what it does not
//! fill of its last is lost. Otherwise each object takes one slot.

use zonal_base::{ZoneId, low_u32};
use zonal_slots::{Slot, Slots};

use super::super::{Capacity, FlashBytes};
use super::store::Store;
use super::table::Table;

/// Slots at most: 8 TiB of them.
const SLOTS_MAX: u64 = (1 << 31) - 1;

/// A block of most drives.
const SLOT_BYTES: u64 = 4096;

/// See the module. By slot: only the first of an object is looked at.
pub(in crate::trace) struct Chunks {
    /// What a slot holds.
    slot: u64,
    count: u64,
    slots: Slots,
    table: Table,
    ids: Vec<u64>,
    /// Empty where every object counts as one.
    lens: Vec<u32>,
    was_full: bool,
    filled: u64,
}

const ALL: ZoneId = ZoneId(0);

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
        Ok(Self {
            slot,
            count,
            slots: Slots::new(low_u32(zonal_base::index(count))),
            table: Table::new(1),
            ids: Vec::new(),
            lens: Vec::new(),
            was_full: false,
            filled: 0,
        })
    }

    fn find(&self, id: u64) -> Option<Slot> {
        self.table.find(id, |(_, slot)| self.ids[slot as usize]).map(|(_, slot)| slot)
    }

    fn len(&self, slot: Slot) -> u64 {
        self.lens.get(slot as usize).map_or(1, |len| u64::from(*len))
    }

    fn forget(&mut self, slot: Slot) {
        let ids = &self.ids;
        self.table.remove(ids[slot as usize], (ALL, slot), |(_, slot)| ids[slot as usize]);
        self.slots.release(slot);
    }
}

impl Store for Chunks {
    fn read(&mut self, id: u64, len: u64) -> bool {
        let Some(slot) = self.find(id) else { return false };
        if self.len(slot) != len {
            // It will be written anew.
            self.forget(slot);
            return false;
        }
        self.slots.touch(slot);
        true
    }

    fn write(&mut self, id: u64, len: u64) {
        let slots = len.div_ceil(self.slot);
        if self.count < slots {
            return;
        }
        let slots = low_u32(zonal_base::index(slots));
        let slot = loop {
            if let Some(slot) = self.slots.take(slots) {
                break slot;
            }
            self.was_full = true;
            let oldest = self.slots.oldest().expect("what is not free is held");
            self.forget(oldest);
        };
        let at = slot as usize;
        if self.ids.len() <= at {
            self.ids.resize(at + 1, 0);
        }
        self.ids[at] = id;
        if self.slot != 1 {
            self.lens.resize(self.ids.len(), 0);
            self.lens[at] = low_u32(zonal_base::index(len));
        }
        let ids = &self.ids;
        self.table.insert(id, (ALL, slot), |(_, slot)| ids[slot as usize]);
        self.filled += len;
    }

    fn forget_object(&mut self, id: u64) {
        if let Some(slot) = self.find(id) {
            self.forget(slot);
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
    /// Panics when an object cannot be found, or a slot is lost or held twice.
    pub(super) fn check(&self) {
        let mut held = std::collections::BTreeSet::new();
        let mut objects = 0;
        for (at, id) in self.ids.iter().enumerate() {
            let slot = low_u32(at);
            if self.find(*id) != Some(slot) {
                continue;
            }
            objects += 1;
            let run: Vec<Slot> = self.slots.slots_of(slot).collect();
            assert_eq!(run.len() as u64, self.len(slot).div_ceil(self.slot));
            assert!(run.into_iter().all(|slot| held.insert(slot)));
        }
        assert_eq!(objects, self.table.len());
        assert_eq!(held.len() as u64 + u64::from(self.slots.free_count()), self.count);
    }
}
