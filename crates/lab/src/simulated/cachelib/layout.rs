//! Where regions lie that are mapped to zones, and which zones are free, written to, or full.

use std::collections::VecDeque;

/// A place for a region in a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RegionSlot {
    pub(super) zone: u32,
    pub(super) slot: u32,
}

pub(super) struct Layout {
    /// Of each region.
    places: Vec<Option<RegionSlot>>,
    /// Of each zone, what was written to it, in that order.
    written: Vec<Vec<u32>>,
    /// Of each zone, those that are still there.
    valid: Vec<u32>,
    slots: u32,
    free: VecDeque<u32>,
    /// Begun, and nobody writes to them now.
    begun: Vec<u32>,
    /// Begun or written to.
    open: u32,
    open_max: u32,
    /// Free zones that only the collector may have.
    kept_free: usize,
    full: Vec<bool>,
}

impl Layout {
    /// Of so many zones with so many slots each, of which `open_max` are written to at a time, and `kept_free` are for the
    /// collector.
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

    /// The next slot of a zone, which is the caller's until it was written. The zone that was begun last goes first.
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

    /// For the collector: of `zone`, or of a free one.
    pub(super) fn take_slot_to_move(&mut self, zone: Option<u32>) -> Option<RegionSlot> {
        let zone = zone.or_else(|| self.free.pop_front())?;
        Some(self.next_slot(zone))
    }

    fn next_slot(&self, zone: u32) -> RegionSlot {
        RegionSlot { zone, slot: zonal_base::low_u32(self.written[zone as usize].len()) }
    }

    /// The region lies there now, and nowhere else. True when the zone is full.
    pub(super) fn put(&mut self, region: u32, place: RegionSlot) -> bool {
        if let Some(old) = self.places[region as usize].replace(place) {
            self.valid[old.zone as usize] -= 1;
        }
        self.valid[place.zone as usize] += 1;
        self.fill(region, place)
    }

    /// The slot was written for nothing. True when the zone is full.
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

    /// What [`Layout::take_slot`] gave was written.
    pub(super) fn give_back(&mut self, zone: u32) {
        if self.full[zone as usize] {
            self.open -= 1;
        } else {
            self.begun.push(zone);
        }
    }

    /// Regions that lie in a zone, in the order of their slots.
    pub(super) fn valid_in(&self, zone: u32) -> Vec<u32> {
        let written = self.written[zone as usize].iter().zip(0..);
        written
            .filter(|(region, slot)| {
                self.places[**region as usize] == Some(RegionSlot { zone, slot: *slot })
            })
            .map(|(region, _)| *region)
            .collect()
    }

    /// A full zone: the first of which less than half is valid by `count`, else the one with the least.
    pub(super) fn victim(&self, count: impl Fn(u32) -> u32) -> Option<u32> {
        self.least(self.slots / 2, count)
    }

    /// A full zone: the first with less than `enough` by `count`, else the one with the least.
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

    /// The zone is free. What lay in it is nowhere.
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
