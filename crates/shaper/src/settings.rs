//! Settings of the block device, and what they require of its devices.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use zonal_base::{Blocks, Bytes, Contents};

use crate::format::{HEADER_BLOCKS, SEGMENT_BLOCKS};
use crate::layout::{Layout, Spot};
use crate::map::{MAP_PAGE_BLOCKS, Paged};
use crate::pages::zones_for;
use crate::{Export, Tier};

/// How the block device behaves. Sizes are checked against the devices by [`Settings::check`].
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Of what the capacity tier can hold, so many percent are not given to exports. The less, the more often data are moved.
    pub spare_percent: u8,
    /// Memory that the map may take.
    pub map_memory: MapMemory,
    /// A tier is flushed at the latest after so many bytes: they are what recovery reads again to verify.
    pub flush_every: Bytes,
    /// What the memory of moved blocks holds: tags in a simulation whose devices keep no more.
    pub contents: Contents,
    /// A bug for the simulator to find.
    #[cfg(feature = "planted-bugs")]
    pub planted: Option<crate::Planted>,
}

/// How much of the map of blocks is in memory. The rest lies in zones of the capacity tier, which exports do not get then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapMemory {
    /// All of it: 4 bytes for each block of the exports.
    Whole,
    /// All of it if that is no more than this, and otherwise what this holds, all structures together.
    AtMost(Bytes),
    /// As little as can be, also where all of it would be less: for trials with small devices.
    Least,
}

/// Zones in which pages of the map lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MapPlace {
    pub(crate) tier: Tier,
    /// How many it may have.
    pub(crate) zones: u32,
    /// How many must be empty at a start.
    pub(crate) least: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            spare_percent: 10,
            map_memory: MapMemory::Whole,
            flush_every: Bytes::mib(64),
            contents: Contents::Bytes,
            #[cfg(feature = "planted-bugs")]
            planted: None,
        }
    }
}

impl Settings {
    /// Blocks of one device read at most (1 MiB): the class of buffers that reads need.
    pub const READ_BLOCKS: Blocks = Blocks(256);

    /// Writes and trims that wait for the device, in blocks: beyond it they are taken in as earlier ones leave. 64 MiB: what a
    /// drive writes in a tenth of a second; more would only make a flush wait.
    pub const QUEUE_BLOCKS: u64 = 16_384;

    /// What exports may have together.
    #[must_use]
    pub fn exportable(&self, layout: &Layout, tenant_count: u32) -> Blocks {
        let capacity = layout.capacity.geometry.zone_capacity.0;
        // Headers of full segments, and of two that are not, for each zone that was emptied into it.
        let data = capacity.saturating_sub(capacity.div_ceil(SEGMENT_BLOCKS) * HEADER_BLOCKS + 2);
        let zones = u64::from(layout.capacity.count);
        let offered = data * zones * u64::from(100 - self.spare_percent.min(100)) / 100;
        let for_map =
            self.zones_for_map((layout, Tier::Capacity), Blocks(offered), EXPORTS_MAX as u64);
        let kept = u64::from(zones_kept(layout, tenant_count, for_map) + for_map);
        Blocks(offered.min(data * zones.saturating_sub(kept)))
    }

    /// The memory of the map, if it does not hold all of it.
    pub(crate) fn paged_memory(&self, layout: &Layout, exports: &[Export]) -> Option<Bytes> {
        if !self.is_paged(exports.iter().map(|export| export.blocks.0).sum()) {
            return None;
        }
        match self.map_memory {
            MapMemory::Whole => None,
            MapMemory::AtMost(memory) => Some(memory),
            MapMemory::Least => Some(Paged::memory_min(layout, exports)),
        }
    }

    const fn is_paged(&self, blocks: u64) -> bool {
        match self.map_memory {
            MapMemory::Whole => false,
            MapMemory::AtMost(memory) => memory.0 < blocks * size_of::<Spot>() as u64,
            MapMemory::Least => true,
        }
    }

    /// Zones of the capacity tier that exports do not get, so that the map may have them.
    pub(crate) fn zones_kept_for_map(&self, layout: &Layout, exports: &[Export]) -> u32 {
        let blocks = Blocks(exports.iter().map(|export| export.blocks.0).sum());
        self.zones_for_map((layout, Tier::Capacity), blocks, exports.len() as u64)
    }

