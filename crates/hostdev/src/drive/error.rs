//! Errors of opening a device: the text of each says what to do.

use std::fmt;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use zonal_base::Bytes;

use crate::zoned::ZonesError;

/// Reason why a device could not be opened.
#[derive(Debug)]
pub enum OpenError {
    /// Another process or a mounted file system uses the device.
    InUse {
        /// Path of the device.
        path: PathBuf,
    },
    /// The file does not exist, and the spec names no size to create it with.
    Missing {
        /// Path of the file.
        path: PathBuf,
    },
    /// Read-only open of a file that does not exist yet: Zonal creates it at the first start.
    NotMadeYet {
        /// Path of the file.
        path: PathBuf,
    },
    /// The file cannot be created, because its parent directory does not exist.
    NoFolder {
        /// Path of the file.
        path: PathBuf,
    },
    /// The path is a symbolic link to a missing file.
    BrokenLink {
        /// Path of the link.
        path: PathBuf,
    },
    /// The block device does not exist.
    NoBlockDevice {
        /// Path of the device.
        path: PathBuf,
    },
    /// The file exists and has another size than the spec.
    SizeMismatch {
        /// Path of the file.
        path: PathBuf,
        /// Size of the file.
        found: Bytes,
        /// Size in the device spec.
        wanted: Bytes,
    },
    /// The file system has less free space than the file needs.
    DiskTooSmall {
        /// Path of the file.
        path: PathBuf,
        /// Space that is still to be allocated.
        needed: Bytes,
        /// Free space of the file system.
        free: Bytes,
    },
    /// The path is of another kind than the spec: a directory instead of a file, a file instead of
    /// a block device.
    WrongKind {
        /// Path of the device.
        path: PathBuf,
        /// Kind of file that the spec names, as in "is not ...".
        wanted: &'static str,
    },
    /// The logical blocks of the device are larger than 4096 bytes.
    LargeBlocks {
        /// Path of the device.
        path: PathBuf,
        /// Its logical block size in bytes.
        logical_block: u32,
    },
    /// The spec names a zoned drive and the device has no zones, or the other way round; or the
    /// zones cannot be used.
    Zones {
        /// Path of the device.
        path: PathBuf,
        /// Reason why the zones cannot be used.
        why: ZonesError,
    },
    /// The backing file belongs to another modelled drive, or to none.
    NotThisDrive {
        /// Path of the file.
        path: PathBuf,
        /// Kind of the file, and what the user should do.
        why: String,
    },
    /// A modelled drive without a backing file does not fit into memory.
    MemoryTooSmall {
        /// Name of the model.
        path: PathBuf,
        /// Memory that the full drive takes.
        needed: Bytes,
        /// Available memory.
        free: Bytes,
    },
    /// The device is smaller than one zone, or has more zones than 32 bits can number.
    ZoneCount {
        /// Path of the device.
        path: PathBuf,
        /// Size of the device.
        size: Bytes,
        /// Zone size in the device spec.
        zone: Bytes,
    },
    /// The device has fewer zones, or allows fewer open or active ones, than there are shards.
    TooManyShards {
        /// Path of the device.
        path: PathBuf,
        /// Number of shards.
        shards: u32,
    },
    /// A system call failed.
    Io {
        /// Action that failed, as in "cannot ... the device".
        action: &'static str,
        /// Path of the device.
        path: PathBuf,
        /// Error of the system call.
        source: io::Error,
    },
}

impl OpenError {
    pub(crate) fn io(action: &'static str, path: &Path, errno: Errno) -> Self {
        Self::Io { action, path: path.into(), source: errno.into() }
    }

    pub(crate) fn zones(path: &Path, why: ZonesError) -> Self {
        Self::Zones { path: path.into(), why }
    }

