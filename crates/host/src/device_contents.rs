//! Device contents: identifies what is on a device before anything is written to it.
//!
//! 1. The first block of each zone tells its owner. One log anywhere makes the device a cache.
//! 2. An exception is a foreign mark, such as a file system, at the start of the device: it was
//!    written after the log.
//! 3. On a device without a log, anything but zeros is foreign data.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;

use zonal_base::{Bytes, ZoneId};
use zonal_device::DeviceKind;
use zonal_hostdev::{Content, DeviceSpec, Drive, OpenError};
use zonal_zonelog::{FirstBlock, Identity};

use crate::CHECKSUM;

/// Content of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceContents {
    /// The device is all zeros.
    Nothing,
    /// The sampled parts are zeros. The device is too large to be read completely.
    NothingSeen,
    /// A log of this program.
    Log(Formatted),
    /// A log of another format version.
    OtherVersion(u16),
    /// Foreign data; the text names them.
    Foreign(String),
}

/// A log found on a device, and how the device was divided when it was formatted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Formatted {
    /// Identity from the first zone that has one.
    pub identity: Identity,
    /// Size of the zones; `None` when no zone tells it, or the drive is zoned.
    pub zone: Option<Bytes>,
    /// A shard and its number of zones, from the mark in an empty zone.
    zones_of: Option<(u16, u32)>,
}

impl DeviceContents {
    /// Identifies the content of a device. Read-only, and safe while the device is in use.
    ///
    /// # Errors
    /// When a device without a log cannot be read.
    pub fn of(drive: &Drive) -> Result<Self, OpenError> {
        let first = drive.first_of_zones(|zone, block| match FirstBlock::read(block, CHECKSUM) {
            FirstBlock::OtherVersion(version) => Some((zone, Err(version))),
            block => block.identity().map(|identity| (zone, Ok(identity))),
        });
        let (zone, identity) = match first {
            Some((zone, Ok(identity))) => (zone, identity),
            Some((_, Err(version))) => return Ok(Self::OtherVersion(version)),
            None => {
                if bears_block_device(drive) {
                    return Ok(Self::Foreign("a part of a Zonal block device".to_owned()));
                }
                return Ok(match drive.content()? {
                    Content::Blank => Self::Nothing,
                    Content::LooksBlank => Self::NothingSeen,
                    Content::Something(what) => Self::Foreign(what),
                });
            }
        };
        // If the first zone is not the log's, it may be damaged and unreadable: then the log is
        // used without it.
        if zone != ZoneId(0)
            && let Ok(Some(mark)) = drive.foreign_mark()
        {
            return Ok(Self::Foreign(format!("{mark}, written over a cache")));
        }
        Ok(Self::Log(Formatted::of(drive, identity)))
    }
}

/// True when a zone of the device begins as a zone of the block device does.
#[must_use]
pub fn bears_block_device(drive: &Drive) -> bool {
    drive.first_of_zones(|_, block| zonal_shaper::bears_mark(block).then_some(())).is_some()
}

impl Formatted {
    fn of(drive: &Drive, identity: Identity) -> Self {
        if drive.geometry().kind == DeviceKind::Zoned {
            // A zoned drive has fixed zones, so no other size is possible.
            return Self { identity, zone: None, zones_of: None };
        }
        let marked = drive.first_of_zones(|_, block| match FirstBlock::read(block, CHECKSUM) {
            FirstBlock::Mark(mark) => {
                let zones_of = (mark.identity.shard, mark.zone_count);
                Some((mark.zone_capacity.bytes(), zones_of))
            }
            _ => None,
        });
        let (zone, zones_of) = match marked {
            Some((zone, zones_of)) => (Some(zone), Some(zones_of)),
            None => (zone_size_by_headers(drive), None),
        };
        // Zones are whole MiB: any other size was not written by this program.
        let zone = zone.filter(|zone| 0 < zone.0 && zone.0.is_multiple_of(Bytes::mib(1).0));
        Self { identity, zone, zones_of }
    }

    /// Divides the device into the zones that it was formatted with, unless its spec sets a zone
    /// size.
    ///
    /// # Errors
    /// The device has become too small for one such zone.
    pub fn in_its_zones(&self, drive: Drive, spec: &DeviceSpec) -> Result<Drive, OpenError> {
        match self.zone.filter(|_| spec.zone.is_none()) {
            Some(zone) => drive.in_zones_of(zone),
            None => Ok(drive),
        }
    }

    /// First difference between the division on the device and the requested one; `None` when they
    /// agree.
    #[must_use]
    pub fn difference(&self, drive: &Drive, shard_count: usize) -> Option<GeometryMismatch> {
        let formatted = usize::from(self.identity.shard_count);
        if formatted != shard_count {
            return Some(GeometryMismatch::Shards { formatted, wanted: shard_count });
        }
        let zone = drive.geometry().zone_capacity.bytes();
        if let Some(formatted) = self.zone.filter(|formatted| *formatted != zone) {
            return Some(GeometryMismatch::Zone { formatted, wanted: zone });
        }
        let (shard, formatted) = self.zones_of?;
        let share = drive.share(shard.into(), self.identity.shard_count.into()).ok()?;
        let now = share.zone_count;
        (now != formatted).then_some(GeometryMismatch::Size { shard, formatted, now })
    }
}

/// The zone size by the positions of the zones of the first shard, which begins at the start of the
/// device. Zones may have changed places, so the size that most of them tell counts.
fn zone_size_by_headers(drive: &Drive) -> Option<Bytes> {
    let sizes = Mutex::new(BTreeMap::<u64, u32>::new());
    let _: Option<()> = drive.first_of_zones(|zone, block| {
        if let FirstBlock::Segment(header) = FirstBlock::read(block, CHECKSUM)
            && header.identity.shard == 0
            && 0 < header.zone.0
        {
            let at = drive.geometry().zone_start(zone) - drive.geometry().zone_start(ZoneId(0));
            let size = at.bytes().0 / u64::from(header.zone.0);
            *sizes.lock().expect("no panics").entry(size).or_default() += 1;
        }
        None
    });
    let most = sizes.into_inner().expect("no panics").into_iter().max_by_key(|(_, zones)| *zones);
    most.map(|(size, _)| Bytes(size))
}

/// How the division on a device differs from the requested one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GeometryMismatch {
    /// Another number of shards.
    Shards {
        /// Shards on the device.
        formatted: usize,
        /// Requested shards.
        wanted: usize,
    },
    /// Another zone size.
    Zone {
        /// Zone size on the device.
        formatted: Bytes,
        /// Requested zone size.
        wanted: Bytes,
    },
    /// Another device size.
    Size {
        /// A shard with another number of zones.
        shard: u16,
        /// Its zones on the device.
        formatted: u32,
        /// Its zones with the present size.
        now: u32,
    },
}

impl fmt::Display for GeometryMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shards { formatted, wanted } => {
                let shards = if *formatted == 1 { "shard" } else { "shards" };
                write!(f, "was formatted for {formatted} {shards}, not {wanted}")
            }
            Self::Zone { formatted, wanted } => {
                write!(f, "was formatted with zones of {formatted}, not {wanted}")
            }
            Self::Size { shard, formatted, now } => {
                write!(f, "was formatted with {formatted} zones in shard {shard}, not {now}")
            }
        }
    }
}
