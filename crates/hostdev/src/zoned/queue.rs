//! Queue limits of a block device from `/sys/dev/block/MAJOR:MINOR/queue`; `limits` completes them.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::limits::ZoneLimits;

/// First kernel with zone write plugging, which keeps the writes of a zone in order under any
/// scheduler: 6.10.
const PLUGGING_SINCE: (u32, u32) = (6, 10);

/// Scheduler that keeps the writes of a zone in order on older kernels.
const ORDERING: &str = "mq-deadline";

/// Queue limits and identity of a block device, from sysfs. `None`: the kernel does not report the
/// value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    /// Kernel name of the device: nvme0n1.
    pub name: String,
    /// Model name of the drive.
    pub model: Option<String>,
    /// `none`, `host-aware` or `host-managed`.
    pub zoned: Option<String>,
    /// I/O scheduler in use. `None`: the device has no choice of schedulers.
    pub scheduler: Option<String>,
    /// Logical block size, in bytes (the LBA format).
    pub logical_block: Option<u32>,
    /// Minimum write to a zone, in bytes.
    pub write_granularity: Option<u32>,
    /// Maximum open zones.
    pub max_open_zones: Option<u32>,
    /// Maximum active zones, which are open or closed.
    pub max_active_zones: Option<u32>,
    /// Maximum bytes of one zone append.
    pub append_max: Option<u32>,
    /// Maximum memory segments of one command.
    pub segments_max: Option<u32>,
    /// NVMe namespace ID.
    pub namespace: Option<u32>,
    /// Kernel version, as the kernel reports it.
    pub kernel: String,
    /// Drives below a mapped device (dm-crypt, dm-linear). Empty for a drive.
    pub below: Vec<Queue>,
}

impl Queue {
    /// Limits of the block device that is open as `file`.
    #[must_use]
    pub(crate) fn of(file: &fs::File) -> Self {
        let device = file.metadata().map_or(0, |metadata| metadata.rdev());
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let folder = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
        let kernel = read(Path::new("/proc/sys/kernel/osrelease")).unwrap_or_default();
        let mut queue = Self::read(&folder, kernel);
        queue.limit(ZoneLimits::of_drive(file, &queue));
        queue
    }

    /// Applies further limits: the smaller ones hold.
    fn limit(&mut self, others: ZoneLimits) {
        let ZoneLimits { open, active } = self.limits().and(others);
        (self.max_open_zones, self.max_active_zones) = (open, active);
    }

    fn read(folder: &Path, kernel: String) -> Self {
        let text = |name: &str| read(&folder.join("queue").join(name));
        let number = |name: &str| text(name)?.parse::<u32>().ok();
        // The kernel writes 0 for "no limit" and for "not reported".
        let positive = |name: &str| number(name).filter(|number| 0 < *number);
        let uevent = read(&folder.join("uevent")).unwrap_or_default();
        let name = uevent.lines().find_map(|line| line.strip_prefix("DEVNAME="));
        let name = name.unwrap_or_default();
        let own =
            ZoneLimits { open: positive("max_open_zones"), active: positive("max_active_zones") };
        let below = below(folder, &kernel);
        let ZoneLimits { open, active } = below
            .iter()
            .map(Self::limits)
            .fold(own.and(ZoneLimits::of_paths(folder, name)), ZoneLimits::and);
        Self {
            name: name.to_owned(),
            model: read(&folder.join("device/model")).filter(|model| !model.is_empty()),
            zoned: text("zoned"),
            scheduler: text("scheduler").and_then(|line| in_brackets(&line)),
            logical_block: positive("logical_block_size"),
            write_granularity: positive("zone_write_granularity"),
            max_open_zones: open,
            max_active_zones: active,
            append_max: positive("zone_append_max_bytes"),
            segments_max: positive("max_segments"),
            namespace: read(&folder.join("nsid")).and_then(|text| text.parse().ok()),
            kernel,
            below,
        }
    }

    fn limits(&self) -> ZoneLimits {
        ZoneLimits { open: self.max_open_zones, active: self.max_active_zones }
    }

    /// The drives that carry out the commands: those below a mapped device, or the device itself.
    pub fn drives(&self) -> &[Self] {
        if self.below.is_empty() { std::slice::from_ref(self) } else { &self.below }
    }

    /// True when the kernel keeps the writes of a zone in order under any scheduler (zone write
    /// plugging).
    #[must_use]
    pub fn has_write_plugging(&self) -> bool {
        version(&self.kernel).is_some_and(|version| PLUGGING_SINCE <= version)
    }

    /// The drive whose scheduler may reorder the writes of a zone, with that scheduler.
    #[must_use]
    pub fn unordered(&self) -> Option<(&Self, &str)> {
        let reorders = |drive: &&Self| {
            drive.scheduler.as_deref().is_some_and(|scheduler| scheduler != ORDERING)
        };
        let drive = self.drives().iter().find(reorders).filter(|_| !self.has_write_plugging())?;
        Some((drive, drive.scheduler.as_deref()?))
    }

    /// Shell command that selects a scheduler that keeps the order, for a drive.
    #[must_use]
    pub fn ordering_command(&self) -> String {
        format!("echo {ORDERING} > /sys/block/{}/queue/scheduler", self.name)
    }
}

/// Drives below a mapped device, by its directory in sysfs.
fn below(folder: &Path, kernel: &str) -> Vec<Queue> {
    let slaves = fs::read_dir(folder.join("slaves")).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = slaves.map(|entry| entry.path()).collect();
    paths.sort();
    let queues = paths.iter().map(|path| Queue::read(path, kernel.to_owned()));
    queues.flat_map(|queue| queue.drives().to_vec()).collect()
}

