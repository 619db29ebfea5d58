//! Device lookup: opens and locks the file of a device and learns its size. Nothing is changed.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use zonal_base::{BLOCK_BYTES, Blocks, Bytes, Pool, PoolClass};

use super::{Caching, NewFile, OpenError};
use crate::DeviceLocation;
use crate::zoned::{Queue, ZonesError};

/// Maximum wait for a device that a killed process still holds: 4 s. The kernel closes that
/// process's ring in the background after its last writes: mostly within 10 ms, and in one of some
/// hundred kills on a busy disk after more than 1 s.
const LOCK_PATIENCE: Duration = Duration::from_secs(4);

/// Pause between two attempts to open or lock the device.
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// Maximum attempts to open a path: 8. The path may name another file by the time the opened file
/// is locked. After that many attempts another process is at work there, and the device counts as
/// in use.
const OPENINGS_MAX: u32 = 8;

/// An opened and locked device file.
pub(super) struct UsableFile {
    pub(super) file: File,
    pub(super) caching: Caching,
    /// Set when this call created the file.
    pub(super) new_file: Option<NewFile>,
}

/// Opens the device for reading and writing, and locks it. Creates a missing file, empty, if the
/// spec names its size.
pub(super) fn find(place: &DeviceLocation, wanted: Caching) -> Result<UsableFile, OpenError> {
    let path = place.path();
    // With O_EXCL the kernel refuses a block device that is mounted.
    let exclusive = match place {
        DeviceLocation::Block { .. } | DeviceLocation::Zoned { .. } => OFlags::EXCL,
        DeviceLocation::File { .. } | DeviceLocation::Emulated { .. } => OFlags::empty(),
    };
    let mut new_file = None;
    for _ in 0..OPENINGS_MAX {
        let (file, caching) = match open_patiently(path, OFlags::RDWR | exclusive, wanted) {
            Err(Errno::NOENT) if place.may_be_made() => {
                new_file = make(place)?;
                continue;
            }
            opened => opened.map_err(|errno| refusal(place, errno))?,
        };
        let locked = lock(&file, path);
        if let (Err(OpenError::InUse { .. }), Some(new_file)) = (&locked, &new_file) {
            // This process created the file, but another one locked it first: leave the file to it.
            new_file.keep();
        }
        locked?;
        if leads_to(path, &file) {
            return Ok(UsableFile { file, caching, new_file });
        }
    }
    Err(OpenError::InUse { path: path.into() })
}

/// Creates an empty file. `None` when another process has just created it.
fn make(place: &DeviceLocation) -> Result<Option<NewFile>, OpenError> {
    let path = place.path();
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
    match rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR) {
        Ok(file) => Ok(Some(NewFile::made(File::from(file), path))),
        Err(Errno::EXIST) if path.is_symlink() => Err(OpenError::BrokenLink { path: path.into() }),
        Err(Errno::EXIST) => Ok(None),
        Err(errno) => Err(refusal(place, errno)),
    }
}

/// Opens the device read-only, without a lock.
pub(super) fn find_read_only(
    place: &DeviceLocation,
    wanted: Caching,
) -> Result<(File, Caching), OpenError> {
    let opened = open(place.path(), OFlags::RDONLY, wanted);
    opened.map_err(|errno| match errno {
        Errno::NOENT if place.may_be_made() => OpenError::NotMadeYet { path: place.path().into() },
        _ => refusal(place, errno),
    })
}

fn open(path: &Path, flags: OFlags, wanted: Caching) -> Result<(File, Caching), Errno> {
    let flags = flags | OFlags::CLOEXEC;
    let open = |flags| rustix::fs::open(path, flags, Mode::empty()).map(File::from);
    let direct = match wanted {
        Caching::Direct => open(flags | OFlags::DIRECT),
        Caching::Buffered => Err(Errno::INVAL),
    };
    match direct {
        Err(Errno::INVAL | Errno::OPNOTSUPP) => open(flags).map(|file| (file, Caching::Buffered)),
        direct => direct.map(|file| (file, Caching::Direct)),
    }
}

/// Opens a device, and waits while a process that was just killed still holds it.
fn open_patiently(path: &Path, flags: OFlags, wanted: Caching) -> Result<(File, Caching), Errno> {
    let begin = Instant::now();
    loop {
        match open(path, flags, wanted) {
            Err(Errno::BUSY) if begin.elapsed() < LOCK_PATIENCE => {
                std::thread::sleep(LOCK_PAUSE);
            }
            opened => return opened,
        }
    }
}