    /// Where pages of the map may lie, the better place first: on the faster device, if that has zones to spare.
    pub(crate) fn map_places(&self, layout: &Layout, exports: &[Export]) -> Vec<MapPlace> {
        let blocks = Blocks(exports.iter().map(|export| export.blocks.0).sum());
        let zones = |tier| self.zones_for_map((layout, tier), blocks, exports.len() as u64);
        let (on_buffer, on_capacity) = (zones(Tier::Buffer), zones(Tier::Capacity));
        let to_spare = match self.map_memory {
            MapMemory::Least => layout.buffer.count.saturating_sub(BUFFER_ZONES_MIN),
            _ => layout.buffer.count / MAP_SHARE,
        };
        let mut places = Vec::new();
        let may_open =
            layout.active_limit(Tier::Buffer).is_none_or(|limit| BUFFER_ACTIVE_MIN <= limit);
        if !layout.is_one_device && 0 < on_buffer && on_buffer <= to_spare && may_open {
            // All of them: what the log needs to go on is never the map's.
            let (tier, zones) = (Tier::Buffer, on_buffer);
            places.push(MapPlace { tier, zones, least: zones });
        }
        if 0 < on_capacity {
            // Less than all of them: some may have been worn out.
            let (tier, zones) = (Tier::Capacity, on_capacity);
            places.push(MapPlace { tier, zones, least: zones / 2 });
        }
        places
    }

    fn zones_for_map(&self, (layout, tier): (&Layout, Tier), blocks: Blocks, exports: u64) -> u32 {
        if !self.is_paged(blocks.0) {
            return 0;
        }
        // Each export ends with a page of its own.
        let pages = blocks.0.div_ceil(MAP_PAGE_BLOCKS) + exports;
        zones_for(pages, layout.place(tier).geometry.zone_capacity)
    }

    /// # Errors
    /// When exports or devices do not fit; the text says what would do.
    pub fn check(&self, layout: &Layout, exports: &[Export]) -> Result<(), SettingsError> {
        if !(1..=90).contains(&self.spare_percent) {
            return Err(SettingsError::Spare(self.spare_percent));
        }
        for tier in Tier::ALL {
            let place = layout.place(tier);
            let least = match tier {
                Tier::Buffer => BUFFER_ZONES_MIN,
                Tier::Capacity => CAPACITY_ZONES_MIN,
            };
            if place.count < least {
                return Err(SettingsError::TooFewZones { tier, count: place.count, least });
            }
            let least = match tier {
                Tier::Buffer => ZONE_BLOCKS_MIN,
                // A table that takes more than a zone could fill zones faster than they are emptied.
                Tier::Capacity => ZONE_BLOCKS_MIN.max(Blocks(layout.zone_table_blocks().into())),
            };
            if place.geometry.zone_capacity < least {
                return Err(SettingsError::ZoneTooSmall { tier, least });
            }
        }
        let limit = layout.active_limit(Tier::Capacity);
        let for_map = self.zones_kept_for_map(layout, exports);
        let least = 2 + u32::from(layout.is_one_device) + u32::from(0 < for_map);
        if limit.is_some_and(|limit| limit < least) {
            return Err(SettingsError::TooFewActive { least });
        }
        if u64::from(u32::MAX) <= layout.blocks() {
            return Err(SettingsError::TooLarge);
        }
        check_exports(exports)?;
        if let Some(memory) = self.paged_memory(layout, exports) {
            let least = Paged::memory_min(layout, exports);
            if memory < least {
                return Err(SettingsError::MapMemory { memory, least });
            }
        }
        let wanted = Blocks(exports.iter().map(|export| export.blocks.0).sum());
        let offered = self.exportable(layout, tenants_of(exports));
        if offered < wanted {
            return Err(SettingsError::TooMuch {
                wanted: wanted.bytes(),
                offered: offered.bytes(),
            });
        }
        Ok(())
    }
}

/// Zones of the capacity tier that are not filled with data: those that are empty before collection begins to work, one that
/// each stream has begun, and two in which what is dead gathers.
fn zones_kept(layout: &Layout, tenant_count: u32, for_map: u32) -> u32 {
    let streams = layout.streams_per_mover(tenant_count, for_map);
    collection_mark(streams) + 2 * streams + 3
}

/// Collection works while no more zones of the capacity tier are empty than this: what it keeps for itself, and one for each
/// stream of compaction.
pub(crate) const fn collection_mark(streams_per_mover: u32) -> u32 {
    COLLECTION_ZONES + streams_per_mover + 1
}

/// Empty zones that only collection may take: one to write to, one more for when a write fails.
pub(crate) const COLLECTION_ZONES: u32 = 2;

/// Of the buffer's zones the map takes at most one in so many: the smaller the buffer, the less of what is written it absorbs.
const MAP_SHARE: u32 = 8;

/// Active zones of a buffer that has the map, too: of each the one that is written, and one that the device refused.
const BUFFER_ACTIVE_MIN: u32 = 4;

/// One that is written, one to be compacted, two empty ones so that neither waits for the other.
const BUFFER_ZONES_MIN: u32 = 4;

