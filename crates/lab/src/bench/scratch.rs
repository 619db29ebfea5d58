//! Write bandwidth of a file system: measured on a scratch file beside the file under test.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FallocateFlags, Mode, OFlags};
use rustix::io::Errno;
use zonal_base::{Blocks, Bytes, Pool, PoolClass, index};

use super::BenchError;

/// Size of the scratch file: 512 MiB, more than the write cache of a small drive.
const SCRATCH: Bytes = Bytes::mib(512);

/// Size of one write: 1 MiB, as a zone log writes.
const WRITE: Blocks = Blocks(256);

/// Number of writers: four, as many zones as a log writes at once.
const WRITERS: u64 = 4;

/// Shortest measured time. A drive with a write cache, and a virtual drive even more, takes the
/// first half gigabyte two or three times as fast as the bytes after it.
const MEASURED: Duration = Duration::from_secs(2);

/// Data of one writer: 16 writes, so that they do not come from the processor's cache.
const MEMORY: Bytes = Bytes::mib(16);

/// Measures bytes per second of 1 MiB writes, four at a time, to a scratch file in `folder`. The
/// writes use O_DIRECT where the file system supports it, and last two seconds. The first pass
/// over the file is not counted, because it also allocates. The file is removed afterwards.
///
/// # Errors
/// When the folder has no room or is not writable.
pub fn write_bandwidth(folder: &Path) -> Result<u64, BenchError> {
    let path = folder.join(format!(".zonal-bench-{}.scratch", std::process::id()));
    let outcome = measure(&path);
    let _ = std::fs::remove_file(&path);
    outcome.map_err(|errno| {
        let folder = folder.display();
        BenchError::Failed(format!(
            "cannot measure the write bandwidth in {folder}: {errno}; write --rate in bytes"
        ))
    })
}

fn measure(path: &PathBuf) -> Result<u64, Errno> {
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
    let open = |flags| rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR);
    let file = match open(flags | OFlags::DIRECT) {
        Err(Errno::INVAL) => open(flags),
        opened => opened,
    }?;
    rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, SCRATCH.0)?;
    let pass = || {
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..WRITERS)
                .map(|writer| {
                    scope.spawn({
                        let file = &file;
                        move || write_share(file, writer)
                    })
                })
                .collect();
            writers.into_iter().try_for_each(|writer| writer.join().unwrap_or(Err(Errno::IO)))
        })
    };
    pass()?;
    let (start, mut written) = (Instant::now(), 0);
    while start.elapsed() < MEASURED {
        pass()?;
        written += SCRATCH.0;
    }
    rustix::fs::fdatasync(&file)?;
    Ok(super::settings::part_of(written, 1.0 / start.elapsed().as_secs_f64()))
}

fn write_share(file: &impl rustix::fd::AsFd, writer: u64) -> Result<(), Errno> {
    let blocks = MEMORY.blocks_ceil();
    let pool = Pool::new(&[PoolClass { blocks, count: 1 }], Box::new(|| ()));
    let mut data = pool.take(blocks).expect("the pool is new");
    crate::value::fill_noise(data.bytes_mut());
    let len = index(WRITE.bytes().0);
    let share = SCRATCH.0 / WRITERS;
    let mut position = writer * share;
    while position < (writer + 1) * share {
        let from = index(position % MEMORY.0);
        match rustix::io::pwrite(file, &data.bytes()[from..from + len], position) {
            Ok(written) if written == len => position += written as u64,
            Ok(_) => return Err(Errno::NOSPC),
            Err(Errno::INTR) => (),
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
