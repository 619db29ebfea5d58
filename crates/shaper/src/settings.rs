//! Settings of the block device, and what they require of its devices.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use zonal_base::{Blocks, Bytes, Contents};

use crate::format::front_blocks;
use crate::layout::Layout;
use crate::map::{EntryForm, Paged, page_count};
use crate::pages::zones_for;
use crate::{Export, Tier};

/// Behaviour of the block device. [`Settings::check`] checks sizes against the devices.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Over-provisioning: percentage of the capacity tier that exports cannot use. Less means more
    /// moves.
    pub spare_percent: u8,
    /// Memory for the L2P map.
    pub map_memory: MapMemory,
    /// Each tier is flushed at least after this many written bytes. They bound the data that
    /// recovery must verify.
    pub flush_every: Bytes,
    /// Content of the buffers for moves: tags in a simulation whose devices keep no more.
    pub contents: Contents,
    /// A bug for the simulator to find.
    #[cfg(feature = "planted-bugs")]
    pub planted: Option<crate::Mutation>,
}

/// How much of the L2P map is in memory. The rest lies on flash, in zones of the buffer or capacity
/// tier. Exports lose capacity for it in both cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapMemory {
    /// The whole map: 8 bytes for each block of the exports, 4 for exports that are not verified.
    Whole,
    /// The whole map if it fits this many bytes. Otherwise a paged map that uses this much, with
    /// all its structures.
    AtMost(Bytes),
    /// The least possible, even where the whole map would be smaller: for tests with small devices.
    Least,
}

/// Zones that hold map pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MapPlace {
    pub(crate) tier: Tier,
    /// Maximum number of zones.
    pub(crate) zones: u32,
    /// Zones that must be empty at a start.
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
    /// Maximum length of one read (1 MiB), in blocks: the class of buffers that reads need.
    pub const READ_BLOCKS: Blocks = Blocks(256);

    /// Queue limit of writes and trims that wait for the device, in blocks; beyond it, requests
    /// wait until earlier ones complete. 64 MiB is what a drive writes in a tenth of a second. More
    /// would only delay flushes.
    pub const QUEUE_BLOCKS: u64 = 16_384;

    /// Capacity that exports may have together.
    #[must_use]
    pub fn exportable(&self, layout: &Layout, tenant_count: u32) -> Blocks {
        let capacity = layout.capacity.geometry.zone_capacity.0;
        // Without the fronts of full segments, those of two shorter ones for each zone that was
        // emptied into it, and the headers that repeat the last ones.
        let data = capacity.saturating_sub(front_blocks(capacity) + 4);
        let zones = u64::from(layout.capacity.count);
        let offered = data * zones * u64::from(100 - self.spare_percent.min(100)) / 100;
        // The exports are not known yet: all may be verified.
        let form = EntryForm::Checked;
        let for_map = match self.is_paged(offered * form.bytes() as u64) {
            true => {
                let pages = form.pages(offered) + EXPORTS_MAX as u64;
                zones_for(pages, layout.capacity.geometry.zone_capacity)
            }
            false => 0,
        };
        let kept = u64::from(zones_kept(layout, tenant_count, for_map) + for_map);
        Blocks(offered.min(data * zones.saturating_sub(kept)))
    }

    /// Memory limit of the paged map; `None` if the whole map is in memory.
    pub(crate) fn paged_memory(&self, layout: &Layout, exports: &[Export]) -> Option<Bytes> {
        if !self.is_paged(map_bytes(exports)) {
            return None;
        }
        match self.map_memory {
            MapMemory::Whole => None,
            MapMemory::AtMost(memory) => Some(memory),
            MapMemory::Least => Some(Paged::memory_min(layout, exports)),
        }
    }

    /// True if a map of this many bytes is paged.
    const fn is_paged(&self, map_bytes: u64) -> bool {
        match self.map_memory {
            MapMemory::Whole => false,
            MapMemory::AtMost(memory) => memory.0 < map_bytes,
            MapMemory::Least => true,
        }
    }

    /// Capacity zones that exports cannot use, reserved for map pages.
    pub(crate) fn zones_kept_for_map(&self, layout: &Layout, exports: &[Export]) -> u32 {
        self.zones_for_map((layout, Tier::Capacity), exports)
    }

    /// Possible places for map pages, the preferred one first: the faster buffer device, if it has
    /// zones to spare.
    pub(crate) fn map_places(&self, layout: &Layout, exports: &[Export]) -> Vec<MapPlace> {
        let zones = |tier| self.zones_for_map((layout, tier), exports);
        let (on_buffer, on_capacity) = (zones(Tier::Buffer), zones(Tier::Capacity));
        let to_spare = match self.map_memory {
            MapMemory::Least => layout.buffer.count.saturating_sub(BUFFER_ZONES_MIN),
            _ => layout.buffer.count / MAP_SHARE,
        };
        let mut places = Vec::new();
        let may_open =
            layout.active_limit(Tier::Buffer).is_none_or(|limit| BUFFER_ACTIVE_MIN <= limit);
        if !layout.is_one_device && 0 < on_buffer && on_buffer <= to_spare && may_open {
            // All of its zones must be empty, so that the map never uses zones that the log needs.
            let (tier, zones) = (Tier::Buffer, on_buffer);
            places.push(MapPlace { tier, zones, least: zones });
        }
        if 0 < on_capacity {
            // Fewer than all: some may have worn out.
            let (tier, zones) = (Tier::Capacity, on_capacity);
            places.push(MapPlace { tier, zones, least: zones / 2 });
        }
        places
    }

    fn zones_for_map(&self, (layout, tier): (&Layout, Tier), exports: &[Export]) -> u32 {
        if !self.is_paged(map_bytes(exports)) {
            return 0;
        }
        zones_for(page_count(exports), layout.place(tier).geometry.zone_capacity)
    }

    /// Checks the settings against the devices and the exports.
    ///
    /// # Errors
    /// When they do not fit; the text says what would.
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
                // A larger zone table could fill zones faster than they are emptied.
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

