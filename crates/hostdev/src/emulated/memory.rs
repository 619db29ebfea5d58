//! Data of a modelled drive in memory.

use std::fs::{self, File};
use std::path::Path;

use rustix::fs::MemfdFlags;
use zonal_base::Bytes;

use crate::OpenError;

/// Creates a memory file (memfd). It takes memory as its pages are written, until it is closed.
pub(super) fn file(path: &Path) -> Result<File, OpenError> {
    let made = rustix::fs::memfd_create("zonal-drive", MemfdFlags::CLOEXEC);
    made.map(File::from).map_err(|errno| OpenError::io("allocate memory for", path, errno))
}

/// A memory file of this size that reads as zeros, and takes no memory for them.
pub(crate) fn empty_file(path: &Path, size: Bytes) -> Result<File, OpenError> {
    let file = file(path)?;
    let sized = rustix::fs::ftruncate(&file, size.0);
    sized.map_err(|errno| OpenError::io("set the size of", path, errno))?;
    Ok(file)
}

/// # Errors
/// When less memory than `needed` is available.
pub(super) fn check(needed: Bytes, path: &Path) -> Result<(), OpenError> {
    let free = Bytes(available().0 >> 20 << 20);
    if free < needed {
        return Err(OpenError::MemoryTooSmall { path: path.into(), needed, free });
    }
    Ok(())
}

/// Memory that the machine has available and that this process may take.
fn available() -> Bytes {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| meminfo(&text));
    let number = |path: &str| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    // cgroup limit: in a container the file is the container's own; elsewhere it does not exist.
    let limit = number("/sys/fs/cgroup/memory.max");
    let used = number("/sys/fs/cgroup/memory.current").unwrap_or(0);
    let container = limit.map(|limit| Bytes(limit.saturating_sub(used)));
    machine.into_iter().chain(container).min().unwrap_or(Bytes(u64::MAX))
}

fn meminfo(text: &str) -> Option<Bytes> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok().map(Bytes::kib)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_that_the_kernel_says_is_available_is_found() {
        let text = "MemTotal:       16384 kB\nMemAvailable:    1024 kB\nBuffers: 1 kB\n";
        assert_eq!((meminfo(text), meminfo("MemTotal: 1 kB\n")), (Some(Bytes::mib(1)), None));
    }
}
