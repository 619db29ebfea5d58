//! Region map: the slot of each region, and which zones are free, open or full.

use std::collections::VecDeque;

/// Slot for a region in a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RegionSlot {
    pub(super) zone: u32,
    pub(super) slot: u32,
}

pub(super) struct Layout {
    /// Slot of each region.
    places: Vec<Option<RegionSlot>>,
    /// Per zone, the regions written to it, in write order.
    written: Vec<Vec<u32>>,
    /// Per zone, the number of regions that are still valid.
    valid: Vec<u32>,
    slots: u32,
    free: VecDeque<u32>,
    /// Open zones that no task writes to now.
    begun: Vec<u32>,
    /// Number of open zones, without the zone of the collector.
    open: u32,
    open_max: u32,
    /// Free zones that only the collector may take.
    kept_free: usize,
    full: Vec<bool>,
}

impl Layout {
    /// An empty map of `zones` zones with `slots` slots each. At most `open_max` zones are open at
    /// a time, and `kept_free` zones are for the collector.
    pub(super) fn new(
        regions: u32,
        (zones, slots): (u32, u32),
        open_max: u32,
        kept_free: u32,
    ) -> Self {
        Self {
            places: vec![None; regions as usize],
            written: vec![Vec::new(); zones as usize],
            valid: vec![0; zones as usize],
            slots,
            free: (0..zones).collect(),
            begun: Vec::new(),
            open: 0,
            open_max,
            kept_free: kept_free as usize,
            full: vec![false; zones as usize],
        }
    }

    pub(super) fn place(&self, region: u32) -> Option<RegionSlot> {
        self.places.get(region as usize).copied().flatten()
    }

    pub(super) fn free_count(&self) -> usize {
        self.free.len()
    }

    /// Takes the next slot for the caller, which writes it and calls [`Layout::give_back`]. The
    /// zone that was returned last is used first.
    pub(super) fn take_slot(&mut self) -> Option<RegionSlot> {
        let zone = match self.begun.pop() {
            Some(zone) => zone,
            None if self.open < self.open_max && self.kept_free < self.free.len() => {
                self.open += 1;
                self.free.pop_front()?
            }
            None => return None,
        };
        Some(self.next_slot(zone))
    }

    /// Takes the next slot for the collector: in `zone`, or in a free zone.
    pub(super) fn take_slot_to_move(&mut self, zone: Option<u32>) -> Option<RegionSlot> {
        let zone = zone.or_else(|| self.free.pop_front())?;
        Some(self.next_slot(zone))
    }

    fn next_slot(&self, zone: u32) -> RegionSlot {
        RegionSlot { zone, slot: zonal_base::low_u32(self.written[zone as usize].len()) }
    }

    /// Maps the region to this slot only. True when the zone is full.
    pub(super) fn put(&mut self, region: u32, place: RegionSlot) -> bool {
        if let Some(old) = self.places[region as usize].replace(place) {
            self.valid[old.zone as usize] -= 1;
        }
        self.valid[place.zone as usize] += 1;
        self.fill(region, place)
    }

    /// The slot was written but holds no valid region. True when the zone is full.
    pub(super) fn waste(&mut self, region: u32, place: RegionSlot) -> bool {
        self.fill(region, place)
    }

    fn fill(&mut self, region: u32, place: RegionSlot) -> bool {
        let written = &mut self.written[place.zone as usize];
        written.push(region);
        let is_full = self.slots as usize == written.len();
        self.full[place.zone as usize] = is_full;
        is_full
    }

    /// Returns a zone after its slot from [`Layout::take_slot`] was written.
    pub(super) fn give_back(&mut self, zone: u32) {
        if self.full[zone as usize] {
            self.open -= 1;
        } else {
            self.begun.push(zone);
        }
    }

    /// Valid regions of a zone, in slot order.
    pub(super) fn valid_in(&self, zone: u32) -> Vec<u32> {
        let written = self.written[zone as usize].iter().zip(0..);
        written
            .filter(|(region, slot)| {
                self.places[**region as usize] == Some(RegionSlot { zone, slot: *slot })
            })
            .map(|(region, _)| *region)
            .collect()
    }

    /// Picks a full zone: the first that is less than half valid by `count`, else the one with the
    /// least.
    pub(super) fn victim(&self, count: impl Fn(u32) -> u32) -> Option<u32> {
        self.least(self.slots / 2, count)
    }

    /// Picks a full zone: the first with less than `enough` by `count`, else the one with the
    /// least.
    pub(super) fn least<C: Ord>(&self, enough: C, count: impl Fn(u32) -> C) -> Option<u32> {
        let full = (0..).zip(&self.full).filter(|(_, is_full)| **is_full).map(|(zone, _)| zone);
        let counted: Vec<(C, u32)> = full.map(|zone| (count(zone), zone)).collect();
        let first = counted.iter().find(|(count, _)| *count < enough);
        first.or_else(|| counted.iter().min()).map(|(_, zone)| *zone)
    }

    pub(super) const fn slots(&self) -> u32 {
        self.slots
    }

    pub(super) fn valid_count(&self, zone: u32) -> u32 {
        self.valid[zone as usize]
    }

    /// Frees the zone and unmaps its regions.
    pub(super) fn was_reset(&mut self, zone: u32) {
        for region in self.valid_in(zone) {
            self.places[region as usize] = None;
        }
        self.valid[zone as usize] = 0;
        self.full[zone as usize] = false;
        self.written[zone as usize].clear();
        self.free.push_back(zone);
    }
}
