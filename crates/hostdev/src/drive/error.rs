//! Errors of opening a device, and what to do about them.

use std::fmt;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use zonal_base::Bytes;

use crate::zoned::ZonesError;

/// Why a device could not be opened.
#[derive(Debug)]
pub enum OpenError {
    /// Another process, or a mounted file system, has it.
    InUse {
        /// The device.
        path: PathBuf,
    },
    /// There is no such file, and nothing says how large a new one shall be.
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// There is nothing to look at: the file is made when it is used.
    NotMadeYet {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be made, for the folder that it shall lie in is not there.
    NoFolder {
        /// The file.
        path: PathBuf,
    },
    /// A symbolic link that leads nowhere.
    BrokenLink {
        /// The link.
        path: PathBuf,
    },
    /// There is no such block device.
    NoBlockDevice {
        /// The device.
        path: PathBuf,
    },
    /// The file exists with another size.
    SizeMismatch {
        /// The file.
        path: PathBuf,
        /// Its size.
        found: Bytes,
        /// The size in the device spec.
        wanted: Bytes,
    },
    /// The file system has less room than the file needs.
    DiskTooSmall {
        /// The file.
        path: PathBuf,
        /// What it still needs.
        needed: Bytes,
        /// What there is.
        free: Bytes,
    },
    /// A directory where a file should be, a file where a block device should be.
    WrongKind {
        /// The path.
        path: PathBuf,
        /// What should be there.
        wanted: &'static str,
    },
    /// A block device whose own blocks are larger than ours.
    LargeBlocks {
        /// The device.
        path: PathBuf,
        /// Its logical block size in bytes.
        logical_block: u32,
    },
    /// A drive with zones of its own where one without was named, or the other way round; or zones that cannot be used.
    Zones {
        /// The device.
        path: PathBuf,
        /// Why not.
        why: ZonesError,
    },
    /// The file is not that of the modelled drive that was asked for.
    NotThisDrive {
        /// The file.
        path: PathBuf,
        /// What it is instead, and what to do about it.
        why: String,
    },
    /// A modelled drive without a file does not fit into memory.
    MemoryTooSmall {
        /// The model.
        path: PathBuf,
        /// What it takes when it is full.
        needed: Bytes,
        /// What there is.
        free: Bytes,
    },
    /// Not one zone, or more than can be numbered.
    ZoneCount {
        /// The device.
        path: PathBuf,
        /// Its size.
        size: Bytes,
        /// The zone size in the device spec.
        zone: Bytes,
    },
    /// Fewer zones, or places for active ones, than shards.
    TooManyShards {
        /// The device.
        path: PathBuf,
        /// The shards.
        shards: u32,
    },
    /// The system said no.
    Io {
        /// What was tried, as in "cannot ... the device".
        action: &'static str,
        /// The device.
        path: PathBuf,
        /// Why not.
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

    /// Whether the same may go well later although nobody changes what was asked for: another process has the device, or
    /// the system failed. All else waits for somebody who names another device, or mends this one.
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
            Self::InUse { .. } => f.write_str(
                "in use: stop the other process, or unmount the device, or name another",
            ),
            Self::Missing { .. } => f.write_str(
                "does not exist: to make a file, say how large it shall be, for example ?size=8GiB",
            ),
            Self::NotMadeYet { .. } => f.write_str("does not exist yet"),
            Self::NoFolder { path } => {
                let folder = path.parent().unwrap_or(path).display();
                write!(f, "the folder {folder} does not exist: make it, or name another path")
            }
            Self::BrokenLink { .. } => f.write_str(
                "is a symbolic link to nothing: make or mount what it leads to, or name another path",
            ),
            Self::NoBlockDevice { .. } => {
                f.write_str("does not exist: name one of the devices that `lsblk -p` lists")
            }
            Self::SizeMismatch { found, wanted, .. } => write!(
                f,
                "is {} large, not {wanted}: leave size= out to keep what it holds, \
                 or remove the file",
                found.rounded()
            ),
            Self::DiskTooSmall { needed, free, .. } => write!(
                f,
                "needs {} more and the file system has {} left: \
                 make room, or write a smaller size",
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
                "takes {} of memory when it is full, and {} are left: ask for less \
                 (zones=, size=), or name a file with backing=PATH",
                needed.rounded(),
                free.rounded()
            ),
            Self::ZoneCount { size, zone, .. } => not_in_zones(f, *size, *zone),
            Self::TooManyShards { shards, .. } => write!(
                f,
                "cannot be divided among {shards} shards: take fewer, \
                 or smaller zones (zone=)"
            ),
            Self::Io { action, source, .. } => {
                write!(f, "cannot {action} it: {source}: {}", remedy(source))
            }
        }
    }
}

/// Why a size cannot be divided into zones.
fn not_in_zones(f: &mut fmt::Formatter<'_>, size: Bytes, zone: Bytes) -> fmt::Result {
    match size {
        Bytes(0) => f.write_str("is empty: say how large it shall be, for example ?size=8GiB"),
        size if size < zone => write!(
            f,
            "is {} large, which is less than a zone of {zone}: write a smaller zone=, \
             or name a larger device",
            size.rounded()
        ),
        size => write!(f, "{} are too many zones of {zone}: write a larger zone=", size.rounded()),
    }
}

/// What to do when the system said no.
fn remedy(source: &io::Error) -> &'static str {
    match source.kind() {
        ErrorKind::PermissionDenied => "give this user the right to it, or name another",
        ErrorKind::ReadOnlyFilesystem => "name a path on a file system that can be written",
        ErrorKind::NotADirectory => "a part of the path is a file: correct the path",
        ErrorKind::FileTooLarge => "write a smaller size=",
        _ => "the kernel's log may say more (dmesg); or name another device",
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
