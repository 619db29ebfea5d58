//! Builds the programs as they are shipped: `cargo xtask release`, which is `make release`.
//!
//! 1. Cargo builds them with the profile `release`.
//! 2. The symbols of each go to a file of their own, and the program names that file: debuggers and backtraces find it beside
//!    the program, or below `/usr/lib/debug`.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::{ci, setup};

/// Below the target folder: `target/release/zonal` is cargo's, and would be put there anew by its next build.
pub(crate) const SHIPPED: &str = "shipped";
/// Each with the package that it is built from.
pub(crate) const PROGRAMS: [(&str, &str); 2] =
    [("zonal", "zonal"), ("zonal-lab", "zonal-laboratory")];

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
    command.args(["build", "--release", "--locked"]);
    command.args(PROGRAMS.iter().flat_map(|(_, package)| ["--package", package]));
    let status = command.status().map_err(|error| format!("cargo did not start: {error}"))?;
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

/// Makes a program without symbols, and a file with nothing else, in `folder`; the name of the latter.
fn split(built: &Path, folder: &Path) -> Result<String, String> {
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let program = built.file_name().unwrap_or_default().to_string_lossy();
    let symbols = format!("{program}.debug");
    binutils("objcopy", folder, &["--only-keep-debug", &built.to_string_lossy(), &symbols])?;
    // Named in the program by its name alone, with a checksum: so it is made first, and looked for from its folder.
    let link = format!("--add-gnu-debuglink={symbols}");
    let words = ["--strip-all", &link, &built.to_string_lossy(), &program];
    binutils("objcopy", folder, &words)?;
    Ok(symbols)
}

/// Splits a program, and checks that it runs without its symbols, names them, and that they are where they ought to be.
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

/// A program of binutils, without which gcc links nothing.
fn binutils(program: &str, folder: &Path, words: &[&str]) -> Result<String, String> {
    setup::run_quietly(Command::new(program).args(words).current_dir(folder))
}
