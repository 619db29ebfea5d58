//! Giving a file all of its space at once, so that it never grows and never runs out.

use std::fs::File;
use std::path::Path;

use rustix::fs::{FallocateFlags, FileType};
use rustix::io::Errno;
use zonal_base::{Blocks, Bytes, Pool, PoolClass, index};

use super::OpenError;

/// How much is written at once where a file system cannot preallocate: 1 MiB.
const ZEROS: Blocks = Blocks(256);

/// The size of the file, every byte of it allocated. What the file holds is kept.
pub(super) fn file(file: &File, path: &Path, wanted: Option<Bytes>) -> Result<Bytes, OpenError> {
    let stat = rustix::fs::fstat(file).map_err(|errno| OpenError::io("look at", path, errno))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(OpenError::WrongKind { path: path.into(), wanted: "a file" });
    }
    let found = Bytes(u64::try_from(stat.st_size).unwrap_or(0));
    let size = wanted.unwrap_or(found);
    let is_new = found == Bytes(0);
    if !is_new && found != size {
        return Err(OpenError::SizeMismatch { path: path.into(), found, wanted: size });
    }
    // Linux counts in units of 512 bytes, whatever the file system's own.
    let has = Bytes(u64::try_from(stat.st_blocks).unwrap_or(0) * 512);
    let allocated = allocate(file, path, size, has, is_new);
    if allocated.is_err() && is_new {
        // A part of a file helps nobody, and would be in the way of the next attempt.
        let _ = rustix::fs::ftruncate(file, 0);
        let _ = std::fs::remove_file(path);
    }
    allocated.map(|()| size)
}

fn allocate(
    file: &File,
    path: &Path,
    size: Bytes,
    has: Bytes,
    is_new: bool,
) -> Result<(), OpenError> {
    let io = |action| move |errno| OpenError::io(action, path, errno);
    let needed = Bytes(size.0.saturating_sub(has.0));
    let too_small = |free| OpenError::DiskTooSmall { path: path.into(), needed, free };
    let disk = rustix::fs::fstatvfs(file).map_err(io("look at the file system of"))?;
    let free = Bytes(disk.f_bavail * disk.f_frsize);
    if free < needed {
        return Err(too_small(free));
    }
    let outcome = match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, size.0) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) if is_new => write_zeros(file, size),
        // A file that somebody else made: its space is there or is found missing later.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        outcome => outcome,
    };
    match outcome {
        Ok(()) if is_new => rustix::fs::fsync(file).map_err(io("make durable")),
        Ok(()) => Ok(()),
        Err(Errno::NOSPC | Errno::DQUOT) => Err(too_small(free)),
        Err(errno) => Err(OpenError::io("allocate the space of", path, errno)),
    }
}

fn write_zeros(file: &File, size: Bytes) -> Result<(), Errno> {
    let pool = Pool::new(&[PoolClass { blocks: ZEROS, count: 1 }], Box::new(|| ()));
    let zeros = pool.take(ZEROS).expect("the pool is new");
    let mut position = 0;
    while position < size.0 {
        // Zones, and so files, are multiples of 1 MiB; a short write goes on at the next turn.
        let len = index((size.0 - position).min(ZEROS.bytes().0));
        match rustix::io::pwrite(file, &zeros.bytes()[..len], position) {
            Ok(0) => return Err(Errno::IO),
            Ok(written) => position += written as u64,
            Err(Errno::INTR) => (),
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_space_cannot_be_preallocated_zeros_take_it() {
        use std::os::unix::fs::MetadataExt;
        let file = tempfile::tempfile().unwrap();
        let size = Bytes::mib(5) + Bytes::kib(4);
        write_zeros(&file, size).unwrap();
        let metadata = file.metadata().unwrap();
        assert_eq!(metadata.len(), size.0);
        assert!(size.0 <= metadata.blocks() * 512, "no holes");
    }
}