/// Capacity zones that are not filled with data: those that are empty when garbage collection
/// begins (one more than [`collection_mark`]), one open zone for each stream, and two that collect
/// dead blocks.
fn zones_kept(layout: &Layout, tenant_count: u32, for_map: u32) -> u32 {
    let streams = layout.streams_per_mover(tenant_count, for_map);
    collection_mark(streams) + 2 * streams + 3
}

/// Garbage collection works while at most this many capacity zones are empty: its own reserve, one
/// for each compaction stream, and one more.
pub(crate) const fn collection_mark(streams_per_mover: u32) -> u32 {
    COLLECTION_ZONES + streams_per_mover + 1
}

/// Empty zones reserved for garbage collection: one to write to, and a spare for a failed write.
pub(crate) const COLLECTION_ZONES: u32 = 2;

/// The map may use one in this many of the buffer's zones. A smaller buffer absorbs fewer
/// overwrites.
const MAP_SHARE: u32 = 8;

/// Active zones of a buffer device that also holds the map: for the log and the map each the one
/// being written, and one that refused a write.
const BUFFER_ACTIVE_MIN: u32 = 4;

/// One being written, one being compacted, and two empty ones so that neither waits for the other.
const BUFFER_ZONES_MIN: u32 = 4;

/// The zones kept for one tenant, and two with data.
const CAPACITY_ZONES_MIN: u32 = collection_mark(1) + 7;

/// Room for a header and data several times over.
const ZONE_BLOCKS_MIN: Blocks = Blocks(16);

/// Maximum length of an export or tenant name, in bytes: all names must fit the one-block export
/// table.
pub(crate) const NAME_BYTES_MAX: usize = 64;

/// Maximum number of exports: they must fit the export table, which is one block.
pub(crate) const EXPORTS_MAX: usize = 28;

/// Maximum size of an export, in blocks: block numbers have 40 bits on flash.
pub(crate) const EXPORT_BLOCKS_MAX: u64 = 1 << 40;

/// Bytes of the whole map.
fn map_bytes(exports: &[Export]) -> u64 {
    exports.iter().map(|export| export.blocks.0 * EntryForm::of(export).bytes() as u64).sum()
}

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

/// Why settings do not fit the exports or the devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingsError {
    /// Spare space out of range, in percent.
    Spare(u8),
    /// A tier has too few zones.
    TooFewZones {
        /// The tier.
        tier: Tier,
        /// Zones it has.
        count: u32,
        /// Zones it needs.
        least: u32,
    },
    /// A tier's zones are too small for a few segments, or for the zone table.
    ZoneTooSmall {
        /// The tier.
        tier: Tier,
        /// Minimum capacity of a zone.
        least: Blocks,
    },
    /// The capacity device allows too few active zones.
    TooFewActive {
        /// Active zones needed.
        least: u32,
    },
    /// The memory limit is too low for the map.
    MapMemory {
        /// Configured limit.
        memory: Bytes,
        /// Minimum limit.
        least: Bytes,
    },
    /// More blocks than a 32-bit physical address can name.
    TooLarge,
    /// More exports than the export table holds.
    TooManyExports,
    /// This name is empty or too long.
    Name(String),
    /// Two exports have this name.
    Twice(String),
    /// The size of this export is zero or too large.
    Size(String),
    /// The exports are larger than the capacity tier allows.
    TooMuch {
        /// Bytes requested by all exports.
        wanted: Bytes,
        /// Bytes available.
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
