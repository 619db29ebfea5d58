//! Layout: which zones of which device belong to which tier, and the 32-bit physical address of a block.

use zonal_base::{Blocks, Lba, ZoneId, index, low_u32};
use zonal_device::Geometry;

/// One of the two parts of the block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// Takes the writes, as one log, oldest zone out first.
    Buffer,
    /// Keeps the data.
    Capacity,
}

impl Tier {
    /// Both, in the order of their numbers on flash.
    pub const ALL: [Self; 2] = [Self::Buffer, Self::Capacity];

    /// For people and programs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Buffer => "buffer",
            Self::Capacity => "capacity",
        }
    }

    /// Its number on flash.
    #[must_use]
    pub const fn id(self) -> u8 {
        match self {
            Self::Buffer => 0,
            Self::Capacity => 1,
        }
    }
}

/// The zones of a device that a tier has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneRange {
    /// Of the whole device.
    pub geometry: Geometry,
    /// The first zone.
    pub first: ZoneId,
    /// How many.
    pub count: u32,
}

/// Where the two tiers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The log that takes the writes.
    pub buffer: ZoneRange,
    /// Where the data end up.
    pub capacity: ZoneRange,
    /// True when both are zones of one device, and share its limits.
    pub is_one_device: bool,
}

impl Layout {
    /// Each tier has a device of its own, all of it.
    #[must_use]
    pub const fn two_devices(buffer: Geometry, capacity: Geometry) -> Self {
        Self { buffer: whole(buffer), capacity: whole(capacity), is_one_device: false }
    }

    /// The first `buffer_zones` zones of one device are the buffer, the rest is the capacity tier.
    /// Requires: the device has more zones than that.
    #[must_use]
    pub const fn one_device(geometry: Geometry, buffer_zones: u32) -> Self {
        assert!(buffer_zones < geometry.zone_count);
        let buffer = ZoneRange { geometry, first: ZoneId(0), count: buffer_zones };
        let count = geometry.zone_count - buffer_zones;
        let capacity = ZoneRange { geometry, first: ZoneId(buffer_zones), count };
        Self { buffer, capacity, is_one_device: true }
    }

    /// Where a tier is.
    #[must_use]
    pub const fn place(&self, tier: Tier) -> &ZoneRange {
        match tier {
            Tier::Buffer => &self.buffer,
            Tier::Capacity => &self.capacity,
        }
    }

    /// Zones of the tier's device that may be active at once. `None`: no limit.
    pub(crate) fn active_limit(&self, tier: Tier) -> Option<u32> {
        let Geometry { max_active_zones, max_open_zones, .. } = self.place(tier).geometry;
        max_active_zones.into_iter().chain(max_open_zones).min()
    }

    /// Zones that compaction writes to at once, and collection as well: one for each tenant if the device lets it.
    /// `kept`: zones that are kept for the map, of which it writes one at a time.
    pub(crate) fn streams_per_mover(&self, tenant_count: u32, kept: u32) -> u32 {
        let others = u32::from(self.is_one_device) + u32::from(0 < kept);
        let limit = self
            .active_limit(Tier::Capacity)
            .map_or(STREAMS_MAX, |max| max.saturating_sub(others) / 2);
        // Few zones: streams that hold many of them open would leave nothing to collect.
        let affordable = self.capacity.count.saturating_sub(kept) / 16;
        tenant_count.min(limit).min(affordable).clamp(1, STREAMS_MAX)
    }

    /// All that write to the capacity tier.
    pub(crate) fn stream_count(&self, tenant_count: u32, kept: u32) -> u32 {
        2 * self.streams_per_mover(tenant_count, kept)
    }

    /// Blocks of both tiers.
    pub(crate) const fn blocks(&self) -> u64 {
        self.buffer.blocks() + self.capacity.blocks()
    }

    /// Both tiers' zones have numbers in one row, the buffer's first.
    pub(crate) const fn zone_count(&self) -> u32 {
        self.buffer.count + self.capacity.count
    }

    /// The zone's tier.
    pub(crate) const fn tier_of(&self, zone: Zone) -> Tier {
        if zone.0 < self.buffer.count { Tier::Buffer } else { Tier::Capacity }
    }

    /// The zones of a tier.
    pub(crate) fn zones(&self, tier: Tier) -> impl Iterator<Item = Zone> + use<> {
        let zones = match tier {
            Tier::Buffer => 0..self.buffer.count,
            Tier::Capacity => self.buffer.count..self.zone_count(),
        };
        zones.map(Zone)
    }

