//! Room on a drive that takes overwrites: equal slots, a list of those that are free, and an order in which what
//! they hold goes. Nothing is ever cleaned or moved: what goes is overwritten.
//!
//! Uses: `base`, `policy` (its order). Knows nothing of: devices, bytes, keys, what is held.
//! It is one file.
//!
//! A *holding* is one slot or several, not necessarily side by side, and is named by its first. With an object for a
//! holding this is `chunk-lru` in place (`ZNCache`'s CLRU on a drive without zones); with a region for one, `region-fifo`
//! or `region-lru` in place (`CacheLib`'s own regions: Reg-FIFO and Reg-LRU of Z-CacheLib).
#![no_std]

extern crate alloc;

use alloc::vec::Vec;

use zonal_base::{ZoneId, low_u32};
use zonal_policy::Order;

/// See the module. A slot that was used once takes twelve bytes.
#[derive(Debug)]
pub struct Slots {
    count: u32,
    /// The slot after this one, in its holding or in the list of free ones. Slots that were never taken are not here.
    next: Vec<u32>,
    /// The first of the list of free ones.
    free: u32,
    free_count: u32,
    order: Order,
}

/// A slot's number.
pub type Slot = u32;

/// After the last slot.
const NONE: Slot = u32::MAX;

/// A drive without zones is one zone to the order.
const ALL: ZoneId = ZoneId(0);

impl Slots {
    /// So many, all of them free. Requires: fewer than 2^31.
    #[must_use]
    pub fn new(count: u32) -> Self {
        assert!(count >> 31 == 0, "{count} slots");
        Self { count, next: Vec::new(), free: NONE, free_count: count, order: Order::new(1) }
    }

    /// Those that hold nothing.
    #[must_use]
    pub const fn free_count(&self) -> u32 {
        self.free_count
    }

    /// A holding of so many slots, the newest; `None` while fewer are free: [`Slots::oldest`] is to be released then.
    /// Requires: one slot at least.
    pub fn take(&mut self, slots: u32) -> Option<Slot> {
        assert!(0 < slots, "a holding has a slot");
        if self.free_count < slots {
            return None;
        }
        self.free_count -= slots;
        let mut first = NONE;
        for _ in 0..slots {
            let slot = self.pop();
            self.next[slot as usize] = first;
            first = slot;
        }
        self.order.push_last((ALL, first));
        Some(first)
    }

    /// The holding that was taken or touched longest ago.
    #[must_use]
    pub fn oldest(&self) -> Option<Slot> {
        self.order.first().map(|(_, slot)| slot)
    }

    /// Makes a holding the newest. Requires: it is held.
    pub fn touch(&mut self, holding: Slot) {
        let was_held = self.order.remove((ALL, holding));
        debug_assert!(was_held, "{holding} holds nothing");
        self.order.push_last((ALL, holding));
    }

    /// Its slots are free again. Requires: it is held.
    pub fn release(&mut self, holding: Slot) {
        let was_held = self.order.remove((ALL, holding));
        debug_assert!(was_held, "{holding} holds nothing");
        let mut slot = holding;
        while slot != NONE {
            let next = core::mem::replace(&mut self.next[slot as usize], self.free);
            self.free = slot;
            self.free_count += 1;
            slot = next;
        }
    }

    /// The slots of a holding, itself first. Requires: it is held.
    pub fn slots_of(&self, holding: Slot) -> impl Iterator<Item = Slot> + '_ {
        let after = |slot: &Slot| Some(self.next[*slot as usize]).filter(|next| *next != NONE);
        core::iter::successors(Some(holding), after)
    }

    /// One that is free, if it is only to be taken.
    fn pop(&mut self) -> Slot {
        if self.free != NONE {
            let slot = self.free;
            self.free = self.next[slot as usize];
            return slot;
        }
        debug_assert!(self.next.len() < self.count as usize, "none is free");
        self.next.push(NONE);
        low_u32(self.next.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use alloc::collections::VecDeque;
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_was_not_touched_for_longest_goes_and_its_slots_are_taken_again() {
        let mut slots = Slots::new(3);
        let [one, two] = [slots.take(1).unwrap(), slots.take(2).unwrap()];
        assert_eq!((slots.free_count(), slots.take(1)), (0, None));
        slots.touch(one);
        assert_eq!(slots.oldest(), Some(two));
        slots.release(two);
        assert_eq!((slots.free_count(), slots.oldest()), (2, Some(one)));
        assert!(slots.take(2).is_some() && slots.take(1).is_none());
    }

    proptest! {
        #[test]
        fn a_slot_is_free_or_held_once(
            steps in prop::collection::vec((0..4u8, 1..6u32, any::<prop::sample::Index>()), 0..200),
            count in 0..20u32,
        ) {
            let mut slots = Slots::new(count);
            let mut held: VecDeque<(Slot, usize)> = VecDeque::new();
            for (step, wanted, which) in steps {
                let at = (!held.is_empty()).then(|| which.index(held.len()));
                match (step, at) {
                    (0, Some(at)) => held.remove(at).into_iter().for_each(|(slot, _)| slots.release(slot)),
                    (1, Some(at)) => {
                        let touched = held.remove(at).unwrap();
                        slots.touch(touched.0);
                        held.push_back(touched);
                    }
                    _ => match slots.take(wanted) {
                        Some(slot) => held.push_back((slot, wanted as usize)),
                        None => prop_assert!(slots.free_count() < wanted),
                    },
                }
                prop_assert_eq!(slots.oldest(), held.front().map(|(slot, _)| *slot));
                let mut used = BTreeSet::new();
                for (slot, len) in &held {
                    prop_assert_eq!(slots.slots_of(*slot).count(), *len);
                    for slot in slots.slots_of(*slot) {
                        prop_assert!(slot < count && used.insert(slot));
                    }
                }
                prop_assert_eq!(used.len() + slots.free_count() as usize, count as usize);
            }
        }
    }
}
