//! Geometry of a zoned device: number of zones, their size and capacity, and the open and active zone limits.

use zonal_base::{Blocks, Bytes, Lba, ZoneId};

/// Tells whether the drive or the host keeps the write pointers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// Zoned namespace: the drive keeps every zone's state and write pointer, also over a restart.
    Zoned,
    /// Conventional namespace: the zones exist only in the host. After a restart every zone reports `Empty`. The
    /// owner finds the write pointers in the data that it had written, and restores them with
    /// [`crate::Command::Restore`]. Before that, old bytes can be read.
    Conventional,
}

/// The shape of a zoned namespace. Blocks are 4 KiB whatever the drive's own block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Zoned or conventional: tells which side keeps the write pointers.
    pub kind: DeviceKind,
    /// Number of zones on the device.
    pub zone_count: u32,
    /// Zone Size (ZSZE), in blocks: the distance between the starts of two zones.
    pub zone_size: Blocks,
    /// Zone Capacity (ZCAP), in blocks: the writable part at the front of each zone; at most `zone_size`.
    pub zone_capacity: Blocks,
    /// Maximum number of open zones. `None`: no limit. NVMe reports this limit 0's based (MOR): `hostdev` adds the
    /// one, and no other crate does.
    pub max_open_zones: Option<u32>,
    /// Maximum number of active zones, which are open or closed. `None`: no limit. (MAR + 1.)
    pub max_active_zones: Option<u32>,
}

impl Geometry {
    /// The first block of a zone (ZSLBA).
    #[must_use]
    pub const fn zone_start(&self, zone: ZoneId) -> Lba {
        Lba(zone.0 as u64 * self.zone_size.0)
    }

    /// Zone that holds a block. Requires: the block is on the device.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "asserted to be below zone_count")]
    pub const fn zone_of(&self, lba: Lba) -> ZoneId {
        let zone = lba.0 / self.zone_size.0;
        assert!(zone < self.zone_count as u64);
        ZoneId(zone as u32)
    }

    /// Offset of a block from the start of its zone, in blocks.
    #[must_use]
    pub const fn offset_in_zone(&self, lba: Lba) -> Blocks {
        Blocks(lba.0 % self.zone_size.0)
    }

    /// Bytes that the host can write to all zones together before it must reset one.
    #[must_use]
    pub const fn writable(&self) -> Bytes {
        Blocks(self.zone_capacity.0 * self.zone_count as u64).bytes()
    }

    /// All zones, in order.
    pub fn zones(&self) -> impl Iterator<Item = ZoneId> + use<> {
        (0..self.zone_count).map(ZoneId)
    }
}