    /// The zone as its device knows it.
    pub(crate) const fn zone_id(&self, zone: Zone) -> ZoneId {
        let (place, first) = match self.tier_of(zone) {
            Tier::Buffer => (&self.buffer, 0),
            Tier::Capacity => (&self.capacity, self.buffer.count),
        };
        ZoneId(place.first.0 + zone.0 - first)
    }

    /// Writable blocks of a zone.
    pub(crate) const fn zone_capacity(&self, zone: Zone) -> Blocks {
        self.place(self.tier_of(zone)).geometry.zone_capacity
    }

    /// A block of a zone as its device knows it.
    pub(crate) const fn lba(&self, zone: Zone, at: Blocks) -> Lba {
        let geometry = &self.place(self.tier_of(zone)).geometry;
        Lba(geometry.zone_start(self.zone_id(zone)).0 + at.0)
    }

    /// The name of a block. Requires: `at` lies within the zone's capacity.
    pub(crate) fn spot(&self, zone: Zone, at: Blocks) -> Spot {
        let before = match self.tier_of(zone) {
            Tier::Buffer => u64::from(zone.0) * self.buffer.geometry.zone_capacity.0,
            Tier::Capacity => {
                let zones = u64::from(zone.0 - self.buffer.count);
                self.buffer.blocks() + zones * self.capacity.geometry.zone_capacity.0
            }
        };
        Spot(low_u32(index(before + at.0 + 1)))
    }

    /// What a name stands for. Requires: it is not [`Spot::NONE`].
    pub(crate) fn locate(&self, spot: Spot) -> (Zone, Blocks) {
        assert!(spot != Spot::NONE);
        let at = u64::from(spot.0) - 1;
        let (first, at, size) = match at.checked_sub(self.buffer.blocks()) {
            None => (0, at, self.buffer.geometry.zone_capacity.0),
            Some(at) => (self.buffer.count, at, self.capacity.geometry.zone_capacity.0),
        };
        (Zone(first + low_u32(index(at / size))), Blocks(at % size))
    }
}

impl ZoneRange {
    /// Writable blocks.
    pub(crate) const fn blocks(&self) -> u64 {
        self.count as u64 * self.geometry.zone_capacity.0
    }
}

const fn whole(geometry: Geometry) -> ZoneRange {
    ZoneRange { geometry, first: ZoneId(0), count: geometry.zone_count }
}

/// Each stream has memory for a segment. More tenants than this share zones.
const STREAMS_MAX: u32 = 16;

/// A zone of either tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Zone(pub(crate) u32);

/// Where a block lies: 1 + its number among the writable blocks of both tiers, so that 4 bytes a block are enough for 16 TiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Spot(pub(crate) u32);

impl Spot {
    /// Nowhere: never written, or trimmed.
    pub(crate) const NONE: Self = Self(0);

    /// The spot that comes so many later, within one zone.
    pub(crate) const fn plus(self, blocks: u32) -> Self {
        Self(self.0 + blocks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zonal_device::DeviceKind;

    #[test]
    fn every_block_of_both_tiers_has_a_name_of_its_own() {
        let geometry = Geometry {
            kind: DeviceKind::Zoned,
            zone_count: 7,
            zone_size: Blocks(16),
            zone_capacity: Blocks(11),
            max_open_zones: None,
            max_active_zones: None,
        };
        let two = Layout::two_devices(Geometry { zone_capacity: Blocks(5), ..geometry }, geometry);
        for layout in [Layout::one_device(geometry, 2), two] {
            let mut expected = 1;
            for zone in Tier::ALL.into_iter().flat_map(|tier| layout.zones(tier)) {
                for at in 0..layout.zone_capacity(zone).0 {
                    let spot = layout.spot(zone, Blocks(at));
                    assert_eq!((spot, layout.locate(spot)), (Spot(expected), (zone, Blocks(at))));
                    expected += 1;
                }
            }
            assert_eq!(layout.blocks() + 1, u64::from(expected));
        }
        let one = Layout::one_device(geometry, 2);
        assert_eq!((one.zone_id(Zone(2)), one.lba(Zone(2), Blocks(3))), (ZoneId(2), Lba(35)));
        assert_eq!((two.zone_id(Zone(8)), two.lba(Zone(8), Blocks(3))), (ZoneId(1), Lba(19)));
    }
}
