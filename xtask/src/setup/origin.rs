//! versitygw: an S3 server over a local folder, the origin of the end-to-end tests.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::{Tool, holds, run_quietly, version};

const PACKAGE: &str = "github.com/versity/versitygw/cmd/versitygw";
const VERSION: &str = "v1.8.0";
/// The Go version that versitygw's `go.mod` asks for.
const GO_NEEDED: (u32, u32) = (1, 25);
/// From this Go version on, Go fetches the newer one that a module asks for.
const GO_FETCHES_NEWER: (u32, u32) = (1, 21);

const BINARY: &str = ".tools/bin/versitygw";
/// Holds the version that was installed; the binary itself does not know it.
const STAMP: &str = ".tools/bin/versitygw.version";

pub(super) fn versitygw(root: &Path) -> Tool {
    if root.join(BINARY).is_file() && holds(&root.join(STAMP), VERSION) {
        return Ok(BINARY.to_owned());
    }
    let (major, minor) = GO_NEEDED;
    let needs = format!("needs Go {major}.{minor} or newer");
    let said = run_quietly(Command::new("go").arg("version"))
        .map_err(|_| format!("{needs}, and there is no `go`: install it from https://go.dev/dl"))?;
    let go = version(&said).ok_or_else(|| format!("{needs}; `go version` says {}", said.trim()))?;
    if go < GO_FETCHES_NEWER {
        return Err(format!("{needs}, here is Go {}.{}: see https://go.dev/dl", go.0, go.1));
    }
    println!("setup: building versitygw {VERSION} (a minute or two)");
    let mut install = Command::new("go");
    install.args(["install", "-trimpath", "-ldflags=-s -w"]).arg(format!("{PACKAGE}@{VERSION}"));
    install.current_dir(root).env("GOBIN", root.join(".tools/bin")).env("GOFLAGS", "");
    if go < GO_NEEDED {
        install.env("GOTOOLCHAIN", "auto");
    }
    run_quietly(&mut install)?;
    fs::write(root.join(STAMP), VERSION).map_err(|error| format!("{STAMP}: {error}"))?;
    Ok(BINARY.to_owned())
}
