//! Programs of others that a guest runs beside ours: the client of the kernel's NBD driver, and what makes and checks file
//! systems. From Debian's packages, with their libraries, unpacked under `.tools/guest`, never installed.

use std::path::{Path, PathBuf};

use super::guest::{Carried, libraries};
use super::kernel::{FOLDER, Packages, RELEASES, find};

/// Programs that are used together.
pub(super) struct Kit {
    /// They, and the libraries that a machine may lack.
    packages: &'static [&'static str],
    /// Of which these are run.
    programs: &'static [&'static str],
}

/// The kernel's NBD driver, and the file systems that the block device is tried with.
pub(super) const FILE_SYSTEMS: Kit = Kit {
    packages: &[
        "nbd-client",
        "libnl-3-200",
        "libnl-genl-3-200",
        "e2fsprogs",
        "libext2fs2",
        "libss2",
        "xfsprogs",
        "libinih1",
        "liburcu8",
    ],
    programs: &["nbd-client", "mkfs.ext4", "e2fsck", "mkfs.xfs", "xfs_repair"],
};

/// The file system that writes zones itself.
pub(super) const F2FS: Kit = Kit { packages: &["f2fs-tools"], programs: &["mkfs.f2fs"] };

impl Kit {
    /// The programs: fetched, unless they are there. Where they are.
    pub(super) fn fetch(&self, root: &Path) -> Result<PathBuf, String> {
        let folder = root.join(FOLDER).join("programs");
        if self.programs.iter().any(|name| program(&folder, name).is_err()) {
            let packages = Packages::of(root, RELEASES[0].suite)?;
            for package in self.packages {
                packages.unpack(package, &folder)?;
            }
        }
        Ok(folder)
    }

    /// The programs as a guest has them, beside its shell, and what they are linked with.
    pub(super) fn carried(&self, root: &Path) -> Result<Vec<Carried>, String> {
        let folder = self.fetch(root)?;
        let mut all = Vec::new();
        for name in self.programs {
            let from = program(&folder, name)?;
            for library in libraries(&from, &folder)? {
                // What was unpacked lies in the guest where it lies in its package.
                let to = library.strip_prefix(&folder).unwrap_or(&library).to_path_buf();
                all.push(Carried { from: library, to });
            }
            all.push(Carried { from, to: Path::new("bin").join(name) });
        }
        Ok(all)
    }
}

fn program(folder: &Path, name: &str) -> Result<PathBuf, String> {
    let found = find(folder, &format!("/sbin/{name}"));
    found.ok_or_else(|| format!("{name} is not in {}", folder.display()))
}
