//! Zoned drives (ZNS, SMR) through Linux.
//!
//! 1. `queue` is what the kernel tells of the drive (`limits`: how many zones may be open and active), `ioctl` its zone
//!    commands, `layout` what becomes of the zones that it reports: a device of equal zones.
//! 2. One thread gives the zone commands of all shards (`manager`): they block.
//! 3. A shard has a [`ZonedBlockDevice`], which reads and writes through an engine as on any other device; what goes on in
//!    a zone is a `lane`.
//! 4. Where zone appends are asked for, it writes by NVMe commands of its own (`passthrough`) to the drive's other device
//!    file (`generic`).

mod device;
mod error;
mod generic;
mod ioctl;
mod lane;
mod layout;
mod limits;
mod manager;
mod passthrough;
mod queue;
mod verdict;

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use rustix::io::Errno;
use zonal_base::{Blocks, Bytes, Lba, ZoneId};
use zonal_device::{Geometry, ZoneReport};

use crate::OpenError;
use crate::engine::Engine;
use crate::health::Health;
use layout::Layout;
use manager::Way;

pub(crate) use device::ZonedBlockDevice;
pub use error::ZonesError;
pub(crate) use generic::Generic;
pub use layout::Census;
pub use queue::Queue;

/// Zones that a drive has at most: 16 Mi. The largest SMR drives have 100,000.
const ZONES_MAX: usize = 1 << 24;

/// A zoned drive as it was found, and the way to its manager once a shard has needed one.
#[derive(Debug)]
pub(crate) struct Zoned {
    layout: Layout,
    census: Census,
    way: Mutex<Option<Way>>,
    /// Through which it is written, unless it is the block layer.
    generic: Option<Generic>,
}

impl Zoned {
    /// Asks the kernel what the drive is.
    ///
    /// # Errors
    /// When it is no zoned drive, or one that cannot be used.
    pub(crate) fn of(
        file: &File,
        queue: &Queue,
        path: &Path,
        generic: Option<Generic>,
    ) -> Result<Self, OpenError> {
        match queue.zoned.as_deref() {
            Some("host-managed") => (),
            Some("host-aware") => return Err(OpenError::zones(path, ZonesError::HostAware)),
            _ => return Err(OpenError::zones(path, ZonesError::NotZoned)),
        }
        let zones = ioctl::report(file, 0, ZONES_MAX)
            .map_err(|errno| OpenError::io("ask for the zones of", path, errno))?;
        let unfit = |why| OpenError::zones(path, ZonesError::Unfit(why));
        let layout = Layout::of(&zones, queue).map_err(unfit)?;
        Ok(Self { layout, census: layout.count(&zones), way: Mutex::new(None), generic })
    }

    pub(crate) const fn geometry(&self) -> &Geometry {
        &self.layout.geometry
    }

    /// How its zones stood when it was opened.
    pub(crate) const fn census(&self) -> &Census {
        &self.census
    }

    /// Where its first zone begins on the drive.
    pub(crate) const fn base(&self) -> Lba {
        self.layout.base
    }

    pub(crate) fn size(&self) -> Bytes {
        let geometry = self.geometry();
        Blocks(u64::from(geometry.zone_count) * geometry.zone_size.0).bytes()
    }

    /// Where the zones stand now, numbered as the drive's. One that cannot be judged counts as written to its end.
    pub(crate) fn reports(
        &self,
        file: &File,
        first: ZoneId,
        count: u32,
    ) -> Result<Vec<ZoneReport>, Errno> {
        let told = self.layout.report(file, first, count)?;
        let capacity = self.geometry().zone_capacity;
        let reports: Vec<_> = told.into_iter().map(|told| told.report(capacity)).collect();
        // A drive that is being taken away may tell of fewer.
        let is_all = reports.iter().map(|report| report.zone.0).eq(first.0..first.0 + count);
        if is_all { Ok(reports) } else { Err(Errno::IO) }
    }

    /// A shard's share; the first starts the manager's thread.
    ///
    /// # Errors
    /// When the drive does not tell where its zones stand, or the system has no threads or descriptors left.
    pub(crate) fn shard(
        &self,
        (first, geometry): (ZoneId, Geometry),
        file: &File,
        (engine, queue_depth): (Engine, u32),
        health: Health,
    ) -> io::Result<ZonedBlockDevice> {
        let mut reports = self.reports(file, first, geometry.zone_count)?;
        for report in &mut reports {
            report.zone = ZoneId(report.zone.0 - first.0);
        }
        let mut way = self.way.lock().unwrap_or_else(PoisonError::into_inner);
        if way.is_none() {
            *way = Some(Way::start(file.try_clone()?, self.layout)?);
        }
        let way = way.clone().expect("it was made if it was not there");
        let start = Lba(self.base().0 + self.geometry().zone_start(first).0);
        let writer = match &self.generic {
            Some(generic) => Some(generic.open(queue_depth, engine.as_fd())?),
            None => None,
        };
        let settings = (queue_depth, way, health);
        ZonedBlockDevice::new((geometry, start), &reports, (engine, writer), settings, first)
    }
}

#[cfg(test)]
mod tests;
