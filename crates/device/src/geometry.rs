//! What a device is: zones, their size, and how many may be in use at once.

use zonal_base::{Blocks, Bytes, Lba, ZoneId};

/// Whether the drive keeps the write pointers, or we do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// The drive knows every zone's state and write pointer and keeps them over a restart.
    Zoned,
    /// Zones are only an agreement of ours on a device without any. After a restart every zone
    /// reports `Empty`; the owner finds the write pointers in what it had written and restores them
    /// ([`crate::Command::Restore`]). Old bytes can be read before that.
    Conventional,
}

/// The shape of a zoned namespace. Blocks are 4 KiB whatever the drive's own block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Who keeps the write pointers.
    pub kind: DeviceKind,
    /// Zones on the device.
    pub zone_count: u32,
    /// Zone Size (ZSZE): the distance between the starts of two zones.
    pub zone_size: Blocks,
    /// Zone Capacity (ZCAP): writable blocks at the front of each zone; at most `zone_size`.
    pub zone_capacity: Blocks,
    /// Zones that may be open at once. `None`: no limit.
    /// NVMe reports this 0's based (MOR); `hostdev` adds the one, nobody else does.
    pub max_open_zones: Option<u32>,
    /// Zones that may be open or closed at once. `None`: no limit. (MAR + 1.)
    pub max_active_zones: Option<u32>,
}

impl Geometry {
    /// The first block of a zone (ZSLBA).
    #[must_use]
    pub const fn zone_start(&self, zone: ZoneId) -> Lba {
        Lba(zone.0 as u64 * self.zone_size.0)
    }

    /// The zone that a block lies in. Requires: the block is on the device.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "asserted to be below zone_count")]
    pub const fn zone_of(&self, lba: Lba) -> ZoneId {
        let zone = lba.0 / self.zone_size.0;
        assert!(zone < self.zone_count as u64);
        ZoneId(zone as u32)
    }

    /// Where a block lies within its zone.
    #[must_use]
    pub const fn offset_in_zone(&self, lba: Lba) -> Blocks {
        Blocks(lba.0 % self.zone_size.0)
    }

    /// Bytes that can be written before a zone must be reset.
    #[must_use]
    pub const fn writable(&self) -> Bytes {
        Blocks(self.zone_capacity.0 * self.zone_count as u64).bytes()
    }

    /// All zones, in order.
    pub fn zones(&self) -> impl Iterator<Item = ZoneId> + use<> {
        (0..self.zone_count).map(ZoneId)
    }
}
