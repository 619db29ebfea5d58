//! Builds the shipped programs: `cargo xtask release`, or `make release`.
//!
//! 1. Cargo builds them with the profile `release`.
//! 2. The symbols of each go to a separate file, which the program names. Debuggers and backtraces
//!    find it beside the program, or below `/usr/lib/debug`.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::{ci, setup};

/// Folder below the target folder. `target/release/zonal` belongs to cargo, whose next build would
/// replace it.
pub(crate) const SHIPPED: &str = "shipped";
/// Each program, with its package.
pub(crate) const PROGRAMS: [(&str, &str); 2] =
    [("zonal", "zonal"), ("zonal-lab", "zonal-laboratory")];

pub(crate) fn run(root: &Path) -> bool {
    match build(root, &mut ci::cargo(root)) {
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

/// Builds with this cargo; returns what was made.
pub(crate) fn build(root: &Path, cargo: &mut Command) -> Result<String, String> {
    cargo.args(["build", "--release", "--locked"]);
    cargo.args(PROGRAMS.iter().flat_map(|(_, package)| ["--package", package]));
    let status = cargo.status().map_err(|error| format!("cargo did not start: {error}"))?;
    if !status.success() {
        return Err("it does not build".into());
    }
    let folder = ci::target(root).join(SHIPPED);
    let size = |name: &str| fs::metadata(folder.join(name)).map_or(0, |file| file.len() >> 20);
    let mut told = Vec::new();
    for (program, _) in PROGRAMS {
        let symbols = split(&ci::target(root).join("release").join(program), &folder)?;
        told.push(format!(
            "{}: {} MiB; its symbols, {symbols}: {} MiB",
            folder.join(program).display(),
            size(program),
            size(&symbols)
        ));
    }
    Ok(told.join("\n"))
}

/// Splits a program in `folder` into a stripped program and a file of symbols; returns the name of
/// the latter.
pub(crate) fn split(built: &Path, folder: &Path) -> Result<String, String> {
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let program = built.file_name().unwrap_or_default().to_string_lossy();
    let symbols = format!("{program}.debug");
    binutils("objcopy", folder, &["--only-keep-debug", &built.to_string_lossy(), &symbols])?;
    // The link has the file name and a checksum, so the file must exist already, in the current
    // folder.
    let link = format!("--add-gnu-debuglink={symbols}");
    let words = ["--strip-all", &link, &built.to_string_lossy(), &program];
    binutils("objcopy", folder, &words)?;
    Ok(symbols)
}

/// Splits a program, and checks that the stripped one runs, names its symbols, and that debuggers
/// find them.
pub(crate) fn verify(built: &Path, folder: &Path) -> Result<(), String> {
    let symbols = split(built, folder)?;
    setup::run_quietly(Command::new(folder.join("zonal")).arg("--version"))?;
    let sections = |name| binutils("readelf", folder, &["--sections", "--wide", name]);
    let (of_program, of_symbols) = (sections("zonal")?, sections(&symbols)?);
    for (file, text, section, is_wanted) in [
        ("zonal", &of_program, ".symtab", false),
        ("zonal", &of_program, ".debug_line", false),
        ("zonal", &of_program, ".gnu_debuglink", true),
        (&symbols, &of_symbols, ".symtab", true),
        (&symbols, &of_symbols, ".debug_line", true),
    ] {
        if text.contains(section) != is_wanted {
            let has = if is_wanted { "lacks" } else { "still has" };
            return Err(format!("{file} {has} {section}"));
        }
    }
    Ok(())
}

/// Runs a program of binutils, which gcc needs for linking anyway.
fn binutils(program: &str, folder: &Path, words: &[&str]) -> Result<String, String> {
    setup::run_quietly(Command::new(program).args(words).current_dir(folder))
}
