//! Slots by the numbers of their objects: open addressing, linear probing, 32 bits for each cell.
//!
//! A cell holds a slot, and above it as many bits of the hash as there is room for: with 100,000 objects that are 15, so that
//! one object in 32,768 is looked at in vain. The numbers themselves stay with the objects.

use zonal_base::index as wide;

use super::super::super::spread::spread;
use super::Slot;

/// Cells for each four objects: a load of 0.8.
const CELLS_PER_4: usize = 5;

/// Objects for which there are cells at least.
const OBJECTS_MIN: usize = 64;

#[derive(Debug)]
pub(super) struct Index {
    /// 0: empty. Otherwise a slot and one, and a tag above it.
    cells: Vec<u32>,
    /// Bits of a cell that are the slot's.
    slot_bits: u32,
    count: usize,
    /// Objects for which there are cells.
    most: usize,
}

impl Index {
    pub(super) fn for_objects(objects: usize) -> Self {
        let most = objects.max(OBJECTS_MIN);
        // Slots go from 1 to `most`.
        let slot_bits = usize::BITS - most.leading_zeros();
        Self { cells: vec![0; most / 4 * CELLS_PER_4 + CELLS_PER_4], slot_bits, count: 0, most }
    }

    /// `id` says which object stands in a slot.
    pub(super) fn find(&self, wanted: u64, id: impl Fn(Slot) -> u64) -> Option<Slot> {
        let hash = spread(wanted);
        let tag = self.tag(hash);
        let mut at = self.home(hash);
        loop {
            let cell = self.cells[at];
            if cell == 0 {
                return None;
            }
            if cell >> self.slot_bits == tag && id(self.slot(cell)) == wanted {
                return Some(self.slot(cell));
            }
            at = self.after(at);
        }
    }

    /// Requires: the object is not there yet, and its slot is below the count of objects after it.
    pub(super) fn insert(&mut self, wanted: u64, slot: Slot, id: impl Fn(Slot) -> u64) {
        if self.count == self.most {
            self.grow(&id);
        }
        self.count += 1;
        self.put(wanted, slot);
    }

    fn put(&mut self, wanted: u64, slot: Slot) {
        let hash = spread(wanted);
        let mut at = self.home(hash);
        while self.cells[at] != 0 {
            at = self.after(at);
        }
        self.cells[at] = self.tag(hash) << self.slot_bits | (slot + 1);
    }

    /// A quarter more, so that little lies idle.
    fn grow(&mut self, id: impl Fn(Slot) -> u64) {
        let grown = Self::for_objects(self.most + self.most / 4);
        let old = std::mem::replace(self, Self { count: self.count, ..grown });
        for cell in old.cells.iter().filter(|cell| **cell != 0) {
            let slot = old.slot(*cell);
            self.put(id(slot), slot);
        }
    }

    /// Requires: the object is there, in this slot.
    pub(super) fn remove(&mut self, wanted: u64, slot: Slot, id: impl Fn(Slot) -> u64) {
        let mut hole = self.home(spread(wanted));
        while self.slot(self.cells[hole]) != slot {
            hole = self.after(hole);
        }
        self.count -= 1;
        // What comes after moves up, unless it would stand before its home.
        let mut at = hole;
        loop {
            at = self.after(at);
            let cell = self.cells[at];
            if cell == 0 {
                break;
            }
            let home = self.home(spread(id(self.slot(cell))));
            if self.distance(hole, at) <= self.distance(home, at) {
                self.cells[hole] = cell;
                hole = at;
            }
        }
        self.cells[hole] = 0;
    }

    fn home(&self, hash: u64) -> usize {
        let cells = self.cells.len() as u128;
        let home = ((u128::from(hash) * cells) >> 64) as u64;
        wide(home)
    }

    fn after(&self, at: usize) -> usize {
        if at + 1 == self.cells.len() { 0 } else { at + 1 }
    }

    fn distance(&self, from: usize, to: usize) -> usize {
        if from <= to { to - from } else { to + self.cells.len() - from }
    }

    /// The low bits of the hash: the high ones are in the place of the cell already.
    #[expect(clippy::cast_possible_truncation, reason = "bits of a hash")]
    fn tag(&self, hash: u64) -> u32 {
        hash as u32 & (u32::MAX >> self.slot_bits)
    }

    fn slot(&self, cell: u32) -> Slot {
        (cell & !(u32::MAX << self.slot_bits)).wrapping_sub(1)
    }
}
