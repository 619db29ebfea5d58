//! Device contents: what is on a device, before anything is written to it.
//!
//! 1. The first block of a zone tells whose it is. One log anywhere makes the device a log's.
//! 2. Unless somebody has put a file system or the like over its front since.
//! 3. On a device without a log, anything but zeros is somebody's.

use std::fmt;

use zonal_base::{Bytes, ZoneId};
use zonal_device::DeviceKind;
use zonal_hostdev::{Content, DeviceSpec, Drive, OpenError};
use zonal_zonelog::{FirstBlock, Identity};

use crate::CHECKSUM;

/// What a device holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holds {
    /// Nothing: it is all zeros.
    Nothing,
    /// Nothing where we looked: it is too large to be read whole.
    NothingSeen,
    /// A log of ours.
    Log(Formatted),
    /// A log of another version of the format.
    OtherVersion(u16),
    /// Something else; the text names it.
    Foreign(String),
}

/// A log, and how the device was divided when it was formatted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Formatted {
    /// Of the first zone that tells.
    pub identity: Identity,
    /// Size of the zones; `None` when no zone tells.
    pub zone: Option<Bytes>,
    /// A shard and its zones, as an empty zone of it tells.
    zones_of: Option<(u16, u32)>,
}

impl Holds {
    /// Looks at a device. Nothing is changed, and it may be in use.
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
                    return Ok(Self::Foreign("a part of a block device of Zonal's".to_owned()));
                }
                return Ok(match drive.content()? {
                    Content::Blank => Self::Nothing,
                    Content::LooksBlank => Self::NothingSeen,
                    Content::Something(what) => Self::Foreign(what),
                });
            }
        };
        // A front that is not ours may be damaged, and cannot be read then: the log does without it.
        if zone != ZoneId(0)
            && let Ok(Some(mark)) = drive.foreign_mark()
        {
            return Ok(Self::Foreign(format!("{mark}, which was put over a cache")));
        }
        Ok(Self::Log(Formatted::of(drive, identity)))
    }
}

/// True when a zone of the device begins as those of a block device do.
#[must_use]
pub fn bears_block_device(drive: &Drive) -> bool {
    drive.first_of_zones(|_, block| zonal_shaper::bears_mark(block).then_some(())).is_some()
}

impl Formatted {
    fn of(drive: &Drive, identity: Identity) -> Self {
        if drive.geometry().kind == DeviceKind::Zoned {
            // Its zones are the drive's own: nobody could have agreed on others.
            return Self { identity, zone: None, zones_of: None };
        }
        let told = drive.first_of_zones(|zone, block| match FirstBlock::read(block, CHECKSUM) {
            FirstBlock::Mark(mark) => {
                let zones_of = (mark.identity.shard, mark.zone_count);
                Some((mark.zone_capacity.bytes(), Some(zones_of)))
            }
            // The first shard begins with the device: where one of its zones lies tells their size.
            FirstBlock::Segment(header) if header.identity.shard == 0 && 0 < header.zone.0 => {
                let at = drive.geometry().zone_start(zone) - drive.geometry().zone_start(ZoneId(0));
                Some((Bytes(at.bytes().0 / u64::from(header.zone.0)), None))
            }
            _ => None,
        });
        let (zone, zones_of) = told.unzip();
        // Zones are whole MiB: what says otherwise was not written by us.
        let zone = zone.filter(|zone| 0 < zone.0 && zone.0.is_multiple_of(Bytes::mib(1).0));
        Self { identity, zone, zones_of: zones_of.flatten() }
    }

    /// The device in the zones with which it was formatted, where its spec does not say in which it is to be used.
    ///
    /// # Errors
    /// The device is not large enough for one of them any more.
    pub fn in_its_zones(&self, drive: Drive, spec: &DeviceSpec) -> Result<Drive, OpenError> {
        match self.zone.filter(|_| spec.zone.is_none()) {
            Some(zone) => drive.in_zones_of(zone),
            None => Ok(drive),
        }
    }

    /// How the division of the device differs from that with which it is to be opened; `None` when they agree.
    #[must_use]
    pub fn difference(&self, drive: &Drive, shard_count: usize) -> Option<Difference> {
        let formatted = usize::from(self.identity.shard_count);
        if formatted != shard_count {
            return Some(Difference::Shards { formatted, wanted: shard_count });
        }
        let zone = drive.geometry().zone_capacity.bytes();
        if let Some(formatted) = self.zone.filter(|formatted| *formatted != zone) {
            return Some(Difference::Zone { formatted, wanted: zone });
        }
        let (shard, formatted) = self.zones_of?;
        let share = drive.share(shard.into(), self.identity.shard_count.into()).ok()?;
        let now = share.zone_count;
        (now != formatted).then_some(Difference::Size { shard, formatted, now })
    }
}

/// How a device was formatted otherwise than it is to be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// For another number of shards.
    Shards {
        /// Shards on the device.
        formatted: usize,
        /// Shards to open it with.
        wanted: usize,
    },
    /// With zones of another size.
    Zone {
        /// Zone size on the device.
        formatted: Bytes,
        /// Zone size to open it with.
        wanted: Bytes,
    },
    /// On a device of another size.
    Size {
        /// A shard whose share differs.
        shard: u16,
        /// Its zones then.
        formatted: u32,
        /// Its zones now.
        now: u32,
    },
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shards { formatted, wanted } => {
                let shards = if *formatted == 1 { "shard" } else { "shards" };
                write!(f, "was formatted for {formatted} {shards}, not {wanted}")
            }
            Self::Zone { formatted, wanted } => {
                write!(f, "was formatted with zones of {formatted}, not {wanted}")
            }
            Self::Size { shard, formatted, now } => write!(
                f,
                "was formatted with {formatted} zones in shard {shard}, and would have {now} now"
            ),
        }
    }
}
