//! Slot allocator of a drive that takes overwrites: equal slots, a free list, and the eviction order of used slots. Nothing is
//! cleaned or moved: an evicted slot is overwritten.
//!
//! With a region per slot this is `region-fifo` or `region-lru` in place (`CacheLib`'s own regions: Reg-FIFO and Reg-LRU of
//! Z-CacheLib).

use zonal_base::ZoneId;
use zonal_policy::Order;

/// See the module. A slot that was used once takes eight bytes, and four more while it is free.
#[derive(Debug)]
pub(super) struct Slots {
    count: u32,
    /// Slots from here on were never taken.
    taken: Slot,
    /// Those that were, and are free.
    free: Vec<Slot>,
    order: Order,
}

/// A slot's number.
pub(super) type Slot = u32;

/// A drive without zones is one zone to the order.
const ALL: ZoneId = ZoneId(0);

impl Slots {
    /// So many, all of them free. Requires: fewer than 2^31.
    #[must_use]
    pub(super) fn new(count: u32) -> Self {
        assert!(count >> 31 == 0, "{count} slots");
        Self { count, taken: 0, free: Vec::new(), order: Order::new(1) }
    }

    /// Those that hold nothing.
    #[cfg(test)]
    pub(super) fn free_count(&self) -> u32 {
        self.count - self.taken + zonal_base::low_u32(self.free.len())
    }

    /// One that was free, the newest of those that hold something; `None` while none is: [`Slots::oldest`] is to be released
    /// then.
    pub(super) fn take(&mut self) -> Option<Slot> {
        let slot = self.free.pop().or_else(|| {
            let next = self.taken;
            self.taken += u32::from(next < self.count);
            (next < self.count).then_some(next)
        })?;
        self.order.push_last((ALL, slot));
        Some(slot)
    }

    /// The slot that was taken or touched longest ago.
    #[must_use]
    pub(super) fn oldest(&self) -> Option<Slot> {
        self.order.first().map(|(_, slot)| slot)
    }

    /// Makes a slot the newest. Requires: it is held.
    pub(super) fn touch(&mut self, slot: Slot) {
        let was_held = self.order.remove((ALL, slot));
        debug_assert!(was_held, "{slot} holds nothing");
        self.order.push_last((ALL, slot));
    }

    /// A slot is free again. Requires: it is held.
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
