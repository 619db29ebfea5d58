//! Zones cut into regions, and what is valid of each.

use alloc::vec;
use alloc::vec::Vec;

use zonal_base::{Bytes, ZoneId, index, low_u32};

use crate::order::Spot;
use crate::{ChunkLocation, Layout, ZoneFacts};

/// See the module.
#[derive(Debug)]
pub(crate) struct Regions {
    region_bytes: u64,
    zones: Vec<Zone>,
    /// Of all zones.
    valid_bytes: u64,
    /// Uses of regions, counted.
    uses: u64,
}

#[derive(Clone, Debug)]
struct Zone {
    regions: Vec<Region>,
    valid_bytes: u64,
    /// The region that is being written; `None` when the zone is full.
    writing: Option<u32>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Region {
    bytes: u64,
    /// Number of its last use.
    used: u64,
    is_evicted: bool,
}

impl Regions {
    /// Zones of so many regions; the last may be smaller.
    pub(crate) fn new(layout: &Layout, regions_per_zone: u32) -> Self {
        let zone = Zone {
            regions: vec![Region::default(); index(regions_per_zone.into())],
            valid_bytes: 0,
            writing: Some(0),
        };
        Self {
            region_bytes: layout.zone_capacity.0.div_ceil(regions_per_zone.into()),
            zones: vec![zone; index(layout.zone_count.into())],
            valid_bytes: 0,
            uses: 0,
        }
    }

    /// The region in which a chunk begins.
    pub(crate) fn of(&self, place: &ChunkLocation) -> Spot {
        let number = place.offset.0 / self.region_bytes;
        (place.zone, low_u32(index(number)))
    }

    /// Valid bytes in all zones.
    pub(crate) const fn valid_bytes(&self) -> Bytes {
        Bytes(self.valid_bytes)
    }

    /// Valid bytes of a zone.
    pub(crate) fn zone_valid_bytes(&self, zone: ZoneId) -> u64 {
        self.zones[index(zone.0.into())].valid_bytes
    }

    pub(crate) fn region_valid_bytes(&self, spot: Spot) -> u64 {
        let region = self.region(spot);
        if region.is_evicted { 0 } else { region.bytes }
    }

    /// A region has become the newest.
    pub(crate) fn note_use(&mut self, spot: Spot) {
        self.uses += 1;
        self.region_mut(spot).used = self.uses;
    }

    /// A region stands beside another now.
    pub(crate) fn note_beside(&mut self, spot: Spot, other: Spot) {
        self.region_mut(spot).used = self.region(other).used;
    }

    /// A region goes before all others.
    pub(crate) fn note_first(&mut self, spot: Spot) {
        self.region_mut(spot).used = 0;
    }

    /// How many uses of any region came after the last of the one in which a chunk lies.
    pub(crate) fn age(&self, place: &ChunkLocation) -> Option<u64> {
        let region = self.region(self.of(place));
        (!region.is_evicted).then_some(self.uses - region.used)
    }

    /// Counts a chunk that was written. True when it is the first valid one of its region. It may come after
    /// chunks behind it, and after its zone was full: who writes several at a time hears of them in any order.
    pub(crate) fn insert(&mut self, place: &ChunkLocation) -> bool {
        let spot = self.of(place);
        let zone = &mut self.zones[index(place.zone.0.into())];
        zone.writing = zone.writing.map(|writing| writing.max(spot.1));
        let region = &mut zone.regions[spot.1 as usize];
        region.bytes += place.len.0;
        if region.is_evicted {
            return false;
        }
        zone.valid_bytes += place.len.0;
        self.valid_bytes += place.len.0;
        region.bytes == place.len.0
    }

    /// Counts a chunk that is gone. True when it was the last valid one of its region.
    pub(crate) fn remove(&mut self, place: &ChunkLocation) -> bool {
        let spot = self.of(place);
        let zone = &mut self.zones[index(place.zone.0.into())];
        let region = &mut zone.regions[spot.1 as usize];
        region.bytes -= place.len.0;
        if !region.is_evicted {
            zone.valid_bytes -= place.len.0;
            self.valid_bytes -= place.len.0;
        }
        region.bytes == 0 && !region.is_evicted
    }

    /// A region that is being written is nobody's to evict.
    pub(crate) fn is_complete(&self, (zone, number): Spot) -> bool {
        self.zones[index(zone.0.into())].writing.is_none_or(|writing| number < writing)
    }

    pub(crate) fn is_evicted(&self, spot: Spot) -> bool {
        self.region(spot).is_evicted
    }

    /// Requires: it is complete, and not evicted.
    pub(crate) fn evict(&mut self, (zone, number): Spot) {
        let zone = &mut self.zones[index(zone.0.into())];
        let region = &mut zone.regions[number as usize];
        region.is_evicted = true;
        zone.valid_bytes -= region.bytes;
        self.valid_bytes -= region.bytes;
    }

    pub(crate) fn seal(&mut self, zone: ZoneId) {
        self.zones[index(zone.0.into())].writing = None;
    }

    /// Requires: its chunks were removed.
    pub(crate) fn empty(&mut self, zone: ZoneId) {
        let zone = &mut self.zones[index(zone.0.into())];
        debug_assert!(zone.valid_bytes == 0);
        zone.regions.fill(Region::default());
        zone.writing = Some(0);
    }

    fn region_mut(&mut self, (zone, number): Spot) -> &mut Region {
        &mut self.zones[index(zone.0.into())].regions[number as usize]
    }

    fn region(&self, (zone, number): Spot) -> Region {
        self.zones[index(zone.0.into())].regions[number as usize]
    }
}

/// The candidate with the least to write again, `of` them and of what is pinned; of several, the lowest zone.
pub(crate) fn least<const N: usize>(
    candidates: &[ZoneFacts],
    of: impl Fn(ZoneId) -> [u64; N],
) -> Option<ZoneId> {
    let cost =
        |facts: &&ZoneFacts| (of(facts.zone).map(|bytes| bytes + facts.pinned.0), facts.zone);
    candidates.iter().min_by_key(cost).map(|facts| facts.zone)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{chunk, layout};

    #[test]
    fn a_chunk_that_comes_late_does_not_open_its_zone_again() {
        let mut regions = Regions::new(&layout(1, 4), 4);
        regions.insert(&chunk(0, 3));
        regions.seal(ZoneId(0));
        regions.insert(&chunk(0, 2));
        assert!((0..4).all(|number| regions.is_complete((ZoneId(0), number))));
    }

    #[test]
    fn a_chunk_that_comes_after_its_region_was_evicted_is_not_valid() {
        let mut regions = Regions::new(&layout(1, 4), 2);
        for number in [0, 2] {
            assert!(regions.insert(&chunk(0, number)));
        }
        regions.evict((ZoneId(0), 0));
        assert!(!regions.insert(&chunk(0, 1)));
        assert_eq!(regions.valid_bytes(), Bytes(1));
        [0, 1, 2].into_iter().for_each(|number| {
            regions.remove(&chunk(0, number));
        });
        assert_eq!((regions.valid_bytes(), regions.zone_valid_bytes(ZoneId(0))), (Bytes(0), 0));
    }
}
