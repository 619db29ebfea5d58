//! Container image: `packaging/Containerfile` over a static program, certificate authorities and a
//! user. Nothing is fetched, and buildah needs no root.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::staged::{NOTICES, notices};
use super::{DIST, STAGE, copy, version, write};
use crate::setup;

const CONTAINERFILE: &str = "packaging/Containerfile";

/// Certificate authorities of Debian's package ca-certificates, without those that this machine
/// trusts in addition.
const AUTHORITIES: &str = "/usr/share/ca-certificates/mozilla";

/// Largest image, before compression.
const SIZE_MAX: u64 = 20_000_000;

const USERS: &str = "zonal:x:900:900:Zonal:/var/lib/zonal:/sbin/nologin\n";
const GROUPS: &str = "zonal:x:900:\n";

/// Makes an image as an OCI archive.
pub(super) fn make(root: &Path, program: &Path) -> Result<PathBuf, String> {
    let context = context(root, program)?;
    let version = version(root)?;
    let name = format!("zonal:{version}");
    let archive =
        root.join(DIST).join(format!("zonal-{version}-{}-oci.tar", std::env::consts::ARCH));
    let _ = fs::remove_file(&archive);
    fs::create_dir_all(root.join(DIST)).map_err(|error| format!("{DIST}: {error}"))?;
    // The time of the commit: the same sources give the same image.
    let time = Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(root).output();
    let time = time.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let time = time.ok().filter(|time| !time.is_empty()).unwrap_or_else(|| "0".to_owned());
    let mut build = buildah();
    build.args(["build", "--quiet", "--isolation", "chroot", "--timestamp", &time]);
    build.args(["--tag", &name]);
    build.arg("--file").arg(root.join(CONTAINERFILE)).arg(&context);
    setup::run_quietly(&mut build)?;
    let place = format!("oci-archive:{}:{name}", archive.display());
    setup::run_quietly(buildah().args(["push", "--quiet", &name, &place]))?;
    Ok(archive)
}

/// Refuses the files of an image that have grown too large together.
pub(super) fn check_size(root: &Path) -> Result<(), String> {
    let files = fs::read_dir(root.join(STAGE).join("image")).into_iter().flatten().flatten();
    let size: u64 = files.filter_map(|file| Some(file.metadata().ok()?.len())).sum();
    match size <= SIZE_MAX {
        true => Ok(()),
        false => Err(format!("the image has {size} bytes, at most {SIZE_MAX}")),
    }
}

/// The storage driver works without a kernel module and without root.
fn buildah() -> Command {
    let mut command = Command::new("buildah");
    command.args(["--storage-driver", "vfs"]);
    command
}

/// What the Containerfile copies.
pub(crate) fn context(root: &Path, program: &Path) -> Result<PathBuf, String> {
    let folder = root.join(STAGE).join("image");
    let _ = fs::remove_dir_all(&folder);
    copy(program, &folder.join("zonal"))?;
    write(&folder.join("passwd"), USERS.as_bytes())?;
    write(&folder.join("group"), GROUPS.as_bytes())?;
    copy(&root.join("LICENSE"), &folder.join("LICENSE"))?;
    copy(&notices(root)?, &folder.join(NOTICES))?;
    let data = folder.join("data");
    fs::create_dir_all(&data).map_err(|error| format!("{}: {error}", data.display()))?;
    let entries = fs::read_dir(AUTHORITIES).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    if paths.is_empty() {
        return Err(format!("{AUTHORITIES} is empty: install Debian's package ca-certificates"));
    }
    let mut authorities = Vec::new();
    for path in paths {
        let read = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        authorities.extend(read);
    }
    write(&folder.join("ca-certificates.crt"), &authorities)?;
    Ok(folder)
}
