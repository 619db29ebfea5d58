//! Device open: finds and locks a device, and divides it among shards.
//!
//! 1. `open` finds the device, locks it and determines its size. It changes nothing that exists.
//! 2. A caller that is going to format the device checks its `content` first.
//! 3. `claim` preallocates all space of a file. A file that `open` created is removed again unless
//!    the caller calls `keep`.

mod allocate;
mod content;
mod error;
mod find;
mod new_file;
mod probe;
mod signatures;

pub(crate) use allocate::allocate;
pub use content::Content;
pub use error::OpenError;
pub use probe::probe;

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::Path;

use rustix::io::Errno;
use zonal_base::{BLOCK_BYTES, Blocks, Bytes, Lba, ZoneId};
use zonal_device::{DeviceKind, Geometry};
use zonal_emulator::Model;

use crate::device::{HostDevice, QUEUE_DEPTH_MAX, ShardOptions};
use crate::emulated::{Emulated, FaultFile, empty_file};
use crate::engine::Engine;
use crate::health::{Health, Loss};
use crate::real::RealDevice;
use crate::zoned::{Census, Generic, Queue, Zoned, ZonesError};
use crate::{DeviceLocation, DeviceSpec, EngineKind};
use find::UsableFile;
use new_file::NewFile;

/// An open device. It stays locked against other processes until the drive and its last shard are
/// dropped.
#[derive(Debug)]
pub struct Drive {
    /// Removes a newly created file on drop. First field: it is dropped while the file is still
    /// locked.
    new_file: Option<NewFile>,
    file: File,
    place: DeviceLocation,
    size: Bytes,
    geometry: Geometry,
    caching: Caching,
    engine: Option<EngineKind>,
    loss: Loss,
    zones: Zones,
}

/// The side that keeps the zones.
#[derive(Debug)]
enum Zones {
    /// The host keeps them: the device has no zones.
    Agreed,
    /// A drive model between the host and the file.
    Modelled(Emulated),
    /// The drive keeps its own zones.
    Own(Zoned),
}

/// Whether I/O goes through the kernel's page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caching {
    /// O_DIRECT: I/O bypasses the page cache.
    Direct,
    /// Page cache: the file system refuses O_DIRECT, or requires alignment to more than a block.
    /// Modelled drives always use it.
    Buffered,
}

impl Drive {
    /// Opens and locks the device, and changes nothing that exists. A file that does not exist and
    /// whose spec names a size is created empty. It is removed when the drive is dropped: see
    /// [`Drive::keep`].
    ///
    /// # Errors
    /// When the device cannot be used; the text says what to do.
    pub fn open(spec: &DeviceSpec) -> Result<Self, OpenError> {
        Self::open_cached(spec, Caching::Direct)
    }

    pub(crate) fn open_cached(spec: &DeviceSpec, wanted: Caching) -> Result<Self, OpenError> {
        if let Some(model) = spec.model() {
            return Self::open_emulated(spec, model);
        }
        let UsableFile { file, caching, mut new_file } = find::find(&spec.place, wanted)?;
        if let DeviceLocation::Zoned { path, appends } = &spec.place {
            let queue = find::zoned_queue(&file, path)?;
            let generic = match appends {
                // Passthrough commands bypass the block layer and its scheduler.
                true => Some(Generic::of(&queue, path)?),
                false => None,
            };
            if let Some((drive, scheduler)) = queue.unordered().filter(|_| generic.is_none()) {
                let (scheduler, command) = (scheduler.into(), drive.ordering_command());
                return Err(OpenError::zones(path, ZonesError::Scheduler { scheduler, command }));
            }
            return Self::of_zoned(spec, (file, caching), &queue, generic);
        }
        let path = spec.place.path();
        let found = find::size(&file, &spec.place)?;
        let wanted = match spec.place {
            DeviceLocation::File { size, .. } => size.unwrap_or(found),
            DeviceLocation::Block { .. }
            | DeviceLocation::Zoned { .. }
            | DeviceLocation::Emulated { .. } => found,
        };
        let caching = match found {
            Bytes(0) => {
                if new_file.is_none() {
                    new_file = Some(NewFile::found_empty(&file, path)?);
                }
                caching
            }
            _ if found != wanted => {
                return Err(OpenError::SizeMismatch { path: path.into(), found, wanted });
            }
            _ => find::check_direct(&file, path, caching)?,
        };
        Self::new(spec, (new_file, file, caching), wanted)
    }

