//! Data directory: devices, keys and sample objects that Zonal creates when the user names none.
//!
//! ```text
//! zonal-data/lock          lock file, held by the running Zonal
//! zonal-data/credentials   generated access key, AWS credentials file format
//! zonal-data/flash         cache device
//! zonal-data/origin/       sample origin: bucket `demo` with a few objects
//! zonal-data/pins          pins file, written by `pins` even if all else is configured
//!
//! zonal-block/lock         lock file of a block device
//! zonal-block/capacity     capacity device
//! zonal-block/buffer       write-buffer device
//! zonal-block/block.sock   Unix socket of the NBD server
//! ```
//!
//! Zonal creates each file only when needed. If the configuration names everything, Zonal creates
//! no directory. Each file appears complete or not at all: it is written under another name and
//! renamed. A failed start removes what it created.

mod credentials;
mod rollback;
pub(crate) mod samples;

use std::fs::{DirBuilder, File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use zonal_base::Bytes;
use zonal_cli::Failure;
use zonal_hostdev::{DeviceLocation, DeviceSpec, ZONE_SIZE};

use crate::config::KeyPair;

use rollback::CreatedFiles;

/// Name of the file with the generated access key.
const CREDENTIALS: &str = "credentials";

/// Largest size of a default device: 8 GiB. Large enough to be useful, small enough for any laptop.
const FLASH_MAX: Bytes = Bytes::mib(8 << 10);

/// Smallest size of a default device: 512 MiB, eight zones. In a smaller one, zones are evicted
/// before their data is read again.
const FLASH_MIN: Bytes = Bytes::mib(512);

/// A default device takes at most this fraction of the free disk space (1/4).
const FREE_SHARE: u64 = 4;

/// An opened data directory, locked against other processes.
#[derive(Debug)]
pub(crate) struct DataDir {
    path: PathBuf,
    /// An earlier start used the directory.
    is_used: bool,
    made: CreatedFiles,
    /// Lock file. It stays locked until it is dropped, after `made`.
    _lock: File,
}

impl DataDir {
    /// Creates the directory if it is missing, and locks it.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let mut made = CreatedFiles::default();
        match DirBuilder::new().mode(0o700).create(path) {
            Ok(()) => {
                tracing::info!(path = %path.display(), "created the data directory");
                made.note(path.into());
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => (),
            Err(error) => return Err(unusable(path, "create", &error)),
        }
        // An absolute path stays valid when the user runs the printed commands in another
        // directory.
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

    /// Locks a data directory of which only the pins file is in use. If the directory or its lock
    /// file does not exist, nothing is created, but the parent directory must exist.
    pub(crate) fn lock_pins_file(path: &Path) -> Result<Option<File>, Failure> {
        let parent = path.parent().filter(|parent| *parent != Path::new(""));
        let parent = parent.unwrap_or(Path::new("."));
        std::fs::metadata(parent).map_err(|error| unusable(path, "create", &error))?;
        match File::open(path.join("lock")) {
            Ok(lock) => lock_for(path, &lock).map(|()| Some(lock)),
            // A lock file that cannot be opened cannot be shared either. A later pin command
            // reports why the directory is unusable.
            Err(_) => Ok(None),
        }
    }

    /// The start succeeded: keep the files that it created.
    pub(crate) fn keep(&mut self) {
        self.made.keep();
    }

    /// The access key: the stored one, or a newly generated one.
    pub(crate) fn keys(&mut self) -> Result<KeyPair, Failure> {
        let path = self.path.join(CREDENTIALS);
        credentials::load_or_make(&path, &mut self.made)
            .map_err(|error| Failure::request(format!("{}: {error}", path.display())))
    }

    /// The folder that serves as the origin. A new data directory gets sample objects. A folder
    /// that has disappeared is an error: clients would write into an empty one.
    pub(crate) fn origin(&mut self) -> Result<PathBuf, Failure> {
        let path = self.path.join("origin");
        // A killed start left its unfinished folder.
        let is_begun = unfinished(&path).exists();
        if !path.is_dir() {
            if self.is_used && !is_begun {
                return Err(lost(&path));
            }
            samples::make(&path, &mut self.made).map_err(|error| {
                Failure::request(format!(
                    "cannot create sample objects in {}: {error}: free disk space, or name an \
                     origin with --origin (origin.spec)",
                    path.display()
                ))
            })?;
        }
        Ok(path)
    }

    /// The cache device: the existing file, or a new one whose size fits the disk.
    pub(crate) fn flash(&mut self) -> Result<DeviceSpec, Failure> {
        self.note_new("flash");
        Self::planned_flash(&self.path)
    }

    /// The cache device that a start takes or creates in this directory, which may not exist yet.
    pub(crate) fn planned_flash(path: &Path) -> Result<DeviceSpec, Failure> {
        device_file(path.join("flash"), flash_size(path, "a cache", "--device"))
    }

    /// The write-buffer and capacity devices of a block device: the existing files, or new ones
    /// whose sizes fit the disk.
    pub(crate) fn block_devices(&mut self) -> Result<(DeviceSpec, DeviceSpec), Failure> {
        self.note_new("buffer");
        self.note_new("capacity");
        Self::planned_block_devices(&self.path)
    }

    /// The devices of a block device that a start takes or creates in this directory.
    pub(crate) fn planned_block_devices(path: &Path) -> Result<(DeviceSpec, DeviceSpec), Failure> {
        let capacity = flash_size(path, "a block device", "--capacity");
        let buffer = capacity.clone().map(buffer_for);
        Ok((
            device_file(path.join("buffer"), buffer)?,
            device_file(path.join("capacity"), capacity)?,
        ))
    }

    /// Unix socket of the NBD server.
    pub(crate) fn block_socket(&self) -> PathBuf {
        self.path.join("block.sock")
    }

    /// A failed start removes the file if it does not exist yet.
    fn note_new(&mut self, name: &str) {
        let path = self.path.join(name);
        // A dangling symbolic link is not ours to remove.
        if path.symlink_metadata().is_err() {
            self.made.note(path);
        }
    }

    /// The default origin directory of this data directory is gone: the reason to refuse a start.
    pub(crate) fn lost_origin(path: &Path) -> Option<Failure> {
        let origin = path.join("origin");
        // A killed start left its unfinished folder.
        let is_there = origin.is_dir() || unfinished(&origin).exists();
        (path.join("lock").exists() && !is_there).then(|| lost(&origin))
    }
}

fn lost(origin: &Path) -> Failure {
    Failure::request(format!(
        "no origin is configured, and the default origin directory {} is missing: restore it, \
         create an empty one, or name an origin with --origin (origin.spec)",
        origin.display()
    ))
}

/// A device file; it gets this size if it is missing or empty.
fn device_file(path: PathBuf, size: Result<Bytes, Failure>) -> Result<DeviceSpec, Failure> {
    let is_empty = std::fs::metadata(&path).map_or(true, |file| file.len() == 0);
    let size = if is_empty { Some(size?) } else { None };
    Ok(DeviceSpec { place: DeviceLocation::File { path, size }, zone: None, engine: None })
}

/// Size of a default device on the disk of a data directory.
fn flash_size(data_dir: &Path, user: &str, flag: &str) -> Result<Bytes, Failure> {
    let path = data_dir.display();
    let existing = data_dir.ancestors().find(|path| path.exists());
    let disk = rustix::fs::statvfs(existing.unwrap_or(Path::new("."))).map_err(|error| {
        Failure::request(format!(
            "cannot read the free space of the file system of {path}: {error}"
        ))
    })?;
    let free = Bytes(disk.f_bavail * disk.f_frsize);
    fitting(free).ok_or_else(|| {
        let needed = Bytes(FLASH_MIN.0 * FREE_SHARE);
        Failure::request(format!(
            "the file system of {path} has {} free, {user} needs {needed}: free disk space, or \
             name a device with {flag}",
            free.rounded()
        ))
    })
}

/// The access key that a start generated in this data directory.
pub(crate) fn stored_keys(data_dir: &Path) -> Result<KeyPair, Failure> {
    let path = data_dir.join(CREDENTIALS);
    credentials::load(&path).map_err(|error| {
        let advice = match error.kind() {
            ErrorKind::NotFound => {
                ": start zonal serve first, and give this command the same flags in the same \
                 directory"
            }
            _ => "",
        };
        Failure::request(format!("{}: {error}{advice}", path.display()))
    })
}

/// Locks a data directory for as long as the file stays open.
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

/// The failure for an unusable data directory, with advice.
fn unusable(path: &Path, action: &str, error: &io::Error) -> Failure {
    let path = path.display();
    let advice = match error.kind() {
        ErrorKind::NotFound => "create its parent directory, or name",
        _ => "name",
    };
    Failure::request(format!(
        "cannot {action} the data directory {path}: {error}: {advice} another with --data-dir"
    ))
}

/// Size of a default device for this much free space, in whole zones; `None` if too little is free.
fn fitting(free: Bytes) -> Option<Bytes> {
    let size = FLASH_MAX.min(Bytes(free.0 / FREE_SHARE));
    let whole_zones = Bytes(size.0 / ZONE_SIZE.0 * ZONE_SIZE.0);
    (FLASH_MIN <= whole_zones).then_some(whole_zones)
}

/// Write-buffer size for a capacity: 1/20 of it. At least four zones, so that one can be filled
/// while others are compacted.
fn buffer_for(capacity: Bytes) -> Bytes {
    let zones = (capacity.0 / 20).div_ceil(ZONE_SIZE.0);
    Bytes(zones.max(4) * ZONE_SIZE.0)
}

/// Temporary name of a file until it is complete and renamed.
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
