//! Settings of a log, checked against the device.

use core::fmt;

use zonal_base::{Blocks, Bytes, Nanos};
use zonal_device::{DeviceKind, Geometry};

use crate::open::counted;

/// Which log a zone belongs to. Written in every header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Chosen at random when the device is formatted.
    pub log: [u8; 16],
    /// Which share of the device, from 0.
    pub shard: u16,
    /// Shares of the device.
    pub shard_count: u16,
}

/// How a log behaves. Sizes are checked against the device by [`Settings::check`].
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Data of one segment at most: a power of two from 64 KiB to 1 MiB.
    pub segment_bytes: Bytes,
    /// A segment that is not full is written this long after its first record.
    pub linger: Nanos,
    /// Zones that the fill stream writes at once, if the device lets it.
    pub fill_zones: u32,
    /// Bytes to be appended and not yet on flash: beyond it, appends wait.
    pub backlog_max: Bytes,
    /// Reclaim starts when fewer zones than this are empty.
    pub low_zones: u32,
    /// Reclaim stops when so many zones are empty.
    pub high_zones: u32,
    /// A bug for the simulator to find.
    #[cfg(feature = "planted-bugs")]
    pub planted: Option<crate::Planted>,
}

impl Settings {
    /// Data of a segment: 1 MiB. Large enough that a drive writes at full speed with one segment in
    /// flight per zone, small enough that a linger does not leave much behind in a crash.
    pub const SEGMENT: Bytes = Bytes::mib(1);

    /// The default behaviour on a device: a reserve of 1 % of the zones, at least two.
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
    /// When a log cannot live on the device; the text says what would do.
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

/// Offsets of records are stored in 28 bits of 16 bytes by the cache's index.
const ZONE_BYTES_MAX: Bytes = Bytes::mib(4096);

/// One zone that is filled, one for rewrites, one kept empty for them, one full to reclaim.
pub(crate) const ZONES_MIN: u32 = 4;

/// A segment must take a record that describes something large (a head of 16 KiB) among others.
const SEGMENT_MIN: Bytes = Bytes::kib(64);

/// Why a log cannot live on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingsError {
    /// The segment size.
    Segment(Bytes),
    /// Zones beyond 4 GiB.
    ZoneTooLarge(Bytes),
    /// Zones below two segments.
    ZoneTooSmall {
        /// What they are.
        size: Bytes,
        /// What they must be.
        least: Bytes,
    },
    /// Too few zones to fill one while another is reclaimed.
    TooFewZones {
        /// How many there are.
        count: u32,
        /// Whether others than the drive decide how large they are.
        kind: DeviceKind,
    },
    /// The device lets fewer than two zones be active.
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
                        "use fewer shards, a larger device or smaller zones (zone=)"
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
