//! Packages: `cargo xtask package deb rpm archive image`, from built programs.
//!
//! 1. Stage below `target/package` what packages have besides the programs: man pages, completions,
//!    configuration files, which the programs themselves write, and licences of libraries.
//! 2. Each kind of package takes its files from there and from `packaging/`. The manifests of the
//!    programs list them for cargo-deb and cargo-generate-rpm.
//! 3. Finished files go to `target/dist`.

mod archive;
mod image;
mod pages;
mod staged;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::release::PROGRAMS;
use crate::{ci, release, setup};

use staged::{STAGE, stage};

/// Folder of finished packages, from the top of the checkout.
pub(crate) const DIST: &str = "target/dist";

const USAGE: &str = "usage: cargo xtask package [deb] [rpm] [archive] [image] [--target TRIPLE]";

/// What can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Deb,
    Rpm,
    /// Static programs in a compressed archive.
    Archive,
    /// Container image.
    Image,
}

const KINDS: [(&str, Kind); 4] =
    [("deb", Kind::Deb), ("rpm", Kind::Rpm), ("archive", Kind::Archive), ("image", Kind::Image)];

/// Builds the programs, and makes the named kinds of packages; all of them if none is named.
pub(crate) fn run(root: &Path, words: &[&str]) -> bool {
    let made = requested(words).and_then(|(kinds, target)| make(root, &kinds, &target));
    match made {
        Ok(files) => {
            files.iter().for_each(|file| println!("{}", file.display()));
            true
        }
        Err(why) => {
            eprintln!("package: {why}");
            false
        }
    }
}

fn requested(words: &[&str]) -> Result<(Vec<Kind>, String), String> {
    let (words, target) = match words {
        [words @ .., "--target", target] => (words, (*target).to_owned()),
        words => (words, archive::here()),
    };
    let kind = |word: &&str| {
        let found = KINDS.iter().find(|(name, _)| name == word);
        found.map(|(_, kind)| *kind).ok_or_else(|| format!("there is no kind `{word}`\n{USAGE}"))
    };
    let kinds: Vec<Kind> = words.iter().map(kind).collect::<Result<_, _>>()?;
    match kinds.is_empty() {
        true => Ok((KINDS.map(|(_, kind)| kind).to_vec(), target)),
        false => Ok((kinds, target)),
    }
}

fn make(root: &Path, kinds: &[Kind], target: &str) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    if kinds.iter().any(|kind| matches!(kind, Kind::Deb | Kind::Rpm)) {
        release::build(root, &mut auditable(root, "")?)?;
        stage(root, &ci::target(root).join(release::SHIPPED))?;
    }
    if kinds.contains(&Kind::Deb) {
        files.extend(deb(root)?);
    }
    if kinds.contains(&Kind::Rpm) {
        files.extend(rpm(root)?);
    }
    if kinds.iter().any(|kind| matches!(kind, Kind::Archive | Kind::Image)) {
        let programs = archive::build(root, &PROGRAMS, (target, "release"))?;
        if kinds.contains(&Kind::Archive) {
            files.push(archive::make(root, &programs, target)?);
        }
        if kinds.contains(&Kind::Image) {
            files.push(image::make(root, &programs.join("zonal"))?);
            image::check_size(root)?;
        }
    }
    Ok(files)
}

/// A cargo whose programs hold the list of their libraries (`cargo audit bin` reads it), and no
/// path of this machine.
fn auditable(root: &Path, flags: &str) -> Result<Command, String> {
    let tool = setup::packager(root, "cargo-auditable")?;
    let mut command = ci::cargo(root);
    // Cargo finds its own commands by `PATH`.
    let path = std::env::var("PATH").unwrap_or_default();
    let tools = tool.parent().unwrap_or(root).display();
    command.env("PATH", format!("{tools}:{path}")).arg("auditable");
    let home = std::env::var("HOME").unwrap_or_default();
    let home = std::env::var("CARGO_HOME").unwrap_or_else(|_| format!("{home}/.cargo"));
    command.env("RUSTFLAGS", format!("--remap-path-prefix={home}=/cargo {flags}"));
    Ok(command)
}

