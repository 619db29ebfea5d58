//! Device survey: reads what is on a device without changing it.
//!
//! 1. Classify the contents of the whole device. For a log this gives zone size and shard count.
//! 2. Read each shard's zones with the log's own reading code (`viewer`).

mod viewer;

use zonal_base::{Bytes, ZoneId};
use zonal_device::Geometry;
use zonal_host::{DeviceContents, GeometryMismatch, StartError};
use zonal_hostdev::{DeviceSpec, Drive, EngineKind, OpenError};
use zonal_zonelog::ZoneContent;

use crate::advice;
use crate::failure::Failure;
use viewer::Viewer;

/// A device, opened read-only.
pub struct DeviceInspector {
    drive: Drive,
    holds: DeviceContents,
    /// The zone size that the device spec names, if the device was formatted with another one.
    misnamed_zone: Option<Bytes>,
}

/// A zone and its contents.
pub struct Zone {
    /// Number of the zone, counted over the whole device.
    pub zone: ZoneId,
    /// The shard that owns the zone; 0 on a device without a log.
    pub shard: u32,
    /// Contents as the log's recovery would read them.
    pub content: ZoneContent,
}

/// I/O path of a device.
pub struct IoPath {
    /// The I/O engine that submits commands to the kernel or to the drive model.
    pub engine: EngineKind,
    /// Whether I/O is direct (`O_DIRECT`, no page cache).
    pub is_direct: bool,
}

impl DeviceInspector {
    /// Opens the device read-only, even while another process uses it. If the device holds a log,
    /// the survey uses the zone size of the log, not that of the spec.
    ///
    /// # Errors
    /// The device cannot be opened or read.
    pub fn open(spec: &DeviceSpec) -> Result<Self, OpenError> {
        let mut drive = Drive::open_read_only(spec)?;
        let holds = DeviceContents::of(&drive)?;
        let mut misnamed_zone = None;
        if let DeviceContents::Log(formatted) = &holds
            && let Some(zone) = formatted.zone
        {
            misnamed_zone = spec.zone.filter(|named| *named != zone);
            if drive.geometry().zone_capacity.bytes() != zone {
                drive = drive.in_zones_of(zone)?;
            }
        }
        Ok(Self { drive, holds, misnamed_zone })
    }

    /// The opened drive.
    #[must_use]
    pub const fn drive(&self) -> &Drive {
        &self.drive
    }

    /// Zone geometry, as the log on the device was formatted.
    #[must_use]
    pub const fn geometry(&self) -> &Geometry {
        self.drive.geometry()
    }

    /// Classification of the contents.
    #[must_use]
    pub const fn holds(&self) -> &DeviceContents {
        &self.holds
    }

    /// Unused bytes behind the last whole zone.
    #[must_use]
    pub fn idle(&self) -> Bytes {
        let geometry = self.geometry();
        let zones = u64::from(geometry.zone_count) * geometry.zone_size.bytes().0;
        Bytes(self.drive.size().0 - zones)
    }

    /// Why a start with this spec would refuse the device, and which spec or flag to write instead.
    /// `None` if it would start.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        let DeviceContents::Log(formatted) = &self.holds else { return None };
        let zone = Bytes(self.geometry().zone_capacity.bytes().0);
        if let Some(named) = self.misnamed_zone {
            let difference = GeometryMismatch::Zone { formatted: zone, wanted: named };
            return Some(format!("it {difference}: {}", advice::on_difference(&difference)));
        }
        let shards = usize::from(formatted.identity.shard_count);
        let difference = formatted.difference(&self.drive, shards)?;
        Some(format!("it {difference}: {}", advice::on_difference(&difference)))
    }

    /// The I/O path that a start would use for this device.
    ///
    /// # Errors
    /// The device cannot be opened this way.
    pub fn access(&self) -> Result<IoPath, Failure> {
        let viewer = Viewer::open(&self.drive, 0, 1).map_err(Failure::work)?;
        Ok(IoPath { engine: viewer.engine(), is_direct: self.drive.is_direct() })
    }

    /// Reads every zone in order, and calls `on_zone` with each.
    ///
    /// # Errors
    /// A zone cannot be read.
    pub fn zones(&self, mut on_zone: impl FnMut(Zone)) -> Result<(), Failure> {
        let shards = match &self.holds {
            DeviceContents::Log(formatted) => u32::from(formatted.identity.shard_count).max(1),
            _ => 1,
        };
        let mut first = 0;
        for shard in 0..shards {
            let mut viewer = Viewer::open(&self.drive, shard, shards).map_err(Failure::work)?;
            for zone in viewer.geometry().zones() {
                let content = viewer.content(zone).map_err(|error| {
                    Failure::work(format!("{}: {error}", self.drive.path().display()))
                })?;
                on_zone(Zone { zone: ZoneId(first + zone.0), shard, content });
            }
            first += viewer.geometry().zone_count;
        }
        Ok(())
    }
}

/// Refuses to format a device that holds foreign data. Any version of Zonal's own log may be
/// overwritten.
///
/// # Errors
/// The device holds foreign data, or it cannot be read.
pub fn refuse_foreign(spec: &DeviceSpec) -> Result<(), Failure> {
    match DeviceInspector::open(spec) {
        Ok(DeviceInspector { holds: DeviceContents::Foreign(what), .. }) => {
            Err(StartError::Foreign { spec: spec.clone(), what }.into())
        }
        Ok(_) | Err(OpenError::NotMadeYet { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
