//! From an object to the place of its record.

use hashbrown::HashTable;
use zonal_base::{ZoneId, mix64};

type Spot = (ZoneId, u32);

/// See the module. Zone and number share 32 bits.
pub(super) struct Table {
    slots: HashTable<u32>,
    number_bits: u32,
}

impl Table {
    pub(super) fn new(zone_count: u32) -> Self {
        Self { slots: HashTable::new(), number_bits: zone_count.leading_zeros() }
    }

    pub(super) fn find(&self, id: u64, is_it: impl Fn(Spot) -> bool) -> Option<Spot> {
        self.slots.find(mix64(id), |slot| is_it(self.spot(*slot))).map(|slot| self.spot(*slot))
    }

    pub(super) fn insert(&mut self, id: u64, spot: Spot, id_of: impl Fn(Spot) -> u64) {
        let (slot, bits) = (self.slot(spot), self.number_bits);
        self.slots.insert_unique(mix64(id), slot, |slot| mix64(id_of(spot_of(*slot, bits))));
    }

    pub(super) fn remove(&mut self, id: u64, spot: Spot) {
        let slot = self.slot(spot);
        if let Ok(entry) = self.slots.find_entry(mix64(id), |other| *other == slot) {
            entry.remove();
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    const fn slot(&self, (zone, number): Spot) -> u32 {
        zone.0 << self.number_bits | number
    }

    const fn spot(&self, slot: u32) -> Spot {
        spot_of(slot, self.number_bits)
    }
}

const fn spot_of(slot: u32, bits: u32) -> Spot {
    (ZoneId(slot >> bits), slot & ((1 << bits) - 1))
}
