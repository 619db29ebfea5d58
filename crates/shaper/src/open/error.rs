//! Errors of opening a block device.

use alloc::string::String;
use core::fmt;

use zonal_base::{Bytes, ZoneId};
use zonal_device::DeviceError;

use crate::{BlockError, SettingsError, Tier};

/// Why the devices could not be opened. Except for [`OpenMode::Format`](crate::OpenMode::Format), a
/// failed opening loses no data. It may already have finished zones, written map pages or begun
/// repairs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// The device holds foreign data: format it if they may be lost.
    Foreign(Tier),
    /// The device has a format version that this program does not read.
    Version(Tier, u16),
    /// A later program of this version wrote features that this program does not know.
    Features(Tier, u16),
    /// It is the other tier's device, or belongs to another block device.
    Mixed(Tier),
    /// This device is blank and the other one is not: it was exchanged, or is the wrong one.
    Blank(Tier),
    /// The devices were formatted with another zone geometry.
    Shape {
        /// Number of zones of the buffer and of the capacity tier.
        zones: [u32; 2],
        /// Capacity of a zone of each.
        zone: [Bytes; 2],
    },
    /// Neither copy of the export table can be read. Without it, nothing says which blocks belong
    /// to which export.
    ExportsLost,
    /// A zone is offline, or a trim bitmap cannot be read: what it held is unknown.
    Unreadable(Tier),
    /// Flushed data are missing: the device was damaged, or exchanged for an older copy.
    Damaged(Tier, Damage),
    /// Neither tier has enough empty zones for map pages, because the whole map was in memory
    /// before. The numbers are those of the capacity tier.
    NoRoomForMap {
        /// Empty zones.
        empty: u32,
        /// Empty zones that the map needs.
        least: u32,
    },
    /// The requested size of this export is smaller than the size on the devices.
    Shrunk(String),
    /// This export belongs to another tenant on the devices.
    OtherTenant(String),
    /// The settings do not fit the exports or the devices.
    Settings(SettingsError),
    /// The tier's device failed.
    Device(Tier, DeviceError),
}

/// Which flushed data are missing or wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// A zone, by its number on the device, does not hold what was flushed to it.
    Zone(ZoneId),
    /// The zone table is missing, or is older than headers written after it.
    ZoneTable,
    /// The segment with this number was flushed, and is missing.
    Segment(u64),
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zone(zone) => write!(f, "zone {} does not hold what was flushed to it", zone.0),
            Self::ZoneTable => f.write_str("its zone table is missing or old"),
            Self::Segment(number) => write!(f, "segment {number} was flushed and is missing"),
        }
    }
}

/// A write of the start failed.
pub(super) const fn failed(error: BlockError) -> OpenError {
    match error {
        BlockError::BufferGone => OpenError::Device(Tier::Buffer, DeviceError::DeviceGone),
        BlockError::NoSpace => OpenError::Device(Tier::Capacity, DeviceError::ZoneFull),
        BlockError::ReadOnly(tier) => OpenError::Device(tier, DeviceError::DeviceReadOnly),
        _ => OpenError::Device(Tier::Capacity, DeviceError::DeviceGone),
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |tier: &Tier| match tier {
            Tier::Buffer => "buffer device",
            Tier::Capacity => "capacity device",
        };
        match self {
            Self::Foreign(tier) => write!(
                f,
                "the {} holds something that is not a block device of Zonal's: use another device, or format this one and lose what it holds",
                name(tier)
            ),
            Self::Version(tier, version) => write!(
                f,
                "the {} holds format version {version}, which this program does not read: use the program that wrote it, or format",
                name(tier)
            ),
            Self::Features(tier, features) => write!(
                f,
                "the {} was used by a later program, and has what this one does not know (features {features:#x}): use that program, or format",
                name(tier)
            ),
            Self::Mixed(tier) => write!(
                f,
                "the {} belongs to another block device, or is the other tier's: look at what is connected where",
                name(tier)
            ),
            Self::Blank(tier) => write!(
                f,
                "the {} is blank and the other one is not: connect the device that belongs to it; without it what was acknowledged is not whole",
                name(tier)
            ),
            Self::Shape { zones, zone } => write!(
                f,
                "the devices were formatted with {} zones of {} in the buffer and {} zones of {} in the capacity tier: open them so, or format",
                zones[0], zone[0], zones[1], zone[1]
            ),
            Self::ExportsLost => f.write_str(
                "the table of exports cannot be read on either device: connect the devices as they were last used together, or restore a backup",
            ),
            Self::Unreadable(tier) => write!(
                f,
                "a zone of the {} is offline, or a list of trims cannot be read, and what it held is unknown: salvaged, some blocks may be older than what was acknowledged",
                name(tier)
            ),
            Self::Damaged(tier, damage) => write!(
                f,
                "the {} is damaged, or an older copy of what it was: {damage}. Connect the devices as they were last used together; salvaged, some blocks may be older than what was acknowledged",
                name(tier)
            ),
            Self::NoRoomForMap { empty, least } => write!(
                f,
                "the map needs {least} zones of the capacity device and {empty} are empty: start with all of it in memory, and trim what is not needed before it is bounded"
            ),
            Self::Shrunk(export) => {
                write!(f, "the export {export:?} is larger than that already, and cannot shrink")
            }
            Self::OtherTenant(export) => {
                write!(f, "the export {export:?} belongs to another tenant already")
            }
            Self::Settings(error) => error.fmt(f),
            Self::Device(tier, DeviceError::DeviceReadOnly) => {
                let name = name(tier);
                write!(f, "the {name} takes no writes: if it is full or write protected, change that")
            }
            Self::Device(tier, error) => {
                write!(f, "the {} failed: {error}: look at the drive, or use another", name(tier))
            }
        }
    }
}

impl core::error::Error for OpenError {}
