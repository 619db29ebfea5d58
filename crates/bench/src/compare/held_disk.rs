//! Disk with a limited write rate, by a control group of the kernel.
//!
//! The bandwidth of a virtual disk may change threefold within a second. A share of the bandwidth
//! is meaningful only under a limit.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use zonal_base::Bytes;

/// Usual mount point of the control groups.
const GROUPS: &str = "/sys/fs/cgroup";

/// A control group with a limit on writes, removed on drop if it is empty.
pub(crate) struct HeldDisk {
    group: PathBuf,
}

impl HeldDisk {
    /// Limits writes to the disk under `folder` for processes that join.
    pub(crate) fn to(bytes_per_s: Bytes, folder: &Path) -> Result<Self, String> {
        let disk = disk_of(folder)?;
        let name = format!("zonal-compare-{}", std::process::id());
        let (second, first) = (Path::new(GROUPS), Path::new(GROUPS).join("blkio"));
        if fs::read_to_string(second.join("cgroup.controllers")).is_ok() {
            write(&second.join("cgroup.subtree_control"), "+io")?;
            let limit = format!("{disk} wbps={}", bytes_per_s.0);
            return Self::begin(second.join(name), "io.max", &limit);
        }
        let limit = format!("{disk} {}", bytes_per_s.0);
        Self::begin(first.join(name), "blkio.throttle.write_bps_device", &limit)
    }

    fn begin(group: PathBuf, file: &str, limit: &str) -> Result<Self, String> {
        fs::create_dir(&group).map_err(|error| needs_root(&group, &error))?;
        let held = Self { group };
        write(&held.group.join(file), limit)?;
        Ok(held)
    }

    /// File of the group's members: a process that writes its ID here joins, with its children.
    pub(crate) fn members(&self) -> PathBuf {
        self.group.join("cgroup.procs")
    }
}

impl Drop for HeldDisk {
    fn drop(&mut self) {
        // An empty group may stay; the next boot removes it.
        let _ = fs::remove_dir(&self.group);
    }
}

/// `MAJOR:MINOR` of the whole disk under `folder`.
fn disk_of(folder: &Path) -> Result<String, String> {
    let device = fs::metadata(folder).map_err(|e| format!("{}: {e}", folder.display()))?.dev();
    let number = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    let node = Path::new("/sys/dev/block").join(&number);
    let node = node.canonicalize().map_err(|_| {
        format!("{} lies on no block device of its own ({number})", folder.display())
    })?;
    if !node.join("partition").exists() {
        return Ok(number);
    }
    let disk = node.parent().unwrap_or(&node).join("dev");
    let number = fs::read_to_string(&disk).map_err(|e| format!("{}: {e}", disk.display()))?;
    Ok(number.trim().to_owned())
}

fn write(file: &Path, text: &str) -> Result<(), String> {
    fs::write(file, text).map_err(|error| needs_root(file, &error))
}

fn needs_root(file: &Path, error: &std::io::Error) -> String {
    format!(
        "{}: {error}: run as root, where the kernel limits block devices by control group",
        file.display()
    )
}
