//! Zoned drives (ZNS, SMR) through Linux.
//!
//! 1. `queue` reads the kernel's queue limits of the drive (`limits`: open and active zones).
//!    `ioctl` has the zone commands. `layout` turns the kernel's zone report into a device of equal
//!    zones.
//! 2. One thread (`manager`) issues the zone commands of all shards, because they block.
//! 3. Each shard has a [`ZonedBlockDevice`], which reads and writes through an engine like any
//!    other device. A `lane` is the write queue of one zone.
//! 4. With zone appends enabled, the shard writes by NVMe passthrough commands (`passthrough`) to
//!    the drive's generic character device (`generic`).

mod device;
mod diagnosis;
mod error;
mod generic;
mod ioctl;
mod layout;
mod limits;
mod manager;
mod passthrough;
mod queue;
mod zone_write_queue;

pub(crate) use ioctl::{SMART_BYTES, smart_log};

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
use layout::ZoneLayout;
use manager::ManagerChannel;

pub(crate) use device::ZonedBlockDevice;
pub use error::ZonesError;
pub(crate) use generic::Generic;
pub use layout::Census;
pub use queue::Queue;

/// Maximum number of zones of a drive: 16 Mi. The largest SMR drives have 100,000.
const ZONES_MAX: usize = 1 << 24;

/// A zoned drive in its state at opening, and the channel to its manager once a shard has started
/// it.
#[derive(Debug)]
pub(crate) struct Zoned {
    layout: ZoneLayout,
    census: Census,
    way: Mutex<Option<ManagerChannel>>,
    /// Device file for passthrough writes. `None`: writes go through the block layer.
    generic: Option<Generic>,
}

impl Zoned {
    /// Reads the drive's zones from the kernel.
    ///
    /// # Errors
    /// When the drive is not host-managed, or its zones cannot be used.
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
            .map_err(|errno| OpenError::io("read the zones of", path, errno))?;
        let unfit = |why| OpenError::zones(path, ZonesError::Unfit(why));
        let layout = ZoneLayout::of(&zones, queue).map_err(unfit)?;
        Ok(Self { layout, census: layout.count(&zones), way: Mutex::new(None), generic })
    }

    pub(crate) const fn geometry(&self) -> &Geometry {
        &self.layout.geometry
    }

    /// States of the zones at the time of opening.
    pub(crate) const fn census(&self) -> &Census {
        &self.census
    }

    /// First block of the first zone on the drive.
    pub(crate) const fn base(&self) -> Lba {
        self.layout.base
    }

    pub(crate) fn size(&self) -> Bytes {
        let geometry = self.geometry();
        Blocks(u64::from(geometry.zone_count) * geometry.zone_size.0).bytes()
    }

    /// Reports zones from the kernel, numbered on the whole drive. A zone without a valid write
    /// pointer (read-only) counts as written to its capacity.
    pub(crate) fn reports(
        &self,
        file: &File,
        first: ZoneId,
        count: u32,
    ) -> Result<Vec<ZoneReport>, Errno> {
        let told = self.layout.report(file, first, count)?;
        let capacity = self.geometry().zone_capacity;
        let reports: Vec<_> = told.into_iter().map(|told| told.report(capacity)).collect();
        // A drive that is being removed may report fewer zones.
        let is_all = reports.iter().map(|report| report.zone.0).eq(first.0..first.0 + count);
        if is_all { Ok(reports) } else { Err(Errno::IO) }
    }

    /// Creates the device of one shard. The first call starts the manager's thread.
    ///
    /// # Errors
    /// When the kernel reports no zones, or the system has no threads or descriptors left.
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
            *way = Some(ManagerChannel::start(file.try_clone()?, self.layout)?);
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
