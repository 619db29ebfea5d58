//! Hash index: maps object names to slots with open addressing and 32-bit cells.
//!
//! Probing is linear. A cell holds a slot and, in the bits above it, as many bits of the name as
//! fit. With 100,000 objects the tag has 15 bits, so one object in 32,768 is compared in vain. The
//! index is rebuilt when a slot needs more bits than cells reserve. Names are stored with the
//! objects, not here.

use zonal_base::index as wide;

use super::spread::NAME_BITS;

/// Number of an object's entry in the table that uses this index.
type Slot = u32;

/// Cells per four objects: a load factor of 0.8.
const CELLS_PER_4: usize = 5;

/// Minimum number of objects the index has cells for.
const OBJECTS_MIN: usize = 64;

#[derive(Debug)]
pub(super) struct Index {
    /// 0 is an empty cell. Otherwise slot plus one, with a name tag in the bits above.
    cells: Vec<u32>,
    /// Low bits of a cell that hold the slot.
    slot_bits: u32,
    count: usize,
    /// Objects that fit before the index grows.
    most: usize,
}

impl Index {
    /// An index for `objects` objects in as many slots; both may grow.
    pub(super) fn for_objects(objects: usize) -> Self {
        let most = objects.max(OBJECTS_MIN);
        // Stored slots go from 1 to `most`.
        Self::with(most, usize::BITS - most.leading_zeros())
    }

    fn with(most: usize, slot_bits: u32) -> Self {
        Self { cells: vec![0; most / 4 * CELLS_PER_4 + CELLS_PER_4], slot_bits, count: 0, most }
    }

    /// Looks up an object. `name` returns the name of the object in a slot.
    pub(super) fn find(&self, wanted: u64, name: impl Fn(Slot) -> u64) -> Option<Slot> {
        let tag = self.tag(wanted);
        let mut at = self.home(wanted);
        loop {
            let cell = self.cells[at];
            if cell == 0 {
                return None;
            }
            if self.tag_of(cell) == tag && name(self.slot(cell)) == wanted {
                return Some(self.slot(cell));
            }
            at = self.after(at);
        }
    }

    /// Requires: the object is not in the index; no other object has the slot; the slot is not
    /// `u32::MAX`.
    pub(super) fn insert(&mut self, wanted: u64, slot: Slot, name: impl Fn(Slot) -> u64) {
        if self.count == self.most {
            // Grows by only a quarter, so that few cells stay unused.
            self.rebuild(self.most + self.most / 4, self.slot_bits, &name);
        }
        let slot_bits = u32::BITS - (slot + 1).leading_zeros();
        if self.slot_bits < slot_bits {
            self.rebuild(self.most, slot_bits, &name);
        }
        self.count += 1;
        self.put(wanted, slot);
    }

    fn put(&mut self, wanted: u64, slot: Slot) {
        let mut at = self.home(wanted);
        while self.cells[at] != 0 {
            at = self.after(at);
        }
        self.cells[at] = self.tag(wanted).unbounded_shl(self.slot_bits) | (slot + 1);
    }

    fn rebuild(&mut self, most: usize, slot_bits: u32, name: impl Fn(Slot) -> u64) {
        let new = Self { count: self.count, ..Self::with(most, slot_bits) };
        let old = std::mem::replace(self, new);
        for cell in old.cells.iter().filter(|cell| **cell != 0) {
            let slot = old.slot(*cell);
            self.put(name(slot), slot);
        }
    }

    /// Requires: the object is in the index, in this slot.
    pub(super) fn remove(&mut self, wanted: u64, slot: Slot, name: impl Fn(Slot) -> u64) {
        let mut hole = self.home(wanted);
        while self.slot(self.cells[hole]) != slot {
            hole = self.after(hole);
        }
        self.count -= 1;
        // Backward-shift deletion: later cells move up unless they would precede their home.
        let mut at = hole;
        loop {
            at = self.after(at);
            let cell = self.cells[at];
            if cell == 0 {
                break;
            }
            let home = self.home(name(self.slot(cell)));
            if self.distance(hole, at) <= self.distance(home, at) {
                self.cells[hole] = cell;
                hole = at;
            }
        }
        self.cells[hole] = 0;
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.count
    }

    fn home(&self, name: u64) -> usize {
        let upper = name >> (NAME_BITS - u32::BITS);
        wide((upper * self.cells.len() as u64) >> u32::BITS)
    }

    fn after(&self, at: usize) -> usize {
        if at + 1 == self.cells.len() { 0 } else { at + 1 }
    }

    fn distance(&self, from: usize, to: usize) -> usize {
        if from <= to { to - from } else { to + self.cells.len() - from }
    }

    /// Low bits of the name. The position of the cell already encodes the high bits.
    #[expect(clippy::cast_possible_truncation, reason = "bits of a name")]
    fn tag(&self, name: u64) -> u32 {
        name as u32 & u32::MAX.unbounded_shr(self.slot_bits)
    }

    /// 0 when the slot leaves no bits for a tag.
    const fn tag_of(&self, cell: u32) -> u32 {
        cell.unbounded_shr(self.slot_bits)
    }

    fn slot(&self, cell: u32) -> Slot {
        (cell & !u32::MAX.unbounded_shl(self.slot_bits)).wrapping_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::super::spread::name;
    use super::*;

    /// Name of the object in a slot.
    const fn name_of(slot: Slot) -> u64 {
        name(slot as u64 * 3 + 1)
    }

    #[track_caller]
    fn check(index: &Index, slots: &[Slot], is_there: impl Fn(usize) -> bool) {
        for (at, slot) in slots.iter().enumerate() {
            assert_eq!(index.find(name_of(*slot), name_of), is_there(at).then_some(*slot));
        }
    }

    #[test]
    fn slots_may_be_anywhere_below_the_last() {
        let mut index = Index::for_objects(0);
        let slots: Vec<Slot> = (0..1000).map(|n| n * 77_777).chain([u32::MAX - 1]).collect();
        for (count, slot) in slots.iter().enumerate() {
            index.insert(name_of(*slot), *slot, name_of);
            check(&index, &slots, |at| at <= count);
        }
        for (at, slot) in slots.iter().enumerate().filter(|(at, _)| at % 2 == 0) {
            index.remove(name_of(*slot), *slot, name_of);
            assert_eq!(index.find(name_of(slots[at]), name_of), None);
        }
        check(&index, &slots, |at| at % 2 == 1);
    }
}
