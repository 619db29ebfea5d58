//! Tools that make packages. Built by cargo when first needed.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Tool, fetch, run_quietly};
use crate::ci::cargo;

struct Packager {
    name: &'static str,
    version: &'static str,
    features: &'static str,
    /// The others take seconds either way.
    is_optimized: bool,
}

const PACKAGERS: [Packager; 5] = [
    // It compares each text of a licence with all that are known: minutes, unless optimized.
    Packager { features: "cli", is_optimized: true, ..packager_of("cargo-about", "0.9.3") },
    packager_of("cargo-auditable", "0.7.7"),
    packager_of("cargo-cyclonedx", "0.5.9"),
    packager_of("cargo-deb", "3.8.0"),
    packager_of("cargo-generate-rpm", "0.21.1"),
];

const fn packager_of(name: &'static str, version: &'static str) -> Packager {
    Packager { name, version, features: "", is_optimized: false }
}

/// The tools that the tests of the packages need.
pub(super) fn packagers(root: &Path) -> Tool {
    packager(root, "cargo-about")?;
    packager(root, "cargo-deb")?;
    packager(root, "cargo-generate-rpm").map(|_| ".tools/bin/cargo-deb".to_owned())
}

/// The path of a tool. It is built if it is not there.
pub(crate) fn packager(root: &Path, name: &str) -> Result<PathBuf, String> {
    let known = PACKAGERS.iter().find(|tool| tool.name == name);
    let Packager { version, features, is_optimized, .. } =
        known.ok_or_else(|| format!("no version of {name} is known"))?;
    let binary = root.join(".tools/bin").join(name);
    // cargo writes here what it installed.
    let installed = std::fs::read_to_string(root.join(".tools/.crates.toml")).unwrap_or_default();
    if binary.exists() && installed.contains(&format!("\"{name} {version} ")) {
        return Ok(binary);
    }
    println!("setup: building {name} {version} (a minute)");
    let mut install = cargo(root);
    install.args(["install", "--quiet", "--locked", "--debug", "--force", "--root", ".tools"]);
    install.args(["--version", version, "--features", features, name]);
    install.env("CARGO_PROFILE_DEV_DEBUG", "0");
    install.env("CARGO_PROFILE_DEV_OPT_LEVEL", if *is_optimized { "1" } else { "0" });
    fetch(&mut install)?;
    run_quietly(Command::new("test").arg("-x").arg(&binary))?;
    Ok(binary)
}