    fn open_emulated(spec: &DeviceSpec, model: Model) -> Result<Self, OpenError> {
        let path = spec.place.path();
        if spec.place.is_in_memory() {
            let (emulated, file) = Emulated::in_memory(model, path)?;
            return Ok(Self::of_model(spec, file, emulated));
        }
        let UsableFile { file, mut new_file, .. } = find::find(&spec.place, Caching::Buffered)?;
        let size = find::size(&file, &spec.place)?;
        let emulated = Emulated::in_file(model, (&file, size), path)?;
        if size == Bytes(0) && new_file.is_none() {
            new_file = Some(NewFile::found_empty(&file, path)?);
        }
        Ok(Self { new_file, ..Self::of_model(spec, file, emulated) })
    }

    /// Opens the device for reading. Nothing is created, changed or locked, and another process may
    /// be using it.
    ///
    /// # Errors
    /// When the device does not exist or cannot be read.
    pub fn open_read_only(spec: &DeviceSpec) -> Result<Self, OpenError> {
        if let Some(model) = spec.model() {
            return Self::open_emulated_read_only(spec, model);
        }
        let (file, caching) = find::find_read_only(&spec.place, Caching::Direct)?;
        if let DeviceLocation::Zoned { path, .. } = &spec.place {
            let queue = find::zoned_queue(&file, path)?;
            return Self::of_zoned(spec, (file, caching), &queue, None);
        }
        let size = find::size(&file, &spec.place)?;
        let caching = find::check_direct(&file, spec.place.path(), caching)?;
        Self::new(spec, (None, file, caching), size)
    }

    /// Opens the device as [`Drive::open_read_only`] does, to check what a start would do with it. A
    /// file that a start creates is represented by an empty one in memory.
    ///
    /// # Errors
    /// Those of a start.
    pub fn open_to_check(spec: &DeviceSpec) -> Result<Self, OpenError> {
        let DeviceLocation::File { path, size: Some(wanted) } = &spec.place else {
            return Self::open_read_only(spec);
        };
        let found = match fs::metadata(path) {
            Ok(file) if file.is_file() => Bytes(file.len()),
            Err(error) if error.kind() != ErrorKind::NotFound => return Self::open_read_only(spec),
            Err(_) if path.is_symlink() => return Err(OpenError::BrokenLink { path: path.into() }),
            Err(_) => Bytes(0),
            // A folder or a device.
            Ok(_) => return Self::open_read_only(spec),
        };
        if found == Bytes(0) {
            let file = empty_file(path, *wanted)?;
            return Self::new(spec, (None, file, Caching::Buffered), *wanted);
        }
        if found != *wanted {
            return Err(OpenError::SizeMismatch { path: path.into(), found, wanted: *wanted });
        }
        Self::open_read_only(spec)
    }

    fn open_emulated_read_only(spec: &DeviceSpec, model: Model) -> Result<Self, OpenError> {
        if spec.place.is_in_memory() {
            return Self::open_emulated(spec, model);
        }
        let (file, _) = find::find_read_only(&spec.place, Caching::Buffered)?;
        let size = find::size(&file, &spec.place)?;
        let emulated = Emulated::in_file(model, (&file, size), spec.place.path())?;
        Ok(Self::of_model(spec, file, emulated))
    }

    pub(crate) fn of_model(spec: &DeviceSpec, file: File, mut emulated: Emulated) -> Self {
        emulated.set_trouble(FaultFile::of(&spec.place));
        let geometry = *emulated.geometry();
        Self {
            new_file: None,
            file,
            place: spec.place.clone(),
            size: Blocks(u64::from(geometry.zone_count) * geometry.zone_size.0).bytes(),
            geometry,
            caching: Caching::Buffered,
            engine: None,
            loss: Loss::default(),
            zones: Zones::Modelled(emulated),
        }
    }

