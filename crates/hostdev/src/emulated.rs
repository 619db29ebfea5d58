//! Modelled drive in real time, with its data in a file or in memory.
//!
//! 1. `backing` says where in the file what lies; `medium` reads and writes it for the model.
//! 2. One thread owns the model (`motor`): the link, the dies and the write buffer are the whole drive's, whatever the
//!    number of shards. It sleeps until a command comes or the model's next event is due.
//! 3. A shard has an [`EmulatedDevice`], which sends commands to the thread and is woken by its answers.
//!
//! 4. A file may say what is wrong with the drive while it is there (`trouble`): to see what becomes of a cache on it.
//!
//! A command's time begins when the shard submits it, so that the way to the thread is not added to it; what the
//! machine takes to wake the thread, to move the bytes and to wake the shard is.

mod backing;
mod device;
mod fault_file;
mod medium;
mod memory;
mod motor;

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
use backing::Layout;
use medium::FileMedium;
use motor::{Motor, Way};

pub(crate) use device::EmulatedDevice;
pub(crate) use fault_file::FaultFile;

/// A modelled drive as it was found, and the way to its thread once one has started.
#[derive(Debug)]
pub(crate) struct Emulated {
    model: Model,
    layout: Layout,
    /// The file says whose it is.
    is_signed: bool,
    kept: Vec<ZoneImage>,
    trouble: FaultFile,
    way: Mutex<Option<Way>>,
}

impl Emulated {
    /// A drive to which nothing was written, and memory for it, which it takes from the system as it is written.
    ///
    /// # Errors
    /// When the system has no descriptors left.
    pub(crate) fn in_memory(model: Model, path: &Path) -> Result<(Self, File), OpenError> {
        Ok((Self::blank(model), memory::file(path)?))
    }

    /// The drive that a file holds; one to which nothing was written if the file is empty.
    ///
    /// # Errors
    /// When it holds anything else.
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
        let layout = Layout::of(&model);
        let kept = vec![ZoneImage::default(); model.geometry().zone_count as usize];
        let trouble = FaultFile::default();
        Self { model, layout, is_signed: false, kept, trouble, way: Mutex::new(None) }
    }

    /// What is wrong with it stands in that file.
    pub(crate) fn set_trouble(&mut self, trouble: FaultFile) {
        self.trouble = trouble;
    }

    /// Makes the place of the bytes ready to be written: a file is known as this drive's from now on, and has all its
    /// space. What it holds is kept.
    ///
    /// # Errors
    /// When there is not so much space, or memory.
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

    /// Where in the file a zone begins that may hold something.
    pub(crate) fn position(&self, zone: ZoneId) -> Option<u64> {
        let is_empty =
            self.layout.keeps_zones() && self.kept[zone.0 as usize] == ZoneImage::default();
        (!is_empty).then(|| self.layout.position(self.geometry().zone_start(zone)))
    }

    /// A shard's way to the drive; the first starts its thread.
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
            let medium =
                FileMedium::new(file.try_clone()?, self.layout, self.kept.clone(), health());
            let disk = (file.try_clone()?, health());
            *way = Some(Motor::start((self.model.clone(), medium), disk, self.trouble.clone())?);
        }
        let way = way.clone().expect("it was made if it was not there");
        EmulatedDevice::new((geometry, start), way, queue_depth, loss.clone())
    }
}
