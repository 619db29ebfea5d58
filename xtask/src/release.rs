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
pub(crate) const SHIPPED: &str = "shipped";
/// Beside the program.
const SYMBOLS: &str = "zonal.debug";

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
    let folder = ci::target(root).join(SHIPPED);
    split(&ci::target(root).join("release/zonal"), &folder)?;
    let size = |name: &str| fs::metadata(folder.join(name)).map_or(0, |file| file.len() >> 20);
    Ok(format!(
        "{}: {} MiB; its symbols, {SYMBOLS}: {} MiB",
        folder.join("zonal").display(),
        size("zonal"),
        size(SYMBOLS)
    ))
}

/// Makes a program without symbols, and a file with nothing else, in `folder`.
fn split(built: &Path, folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    binutils("objcopy", folder, &["--only-keep-debug", &built.to_string_lossy(), SYMBOLS])?;
    // Named in the program by its name alone, with a checksum: so it is made first, and looked for from its folder.
    let link = format!("--add-gnu-debuglink={SYMBOLS}");
    let words = ["--strip-all", &link, &built.to_string_lossy(), "zonal"];
    binutils("objcopy", folder, &words).map(drop)
}

/// Splits a program, and checks that it runs without its symbols, names them, and that they are where they ought to be.
pub(crate) fn verify(built: &Path, folder: &Path) -> Result<(), String> {
    split(built, folder)?;
    setup::run_quietly(Command::new(folder.join("zonal")).arg("--version"))?;
    let sections = |name| binutils("readelf", folder, &["--sections", "--wide", name]);
    let (program, symbols) = (sections("zonal")?, sections(SYMBOLS)?);
    for (file, text, section, is_wanted) in [
        ("zonal", &program, ".symtab", false),
        ("zonal", &program, ".debug_line", false),
        ("zonal", &program, ".gnu_debuglink", true),
        (SYMBOLS, &symbols, ".symtab", true),
        (SYMBOLS, &symbols, ".debug_line", true),
    ] {
        if text.contains(section) != is_wanted {
            let has = if is_wanted { "lacks" } else { "still has" };
            return Err(format!("{file} {has} {section}"));
        }
    }
    Ok(())
}

/// A program of binutils, without which gcc links nothing.
fn binutils(program: &str, folder: &Path, words: &[&str]) -> Result<String, String> {
    setup::run_quietly(Command::new(program).args(words).current_dir(folder))
}
