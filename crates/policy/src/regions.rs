//! Region accounting: valid bytes and last use of each region of a zone, for the policies of regions.

use alloc::vec;
use alloc::vec::Vec;

use zonal_base::{Bytes, ZoneId, index, low_u32};

use crate::order::Spot;
use crate::{ChunkLocation, Layout};

/// The regions of all zones.
#[derive(Debug)]
pub(crate) struct Regions {
    region_bytes: u64,
    zones: Vec<Zone>,
    /// Valid bytes in all zones.
    valid_bytes: u64,
    /// Number of uses of all regions so far: the clock of `Region::used`.
    uses: u64,
}

#[derive(Clone, Debug)]
struct Zone {
    regions: Vec<Region>,
    valid_bytes: u64,
    /// Number of the region that is being written; `None` when the zone is full.
    writing: Option<u32>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Region {
    bytes: u64,
    /// Last use, as a count of uses of all regions.
    used: u64,
    is_evicted: bool,
}

impl Regions {
    /// Cuts each zone into `regions_per_zone` regions; the last may be smaller.
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

    /// The region in which a chunk begins: the chunk counts for that region as a whole.
    pub(crate) fn of(&self, place: &ChunkLocation) -> Spot {
        let number = place.offset.0 / self.region_bytes;
        (place.zone, low_u32(index(number)))
    }

    /// Valid bytes in all zones: those of regions that are not evicted.
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

    /// Records that a region has become the newest.
    pub(crate) fn note_use(&mut self, spot: Spot) {
        self.uses += 1;
        self.region_mut(spot).used = self.uses;
    }

    /// Records that a region stands beside another: it takes over the other's last use.
    pub(crate) fn note_beside(&mut self, spot: Spot, other: Spot) {
        self.region_mut(spot).used = self.region(other).used;
    }

    /// Records that a region is the next to evict.
    pub(crate) fn note_first(&mut self, spot: Spot) {
        self.region_mut(spot).used = 0;
    }

    /// Age of the region that holds a chunk: the number of uses of any region since its last use. `None`: evicted.
    pub(crate) fn age(&self, place: &ChunkLocation) -> Option<u64> {
        let region = self.region(self.of(place));
        (!region.is_evicted).then_some(self.uses - region.used)
    }

    /// Counts a chunk that was written. True when the chunk is the first valid one of its region. Chunks may be
    /// reported out of order, even after their zone was full: several writes are in flight, and complete in any order.
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

    /// Counts a chunk that is gone. True when the chunk was the last valid one of its region.
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

    /// Whether a region is completely written. The policies never evict a region that is being written.
    pub(crate) fn is_complete(&self, (zone, number): Spot) -> bool {
        self.zones[index(zone.0.into())].writing.is_none_or(|writing| number < writing)
    }

    pub(crate) fn is_evicted(&self, spot: Spot) -> bool {
        self.region(spot).is_evicted
    }

    /// Evicts a region: its bytes are not valid any more. Requires: the region is complete, and not evicted.
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

    /// Makes all regions of a zone empty. Requires: the zone's chunks were removed.
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
