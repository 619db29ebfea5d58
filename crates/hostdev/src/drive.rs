//! Opening a file or block device: created, locked, preallocated, checked, and divided among shards.

mod allocate;
mod error;

pub use error::OpenError;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use zonal_base::{BLOCK_BYTES, Blocks, Bytes, Lba, Pool, PoolClass, ZoneId};
use zonal_device::{Geometry, Kind};

use crate::device::{HostDevice, QUEUE_DEPTH_MAX, ShardOptions};
use crate::engine::Engine;
use crate::health::Health;
use crate::{DeviceSpec, EngineKind, Place};

/// How long opening waits for a process that was just killed: 1 s. Its ring is taken down in the
/// background, within some 10 ms here; a drive may take longer over its last writes. A guess.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);

/// An opened device, locked against other processes until it and its last shard are dropped.
#[derive(Debug)]
pub struct Drive {
    file: File,
    path: PathBuf,
    geometry: Geometry,
    caching: Caching,
    engine: Option<EngineKind>,
}

/// Whether the kernel's page cache stands between us and the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caching {
    /// O_DIRECT.
    Direct,
    /// The file system refuses O_DIRECT, or wants it aligned to more than a block.
    Buffered,
}

impl Drive {
    /// Opens the device; a file is created if there is none. What it holds is kept.
    ///
    /// # Errors
    /// When the device cannot be used; the text says what to do.
    pub fn open(spec: &DeviceSpec) -> Result<Self, OpenError> {
        Self::open_cached(spec, Caching::Direct)
    }

    pub(crate) fn open_cached(spec: &DeviceSpec, wanted: Caching) -> Result<Self, OpenError> {
        let (path, flags) = match &spec.place {
            Place::File { path, size: Some(_) } => (path, OFlags::CREATE),
            Place::File { path, size: None } => (path, OFlags::empty()),
            // Refused by the kernel while the device is mounted.
            Place::Block { path } => (path, OFlags::EXCL),
        };
        let (file, caching) = open_file(path, flags | OFlags::RDWR, wanted)?;
        lock(&file, path)?;
        let size = match spec.place {
            Place::File { size, .. } => allocate::file(&file, path, size)?,
            Place::Block { .. } => size_of_block_device(&file, path)?,
        };
        let caching = check_direct(&file, path, caching)?;
        let geometry = geometry_of(size, spec.zone, path)?;
        Ok(Self { file, path: path.clone(), geometry, caching, engine: spec.engine })
    }

    /// Opens the device to look at it. Nothing is created, changed or locked: it may be in use.
    ///
    /// # Errors
    /// When there is no such device, or it cannot be read.
    pub fn open_read_only(spec: &DeviceSpec) -> Result<Self, OpenError> {
        let (Place::File { path, .. } | Place::Block { path }) = &spec.place;
        let (file, caching) = open_file(path, OFlags::RDONLY, Caching::Direct)?;
        let size = match spec.place {
            Place::File { .. } => size_of_file(&file, path)?,
            Place::Block { .. } => size_of_block_device(&file, path)?,
        };
        let caching = check_direct(&file, path, caching)?;
        let geometry = geometry_of(size, spec.zone, path)?;
        Ok(Self { file, path: path.clone(), geometry, caching, engine: spec.engine })
    }

    /// All zones of the device.
    #[must_use]
    pub const fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// True when the page cache is out of the way (O_DIRECT).
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.caching == Caching::Direct
    }

    /// One shard's share: a run of zones of its own, numbered from 0, and an engine of its own. It can
    /// be moved to another thread until its first `flush_submissions`; from then on one thread drives
    /// and drops it.
    ///
    /// # Errors
    /// When the device has fewer zones, or allows fewer active ones, than there are shards; or when
    /// the system has no threads or descriptors left.
    pub fn shard(&self, options: &ShardOptions<'_>) -> Result<HostDevice, OpenError> {
        let (first, geometry) =
            share(&self.geometry, options.shard, options.shard_count).ok_or_else(|| {
                OpenError::TooManyShards { path: self.path.clone(), shards: options.shard_count }
            })?;
        let io = |source| self.io_error("open an engine for", source);
        let file = self.file.try_clone().map_err(io)?;
        let engine =
            Engine::open(self.engine, file, options.queue_depth, options.pool).map_err(io)?;
        let start = self.geometry.zone_start(first);
        assert!((1..=QUEUE_DEPTH_MAX).contains(&options.queue_depth), "the depth of a queue");
        let health = Health::new(self.path.clone());
        Ok(HostDevice::new((geometry, start), engine, options.queue_depth, health))
    }

    fn io_error(&self, action: &'static str, source: std::io::Error) -> OpenError {
        OpenError::Io { action, path: self.path.clone(), source }
    }
}

/// The zones of one shard: where they begin, and what they are as a device of their own. The first
/// shards have one zone more where the zones do not divide evenly; limits are divided, rounded down.
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

fn open_file(path: &Path, flags: OFlags, wanted: Caching) -> Result<(File, Caching), OpenError> {
    let flags = flags | OFlags::CLOEXEC;
    let open = |flags| rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR);
    let direct = match wanted {
        Caching::Direct => open(flags | OFlags::DIRECT),
        Caching::Buffered => Err(Errno::INVAL),
    };
    let (opened, caching) = match direct {
        Err(Errno::INVAL | Errno::OPNOTSUPP) => (open(flags), Caching::Buffered),
        opened => (opened, Caching::Direct),
    };
    match opened {
        Ok(file) => Ok((File::from(file), caching)),
        Err(Errno::NOENT) if !flags.contains(OFlags::CREATE) => {
            Err(OpenError::Missing { path: path.into() })
        }
        Err(Errno::BUSY) => Err(OpenError::InUse { path: path.into() }),
        Err(errno) => Err(OpenError::io("open", path, errno)),
    }
}

