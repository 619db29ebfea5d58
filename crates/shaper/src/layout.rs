//! Layout: which zones of which device belong to which tier, and the 32-bit physical address of a
//! block.

use zonal_base::{Blocks, Lba, ZoneId, index, low_u32};
use zonal_device::Geometry;

/// One of the two parts of the block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// Write buffer: takes all writes as one log, and is emptied oldest zone first.
    Buffer,
    /// Capacity tier: stores the data that compaction moved out of the buffer.
    Capacity,
}

impl Tier {
    /// Both tiers, in the order of their ids on flash.
    pub const ALL: [Self; 2] = [Self::Buffer, Self::Capacity];

    /// Name in messages and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Buffer => "buffer",
            Self::Capacity => "capacity",
        }
    }

    /// Id on flash: 0 or 1.
    #[must_use]
    pub const fn id(self) -> u8 {
        match self {
            Self::Buffer => 0,
            Self::Capacity => 1,
        }
    }
}

/// The zones of a device that belong to one tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneRange {
    /// Geometry of the whole device.
    pub geometry: Geometry,
    /// The tier's first zone.
    pub first: ZoneId,
    /// Number of consecutive zones.
    pub count: u32,
}

/// The zones of the two tiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Zones of the write buffer.
    pub buffer: ZoneRange,
    /// Zones of the capacity tier.
    pub capacity: ZoneRange,
    /// True when both tiers are zones of one device, and share its limits of active zones.
    pub is_one_device: bool,
}

impl Layout {
    /// Each tier uses all zones of its own device.
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

    /// The same devices with this many zones of the buffer and of the capacity tier. `None` if they
    /// have fewer.
    pub(crate) fn with_zones(&self, zones: [u32; 2]) -> Option<Self> {
        let [buffer, capacity] = zones;
        let fits = match self.is_one_device {
            true => buffer.checked_add(capacity)? <= self.zone_count(),
            false => buffer <= self.buffer.count && capacity <= self.capacity.count,
        };
        let first = if self.is_one_device { ZoneId(buffer) } else { self.capacity.first };
        fits.then_some(Self {
            buffer: ZoneRange { count: buffer, ..self.buffer },
            capacity: ZoneRange { first, count: capacity, ..self.capacity },
            is_one_device: self.is_one_device,
        })
    }

    /// The zones of a tier.
    #[must_use]
    pub const fn place(&self, tier: Tier) -> &ZoneRange {
        match tier {
            Tier::Buffer => &self.buffer,
            Tier::Capacity => &self.capacity,
        }
    }

    /// Maximum number of active zones of the tier's device. `None`: no limit.
    pub(crate) fn active_limit(&self, tier: Tier) -> Option<u32> {
        let Geometry { max_active_zones, max_open_zones, .. } = self.place(tier).geometry;
        max_active_zones.into_iter().chain(max_open_zones).min()
    }

    /// Zones that compaction writes to at once, and the same number for garbage collection: one for
    /// each tenant if the device's limit of active zones allows it. `kept`: zones reserved for map
    /// pages, of which one is open at a time.
    pub(crate) fn streams_per_mover(&self, tenant_count: u32, kept: u32) -> u32 {
        let others = u32::from(self.is_one_device) + u32::from(0 < kept);
        let limit = self
            .active_limit(Tier::Capacity)
            .map_or(STREAMS_MAX, |max| max.saturating_sub(others) / 2);
        // With few zones, more streams would keep so many zones open that none is left to collect.
        let affordable = self.capacity.count.saturating_sub(kept) / 16;
        tenant_count.min(limit).min(affordable).clamp(1, STREAMS_MAX)
    }

    /// Streams of compaction and garbage collection together.
    pub(crate) fn stream_count(&self, tenant_count: u32, kept: u32) -> u32 {
        2 * self.streams_per_mover(tenant_count, kept)
    }

    /// Writable blocks of both tiers.
    pub(crate) const fn blocks(&self) -> u64 {
        self.buffer.blocks() + self.capacity.blocks()
    }

    /// Zones of both tiers. They are numbered consecutively, the buffer's first.
    pub(crate) const fn zone_count(&self) -> u32 {
        self.buffer.count + self.capacity.count
    }

    /// The tier that a zone belongs to.
    pub(crate) const fn tier_of(&self, zone: Zone) -> Tier {
        if zone.0 < self.buffer.count { Tier::Buffer } else { Tier::Capacity }
    }

    /// All zones of a tier, in order.
    pub(crate) fn zones(&self, tier: Tier) -> impl Iterator<Item = Zone> + use<> {
        let zones = match tier {
            Tier::Buffer => 0..self.buffer.count,
            Tier::Capacity => self.buffer.count..self.zone_count(),
        };
        zones.map(Zone)
    }

    /// The zone's number on its device.
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

    /// Device LBA of a block in a zone.
    pub(crate) const fn lba(&self, zone: Zone, at: Blocks) -> Lba {
        let geometry = &self.place(self.tier_of(zone)).geometry;
        Lba(geometry.zone_start(self.zone_id(zone)).0 + at.0)
    }

    /// Physical address of a block. Requires: `at` lies within the zone's capacity.
    pub(crate) fn spot(&self, zone: Zone, at: Blocks) -> PhysAddr {
        let before = match self.tier_of(zone) {
            Tier::Buffer => u64::from(zone.0) * self.buffer.geometry.zone_capacity.0,
            Tier::Capacity => {
                let zones = u64::from(zone.0 - self.buffer.count);
                self.buffer.blocks() + zones * self.capacity.geometry.zone_capacity.0
            }
        };
        PhysAddr(low_u32(index(before + at.0 + 1)))
    }

    /// Zone and offset of a physical address. Requires: it is not [`PhysAddr::NONE`].
    pub(crate) fn locate(&self, spot: PhysAddr) -> (Zone, Blocks) {
        assert!(spot != PhysAddr::NONE);
        let at = u64::from(spot.0) - 1;
        let (first, at, size) = match at.checked_sub(self.buffer.blocks()) {
            None => (0, at, self.buffer.geometry.zone_capacity.0),
            Some(at) => (self.buffer.count, at, self.capacity.geometry.zone_capacity.0),
        };
        (Zone(first + low_u32(index(at / size))), Blocks(at % size))
    }
}

impl ZoneRange {
    /// Writable blocks of all zones.
    pub(crate) const fn blocks(&self) -> u64 {
        self.count as u64 * self.geometry.zone_capacity.0
    }
}

const fn whole(geometry: Geometry) -> ZoneRange {
    ZoneRange { geometry, first: ZoneId(0), count: geometry.zone_count }
}

/// Maximum number of streams per mover, because each has a segment of memory. More tenants share
/// zones.
const STREAMS_MAX: u32 = 16;

/// A zone of either tier, numbered over both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Zone(pub(crate) u32);

/// Physical address of a block: 1 + its index among the writable blocks of both tiers. Four bytes
/// per block are enough for 16 TiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PhysAddr(pub(crate) u32);

impl PhysAddr {
    /// No address: the block was never written, or was trimmed.
    pub(crate) const NONE: Self = Self(0);

    /// The address this many blocks later, within one zone.
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
                    assert_eq!(
                        (spot, layout.locate(spot)),
                        (PhysAddr(expected), (zone, Blocks(at)))
                    );
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