    /// True when a later attempt with the same spec may succeed: another process has the device, or
    /// the system failed. All other errors need another device, another spec or a repair.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        match self {
            Self::InUse { .. } => true,
            Self::Io { source, .. } => !matches!(
                source.kind(),
                ErrorKind::PermissionDenied
                    | ErrorKind::ReadOnlyFilesystem
                    | ErrorKind::NotADirectory
                    | ErrorKind::FileTooLarge
            ),
            Self::Missing { .. }
            | Self::NotMadeYet { .. }
            | Self::NoFolder { .. }
            | Self::BrokenLink { .. }
            | Self::NoBlockDevice { .. }
            | Self::SizeMismatch { .. }
            | Self::DiskTooSmall { .. }
            | Self::WrongKind { .. }
            | Self::LargeBlocks { .. }
            | Self::Zones { .. }
            | Self::NotThisDrive { .. }
            | Self::MemoryTooSmall { .. }
            | Self::ZoneCount { .. }
            | Self::TooManyShards { .. } => false,
        }
    }

    fn path(&self) -> &Path {
        match self {
            Self::InUse { path }
            | Self::Missing { path }
            | Self::NotMadeYet { path }
            | Self::NoFolder { path }
            | Self::BrokenLink { path }
            | Self::NoBlockDevice { path }
            | Self::SizeMismatch { path, .. }
            | Self::DiskTooSmall { path, .. }
            | Self::WrongKind { path, .. }
            | Self::LargeBlocks { path, .. }
            | Self::Zones { path, .. }
            | Self::NotThisDrive { path, .. }
            | Self::MemoryTooSmall { path, .. }
            | Self::ZoneCount { path, .. }
            | Self::TooManyShards { path, .. }
            | Self::Io { path, .. } => path,
        }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.path().display())?;
        match self {
            Self::InUse { .. } => {
                f.write_str("in use: stop the other process, unmount the device, or name another")
            }
            Self::Missing { .. } => f.write_str(
                "does not exist: to create a file, add its size, for example ?size=8GiB",
            ),
            Self::NotMadeYet { .. } => f.write_str("does not exist yet"),
            Self::NoFolder { path } => {
                let folder = path.parent().unwrap_or(path).display();
                write!(f, "the directory {folder} does not exist: create it, or name another path")
            }
            Self::BrokenLink { .. } => f.write_str(
                "is a dangling symbolic link: create or mount its target, or name another path",
            ),
            Self::NoBlockDevice { .. } => {
                f.write_str("does not exist: name a device that `lsblk -p` lists")
            }
            Self::SizeMismatch { found, wanted, path } if found < wanted => write!(
                f,
                "has a size of {}, not {wanted}: if it was cut, restore its size (fallocate -l \
                 {wanted} {}) to keep what is left; if that is its size, omit size=; or delete the \
                 file",
                found.rounded(),
                path.display()
            ),
            Self::SizeMismatch { found, wanted, .. } => write!(
                f,
                "has a size of {}, not {wanted}: omit size= to keep its contents, or delete the \
                 file",
                found.rounded()
            ),
            Self::DiskTooSmall { needed, free, .. } => write!(
                f,
                "needs {} more and the file system has {} free: free disk space, or write a \
                 smaller size",
                needed.rounded(),
                free.rounded()
            ),
            Self::WrongKind { wanted, .. } => write!(
                f,
                "is not {wanted}: write file:PATH for a file, block:/dev/NAME for a block device, \
                 zns:/dev/NAME for a zoned one"
            ),
            Self::LargeBlocks { logical_block, .. } => write!(
                f,
                "has blocks of {logical_block} bytes: format the drive with blocks of at most 4096"
            ),
            Self::Zones { why, .. } => why.fmt(f),
            Self::NotThisDrive { why, .. } => f.write_str(why),
            Self::MemoryTooSmall { needed, free, .. } => write!(
                f,
                "needs up to {} of memory, and {} are free: reduce zones= or size=, or name a file \
                 with backing=PATH",
                needed.rounded(),
                free.rounded()
            ),
            Self::ZoneCount { size, zone, .. } => not_in_zones(f, *size, *zone),
            Self::TooManyShards { shards, .. } => write!(
                f,
                "is too small for {shards} shards: use fewer shards, or smaller zones (zone=)"
            ),
            Self::Io { action, source, .. } => {
                write!(f, "cannot {action} it: {source}: {}", remedy(source))
            }
        }
    }
}

/// Writes why a size cannot be divided into zones.
fn not_in_zones(f: &mut fmt::Formatter<'_>, size: Bytes, zone: Bytes) -> fmt::Result {
    match size {
        Bytes(0) => f.write_str("is empty: add its size, for example ?size=8GiB"),
        size if size < zone => write!(
            f,
            "has a size of {}, less than one zone of {zone}: restore its size if it was cut, write \
             a smaller zone=, or name a larger device",
            size.rounded()
        ),
        size => write!(f, "{} are too many zones of {zone}: write a larger zone=", size.rounded()),
    }
}

/// What the user should do after a failed system call.
fn remedy(source: &io::Error) -> &'static str {
    match source.kind() {
        ErrorKind::PermissionDenied => "give this user access to it, or name another",
        ErrorKind::ReadOnlyFilesystem => {
            "name a path on a writable file system (of a systemd service: in its ReadWritePaths)"
        }
        ErrorKind::NotADirectory => "a part of the path is a file: correct the path",
        ErrorKind::FileTooLarge => "write a smaller size=",
        _ => "see the kernel log (dmesg), or name another device",
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