    fn of_zoned(
        spec: &DeviceSpec,
        (file, caching): (File, Caching),
        queue: &Queue,
        generic: Option<Generic>,
    ) -> Result<Self, OpenError> {
        let path = spec.place.path();
        let zoned = Zoned::of(&file, queue, path, generic)?;
        if caching == Caching::Buffered {
            // The page cache may write the blocks of a zone in any order.
            return Err(OpenError::io("bypass the page cache of", path, Errno::OPNOTSUPP));
        }
        Ok(Self {
            new_file: None,
            file,
            place: spec.place.clone(),
            size: zoned.size(),
            geometry: *zoned.geometry(),
            caching,
            engine: spec.engine,
            loss: Loss::default(),
            zones: Zones::Own(zoned),
        })
    }

    fn new(
        spec: &DeviceSpec,
        (new_file, file, caching): (Option<NewFile>, File, Caching),
        size: Bytes,
    ) -> Result<Self, OpenError> {
        let zone = spec.zone.unwrap_or(crate::ZONE_SIZE);
        let geometry = geometry_of(size, zone, spec.place.path())?;
        let (place, engine) = (spec.place.clone(), spec.engine);
        let loss = Loss::default();
        let zones = Zones::Agreed;
        Ok(Self { new_file, file, place, size, geometry, caching, engine, loss, zones })
    }

    /// Divides the same device into zones of another size.
    ///
    /// Requires: the device has no zones of its own.
    ///
    /// # Errors
    /// When not one such zone fits, or their number exceeds 32 bits.
    pub fn in_zones_of(self, zone: Bytes) -> Result<Self, OpenError> {
        let geometry = geometry_of(self.size, zone, self.place.path())?;
        Ok(Self { geometry, ..self })
    }

    /// Makes the device writable: preallocates all space of a file. Existing data is kept.
    ///
    /// # Errors
    /// When the file system or the memory has too little space.
    pub fn claim(mut self) -> Result<Self, OpenError> {
        if let Zones::Modelled(emulated) = &self.zones {
            emulated.claim(&self.file, &self.place)?;
        }
        if let DeviceLocation::File { path, .. } = &self.place {
            allocate(&self.file, path, self.size)?;
            if self.new_file.is_some() {
                // An empty file has no block whose read could show that O_DIRECT fails: check it
                // now.
                self.caching = find::check_direct(&self.file, path, self.caching)?;
            }
        }
        Ok(self)
    }

    /// Keeps a newly created file. Without this call the file is removed with the drive, so that a
    /// failed start leaves no file behind.
    pub fn keep(&self) {
        if let Some(new_file) = &self.new_file {
            new_file.keep();
        }
    }

    /// Geometry of the whole device.
    #[must_use]
    pub const fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Size of the device in bytes. Space after the last whole zone is unused.
    #[must_use]
    pub const fn size(&self) -> Bytes {
        self.size
    }

