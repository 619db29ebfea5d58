//! Region store on a drive that takes overwrites: fills a region, evicts a whole region.
//!
//! Missed objects are appended to the open region. When no region is free, the oldest one is
//! evicted with all its records. An object larger than a region is not cached.

use zonal_base::{ZoneId, index};
use zonal_policy::Promotion;

use super::super::spread::name;
use super::super::{Capacity, FlashBytes};
use super::slots::{Slot, Slots};
use super::store::Store;
use super::table::Table;
use super::zone::{self, FlashZone};

/// Regions with their records, and the table that finds them.
pub(in crate::trace) struct Regions {
    promotion: Promotion,
    slots: Slots,
    /// Records of each region, by slot.
    records: Vec<FlashZone>,
    region: u64,
    /// Region being filled.
    open: Option<Slot>,
    table: Table,
    was_full: bool,
    filled: u64,
}

/// Maximum number of regions: it leaves half of the 32 bits for a record's number in its region.
const REGIONS_MAX: u32 = 1 << 16;

impl Regions {
    /// # Errors
    /// When the regions are fewer than two or too many, or their size is zero or too large.
    pub(super) fn new(
        promotion: Promotion,
        capacity: Capacity,
        count: u32,
    ) -> Result<Self, String> {
        let region = capacity.amount() / u64::from(count.max(1));
        let is_region = (1..=zone::CAPACITY_MAX).contains(&region);
        if count < 2 || !is_region || REGIONS_MAX < count {
            return Err(format!(
                "a capacity of {capacity} in {count} regions: write zones and regions=N for 2 to \
                 {REGIONS_MAX} regions, none empty and none above 4 GiB",
            ));
        }
        Ok(Self {
            promotion,
            slots: Slots::new(count),
            records: (0..count).map(|_| FlashZone::default()).collect(),
            region,
            open: None,
            table: Table::new(count),
            was_full: false,
            filled: 0,
        })
    }

    fn find(&self, name: u64) -> Option<(ZoneId, u32)> {
        let records = &self.records;
        self.table.find(name, |(zone, number)| records[index(zone.0.into())].name(number))
    }

    fn forget(&mut self, (zone, number): (ZoneId, u32)) {
        let of = &mut self.records[index(zone.0.into())];
        of.kill(number);
        let name = of.name(number);
        let records = &self.records;
        let name_of = |(zone, number): (ZoneId, u32)| records[index(zone.0.into())].name(number);
        self.table.remove(name, (zone, number), name_of);
    }

    /// Returns the open region if the record fits, otherwise another one.
    fn region_for(&mut self, len: u64) -> Slot {
        let has_room = |slot: &Slot| self.records[*slot as usize].written() + len <= self.region;
        if let Some(open) = self.open.filter(has_room) {
            return open;
        }
        loop {
            if let Some(slot) = self.slots.take() {
                self.open = Some(slot);
                return slot;
            }
            self.was_full = true;
            self.evict();
        }
    }

    fn evict(&mut self) {
        let oldest = self.slots.oldest().expect("what is not free is held");
        for number in 0..self.records[oldest as usize].count() {
            if !self.records[oldest as usize].is_dead(number) {
                self.forget((ZoneId(oldest), number));
            }
        }
        self.records[oldest as usize] = FlashZone::default();
        self.slots.release(oldest);
    }
}

impl Store for Regions {
    fn read(&mut self, id: u64, len: u64) -> bool {
        let Some(spot) = self.find(name(id)) else { return false };
        let (zone, number) = spot;
        if self.records[index(zone.0.into())].place(zone, number).len.0 != len {
            // The size changed: the object is written again.
            self.forget(spot);
            return false;
        }
        if self.promotion == Promotion::Access {
            self.slots.touch(zone.0);
        }
        true
    }

    fn write(&mut self, id: u64, len: u64) {
        if self.region < len {
            return;
        }
        let name = name(id);
        let slot = self.region_for(len);
        let number = self.records[slot as usize].push(name, len);
        let records = &self.records;
        let name_of = |(zone, number): (ZoneId, u32)| records[index(zone.0.into())].name(number);
        self.table.insert(name, (ZoneId(slot), number), name_of);
        self.filled += len;
    }

    fn forget_object(&mut self, id: u64) {
        if let Some(spot) = self.find(name(id)) {
            self.forget(spot);
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
impl Regions {
    /// Panics when a record cannot be found, or a region is lost or holds too much.
    pub(super) fn check(&mut self) {
        let (mut used, mut count) = (0, 0);
        for (zone, of) in (0..).map(ZoneId).zip(&self.records) {
            for number in (0..of.count()).filter(|number| !of.is_dead(*number)) {
                assert_eq!(self.find(of.name(number)), Some((zone, number)));
                count += 1;
            }
            assert!(of.written() <= self.region);
            used += u32::from(0 < of.count());
        }
        assert_eq!(count, self.table.len());
        assert_eq!(index((used + self.slots.free_count()).into()), self.records.len());
    }
}