/// Turns the error of an open into the reason for the user.
fn refusal(place: &DeviceLocation, errno: Errno) -> OpenError {
    let path = place.path();
    match (errno, place) {
        (Errno::NOENT, DeviceLocation::Block { .. } | DeviceLocation::Zoned { .. }) => {
            OpenError::NoBlockDevice { path: path.into() }
        }
        (Errno::NOENT, _) if place.may_be_made() => OpenError::NoFolder { path: path.into() },
        (Errno::NOENT, _) => OpenError::Missing { path: path.into() },
        (Errno::ISDIR, _) => OpenError::WrongKind { path: path.into(), wanted: kind(place) },
        (Errno::BUSY | Errno::TXTBSY, _) => OpenError::InUse { path: path.into() },
        _ => OpenError::io("open", path, errno),
    }
}

/// Locks the file. The lock belongs to the open file description: it lasts as long as any duplicate
/// of the descriptor. It also lasts, as it should, as long as the kernel still carries out the I/O
/// of a killed process.
fn lock(file: &File, path: &Path) -> Result<(), OpenError> {
    let begin = Instant::now();
    loop {
        match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(()),
            Err(Errno::WOULDBLOCK) if begin.elapsed() < LOCK_PATIENCE => {
                std::thread::sleep(LOCK_PAUSE);
            }
            Err(Errno::WOULDBLOCK) => return Err(OpenError::InUse { path: path.into() }),
            Err(errno) => return Err(OpenError::io("lock", path, errno)),
        }
    }
}

/// True when the path still names this file: the process that locked it before may have removed it.
pub(super) fn leads_to(path: &Path, file: &File) -> bool {
    let identity = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
    match (std::fs::metadata(path), file.metadata()) {
        (Ok(at_path), Ok(opened)) => identity(at_path) == identity(opened),
        _ => false,
    }
}

/// Size of the device; 0 for a file that was just created.
pub(super) fn size(file: &File, place: &DeviceLocation) -> Result<Bytes, OpenError> {
    match place {
        DeviceLocation::Block { path } | DeviceLocation::Zoned { path, .. } => {
            size_of_block_device(file, path)
        }
        DeviceLocation::File { .. } | DeviceLocation::Emulated { .. } => {
            size_of_file(file, place.path())
        }
    }
}

fn size_of_file(file: &File, path: &Path) -> Result<Bytes, OpenError> {
    let stat = rustix::fs::fstat(file).map_err(|errno| OpenError::io("stat", path, errno))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(OpenError::WrongKind { path: path.into(), wanted: FILE });
    }
    Ok(Bytes(u64::try_from(stat.st_size).unwrap_or(0)))
}

/// Queue limits of a drive that the spec names as zoned.
pub(super) fn zoned_queue(file: &File, path: &Path) -> Result<Queue, OpenError> {
    check_block_device(file, path)?;
    Ok(Queue::of(file))
}

fn size_of_block_device(file: &File, path: &Path) -> Result<Bytes, OpenError> {
    check_block_device(file, path)?;
    // Kernels without zone support have no `zoned` attribute, and no zoned devices either.
    if Queue::of(file).zoned.is_some_and(|zoned| zoned == "host-managed") {
        return Err(OpenError::zones(path, ZonesError::Zoned));
    }
    let end = rustix::fs::seek(file, rustix::fs::SeekFrom::End(0));
    end.map(Bytes).map_err(|errno| OpenError::io("read the size of", path, errno))
}

/// Checks that the path is a block device whose logical blocks are at most 4 KiB.
fn check_block_device(file: &File, path: &Path) -> Result<(), OpenError> {
    let io = |action| move |errno| OpenError::io(action, path, errno);
    let stat = rustix::fs::fstat(file).map_err(io("stat"))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::BlockDevice {
        return Err(OpenError::WrongKind { path: path.into(), wanted: BLOCK_DEVICE });
    }
    let logical_block = rustix::fs::ioctl_blksszget(file).map_err(io("read the block size of"))?;
    if BLOCK_BYTES < logical_block as usize {
        return Err(OpenError::LargeBlocks { path: path.into(), logical_block });
    }
    Ok(())
}

/// Tests O_DIRECT with a read of one block: some file systems accept the flag at open and then
/// refuse such reads.
pub(super) fn check_direct(
    file: &File,
    path: &Path,
    caching: Caching,
) -> Result<Caching, OpenError> {
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
        "O_DIRECT not supported: using the page cache, which costs memory and CPU"
    );
    Ok(caching)
}

const FILE: &str = "a file";
const BLOCK_DEVICE: &str = "a block device";

/// Kind of file that the spec names.
fn kind(place: &DeviceLocation) -> &'static str {
    match place {
        DeviceLocation::File { .. } | DeviceLocation::Emulated { .. } => FILE,
        DeviceLocation::Block { .. } | DeviceLocation::Zoned { .. } => BLOCK_DEVICE,
    }
}