    /// Path of the device, or the name of a model in memory.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.place.path()
    }

    /// True when I/O bypasses the page cache (O_DIRECT).
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.caching == Caching::Direct
    }

    /// Queue limits of a block device, from the kernel. `None` for a file or a model.
    #[must_use]
    pub fn queue(&self) -> Option<Queue> {
        match self.place {
            DeviceLocation::Block { .. } | DeviceLocation::Zoned { .. } => {
                Some(Queue::of(&self.file))
            }
            DeviceLocation::File { .. } | DeviceLocation::Emulated { .. } => None,
        }
    }

    /// States of the drive's own zones at the time of opening. `None` when the drive keeps no
    /// zones.
    #[must_use]
    pub const fn census(&self) -> Option<&Census> {
        match &self.zones {
            Zones::Own(zoned) => Some(zoned.census()),
            Zones::Agreed | Zones::Modelled(_) => None,
        }
    }

    /// Geometry of one shard's zones, as a device of its own.
    ///
    /// # Errors
    /// When the device has fewer zones, or allows fewer open or active ones, than there are shards.
    pub fn share(&self, shard: u32, shard_count: u32) -> Result<Geometry, OpenError> {
        self.part(shard, shard_count).map(|(_, geometry)| geometry)
    }

    /// First zone and geometry of one shard's zones.
    ///
    /// # Errors
    /// As [`Drive::share`].
    pub fn part(&self, shard: u32, shard_count: u32) -> Result<(ZoneId, Geometry), OpenError> {
        share(&self.geometry, shard, shard_count).ok_or_else(|| OpenError::TooManyShards {
            path: self.path().into(),
            shards: shard_count,
        })
    }

    /// Device of one shard: a run of zones, numbered from 0, with an engine of its own. It can move
    /// to another thread until its first `flush_submissions`; from then on one thread drives and
    /// drops it.
    ///
    /// Requires: the drive was claimed, or opened read-only.
    ///
    /// # Errors
    /// When the device has fewer zones, or allows fewer open or active ones, than there are shards;
    /// or when the system has no threads or descriptors left.
    pub fn shard(&self, options: &ShardOptions<'_>) -> Result<HostDevice, OpenError> {
        assert!((1..=QUEUE_DEPTH_MAX).contains(&options.queue_depth), "the depth of a queue");
        let (first, geometry) = self.part(options.shard, options.shard_count)?;
        let start = self.geometry.zone_start(first);
        let io = |source| self.io_error("open an engine for", source);
        if let Zones::Modelled(emulated) = &self.zones {
            let of = (self.path(), &self.loss);
            let device = emulated.shard((geometry, start), &self.file, options.queue_depth, of);
            return device.map(HostDevice::emulated).map_err(io);
        }
        let (file, depth) = (self.file.try_clone().map_err(io)?, options.queue_depth);
        let engine = Engine::open(self.engine, file, depth, options.pool).map_err(io)?;
        let health = Health::new(self.path().into(), self.loss.clone());
        if let Zones::Own(zoned) = &self.zones {
            let device = zoned.shard((first, geometry), &self.file, (engine, depth), health);
            return device.map(HostDevice::zoned).map_err(io);
        }
        Ok(HostDevice::real(RealDevice::new((geometry, start), engine, depth, health)))
    }

    fn io_error(&self, action: &'static str, source: std::io::Error) -> OpenError {
        OpenError::Io { action, path: self.path().into(), source }
    }
}

/// First zone and geometry of one shard. Where the zones do not divide evenly, the first shards
/// have one more zone. The limits of open and active zones are divided and rounded down. `None`
/// when a shard would have no zone, or no open or active zone.
fn share(whole: &Geometry, shard: u32, shard_count: u32) -> Option<(ZoneId, Geometry)> {
    assert!(shard < shard_count, "shards are numbered from 0");
    let (each, rest) = (whole.zone_count / shard_count, whole.zone_count % shard_count);
    let zone_count = each + u32::from(shard < rest);
    let first = ZoneId(shard * each + shard.min(rest));
    let divided = |limit: Option<u32>| limit.map(|limit| limit / shard_count);
    let share = Geometry {
        zone_count,
        max_open_zones: divided(whole.max_open_zones),
        max_active_zones: divided(whole.max_active_zones),
        ..*whole
    };
    let is_usable =
        0 < each && share.max_open_zones != Some(0) && share.max_active_zones != Some(0);
    is_usable.then_some((first, share))
}

fn geometry_of(size: Bytes, zone: Bytes, path: &Path) -> Result<Geometry, OpenError> {
    let zones = size.0 / zone.0;
    let zone_count = u32::try_from(zones).ok().filter(|zones| 0 < *zones);
    let Some(zone_count) = zone_count else {
        return Err(OpenError::ZoneCount { path: path.into(), size, zone });
    };
    let zone_size = Blocks(zone.0 / BLOCK_BYTES as u64);
    Ok(Geometry {
        kind: DeviceKind::Conventional,
        zone_count,
        zone_size,
        zone_capacity: zone_size,
        max_open_zones: None,
        max_active_zones: None,
    })
}

/// Position of a shard's block on the whole device, in bytes. `start` is the first block of the
/// shard.
pub(crate) fn position(start: Lba, lba: Lba) -> u64 {
    Blocks(start.0 + lba.0).bytes().0
}

#[cfg(test)]
mod tests;
