//! Open and active zone limits, where the kernel does not report them.
//!
//! 1. The multipath head of an NVMe namespace (`nvme1n1`) reports 0 for both limits, which reads as
//!    "no limit". Its hidden paths (`nvme1c1n1`) report the limits of the drive.
//! 2. The drive itself reports them: Identify Namespace of the Zoned Namespace Command Set.
//! 3. Of all reported limits the smallest holds.
//!
//! All of these sources may be missing. Then a drive that refuses to open a zone still reports it
//! (`verdict`), and the engines handle it as a failed write.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::Queue;
use super::ioctl;

/// CNS 05h: Identify I/O Command Set specific Namespace.
const CNS_NAMESPACE: u8 = 0x05;

/// CSI 02h: the Zoned Namespace Command Set.
const CSI_ZONED: u8 = 0x02;

/// Offsets of MAR and MOR, of 4 bytes each, in the data structure (ZNS 1.1, Figure 48).
const MAR_AT: usize = 4;
const MOR_AT: usize = 8;

/// Maximum paths of a namespace that are read: 64. A guess, far above the controllers of any
/// subsystem.
const PATHS_MAX: usize = 64;

/// Maximum open zones, and maximum active zones (open or closed). `None`: no source reports a
/// limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ZoneLimits {
    pub(super) open: Option<u32>,
    pub(super) active: Option<u32>,
}

impl ZoneLimits {
    /// Combines two limits: the smaller one holds.
    pub(super) fn and(self, other: Self) -> Self {
        let smaller = |a: Option<u32>, b: Option<u32>| a.into_iter().chain(b).min();
        Self { open: smaller(self.open, other.open), active: smaller(self.active, other.active) }
    }

    /// Limits of the paths of a multipath head, by the head's directory in sysfs and its name. No
    /// limits for any other device.
    pub(super) fn of_paths(folder: &Path, name: &str) -> Self {
        let paths = paths(folder, name);
        paths.iter().map(|path| Self::of_queue(path)).fold(Self::default(), Self::and)
    }

    fn of_queue(folder: &Path) -> Self {
        // The kernel writes 0 for "no limit" and for "not reported".
        let positive = |name: &str| {
            let text = fs::read_to_string(folder.join("queue").join(name)).ok()?;
            text.trim().parse::<u32>().ok().filter(|number| 0 < *number)
        };
        Self { open: positive("max_open_zones"), active: positive("max_active_zones") }
    }

    /// Limits that an NVMe drive reports by Identify. No limits where this process may not send it
    /// (before Linux 6.2 only root may).
    pub(super) fn of_drive(file: &File, queue: &Queue) -> Self {
        let is_nvme = queue.name.starts_with("nvme") && queue.zoned.as_deref() != Some("none");
        let Some(namespace) = queue.namespace.filter(|_| is_nvme) else { return Self::default() };
        let told = ioctl::identify(file, namespace, (CNS_NAMESPACE, CSI_ZONED));
        told.map_or_else(|_| Self::default(), |told| Self::identified(&told))
    }

    fn identified(told: &[u8; ioctl::IDENTIFY_BYTES]) -> Self {
        let limit = |at: usize| {
            let bytes = [told[at], told[at + 1], told[at + 2], told[at + 3]];
            // 0's based; all ones mean no limit.
            u32::from_le_bytes(bytes).checked_add(1)
        };
        Self { open: limit(MOR_AT), active: limit(MAR_AT) }
    }
}

/// Directories of the paths in sysfs. From Linux 6.15 on the head's `multipath/` links to them;
/// before, they are in the directories of the subsystem's controllers.
fn paths(folder: &Path, name: &str) -> Vec<PathBuf> {
    let Some((subsystem, namespace)) = name.rsplit_once('n').filter(|(head, _)| is_head(head))
    else {
        return Vec::new();
    };
    let is_path = |entry: &PathBuf| {
        let name = entry.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let controller = name
            .strip_prefix(subsystem)
            .and_then(|rest| rest.strip_prefix('c'))
            .and_then(|rest| rest.strip_suffix(namespace)?.strip_suffix('n'));
        controller.is_some_and(is_number)
    };
    let linked = entries(&folder.join("multipath")).filter(is_path);
    let controllers = entries(&folder.join("device"));
    let of_controllers = controllers.flat_map(|controller| entries(&controller)).filter(is_path);
    linked.chain(of_controllers).take(PATHS_MAX).collect()
}

