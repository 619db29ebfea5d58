//! WD Ultrastar DC ZN540, 1 TB: the zoned drive that was measured.

use zonal_base::{Blocks, Bytes, Nanos};
use zonal_device::{Geometry, Kind};

use super::{Basis, BufferProfile, ControllerProfile, LinkProfile, NandProfile, Profile};

impl Profile {
    /// WD Ultrastar DC ZN540, 1 TB.
    #[must_use]
    pub const fn zn540() -> Self {
        Self {
            name: "zn540",
            geometry: Geometry {
                kind: Kind::Zoned,
                zone_count: 904,
                zone_size: Blocks(Bytes::mib(2048).0 / 4096),
                zone_capacity: Blocks(Bytes::mib(1077).0 / 4096),
                max_open_zones: Some(14),
                max_active_zones: Some(14),
            },
            queue_depth: 4096,
            controller: ControllerProfile {
                basis: Basis::Fitted,
                read: Nanos(2_150),
                write: Nanos(5_380),
                append: Nanos(7_570),
                round_trip: Nanos(2_500),
            },
            link: LinkProfile {
                basis: Basis::Fitted,
                read_ns_per_block: 1_558,
                write_ns_per_block: 1_758,
            },
            buffer: BufferProfile {
                basis: Basis::Fitted,
                blocks_per_stream: 240,
                drain_ns_per_block: 3_382,
                power_loss_protected: true,
            },
            nand: NandProfile {
                basis: Basis::Fitted,
                die_count: 32,
                program_blocks: 24,
                page_blocks: 8,
                program: Nanos(1_720_000),
                erase: Nanos(3_500_000),
                read: [Nanos(66_500), Nanos(66_500), Nanos(79_000)],
                transfer_ns_per_block: 9_700,
                suspend_max: Nanos(360_000),
            },
        }
    }
}
