//! Data directory: devices, keys and sample objects that Zonal creates when the user names none.
//!
//! ```text
//! zonal-data/lock          held while a Zonal uses the directory
//! zonal-data/credentials   the access key, as AWS's own tools read it
//! zonal-data/flash         the device
//! zonal-data/origin/       the object store: bucket `demo` with a few objects
//! zonal-data/pins          what was pinned by order: `pins` writes it, also where everything else was named
//!
//! zonal-block/lock         the same for a block device
//! zonal-block/capacity     the device that keeps the data
//! zonal-block/buffer       the device that takes the writes
//! zonal-block/block.sock   where its clients find it
//! ```
//!
//! Each is made only when it is needed; a Zonal to which everything was named makes no directory.
//! Whatever is made is complete or not there: it is written beside and renamed. A start that fails
//! removes what it made.

mod credentials;
mod made;
pub(crate) mod samples;

use std::fs::{DirBuilder, File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use zonal_base::Bytes;
use zonal_cli::Failure;
use zonal_hostdev::{DeviceLocation, DeviceSpec, ZONE_SIZE};

use crate::config::KeyPair;

pub(crate) use credentials::KeysFrom;
use made::Made;

/// The device's size where the user names none and the disk allows it: 8 GiB. Large enough to be of use,
/// small enough for any laptop.
const FLASH_MAX: Bytes = Bytes::mib(8 << 10);

/// The least: 512 MiB, eight zones. Below it, zones are emptied before they were of use.
const FLASH_MIN: Bytes = Bytes::mib(512);

/// Of what the disk has left, the device takes at most one part in so many.
const FREE_SHARE: u64 = 4;

/// An opened data directory, locked against other processes.
#[derive(Debug)]
pub(crate) struct Home {
    path: PathBuf,
    /// Another start used it before.
    is_used: bool,
    made: Made,
    /// Locked until it is dropped, after `made`.
    _lock: File,
}

impl Home {
    /// Makes the directory if there is none, and locks it.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let mut made = Made::default();
        match DirBuilder::new().mode(0o700).create(path) {
            Ok(()) => {
                tracing::info!(path = %path.display(), "made the data directory");
                made.note(path.into());
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => (),
            Err(error) => return Err(unusable(path, "make", &error)),
        }
        // Absolute, so that what is printed can be used from anywhere.
        let path = path.canonicalize().map_err(|error| unusable(path, "use", &error))?;
        let lock_path = path.join("lock");
        let is_used = lock_path.exists();
        let lock = File::options().create(true).append(true).open(&lock_path);
        let lock = lock.map_err(|error| unusable(&path, "write to", &error))?;
        lock_for(&path, &lock)?;
        if !is_used {
            made.note(lock_path);
        }
        Ok(Self { path, is_used, made, _lock: lock })
    }

    /// Keeps others out of a data directory of which nothing but the file of pins is needed. There may be none, or nobody
    /// has used it yet; then nothing is made, but it must be possible to make it.
    pub(crate) fn keep_to_itself(path: &Path) -> Result<Option<File>, Failure> {
        let parent = path.parent().filter(|parent| *parent != Path::new(""));
        let parent = parent.unwrap_or(Path::new("."));
        std::fs::metadata(parent).map_err(|error| unusable(path, "make", &error))?;
        match File::open(path.join("lock")) {
            Ok(lock) => lock_for(path, &lock).map(|()| Some(lock)),
            // What cannot be opened cannot be shared either: whoever wants to pin is told why that fails.
            Err(_) => Ok(None),
        }
    }

    /// The start was good: what it made stays.
    pub(crate) fn keep(&mut self) {
        self.made.keep();
    }

    /// The access key: the one that is kept, or a new one.
    pub(crate) fn keys(&mut self) -> Result<(KeyPair, KeysFrom), Failure> {
        let path = self.path.join("credentials");
        credentials::load_or_make(&path, &mut self.made)
            .map_err(|error| Failure::request(format!("{}: {error}", path.display())))
    }

    /// The folder that is the origin, with sample objects when the data directory is new. One that went
    /// missing is not made again: clients would write into the wrong one.
    pub(crate) fn origin(&mut self) -> Result<PathBuf, Failure> {
        let path = self.path.join("origin");
        // Left by a start that was killed.
        let is_begun = unfinished(&path).exists();
        if !path.is_dir() {
            if self.is_used && !is_begun {
                return Err(Failure::request(format!(
                    "no origin is named, and the folder {} is gone: put it back, or make an empty one, or name \
                     an origin with --origin (origin.spec)",
                    path.display()
                )));
            }
            samples::make(&path, &mut self.made).map_err(|error| {
                Failure::request(format!(
                    "cannot make samples in {}: {error}: make room, or name an origin with --origin (origin.spec)",
                    path.display()
                ))
            })?;
        }
        Ok(path)
    }

    /// The device: the file that is there, or one that fits on the disk.
    pub(crate) fn flash(&mut self) -> Result<DeviceSpec, Failure> {
        let size = self.flash_size("a cache", "--device");
        self.device("flash", size)
    }

    /// The devices of a block device, the one that takes the writes and the one that keeps the data: the files that are
    /// there, or two that fit on the disk.
    pub(crate) fn block_devices(&mut self) -> Result<(DeviceSpec, DeviceSpec), Failure> {
        let capacity = self.flash_size("a block device", "--capacity");
        let buffer = capacity.clone().map(buffer_for);
        Ok((self.device("buffer", buffer)?, self.device("capacity", capacity)?))
    }

    /// Where its clients find it.
    pub(crate) fn block_socket(&self) -> PathBuf {
        self.path.join("block.sock")
    }

    /// A file, which is made with that size if it is not there.
    fn device(&mut self, name: &str, size: Result<Bytes, Failure>) -> Result<DeviceSpec, Failure> {
        let path = self.path.join(name);
        // A link that leads nowhere is not ours to remove.
        if path.symlink_metadata().is_err() {
            self.made.note(path.clone());
        }
        let is_empty = std::fs::metadata(&path).map_or(true, |file| file.len() == 0);
        let size = if is_empty { Some(size?) } else { None };
        Ok(DeviceSpec { place: DeviceLocation::File { path, size }, zone: None, engine: None })
    }

    /// What fits on the disk.
    fn flash_size(&self, user: &str, flag: &str) -> Result<Bytes, Failure> {
        let path = self.path.display();
        let disk = rustix::fs::statvfs(&self.path).map_err(|error| {
            Failure::request(format!("cannot look at the disk of {path}: {error}"))
        })?;
        let free = Bytes(disk.f_bavail * disk.f_frsize);
        fitting(free).ok_or_else(|| {
            let needed = Bytes(FLASH_MIN.0 * FREE_SHARE);
            Failure::request(format!(
                "the disk of {path} has {} left and {user} wants {needed}: make room, or name a device with {flag}",
                free.rounded()
            ))
        })
    }
}

/// Holds the lock of a data directory for as long as the file is open.
fn lock_for(path: &Path, lock: &File) -> Result<(), Failure> {
    match lock.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(Failure::work(format!(
            "the data directory {} is in use by another zonal: stop it, or name another with --data-dir",
            path.display()
        ))),
        Err(TryLockError::Error(error)) => Err(unusable(path, "lock", &error)),
    }
}

