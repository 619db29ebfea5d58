//! Third-party programs of a guest: the NBD client, and tools for file systems and encryption.
//! From Debian packages with their libraries, unpacked under `.tools/guest`, never installed.

use std::path::{Path, PathBuf};

use super::guest::{Carried, libraries};
use super::kernel::{FOLDER, Packages, RELEASES, find};

/// Programs that are used together.
pub(super) struct Kit {
    /// Packages of the programs, and of libraries that a machine may lack.
    packages: &'static [&'static str],
    /// Programs to run.
    programs: &'static [&'static str],
}

/// NBD client, and tools of the file systems that the block device is tested with.
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

/// Encryption of drives.
pub(super) const ENCRYPTION: Kit = Kit {
    packages: &[
        "cryptsetup-bin",
        "libcryptsetup12",
        "libdevmapper1.02.1",
        "libjson-c5",
        "libpopt0",
    ],
    programs: &["cryptsetup"],
};

/// Tools of F2FS, the file system for zones.
pub(super) const F2FS: Kit = Kit { packages: &["f2fs-tools"], programs: &["mkfs.f2fs"] };

impl Kit {
    /// Fetches the programs if necessary. Returns their folder.
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

    /// Programs at their paths in the guest, with their libraries.
    pub(super) fn carried(&self, root: &Path) -> Result<Vec<Carried>, String> {
        let folder = self.fetch(root)?;
        let mut all = Vec::new();
        for name in self.programs {
            let from = program(&folder, name)?;
            for library in libraries(&from, &folder)? {
                // Unpacked files keep the path that they have in their package.
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