/// True for the subsystem part of a head's name: `nvme1` of `nvme1n1`.
fn is_head(name: &str) -> bool {
    name.strip_prefix("nvme").is_some_and(is_number)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Entries of a directory; none when it does not exist.
fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// sysfs tree of a subsystem with two controllers, with the directory of its head.
    struct Tree(tempfile::TempDir);

    impl Tree {
        fn new() -> Self {
            let tree = Self(tempfile::tempdir().unwrap());
            fs::create_dir_all(tree.head()).unwrap();
            symlink("..", tree.head().join("device")).unwrap();
            tree
        }

        fn head(&self) -> PathBuf {
            self.0.path().join("nvme-subsys1/nvme1n1")
        }

        fn path(&self, controller: &str, name: &str, [open, active]: [&str; 2]) -> PathBuf {
            let queue = self.0.path().join(controller).join(name).join("queue");
            fs::create_dir_all(&queue).unwrap();
            fs::write(queue.join("max_open_zones"), format!("{open}\n")).unwrap();
            fs::write(queue.join("max_active_zones"), format!("{active}\n")).unwrap();
            queue.parent().unwrap().into()
        }

        fn link(&self, controller: &str) {
            let link = self.0.path().join("nvme-subsys1").join(controller);
            symlink(Path::new("..").join(controller), link).unwrap();
        }

        #[track_caller]
        fn check(&self, name: &str, open: Option<u32>, active: Option<u32>) {
            assert_eq!(
                ZoneLimits::of_paths(&self.head(), name),
                ZoneLimits { open, active },
                "{name}"
            );
        }
    }

    #[test]
    fn a_head_has_the_smaller_limits_of_its_paths_and_of_nothing_else() {
        let tree = Tree::new();
        tree.check("nvme1n1", None, None);
        tree.path("nvme2", "nvme1c2n1", ["0", "6"]);
        tree.link("nvme2");
        tree.check("nvme1n1", None, Some(6));
        tree.path("nvme3", "nvme1c3n1", ["5", "4"]);
        // Paths of another namespace, and of another subsystem.
        tree.path("nvme3", "nvme1c3n11", ["1", "1"]);
        tree.path("nvme3", "nvme2c3n1", ["1", "1"]);
        tree.link("nvme3");
        tree.check("nvme1n1", Some(5), Some(4));
        for other in ["sda", "nvme1n1p1", "dm-0", "nvme1c2n1", "nvmen1", ""] {
            tree.check(other, None, None);
        }
    }

    #[test]
    fn paths_that_a_newer_kernel_links_are_found() {
        let tree = Tree::new();
        let path = tree.path("nvme2", "nvme1c2n1", ["8", "12"]);
        fs::create_dir(tree.head().join("multipath")).unwrap();
        symlink(path, tree.head().join("multipath/nvme1c2n1")).unwrap();
        tree.check("nvme1n1", Some(8), Some(12));
    }

    #[test]
    fn what_the_drive_identifies_is_counted_from_0_and_all_ones_are_no_limit() {
        let mut told = [0; ioctl::IDENTIFY_BYTES];
        assert_eq!(ZoneLimits::identified(&told), ZoneLimits { open: Some(1), active: Some(1) });
        told[MAR_AT..MAR_AT + 4].copy_from_slice(&13_u32.to_le_bytes());
        told[MOR_AT..MOR_AT + 4].fill(0xFF);
        assert_eq!(ZoneLimits::identified(&told), ZoneLimits { open: None, active: Some(14) });
    }
}
