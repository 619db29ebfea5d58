//! Static programs, and an archive of them for systems without a package.
//!
//! The C library is glibc, linked in: the programs run on every Linux of their architecture, and
//! in an image with nothing else. Names are resolved from `/etc/hosts` and by DNS.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::staged::NOTICES;
use super::{DIST, STAGE, auditable, copy, into_dist, stage, version};
use crate::release::PROGRAMS;
use crate::{ci, setup};

/// Files of the repository in the archive, each with its place.
const FILES: [(&str, &str); 9] = [
    ("LICENSE", "LICENSE"),
    ("README.md", "README.md"),
    ("CHANGELOG.md", "CHANGELOG.md"),
    ("config/zonal.toml", "config/zonal.toml"),
    ("config/block.toml", "config/block.toml"),
    ("config/keys.toml", "config/keys.toml"),
    ("packaging/systemd/zonal.service", "systemd/zonal.service"),
    ("packaging/systemd/zonal-block.service", "systemd/zonal-block.service"),
    ("packaging/seccomp.json", "seccomp.json"),
];

/// The target of this machine.
pub(super) fn here() -> String {
    triple(std::env::consts::ARCH)
}

fn triple(architecture: &str) -> String {
    format!("{architecture}-unknown-linux-gnu")
}

/// Builds static programs for a target with a profile; returns their folder.
pub(super) fn build(
    root: &Path,
    programs: &[(&str, &str)],
    (target, profile): (&str, &str),
) -> Result<PathBuf, String> {
    let folder = ci::target(root).join("static");
    // Packed relocations take a thirtieth of the space.
    let flags = "-C target-feature=+crt-static -C link-arg=-Wl,-z,pack-relative-relocs";
    let mut command = auditable(root, flags)?;
    command.args(["build", "--profile", profile, "--locked", "--target", target]);
    command.args(programs.iter().flat_map(|(_, package)| ["--package", package]));
    command.arg("--target-dir").arg(&folder);
    if target != here() {
        let compiler = format!("{}-linux-gnu-gcc", architecture(target));
        let name = target.replace('-', "_");
        command.env(format!("CC_{name}"), &compiler);
        command.env(format!("CARGO_TARGET_{}_LINKER", name.to_uppercase()), &compiler);
    }
    match command.status() {
        Err(error) => Err(format!("cargo did not start: {error}")),
        Ok(status) if !status.success() => Err(format!(
            "the programs for {target} do not build: another architecture needs the standard \
             library of the target (rustup target add {target}) and a C compiler \
             (docs/start/install.md)"
        )),
        Ok(_) => strip(&folder.join(target).join(profile), programs, target),
    }
}

/// Copies of the programs without symbols; returns their folder.
fn strip(built: &Path, programs: &[(&str, &str)], target: &str) -> Result<PathBuf, String> {
    let folder = built.join("stripped");
    let objcopy = match target == here() {
        true => "objcopy".to_owned(),
        false => format!("{}-linux-gnu-objcopy", architecture(target)),
    };
    for (program, _) in programs {
        let (from, to) = (built.join(program), folder.join(program));
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        setup::run_quietly(Command::new(&objcopy).arg("--strip-all").args([from, to]))?;
    }
    Ok(folder)
}

fn architecture(target: &str) -> &str {
    target.split('-').next().unwrap_or_default()
}

/// Packs static programs, their pages and their units.
pub(super) fn make(root: &Path, programs: &Path, target: &str) -> Result<PathBuf, String> {
    let name = format!("zonal-{}-{}-linux", version(root)?, architecture(target));
    // Programs of another architecture do not run here: the pages of this one's are the same.
    if target == here() {
        stage(root, programs)?;
    } else if !root.join(STAGE).join("man").exists() {
        return Err("make the archive of this machine first: its man pages are the same".into());
    }
    let folder = root.join(STAGE).join(&name);
    let _ = fs::remove_dir_all(&folder);
    for (program, _) in PROGRAMS {
        copy(&programs.join(program), &folder.join(program))?;
    }
    for (from, to) in FILES {
        copy(&root.join(from), &folder.join(to))?;
    }
    copy(&root.join(STAGE).join(NOTICES), &folder.join(NOTICES))?;
    for part in ["man", "completions"] {
        let from = root.join(STAGE).join(part);
        setup::run_quietly(Command::new("cp").arg("-r").args([&from, &folder]))?;
    }
    let archive = root.join(DIST).join(format!("{name}.tar.gz"));
    let mut pack = Command::new("tar");
    // The same files give the same archive.
    pack.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mtime=@0"]);
    pack.args(["--use-compress-program", "gzip -9 -n", "--create", "--file"]).arg(&archive);
    pack.arg("--directory").arg(root.join(STAGE)).arg(&name);
    // Those of other versions are removed.
    let ending = format!("-{}-linux.tar.gz", architecture(target));
    into_dist(root, &ending, 1, || setup::run_quietly(&mut pack).map(drop))?;
    Ok(archive)
}
