//! Limits of open and active zones, where the kernel does not report them.
//!
//! 1. The head of an NVMe namespace with several paths (`nvme1n1`) reports 0 for both, which reads as "no limit"; its paths
//!    (`nvme1c1n1`, which are hidden) tell what the drive has.
//! 2. The drive tells it, too: Identify Namespace of the Zoned Namespace Command Set.
//! 3. Of all that is told the smaller holds.
//!
//! Nothing of it has to be there. A drive that refuses to open a zone nevertheless says so (`verdict`), and the engines take it
//! for a write that failed.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::Queue;
use super::ioctl;

/// CNS 05h: Identify I/O Command Set specific Namespace.
const CNS_NAMESPACE: u8 = 0x05;

/// CSI 02h: the Zoned Namespace Command Set.
const CSI_ZONED: u8 = 0x02;

/// Where MAR and MOR, of 4 bytes each, stand in the structure (ZNS 1.1, Figure 48).
const MAR_AT: usize = 4;
const MOR_AT: usize = 8;

/// Paths of a namespace that are looked at: 64. A guess, far above the controllers of any subsystem.
const PATHS_MAX: usize = 64;

/// Zones that may be open, and those that may be open or closed. `None`: nobody told a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) open: Option<u32>,
    pub(super) active: Option<u32>,
}

impl Limits {
    /// Both hold.
    pub(super) fn and(self, other: Self) -> Self {
        let smaller = |a: Option<u32>, b: Option<u32>| a.into_iter().chain(b).min();
        Self { open: smaller(self.open, other.open), active: smaller(self.active, other.active) }
    }

    /// What the paths of a multipath head tell, by the head's folder in sysfs and its name. Nothing for any other device.
    pub(super) fn of_paths(folder: &Path, name: &str) -> Self {
        let paths = paths(folder, name);
        paths.iter().map(|path| Self::of_queue(path)).fold(Self::default(), Self::and)
    }

    fn of_queue(folder: &Path) -> Self {
        // The kernel writes 0 for "no limit" and for "not told".
        let positive = |name: &str| {
            let text = fs::read_to_string(folder.join("queue").join(name)).ok()?;
            text.trim().parse::<u32>().ok().filter(|number| 0 < *number)
        };
        Self { open: positive("max_open_zones"), active: positive("max_active_zones") }
    }

    /// What an NVMe drive tells itself. Nothing where this process may not ask it (before Linux 6.2 only root may).
    pub(super) fn of_drive(file: &File, queue: &Queue) -> Self {
        let is_nvme = queue.name.starts_with("nvme") && queue.zoned.as_deref() != Some("none");
        let Some(namespace) = queue.namespace.filter(|_| is_nvme) else { return Self::default() };
        let told = ioctl::identify(file, namespace, (CNS_NAMESPACE, CSI_ZONED));
        told.map_or_else(|_| Self::default(), |told| Self::identified(&told))
    }

    fn identified(told: &[u8; ioctl::IDENTIFY_BYTES]) -> Self {
        let limit = |at: usize| {
            let bytes = [told[at], told[at + 1], told[at + 2], told[at + 3]];
            // 0's based; all ones: no limit.
            u32::from_le_bytes(bytes).checked_add(1)
        };
        Self { open: limit(MOR_AT), active: limit(MAR_AT) }
    }
}

/// The folders of the paths: `multipath/` of the head links to them from Linux 6.15 on; before, they are with the
/// controllers of its subsystem.
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

/// `nvme1` of `nvme1n1`.
fn is_head(name: &str) -> bool {
    name.strip_prefix("nvme").is_some_and(is_number)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// What stands in a folder; nothing where there is none.
fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A subsystem with two controllers, as sysfs shows it, and the folder of its head.
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
            assert_eq!(Limits::of_paths(&self.head(), name), Limits { open, active }, "{name}");
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
        // Another namespace, and one of another subsystem.
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
        assert_eq!(Limits::identified(&told), Limits { open: Some(1), active: Some(1) });
        told[MAR_AT..MAR_AT + 4].copy_from_slice(&13_u32.to_le_bytes());
        told[MOR_AT..MOR_AT + 4].fill(0xFF);
        assert_eq!(Limits::identified(&told), Limits { open: None, active: Some(14) });
    }
}
