//! Builds the program as it is shipped: `cargo xtask release`, which is `make release`.
//!
//! 1. Cargo builds it with the profile `release`.
//! 2. Its symbols go to a file of their own, and the program names that file: debuggers and backtraces find it beside the
//!    program, or below `/usr/lib/debug`.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::{ci, setup};

/// Below the target folder: `target/release/zonal` is cargo's, and would be put there anew by its next build.
const SHIPPED: &str = "shipped";

pub(crate) fn run(root: &Path) -> bool {
    match build(root) {
        Ok(told) => {
            println!("{told}");
            true
        }
        Err(why) => {
            eprintln!("release: {why}");
            false
        }
    }
}

fn build(root: &Path) -> Result<String, String> {
    let mut command = ci::cargo(root);
    command.args(["build", "--release", "--locked", "--package", "zonal"]);
    let status = command.status().map_err(|error| format!("cargo did not start: {error}"))?;
    if !status.success() {
        return Err("it does not build".into());
    }
    let built = ci::target(root).join("release/zonal");
    let folder = ci::target(root).join(SHIPPED);
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    objcopy(&folder, &["--only-keep-debug"], (&built, "zonal.debug"))?;
    // Named in the program by its name alone, with a checksum: so it is made first, and looked for from its folder.
    let words = ["--strip-all", "--add-gnu-debuglink=zonal.debug"];
    objcopy(&folder, &words, (&built, "zonal"))?;
    let size = |name: &str| fs::metadata(folder.join(name)).map_or(0, |file| file.len() >> 20);
    Ok(format!(
        "{}: {} MiB; its symbols, zonal.debug: {} MiB",
        folder.join("zonal").display(),
        size("zonal"),
        size("zonal.debug")
    ))
}

/// `objcopy` is a part of binutils, without which nothing could be linked.
fn objcopy(folder: &Path, words: &[&str], (from, to): (&Path, &str)) -> Result<(), String> {
    let mut command = Command::new("objcopy");
    command.args(words).arg(from).arg(to).current_dir(folder);
    setup::run_quietly(&mut command).map(drop)
}