fn read(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// Selected word of a line, in brackets: `none [mq-deadline]`.
fn in_brackets(line: &str) -> Option<String> {
    let (_, rest) = line.split_once('[')?;
    rest.split_once(']').map(|(word, _)| word.to_owned())
}

/// Major and minor number of a kernel version.
fn version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Queue limits of a sysfs directory with these files.
    fn queue(files: &[(&str, &str)], kernel: &str) -> Queue {
        let folder = tempfile::tempdir().unwrap();
        for name in ["queue", "device"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        for (name, text) in files {
            fs::write(folder.path().join(name), format!("{text}\n")).unwrap();
        }
        Queue::read(folder.path(), kernel.into())
    }

    #[test]
    fn what_the_kernel_tells_is_read_and_no_limit_is_none() {
        let files = [
            ("uevent", "MAJOR=259\nMINOR=1\nDEVNAME=nvme0n2\nDEVTYPE=disk"),
            ("device/model", "WZS4C8T1TDSP303"),
            ("queue/zoned", "host-managed"),
            ("queue/scheduler", "none [mq-deadline] kyber"),
            ("queue/logical_block_size", "4096"),
            ("queue/zone_write_granularity", "4096"),
            ("queue/max_open_zones", "14"),
            ("queue/max_active_zones", "0"),
            ("queue/zone_append_max_bytes", "524288"),
            ("queue/max_segments", "127"),
            ("nsid", "2"),
        ];
        let expected = Queue {
            name: "nvme0n2".into(),
            model: Some("WZS4C8T1TDSP303".into()),
            zoned: Some("host-managed".into()),
            scheduler: Some("mq-deadline".into()),
            logical_block: Some(4096),
            write_granularity: Some(4096),
            max_open_zones: Some(14),
            max_active_zones: None,
            append_max: Some(524_288),
            segments_max: Some(127),
            namespace: Some(2),
            kernel: "6.1.0-56-cloud-amd64".into(),
            below: Vec::new(),
        };
        assert_eq!(queue(&files, "6.1.0-56-cloud-amd64"), expected);
        let nothing = Queue { kernel: "x".into(), ..Queue::default() };
        assert_eq!(queue(&[], "x"), nothing, "nothing is told where there is nothing");
    }

    #[track_caller]
    fn check_unordered(scheduler: &str, kernel: &str, expected: Option<&str>) {
        let files = [("queue/scheduler", scheduler), ("uevent", "DEVNAME=sdb")];
        let queue = queue(&files, kernel);
        let unordered = queue.unordered().map(|(_, scheduler)| scheduler);
        assert_eq!(unordered, expected, "{scheduler} under {kernel}");
        assert_eq!(queue.ordering_command(), "echo mq-deadline > /sys/block/sdb/queue/scheduler");
    }

    /// Writes a device's files into a tree of sysfs.
    fn device(tree: &Path, name: &str, [scheduler, open, active]: [&str; 3]) {
        let folder = tree.join(name);
        fs::create_dir_all(folder.join("queue")).unwrap();
        fs::create_dir_all(folder.join("slaves")).unwrap();
        fs::write(folder.join("uevent"), format!("DEVNAME={name}\n")).unwrap();
        fs::write(folder.join("queue/scheduler"), scheduler).unwrap();
        fs::write(folder.join("queue/max_open_zones"), open).unwrap();
        fs::write(folder.join("queue/max_active_zones"), active).unwrap();
    }

    #[test]
    fn a_mapped_device_has_the_limits_and_the_schedulers_of_the_drives_below() {
        let tree = tempfile::tempdir().unwrap();
        let lies_on = |upper: &str, lower: &str| {
            let link = tree.path().join(upper).join("slaves").join(lower);
            std::os::unix::fs::symlink(Path::new("../..").join(lower), link).unwrap();
        };
        // Linux 6.1 reports no limits of mapped devices.
        device(tree.path(), "dm-1", ["none", "0", "0"]);
        device(tree.path(), "dm-0", ["none", "0", "0"]);
        device(tree.path(), "nvme0n1", ["[none] mq-deadline", "10", "14"]);
        device(tree.path(), "nvme1n1", ["none [mq-deadline]", "12", "0"]);
        lies_on("dm-1", "dm-0");
        lies_on("dm-0", "nvme0n1");
        lies_on("dm-0", "nvme1n1");
        let queue = |kernel: &str| Queue::read(&tree.path().join("dm-1"), kernel.into());
        let old = queue("6.1.0");
        assert_eq!((old.max_open_zones, old.max_active_zones), (Some(10), Some(14)));
        let (drive, scheduler) = old.unordered().unwrap();
        assert_eq!((drive.name.as_str(), scheduler), ("nvme0n1", "none"));
        assert_eq!(queue("6.10.0").unordered(), None);
        fs::write(tree.path().join("nvme0n1/queue/scheduler"), "none [mq-deadline]").unwrap();
        assert_eq!(queue("6.1.0").unordered(), None);
    }

    #[test]
    fn a_scheduler_matters_where_the_kernel_has_no_write_plugging() {
        check_unordered("[none] mq-deadline", "6.1.0-56-amd64", Some("none"));
        check_unordered("mq-deadline [kyber]", "5.15.0", Some("kyber"));
        check_unordered("none [mq-deadline]", "6.9.12", None);
        check_unordered("[none] mq-deadline", "6.10.0", None);
        check_unordered("[none]", "6.12.95+deb12-cloud-amd64", None);
        check_unordered("[none]", "7.2", None);
        // A mapped device has no choice of schedulers.
        check_unordered("none", "6.1.0", None);
    }
}