/// Those that are kept for one tenant, and two with data.
const CAPACITY_ZONES_MIN: u32 = collection_mark(1) + 7;

/// A header and something behind it, some times over.
const ZONE_BLOCKS_MIN: Blocks = Blocks(16);

/// Names are stored with their length in one block, so there is an end to them.
pub(crate) const NAME_BYTES_MAX: usize = 64;

/// Exports that fit the table, which is one block.
pub(crate) const EXPORTS_MAX: usize = 28;

/// Blocks of an export are counted in 40 bits on flash.
pub(crate) const EXPORT_BLOCKS_MAX: u64 = 1 << 40;

pub(crate) fn tenants_of(exports: &[Export]) -> u32 {
    let is_first = |at: usize| !exports[..at].iter().any(|e| e.tenant == exports[at].tenant);
    zonal_base::low_u32((0..exports.len()).filter(|at| is_first(*at)).count())
}

fn check_exports(exports: &[Export]) -> Result<(), SettingsError> {
    if EXPORTS_MAX < exports.len() {
        return Err(SettingsError::TooManyExports);
    }
    for (at, export) in exports.iter().enumerate() {
        for name in [&export.name, &export.tenant] {
            if name.is_empty() || NAME_BYTES_MAX < name.len() {
                return Err(SettingsError::Name(name.clone()));
            }
        }
        if exports[..at].iter().any(|other| other.name == export.name) {
            return Err(SettingsError::Twice(export.name.clone()));
        }
        if export.blocks == Blocks(0) || EXPORT_BLOCKS_MAX < export.blocks.0 {
            return Err(SettingsError::Size(export.name.clone()));
        }
    }
    Ok(())
}

/// Why a block device cannot be made so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingsError {
    /// Spare space out of range.
    Spare(u8),
    /// A tier has too few zones.
    TooFewZones {
        /// Which.
        tier: Tier,
        /// What it has.
        count: u32,
        /// What it needs.
        least: u32,
    },
    /// A tier's zones hold less than a few segments, or than a table of all zones.
    ZoneTooSmall {
        /// Which.
        tier: Tier,
        /// What a zone must hold.
        least: Blocks,
    },
    /// The device lets fewer zones be active.
    TooFewActive {
        /// What it needs.
        least: u32,
    },
    /// The map cannot do with so little memory.
    MapMemory {
        /// What it may take.
        memory: Bytes,
        /// What it needs.
        least: Bytes,
    },
    /// More blocks than 32 bits can name.
    TooLarge,
    /// More exports than the table holds.
    TooManyExports,
    /// A name is empty or too long.
    Name(String),
    /// Two exports of one name.
    Twice(String),
    /// An export has no blocks, or too many.
    Size(String),
    /// The exports want more than there is.
    TooMuch {
        /// What they want together.
        wanted: Bytes,
        /// What there is.
        offered: Bytes,
    },
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spare(percent) => {
                write!(f, "{percent} % of spare space cannot be used: write 1 to 90")
            }
            Self::TooFewZones { tier, count, least } => write!(
                f,
                "the {} has {count} zones and needs {least}: use a larger device or smaller zones (zone=)",
                name_of(*tier)
            ),
            Self::ZoneTooSmall { tier, least } => write!(
                f,
                "the zones of the {} are too small: {} is the least with so many zones (zone=)",
                name_of(*tier),
                least.bytes()
            ),
            Self::TooFewActive { least } => write!(
                f,
                "the device lets too few zones be active: {least} is the least; use another device for the buffer"
            ),
            Self::MapMemory { memory, least } => write!(
                f,
                "{memory} is too little memory for the map of these exports: {} is the least, more is faster",
                Bytes(least.0.next_multiple_of(1024))
            ),
            Self::TooLarge => f.write_str("both tiers together are too large: 16TiB is the most"),
            Self::TooManyExports => write!(f, "too many exports: {EXPORTS_MAX} is the most"),
            Self::Name(name) => {
                write!(f, "the name {name:?} cannot be used: 1 to {NAME_BYTES_MAX} bytes")
            }
            Self::Twice(name) => {
                write!(f, "there are two exports of the name {name:?}: rename one")
            }
            Self::Size(name) => write!(f, "the size of {name:?} cannot be used: 4KiB to 4096TiB"),
            Self::TooMuch { wanted, offered } => write!(
                f,
                "the exports want {} together and the capacity device can offer {}: make them smaller, or leave less spare space",
                wanted.rounded(),
                offered.rounded()
            ),
        }
    }
}

impl core::error::Error for SettingsError {}

const fn name_of(tier: Tier) -> &'static str {
    match tier {
        Tier::Buffer => "buffer device",
        Tier::Capacity => "capacity device",
    }
}
