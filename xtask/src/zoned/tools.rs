//! Programs of others that a guest runs beside ours: the client of the kernel's NBD driver, and what makes and checks file
//! systems. From Debian's packages, with their libraries, unpacked under `.tools/guest`, never installed.

use std::path::{Path, PathBuf};

use super::guest::{Carried, libraries};
use super::kernel::{FOLDER, Packages, RELEASES, find};

/// They, and the libraries that a machine may lack.
const PACKAGES: [&str; 9] = [
    "nbd-client",
    "libnl-3-200",
    "libnl-genl-3-200",
    "e2fsprogs",
    "libext2fs2",
    "libss2",
    "xfsprogs",
    "libinih1",
    "liburcu8",
];

/// Of which these are run.
const PROGRAMS: [&str; 5] = ["nbd-client", "mkfs.ext4", "e2fsck", "mkfs.xfs", "xfs_repair"];

/// The programs: fetched, unless they are there. Where they are.
pub(super) fn fetch(root: &Path) -> Result<PathBuf, String> {
    let folder = root.join(FOLDER).join("programs");
    if PROGRAMS.iter().any(|name| program(&folder, name).is_err()) {
        let packages = Packages::of(root, RELEASES[0].suite)?;
        for package in PACKAGES {
            packages.unpack(package, &folder)?;
        }
    }
    Ok(folder)
}

/// The programs as a guest has them, beside its shell, and what they are linked with.
pub(super) fn carried(root: &Path) -> Result<Vec<Carried>, String> {
    let folder = fetch(root)?;
    let mut all = Vec::new();
    for name in PROGRAMS {
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

fn program(folder: &Path, name: &str) -> Result<PathBuf, String> {
    let found = find(folder, &format!("/sbin/{name}"));
    found.ok_or_else(|| format!("{name} is not in {}", folder.display()))
}
