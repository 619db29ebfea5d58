//! Record table: maps object names to zone and record number.

use zonal_base::ZoneId;

use super::super::index::Index;

type Spot = (ZoneId, u32);

/// Map from names to records. Zone and number share 32 bits, with the zone in the lower ones, so
/// that bits unused by numbers are left to the index as tags.
pub(super) struct Table {
    index: Index,
    zone_bits: u32,
}

impl Table {
    pub(super) fn new(zone_count: u32) -> Self {
        let zone_bits = u32::BITS - zone_count.saturating_sub(1).leading_zeros();
        Self { index: Index::for_objects(0), zone_bits }
    }

    pub(super) fn find(&self, name: u64, name_of: impl Fn(Spot) -> u64) -> Option<Spot> {
        self.index.find(name, |slot| name_of(self.spot(slot))).map(|slot| self.spot(slot))
    }

    /// Requires: the object is absent.
    pub(super) fn insert(&mut self, name: u64, spot: Spot, name_of: impl Fn(Spot) -> u64) {
        let (slot, bits) = (self.slot(spot), self.zone_bits);
        self.index.insert(name, slot, |slot| name_of(spot_of(slot, bits)));
    }

    /// Requires: the object is present.
    pub(super) fn remove(&mut self, name: u64, spot: Spot, name_of: impl Fn(Spot) -> u64) {
        let (slot, bits) = (self.slot(spot), self.zone_bits);
        self.index.remove(name, slot, |slot| name_of(spot_of(slot, bits)));
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    const fn slot(&self, (zone, number): Spot) -> u32 {
        number << self.zone_bits | zone.0
    }

    const fn spot(&self, slot: u32) -> Spot {
        spot_of(slot, self.zone_bits)
    }
}

const fn spot_of(slot: u32, bits: u32) -> Spot {
    (ZoneId(slot & ((1 << bits) - 1)), slot >> bits)
}
