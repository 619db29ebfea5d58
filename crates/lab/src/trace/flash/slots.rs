//! Slot allocator of a drive that takes overwrites: a free list, and the order of used slots.
//!
//! Slots are equal in size. Nothing is cleaned or moved: an evicted slot is overwritten. With one
//! region per slot this is `region-fifo` or `region-lru` in place (`CacheLib`'s own regions:
//! Reg-FIFO and Reg-LRU of Z-CacheLib).

use zonal_base::ZoneId;
use zonal_policy::Order;

/// Free and used slots. A slot that was used once takes eight bytes, and four more while free.
#[derive(Debug)]
pub(super) struct Slots {
    count: u32,
    /// Slots from this number on were never taken.
    taken: Slot,
    /// Slots that were taken and released.
    free: Vec<Slot>,
    order: Order,
}

/// Number of a slot.
pub(super) type Slot = u32;

/// The eviction order sees a drive without zones as one zone.
const ALL: ZoneId = ZoneId(0);

impl Slots {
    /// `count` free slots. Requires: fewer than 2^31.
    #[must_use]
    pub(super) fn new(count: u32) -> Self {
        assert!(count >> 31 == 0, "{count} slots");
        Self { count, taken: 0, free: Vec::new(), order: Order::new(1) }
    }

    /// Number of free slots.
    #[cfg(test)]
    pub(super) fn free_count(&self) -> u32 {
        self.count - self.taken + zonal_base::low_u32(self.free.len())
    }

    /// Takes a free slot and makes it the newest. `None` when all are used: the caller then
    /// releases [`Slots::oldest`].
    pub(super) fn take(&mut self) -> Option<Slot> {
        let slot = self.free.pop().or_else(|| {
            let next = self.taken;
            self.taken += u32::from(next < self.count);
            (next < self.count).then_some(next)
        })?;
        self.order.push_last((ALL, slot));
        Some(slot)
    }

    /// Slot that was taken or touched longest ago.
    #[must_use]
    pub(super) fn oldest(&self) -> Option<Slot> {
        self.order.first().map(|(_, slot)| slot)
    }

    /// Makes a slot the newest. Requires: the slot is in use.
    pub(super) fn touch(&mut self, slot: Slot) {
        let was_held = self.order.remove((ALL, slot));
        debug_assert!(was_held, "{slot} holds nothing");
        self.order.push_last((ALL, slot));
    }

    /// Frees a slot. Requires: the slot is in use.
    pub(super) fn release(&mut self, slot: Slot) {
        let was_held = self.order.remove((ALL, slot));
        debug_assert!(was_held, "{slot} holds nothing");
        self.free.push(slot);
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_was_not_touched_for_longest_goes_and_its_slot_is_taken_again() {
        let mut slots = Slots::new(2);
        let [one, two] = [slots.take().unwrap(), slots.take().unwrap()];
        assert_eq!(slots.take(), None);
        slots.touch(one);
        assert_eq!(slots.oldest(), Some(two));
        slots.release(two);
        assert_eq!((slots.oldest(), slots.take()), (Some(one), Some(two)));
    }

    proptest! {
        #[test]
        fn a_slot_is_free_or_held_once(
            steps in prop::collection::vec((0..4u8, any::<prop::sample::Index>()), 0..200),
            count in 0..20u32,
        ) {
            let mut slots = Slots::new(count);
            let mut held: VecDeque<Slot> = VecDeque::new();
            for (step, which) in steps {
                let at = (!held.is_empty()).then(|| which.index(held.len()));
                match (step, at) {
                    (0, Some(at)) => held.remove(at).into_iter().for_each(|slot| slots.release(slot)),
                    (1, Some(at)) => {
                        let touched = held.remove(at).unwrap();
                        slots.touch(touched);
                        held.push_back(touched);
                    }
                    _ => match slots.take() {
                        Some(slot) => {
                            prop_assert!(slot < count && !held.contains(&slot));
                            held.push_back(slot);
                        }
                        None => prop_assert_eq!(held.len(), count as usize),
                    },
                }
                prop_assert_eq!(slots.oldest(), held.front().copied());
                prop_assert_eq!(slots.free_count() as usize + held.len(), count as usize);
            }
        }
    }
}
