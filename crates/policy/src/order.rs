//! Doubly linked list over items in zones, oldest first: the FIFO and LRU order of the policies. Each item takes eight
//! bytes, however often items move.

use alloc::vec;
use alloc::vec::Vec;

use zonal_base::{ZoneId, index, low_u32};

/// Packed id of an item: its zone in the upper bits, its number within the zone in the lower bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Handle(u32);

const NONE: Handle = Handle(u32::MAX);

#[derive(Clone, Copy, Debug)]
struct Links {
    /// The item before this one. The item itself while it is not in the list.
    before: Handle,
    after: Handle,
}

/// List of items, from the one that waited longest to the newest. The links are in an array for each zone.
#[derive(Debug)]
pub struct Order {
    zones: Vec<Vec<Links>>,
    first: Handle,
    last: Handle,
    len: usize,
    number_bits: u32,
}

/// Id of an item: its zone, and its number within the zone.
pub type Spot = (ZoneId, u32);

impl Order {
    /// An empty list over items in `zone_count` zones. Requires: one zone at least.
    #[must_use]
    pub fn new(zone_count: u32) -> Self {
        Self {
            zones: vec![Vec::new(); index(u64::from(zone_count))],
            first: NONE,
            last: NONE,
            len: 0,
            number_bits: zone_count.leading_zeros(),
        }
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// The item that waited longest.
    #[must_use]
    pub fn first(&self) -> Option<Spot> {
        self.spot(self.first)
    }

    /// The newest item.
    pub(crate) fn last(&self) -> Option<Spot> {
        self.spot(self.last)
    }

    /// All items, beginning with the one that waited longest.
    pub(crate) fn spots(&self) -> impl Iterator<Item = Spot> + '_ {
        let mut at = self.first;
        core::iter::from_fn(move || {
            let spot = self.spot(at)?;
            at = self.links(at).after;
            Some(spot)
        })
    }

    pub(crate) fn contains(&self, spot: Spot) -> bool {
        let handle = self.handle(spot);
        let links = self.zones[index(spot.0.0.into())].get(spot.1 as usize);
        links.is_some_and(|links| links.before != handle)
    }

    /// Adds an item as the newest. Requires: the item is not in the list.
    pub fn push_last(&mut self, spot: Spot) {
        let handle = self.enter(spot);
        self.link(self.last, handle, NONE);
    }

    /// Adds an item as the oldest. Requires: the item is not in the list.
    pub(crate) fn push_first(&mut self, spot: Spot) {
        let handle = self.enter(spot);
        self.link(NONE, handle, self.first);
    }

    /// Adds `spot` as the next newer item after `other`. Requires: `spot` is not in the list, `other` is.
    pub(crate) fn push_after(&mut self, spot: Spot, other: Spot) {
        let (handle, other) = (self.enter(spot), self.handle(other));
        self.link(other, handle, self.links(other).after);
    }

    /// Removes an item. False when the item was not in the list.
    pub fn remove(&mut self, spot: Spot) -> bool {
        if !self.contains(spot) {
            return false;
        }
        let handle = self.handle(spot);
        let Links { before, after } = *self.links(handle);
        match before {
            NONE => self.first = after,
            before => self.links_mut(before).after = after,
        }
        match after {
            NONE => self.last = before,
            after => self.links_mut(after).before = before,
        }
        self.links_mut(handle).before = handle;
        self.len -= 1;
        true
    }

    /// Frees the memory of a zone. Requires: no item of the zone is in the list.
    pub(crate) fn forget_zone(&mut self, zone: ZoneId) {
        self.zones[index(zone.0.into())] = Vec::new();
    }

    fn enter(&mut self, spot: Spot) -> Handle {
        let handle = self.handle(spot);
        let (zone, wanted) = (index(spot.0.0.into()), spot.1 as usize + 1);
        for number in self.zones[zone].len()..wanted {
            let absent = self.handle((spot.0, low_u32(number)));
            self.zones[zone].push(Links { before: absent, after: NONE });
        }
        debug_assert!(self.links(handle).before == handle, "it is in the order");
        handle
    }

    fn link(&mut self, before: Handle, handle: Handle, after: Handle) {
        *self.links_mut(handle) = Links { before, after };
        match before {
            NONE => self.first = handle,
            before => self.links_mut(before).after = handle,
        }
        match after {
            NONE => self.last = handle,
            after => self.links_mut(after).before = handle,
        }
        self.len += 1;
    }

    fn handle(&self, (zone, number): Spot) -> Handle {
        debug_assert!(number >> self.number_bits == 0, "{number} of {zone:?}");
        Handle(zone.0 << self.number_bits | number)
    }

    fn spot(&self, handle: Handle) -> Option<Spot> {
        (handle != NONE).then(|| self.place(handle))
    }

    fn place(&self, Handle(handle): Handle) -> Spot {
        (ZoneId(handle >> self.number_bits), handle & ((1 << self.number_bits) - 1))
    }

    fn links(&self, handle: Handle) -> &Links {
        let (zone, number) = self.place(handle);
        &self.zones[index(zone.0.into())][number as usize]
    }

    fn links_mut(&mut self, handle: Handle) -> &mut Links {
        let (zone, number) = self.place(handle);
        &mut self.zones[index(zone.0.into())][number as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(order: &mut Order) -> Vec<(u32, u32)> {
        let next = || {
            let (zone, number) = order.first()?;
            order.remove((zone, number)).then_some((zone.0, number))
        };
        core::iter::from_fn(next).collect()
    }

    #[test]
    fn things_leave_in_the_order_in_which_they_stand() {
        let mut order = Order::new(3);
        order.push_last((ZoneId(2), 7));
        order.push_last((ZoneId(0), 0));
        order.push_first((ZoneId(1), 3));
        order.push_after((ZoneId(1), 4), (ZoneId(2), 7));
        assert_eq!((order.len(), order.last()), (4, Some((ZoneId(0), 0))));
        assert_eq!(drain(&mut order), [(1, 3), (2, 7), (1, 4), (0, 0)]);
        assert_eq!((order.len(), order.first()), (0, None));
    }

    #[test]
    fn what_was_removed_is_not_there() {
        let mut order = Order::new(1);
        let spot = (ZoneId(0), 5);
        assert!(!order.contains(spot) && !order.remove(spot));
        order.push_last(spot);
        order.push_last((ZoneId(0), 2));
        assert!(order.contains(spot) && order.remove(spot) && !order.contains(spot));
        assert!(!order.contains((ZoneId(0), 3)));
        order.push_last(spot);
        assert_eq!(drain(&mut order), [(0, 2), (0, 5)]);
    }
}