/// The lock belongs to the open file description: it lasts as long as any duplicate of the descriptor
/// and, which is as well, as long as the kernel works on what a killed process left behind.
fn lock(file: &File, path: &Path) -> Result<(), OpenError> {
    let begin = Instant::now();
    loop {
        match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(()),
            Err(Errno::WOULDBLOCK) if begin.elapsed() < LOCK_PATIENCE => {
                std::thread::sleep(LOCK_PATIENCE / 100);
            }
            Err(Errno::WOULDBLOCK) => return Err(OpenError::InUse { path: path.into() }),
            Err(errno) => return Err(OpenError::io("lock", path, errno)),
        }
    }
}

fn size_of_file(file: &File, path: &Path) -> Result<Bytes, OpenError> {
    let stat = rustix::fs::fstat(file).map_err(|errno| OpenError::io("look at", path, errno))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(OpenError::WrongKind { path: path.into(), wanted: "a file" });
    }
    Ok(Bytes(u64::try_from(stat.st_size).unwrap_or(0)))
}

fn size_of_block_device(file: &File, path: &Path) -> Result<Bytes, OpenError> {
    let io = |action| move |errno| OpenError::io(action, path, errno);
    let stat = rustix::fs::fstat(file).map_err(io("look at"))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::BlockDevice {
        return Err(OpenError::WrongKind { path: path.into(), wanted: "a block device" });
    }
    let logical_block =
        rustix::fs::ioctl_blksszget(file).map_err(io("ask for the block size of"))?;
    if BLOCK_BYTES < logical_block as usize {
        return Err(OpenError::LargeBlocks { path: path.into(), logical_block });
    }
    let (major, minor) = (rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev));
    // Kernels without zone support have no such file: then there are no zones either.
    let zoned = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/queue/zoned"));
    if zoned.is_ok_and(|zoned| zoned.trim() == "host-managed") {
        return Err(OpenError::Zoned { path: path.into() });
    }
    let end =
        rustix::fs::seek(file, rustix::fs::SeekFrom::End(0)).map_err(io("ask for the size of"))?;
    Ok(Bytes(end))
}

/// Reads one block: some file systems take O_DIRECT and then refuse to read like that.
fn check_direct(file: &File, path: &Path, caching: Caching) -> Result<Caching, OpenError> {
    let mut caching = caching;
    if caching == Caching::Direct {
        let pool = Pool::new(&[PoolClass { blocks: Blocks(1), count: 1 }], Box::new(|| ()));
        let mut block = pool.take(Blocks(1)).expect("the pool is new");
        match rustix::io::pread(file, block.bytes_mut(), 0) {
            Ok(_) => return Ok(Caching::Direct),
            Err(Errno::INVAL) => caching = Caching::Buffered,
            Err(errno) => return Err(OpenError::io("read", path, errno)),
        }
        let io = |errno| OpenError::io("change the caching of", path, errno);
        let flags = rustix::fs::fcntl_getfl(file).map_err(io)?;
        rustix::fs::fcntl_setfl(file, flags - OFlags::DIRECT).map_err(io)?;
    }
    tracing::warn!(
        path = %path.display(),
        "O_DIRECT is refused: the page cache takes part, which costs memory and CPU"
    );
    Ok(caching)
}

fn geometry_of(size: Bytes, zone: Bytes, path: &Path) -> Result<Geometry, OpenError> {
    let zones = size.0 / zone.0;
    let zone_count = u32::try_from(zones).ok().filter(|zones| 0 < *zones);
    let Some(zone_count) = zone_count else {
        return Err(OpenError::ZoneCount { path: path.into(), size, zone });
    };
    let zone_size = Blocks(zone.0 / BLOCK_BYTES as u64);
    Ok(Geometry {
        kind: Kind::Conventional,
        zone_count,
        zone_size,
        zone_capacity: zone_size,
        max_open_zones: None,
        max_active_zones: None,
    })
}

/// Where on the whole device a shard's block lies, in bytes.
pub(crate) fn position(start: Lba, lba: Lba) -> u64 {
    Blocks(start.0 + lba.0).bytes().0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_cover_every_zone_once() {
        let whole = Geometry {
            kind: Kind::Zoned,
            zone_count: 11,
            zone_size: Blocks(512),
            zone_capacity: Blocks(500),
            max_open_zones: Some(7),
            max_active_zones: Some(14),
        };
        let mut next = 0;
        for (shard, zone_count) in [(0, 4), (1, 4), (2, 3)] {
            let (first, share) = share(&whole, shard, 3).unwrap();
            assert_eq!((first, share.zone_count), (ZoneId(next), zone_count));
            assert_eq!((share.max_open_zones, share.max_active_zones), (Some(2), Some(4)));
            next += zone_count;
        }
        assert_eq!(next, whole.zone_count);
        assert_eq!(share(&whole, 0, 1), Some((ZoneId(0), whole)));
        assert_eq!(share(&whole, 0, 8), None, "seven open zones are not enough for eight shards");
        assert_eq!(share(&Geometry { max_open_zones: None, ..whole }, 0, 12), None);
    }
}