/// Image of a static program that is built in two minutes and not optimized, for tests.
pub(crate) fn quick_image(root: &Path) -> Result<PathBuf, String> {
    let programs = archive::build(root, &PROGRAMS[..1], (&archive::here(), "quick"))?;
    image::make(root, &programs.join("zonal"))
}

/// Stages programs of this machine, and packs them.
pub(crate) fn archive(root: &Path, programs: &Path) -> Result<PathBuf, String> {
    archive::make(root, programs, &archive::here())
}

/// Debian packages of the staged programs.
pub(crate) fn deb(root: &Path) -> Result<Vec<PathBuf>, String> {
    let tool = setup::packager(root, "cargo-deb")?;
    let package = |(_, package): &(&str, &str)| {
        let mut command = Command::new(&tool);
        command.args(["--no-build", "--no-strip", "--quiet", "--package", package]);
        command.args(["--output", DIST]).current_dir(root);
        setup::run_quietly(&mut command)?;
        Ok::<_, String>(())
    };
    into_dist(root, ".deb", PROGRAMS.len(), || PROGRAMS.iter().try_for_each(package))
}

/// RPM packages of the staged programs.
pub(crate) fn rpm(root: &Path) -> Result<Vec<PathBuf>, String> {
    let tool = setup::packager(root, "cargo-generate-rpm")?;
    let package = |(_, package): &(&str, &str)| {
        let folder = if *package == "zonal" { "zonal" } else { "laboratory" };
        let mut command = Command::new(&tool);
        command.args(["generate-rpm", "--package", &format!("crates/{folder}")]);
        command.args(["--output", DIST]).current_dir(root);
        setup::run_quietly(&mut command)?;
        Ok::<_, String>(())
    };
    into_dist(root, ".rpm", PROGRAMS.len(), || PROGRAMS.iter().try_for_each(package))
}

/// Removes files with this ending from [`DIST`], makes this number of new ones, and lists them.
fn into_dist(
    root: &Path,
    ending: &str,
    count: usize,
    make: impl FnOnce() -> Result<(), String>,
) -> Result<Vec<PathBuf>, String> {
    let folder = root.join(DIST);
    let list = || {
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        let paths = entries.map(|entry| entry.path());
        let mut paths: Vec<PathBuf> =
            paths.filter(|path| path.to_string_lossy().ends_with(ending)).collect();
        paths.sort();
        paths
    };
    let made =
        fs::create_dir_all(&folder).and_then(|()| list().iter().try_for_each(fs::remove_file));
    made.map_err(|error| format!("{}: {error}", folder.display()))?;
    make()?;
    match list() {
        files if files.len() == count => Ok(files),
        files => Err(format!("{} files with {ending} were made", files.len())),
    }
}

/// Version of all programs, from the manifest of the workspace.
pub(crate) fn version(root: &Path) -> Result<String, String> {
    version_in(&read(&root.join("Cargo.toml"))?)
}

/// Version in the text of a manifest.
pub(crate) fn version_in(manifest: &str) -> Result<String, String> {
    value_in(manifest, "version")
}

/// A value of `[workspace.package]`.
fn value_in(manifest: &str, key: &str) -> Result<String, String> {
    let start = format!("{key} = ");
    let line = manifest.lines().find_map(|line| line.strip_prefix(&start));
    line.map(|value| value.trim_matches('"').to_owned())
        .ok_or_else(|| format!("Cargo.toml has no {key}"))
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, text: &[u8]) -> Result<(), String> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(path, text));
    written.map_err(|error| format!("{}: {error}", path.display()))
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let folder = to.parent().unwrap_or(Path::new("."));
    let copied = fs::create_dir_all(folder).and_then(|()| fs::copy(from, to));
    copied.map(drop).map_err(|error| format!("{} to {}: {error}", from.display(), to.display()))
}
