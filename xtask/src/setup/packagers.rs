//! Tools that make packages. Built by cargo when first needed.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Tool, fetch, run_quietly};
use crate::ci::cargo;

/// Each tool with its version.
const PACKAGERS: [(&str, &str); 4] = [
    ("cargo-auditable", "0.7.7"),
    ("cargo-cyclonedx", "0.5.9"),
    ("cargo-deb", "3.8.0"),
    ("cargo-generate-rpm", "0.21.1"),
];

/// The tools that the tests of the packages need.
pub(super) fn packagers(root: &Path) -> Tool {
    packager(root, "cargo-deb")?;
    packager(root, "cargo-generate-rpm").map(|_| ".tools/bin/cargo-deb".to_owned())
}

/// The path of a tool. It is built if it is not there.
pub(crate) fn packager(root: &Path, name: &str) -> Result<PathBuf, String> {
    let known = PACKAGERS.iter().find(|(tool, _)| *tool == name);
    let (_, version) = known.ok_or_else(|| format!("no version of {name} is known"))?;
    let binary = root.join(".tools/bin").join(name);
    // cargo writes here what it installed.
    let installed = std::fs::read_to_string(root.join(".tools/.crates.toml")).unwrap_or_default();
    if binary.exists() && installed.contains(&format!("\"{name} {version} ")) {
        return Ok(binary);
    }
    println!("setup: building {name} {version} (a minute)");
    let mut install = cargo(root);
    // Unoptimized: a package takes seconds either way.
    install.args(["install", "--quiet", "--locked", "--debug", "--force", "--root", ".tools"]);
    install.args(["--version", version, name]).env("CARGO_PROFILE_DEV_DEBUG", "0");
    fetch(&mut install)?;
    run_quietly(Command::new("test").arg("-x").arg(&binary))?;
    Ok(binary)
}
