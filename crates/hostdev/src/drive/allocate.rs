//! File preallocation: reserves all space at once, so that the file never grows and never runs out
//! of space.

use std::fs::File;
use std::ops::Range;
use std::path::Path;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use zonal_base::{Blocks, Bytes, Pool, PoolClass, index};

use super::OpenError;

/// Length of one write where the file system cannot preallocate: 1 MiB.
const ZEROS: Blocks = Blocks(256);

/// Sets the size of the file and allocates every byte of it. Existing data is kept.
///
/// Requires: the file has this size, or less because it was just created.
pub(crate) fn allocate(file: &File, path: &Path, size: Bytes) -> Result<(), OpenError> {
    let io = |action| move |errno| OpenError::io(action, path, errno);
    let stat = rustix::fs::fstat(file).map_err(io("stat"))?;
    let begun = u64::try_from(stat.st_size).unwrap_or(0);
    let is_new = begun < size.0;
    // `st_blocks` counts units of 512 bytes on Linux, whatever the block size of the file system.
    let has = u64::try_from(stat.st_blocks).unwrap_or(0) * 512;
    let needed = Bytes(size.0.saturating_sub(has));
    let too_small = |free| OpenError::DiskTooSmall { path: path.into(), needed, free };
    let disk = rustix::fs::fstatvfs(file).map_err(io("check the free space for"))?;
    let free = Bytes(disk.f_bavail * disk.f_frsize);
    if free < needed {
        return Err(too_small(free));
    }
    let outcome = match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, size.0) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) if is_new => write_zeros(file, begun..size.0),
        // An existing file: its space is allocated, or writes fail later for lack of it.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        outcome => outcome,
    };
    match outcome {
        Ok(()) if is_new => rustix::fs::fsync(file).map_err(io("flush")),
        Ok(()) => Ok(()),
        Err(Errno::NOSPC | Errno::DQUOT) => Err(too_small(free)),
        Err(errno) => Err(OpenError::io("allocate the space of", path, errno)),
    }
}

fn write_zeros(file: &File, range: Range<u64>) -> Result<(), Errno> {
    let pool = Pool::new(&[PoolClass { blocks: ZEROS, count: 1 }], Box::new(|| ()));
    let zeros = pool.take(ZEROS).expect("the pool is new");
    let mut position = range.start;
    while position < range.end {
        // Zones, and so files, are multiples of 1 MiB. The next iteration continues after a short
        // write.
        let len = index((range.end - position).min(ZEROS.bytes().0));
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
        write_zeros(&file, 0..size.0).unwrap();
        let metadata = file.metadata().unwrap();
        assert_eq!(metadata.len(), size.0);
        assert!(size.0 <= metadata.blocks() * 512, "no holes");
    }
}
