//! Settings of a log, validated against the geometry of the device.

use core::fmt;

use zonal_base::{Blocks, Bytes, Nanos};
use zonal_device::{DeviceKind, Geometry};

use crate::open::counted;

/// Identity of the log that a zone belongs to. Every header carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Random ID, chosen when the device is formatted.
    pub log: [u8; 16],
    /// Number of the shard on the device, from 0.
    pub shard: u16,
    /// Number of shards that divide the device.
    pub shard_count: u16,
}

/// Tunables of a log. [`Settings::check`] validates them against the device.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Largest payload of one segment, in bytes: a power of two from 64 KiB to 1 MiB.
    pub segment_bytes: Bytes,
    /// Linger: a segment that is not full is written this long after its first record.
    pub linger: Nanos,
    /// Zones that the fill stream keeps open, if the device's active and open limits allow it.
    pub fill_zones: u32,
    /// Backpressure limit, in bytes: appends wait while more bytes than this are not yet on flash.
    pub backlog_max: Bytes,
    /// Low watermark: reclaim starts when fewer zones than this are empty.
    pub low_zones: u32,
    /// High watermark: reclaim stops when this many zones are empty.
    pub high_zones: u32,
    /// A bug that the simulator must find.
    #[cfg(feature = "planted-bugs")]
    pub planted: Option<crate::Mutation>,
}

impl Settings {
    /// Default payload of a segment: 1 MiB. Large enough that a drive writes at full speed with one
    /// segment in flight per zone, and small enough that a crash loses little that lingers.
    pub const SEGMENT: Bytes = Bytes::mib(1);

    /// Default settings for a device: a reserve of 1 % of the zones, at least two.
    #[must_use]
    pub fn for_device(geometry: &Geometry) -> Self {
        let low_zones = (geometry.zone_count / 100).max(2);
        Self {
            segment_bytes: Self::SEGMENT,
            linger: Nanos::millis(200),
            fill_zones: 4,
            backlog_max: Bytes::mib(32),
            low_zones,
            high_zones: low_zones + geometry.zone_count / 100,
            #[cfg(feature = "planted-bugs")]
            planted: None,
        }
    }

    /// # Errors
    /// When a log cannot work on the device. The error's text names a setting or device that works.
    pub fn check(&self, geometry: &Geometry) -> Result<(), SettingsError> {
        let segment = self.segment_bytes.blocks_ceil();
        let is_segment = SEGMENT_MIN <= self.segment_bytes && self.segment_bytes <= Self::SEGMENT;
        if !is_segment || !self.segment_bytes.0.is_power_of_two() {
            return Err(SettingsError::Segment(self.segment_bytes));
        }
        if ZONE_BYTES_MAX < geometry.zone_capacity.bytes() {
            return Err(SettingsError::ZoneTooLarge(geometry.zone_capacity.bytes()));
        }
        let least = Blocks(segment.0 * 2);
        if geometry.zone_capacity < least {
            let (size, least) = (geometry.zone_capacity.bytes(), least.bytes());
            return Err(SettingsError::ZoneTooSmall { size, least });
        }
        if geometry.zone_count < ZONES_MIN {
            let Geometry { kind, zone_count: count, .. } = *geometry;
            return Err(SettingsError::TooFewZones { count, kind });
        }
        if geometry.max_active_zones.is_some_and(|max| max < 2) {
            return Err(SettingsError::TooFewActive);
        }
        Ok(())
    }
}

/// Largest zone: 4 GiB. The cache's index stores a record's offset in 28 bits, in units of 16
/// bytes.
const ZONE_BYTES_MAX: Bytes = Bytes::mib(4096);

/// Least number of zones: one for fills, one for rewrites, one kept empty for rewrites, and one
/// sealed zone to reclaim.
pub(crate) const ZONES_MIN: u32 = 4;

/// Smallest segment: it must hold the largest head (16 KiB of metadata) among other records.
const SEGMENT_MIN: Bytes = Bytes::kib(64);

/// Settings that do not fit the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingsError {
    /// The segment size is not a power of two from 64 KiB to 1 MiB.
    Segment(Bytes),
    /// The zone capacity is above 4 GiB.
    ZoneTooLarge(Bytes),
    /// The zone capacity is below two segments.
    ZoneTooSmall {
        /// Zone capacity of the device.
        size: Bytes,
        /// Smallest zone capacity that works with this segment size.
        least: Bytes,
    },
    /// The shard has too few zones to fill one while another is reclaimed.
    TooFewZones {
        /// Zones of the shard.
        count: u32,
        /// Kind of the device: on a conventional device the configuration sets the zone size, on a
        /// zoned one the drive does.
        kind: DeviceKind,
    },
    /// The device allows fewer than two active zones.
    TooFewActive,
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZoneTooLarge(size) => {
                write!(f, "zones of {size} are too large: 4GiB is the most")
            }
            Self::ZoneTooSmall { size, least } => {
                write!(f, "zones of {size} are too small: two segments ({least}) is the least")
            }
            Self::Segment(size) => write!(
                f,
                "segments of {size} cannot be used: a power of two from {SEGMENT_MIN} to {}",
                Settings::SEGMENT
            ),
            Self::TooFewZones { count, kind } => write!(
                f,
                "a shard would have {} and needs {ZONES_MIN}: {}",
                counted(*count, "zone"),
                match kind {
                    DeviceKind::Zoned => {
                        "use fewer shards or a larger device (of a model write a larger zones=)"
                    }
                    DeviceKind::Conventional => {
                        "use fewer shards, a larger device (of a file write a larger size=) or smaller \
                         zones (zone=)"
                    }
                }
            ),
            Self::TooFewActive => {
                f.write_str("the device lets fewer than two zones be active: use fewer shards")
            }
        }
    }
}

impl core::error::Error for SettingsError {}
