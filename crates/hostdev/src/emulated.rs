//! Modelled drive in real time, with its data in a file or in memory.
//!
//! 1. `backing` is the layout of the backing file; `medium` reads and writes it for the model.
//! 2. One thread owns the model (`motor`): the link, the dies and the write buffer belong to the
//!    whole drive, whatever the number of shards. The thread sleeps until a command comes or the
//!    model's next event is due.
//! 3. Each shard has an [`EmulatedDevice`], which sends commands to the thread. The thread's
//!    completions wake the shard.
//! 4. Fault injection: a file can make the drive hang, slow down or fail while the file exists
//!    (`fault_file`), to test a cache on a failing drive.
//!
//! The time of a command begins when the shard submits it, so that the way to the thread adds
//! nothing. The time that the machine takes to wake the thread, to move the bytes and to wake the
//! shard is added.

mod backing;
mod device;
mod drive_thread;
mod fault_file;
mod medium;
mod memory;

#[cfg(test)]
mod tests;

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use zonal_base::{Bytes, Lba, ZoneId};
use zonal_device::Geometry;
use zonal_emulator::{Model, ZoneImage};

use crate::drive::allocate;
use crate::health::{Health, Loss};
use crate::{DeviceLocation, OpenError};
use backing::BackingLayout;
use drive_thread::{DriveChannel, DriveThread};
use medium::FileMedium;

pub(crate) use device::EmulatedDevice;
pub(crate) use fault_file::FaultFile;
pub(crate) use memory::empty_file;

/// A modelled drive in its state at opening, and the channel to its thread once a shard has started
/// it.
#[derive(Debug)]
pub(crate) struct Emulated {
    model: Model,
    layout: BackingLayout,
    /// The file has the header of this drive.
    is_signed: bool,
    kept: Vec<ZoneImage>,
    trouble: FaultFile,
    way: Mutex<Option<DriveChannel>>,
}

impl Emulated {
    /// Creates an empty drive in a memory file. Its pages take memory as they are written.
    ///
    /// # Errors
    /// When the system has no descriptors left.
    pub(crate) fn in_memory(model: Model, path: &Path) -> Result<(Self, File), OpenError> {
        Ok((Self::blank(model), memory::file(path)?))
    }

    /// Opens the drive in a backing file. An empty file is an empty drive.
    ///
    /// # Errors
    /// When the file has other content.
    pub(crate) fn in_file(
        model: Model,
        (file, size): (&File, Bytes),
        path: &Path,
    ) -> Result<Self, OpenError> {
        let mut emulated = Self::blank(model);
        if size != Bytes(0) {
            emulated.kept = emulated.layout.read(file, path)?;
            emulated.is_signed = true;
        }
        Ok(emulated)
    }

    fn blank(model: Model) -> Self {
        let layout = BackingLayout::of(&model);
        let kept = vec![ZoneImage::default(); model.geometry().zone_count as usize];
        let trouble = FaultFile::default();
        Self { model, layout, is_signed: false, kept, trouble, way: Mutex::new(None) }
    }

    /// Sets the file that injects faults.
    pub(crate) fn set_trouble(&mut self, trouble: FaultFile) {
        self.trouble = trouble;
    }

    /// Makes the backing file writable: writes the header of this drive and allocates all space.
    /// Existing data is kept. For a drive in memory, only checks that the memory suffices.
    ///
    /// # Errors
    /// When the file system or the memory has too little space.
    pub(crate) fn claim(&self, file: &File, place: &DeviceLocation) -> Result<(), OpenError> {
        let path = place.path();
        if place.is_in_memory() {
            return memory::check(self.layout.size(), path);
        }
        if !self.is_signed {
            self.layout.sign(file).map_err(|errno| OpenError::io("write to", path, errno))?;
        }
        allocate(file, path, self.layout.size())
    }

    pub(crate) fn geometry(&self) -> &Geometry {
        self.model.geometry()
    }

    /// Start of a zone in the backing file, in bytes. `None` for an empty zone of a zoned drive.
    pub(crate) fn position(&self, zone: ZoneId) -> Option<u64> {
        let is_empty =
            self.layout.keeps_zones() && self.kept[zone.0 as usize] == ZoneImage::default();
        (!is_empty).then(|| self.layout.position(self.geometry().zone_start(zone)))
    }

    /// Creates the device of one shard. The first call starts the drive's threads.
    ///
    /// # Errors
    /// When the system has no threads or descriptors left.
    pub(crate) fn shard(
        &self,
        (geometry, start): (Geometry, Lba),
        file: &File,
        queue_depth: u32,
        (path, loss): (&Path, &Loss),
    ) -> io::Result<EmulatedDevice> {
        let mut way = self.way.lock().unwrap_or_else(PoisonError::into_inner);
        if way.is_none() {
            let health = || Health::new(path.into(), loss.clone());
            let medium = FileMedium::new(
                file.try_clone()?,
                self.layout,
                self.kept.clone(),
                health(),
                self.trouble.clone(),
            );
            let disk = (file.try_clone()?, health());
            *way =
                Some(DriveThread::start((self.model.clone(), medium), disk, self.trouble.clone())?);
        }
        let way = way.clone().expect("it was made if it was not there");
        EmulatedDevice::new((geometry, start), way, queue_depth, loss.clone())
    }
}