/// Why a data directory cannot be used, and what to do.
fn unusable(path: &Path, action: &str, error: &io::Error) -> Failure {
    let path = path.display();
    let advice = match error.kind() {
        ErrorKind::NotFound => "make the folder that it lies in, or name",
        _ => "name",
    };
    Failure::request(format!(
        "cannot {action} the data directory {path}: {error}: {advice} another with --data-dir"
    ))
}

/// The device's size on a disk with so much left.
fn fitting(free: Bytes) -> Option<Bytes> {
    let size = FLASH_MAX.min(Bytes(free.0 / FREE_SHARE));
    let whole_zones = Bytes(size.0 / ZONE_SIZE.0 * ZONE_SIZE.0);
    (FLASH_MIN <= whole_zones).then_some(whole_zones)
}

/// What takes the writes for a device of that size: a twentieth, and no less than four zones, so that one can be filled while
/// others are emptied.
fn buffer_for(capacity: Bytes) -> Bytes {
    let zones = (capacity.0 / 20).div_ceil(ZONE_SIZE.0);
    Bytes(zones.max(4) * ZONE_SIZE.0)
}

/// The name under which something is written before it gets its own.
fn unfinished(path: &Path) -> PathBuf {
    path.with_extension("unfinished")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_takes_a_quarter_of_what_is_left_within_bounds() {
        let gib = |n: u64| Bytes::mib(n << 10);
        assert_eq!(fitting(gib(1000)), Some(gib(8)));
        assert_eq!(fitting(gib(32)), Some(gib(8)));
        assert_eq!(fitting(gib(9)), Some(gib(2) + Bytes::mib(256)));
        assert_eq!(fitting(Bytes(gib(2).0 + 12345)), Some(Bytes::mib(512)));
        assert_eq!(fitting(Bytes(gib(2).0 - 1)), None);
    }
}
