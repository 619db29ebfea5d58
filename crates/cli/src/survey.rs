//! What is on a device, without changing it.
//!
//! 1. What it holds as a whole tells how it was divided.
//! 2. Each shard's zones are read as the log itself would read them (`viewer`).

mod viewer;

use zonal_base::{Bytes, ZoneId};
use zonal_device::Geometry;
use zonal_host::{DeviceContents, GeometryMismatch, StartError};
use zonal_hostdev::{DeviceSpec, Drive, EngineKind, OpenError};
use zonal_zonelog::ZoneContent;

use crate::advice;
use crate::failure::Failure;
use viewer::Viewer;

/// A device that is being looked at.
pub struct Survey {
    drive: Drive,
    holds: DeviceContents,
    /// The zone size in the spec, where the device was formatted with another.
    misnamed_zone: Option<Bytes>,
}

/// A zone, and what it holds.
pub struct Zone {
    /// Counted over the whole device.
    pub zone: ZoneId,
    /// Whose it is; 0 on a device that is not ours.
    pub shard: u32,
    /// As the log reads it.
    pub content: ZoneContent,
}

/// How the device would be driven.
pub struct Access {
    /// What asks the kernel, or the model.
    pub engine: EngineKind,
    /// Past the page cache.
    pub is_direct: bool,
}

impl Survey {
    /// Opens the device read-only. It may be in use. A log is shown in the zones with which it was
    /// formatted, whatever the spec says.
    ///
    /// # Errors
    /// It cannot be opened or read.
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

    /// The device itself, open for reading.
    #[must_use]
    pub const fn drive(&self) -> &Drive {
        &self.drive
    }

    /// Its zones, as the log on it has them.
    #[must_use]
    pub const fn geometry(&self) -> &Geometry {
        self.drive.geometry()
    }

    /// Whose the contents are.
    #[must_use]
    pub const fn holds(&self) -> &DeviceContents {
        &self.holds
    }

    /// Bytes behind the last whole zone.
    #[must_use]
    pub fn idle(&self) -> Bytes {
        let geometry = self.geometry();
        let zones = u64::from(geometry.zone_count) * geometry.zone_size.bytes().0;
        Bytes(self.drive.size().0 - zones)
    }

    /// What keeps the device from being used as it was named, and what to write instead.
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

    /// How it would be driven.
    ///
    /// # Errors
    /// It cannot be opened so.
    pub fn access(&self) -> Result<Access, Failure> {
        let viewer = Viewer::open(&self.drive, 0, 1).map_err(Failure::work)?;
        Ok(Access { engine: viewer.engine(), is_direct: self.drive.is_direct() })
    }

    /// Looks at every zone, in order; `on_zone` hears of each.
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

/// Refuses to format a device that is somebody else's. A cache may go, of whatever version.
///
/// # Errors
/// It is, or it cannot be looked at.
pub fn refuse_foreign(spec: &DeviceSpec) -> Result<(), Failure> {
    match Survey::open(spec) {
        Ok(Survey { holds: DeviceContents::Foreign(what), .. }) => {
            Err(StartError::Foreign { spec: spec.clone(), what }.into())
        }
        Ok(_) | Err(OpenError::NotMadeYet { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
