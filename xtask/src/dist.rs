//! A release from a tag: `cargo xtask dist v0.1.0`, or `make dist TAG=v0.1.0`.
//!
//! 1. The tag, the version, the changelog and the installation page must agree.
//! 2. Clone the tag, so that nothing gets in but what is committed.
//! 3. The clone makes its packages, for this architecture. An archive for each other target.
//! 4. Beside them: sources, bills of materials, release notes, checksums.

mod bill;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{ci, package, setup};

const USAGE: &str = "usage: cargo xtask dist TAG [--target TRIPLE]...";

/// Tools without which the packages fail after an hour of builds.
const TOOLS: [&str; 3] = ["buildah", "git", "sha256sum"];

/// A tag whose files agree on its version.
#[derive(Debug)]
struct Release {
    tag: String,
    version: String,
    /// Seconds since 1970 of the commit: files of the release bear this time.
    time: String,
    /// What changed, from the changelog.
    notes: String,
}

/// Makes the files of a release, and names their folder.
pub(crate) fn run(root: &Path, words: &[&str]) -> bool {
    match requested(words).and_then(|(tag, targets)| make(root, tag, &targets)) {
        Ok(folder) => {
            println!("{}", folder.display());
            true
        }
        Err(why) => {
            eprintln!("dist: {why}");
            false
        }
    }
}

fn requested<'a>(words: &[&'a str]) -> Result<(&'a str, Vec<&'a str>), String> {
    let [tag, rest @ ..] = words else { return Err(USAGE.to_owned()) };
    let target = |pair: &[&'a str]| match pair {
        ["--target", target] => Ok(*target),
        _ => Err(USAGE.to_owned()),
    };
    let targets = rest.chunks(2).map(target).collect::<Result<_, _>>()?;
    if tag.starts_with('-') { Err(USAGE.to_owned()) } else { Ok((tag, targets)) }
}

fn make(root: &Path, tag: &str, targets: &[&str]) -> Result<PathBuf, String> {
    let release = Release::of(root, tag)?;
    for tool in TOOLS {
        setup::run_quietly(Command::new(tool).arg("--version"))?;
    }
    let folder = ci::target(root).join("releases").join(tag);
    empty(&folder)?;
    let clone = release.clone_into(root, &ci::target(root).join("releases/source"))?;
    release.package(&clone, targets)?;
    collect(&clone.join(package::DIST), &folder)?;
    release.sources(&clone, &folder)?;
    bill::of_materials(&clone, &folder, &release.version, &release.time)?;
    let notes = folder.join("NOTES.md");
    fs::write(&notes, &release.notes).map_err(|error| format!("{}: {error}", notes.display()))?;
    checksums(&folder)?;
    Ok(folder)
}

impl Release {
    /// Checks a tag of a repository.
    fn of(root: &Path, tag: &str) -> Result<Self, String> {
        let version = tag.strip_prefix('v').ok_or_else(|| {
            format!("`{tag}` is no tag of a release: `v` and a version, as in v0.1.0")
        })?;
        git(root, &["rev-parse", "--verify", "--quiet", &format!("refs/tags/{tag}")]).map_err(
            |_| format!("there is no tag {tag}: git tag --annotate {tag} --message {tag}"),
        )?;
        let file = |name: &str| git(root, &["show", &format!("{tag}:{name}")]);
        let of_manifest = package::version_in(&file("Cargo.toml")?)?;
        if of_manifest != version {
            return Err(format!("Cargo.toml of {tag} has version {of_manifest}"));
        }
        let package = format!("zonal_{version}-1_amd64.deb");
        let page = "docs/start/install.md";
        if !file(page)?.contains(&package) {
            return Err(format!("{page} of {tag} does not name {package}"));
        }
        let time = git(root, &["log", "-1", "--format=%ct", tag])?.trim().to_owned();
        let notes = notes(&file("CHANGELOG.md")?, version)
            .map_err(|why| format!("CHANGELOG.md of {tag}: {why}"))?;
        Ok(Self { tag: tag.to_owned(), version: version.to_owned(), time, notes })
    }

    fn clone_into(&self, root: &Path, place: &Path) -> Result<PathBuf, String> {
        empty(place)?;
        let url = format!("file://{}", root.display());
        // The tag alone, without the history.
        let words = ["clone", "--quiet", "--depth", "1", "--branch", &self.tag];
        let mut clone = Command::new("git");
        clone.args(["-c", "advice.detachedHead=false"]).args(words).arg(url).arg(place);
        setup::run_quietly(&mut clone)?;
        // Tools that are built already.
        let tools = (root.join(".tools"), place.join(".tools"));
        fs::create_dir_all(&tools.0)
            .and_then(|()| std::os::unix::fs::symlink(&tools.0, &tools.1))
            .map_err(|error| format!("{}: {error}", tools.1.display()))?;
        Ok(place.to_owned())
    }

    /// Makes packages with the commands of the clone.
    fn package(&self, clone: &Path, targets: &[&str]) -> Result<(), String> {
        let run = |words: &[&str]| {
            let mut command = ci::cargo(clone);
            command.args(["xtask", "package"]).args(words).env_remove("CARGO_TARGET_DIR");
            command.env("SOURCE_DATE_EPOCH", &self.time);
            match command.status() {
                Ok(status) if status.success() => Ok(()),
                Ok(_) => Err(format!("the packages of {} failed", self.tag)),
                Err(error) => Err(format!("cargo did not start: {error}")),
            }
        };
        run(&[])?;
        targets.iter().try_for_each(|target| run(&["archive", "--target", target]))
    }

    fn sources(&self, clone: &Path, folder: &Path) -> Result<(), String> {
        let name = format!("zonal-{}-source", self.version);
        let archive = folder.join(format!("{name}.tar.gz"));
        let words = ["archive", "--format", "tar.gz", "--prefix", &format!("{name}/"), "--output"];
        git(clone, &[&words[..], &[&archive.to_string_lossy(), &self.tag]].concat()).map(drop)
    }
}

/// What the changelog says of a version, which must be its first.
fn notes(changelog: &str, version: &str) -> Result<String, String> {
    let heading = |line: &&str| line.starts_with("## ");
    let first = changelog.lines().find(heading).unwrap_or_default();
    if first != format!("## {version}") {
        return Err(format!("its first heading is `{first}`, not `## {version}`"));
    }
    let lines = changelog.lines().skip_while(|line| *line != first).skip(1);
    let section: Vec<&str> = lines.take_while(|line| !heading(line)).collect();
    let section = section.join("\n");
    match section.trim() {
        "" => Err(format!("`{first}` says nothing")),
        text => Ok(format!("# Zonal {version}\n\n{text}\n")),
    }
}

/// Checksums of a folder's files, as `sha256sum --check` reads them.
fn checksums(folder: &Path) -> Result<(), String> {
    let mut command = Command::new("sha256sum");
    command.arg("--").args(names(folder)?).current_dir(folder);
    let text = setup::run_quietly(&mut command)?;
    let file = folder.join("SHA256SUMS");
    fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))
}

fn collect(from: &Path, to: &Path) -> Result<(), String> {
    for name in names(from)? {
        let (from, to) = (from.join(&name), to.join(&name));
        fs::copy(&from, &to).map_err(|error| format!("{}: {error}", from.display()))?;
    }
    Ok(())
}

/// Names of a folder's files, sorted.
fn names(folder: &Path) -> Result<Vec<String>, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.collect();
    names.sort();
    Ok(names)
}

/// Makes a folder, without what was in it.
fn empty(folder: &Path) -> Result<(), String> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => fs::create_dir_all(folder),
    }
    .map_err(|error| format!("{}: {error}", folder.display()))
}

fn git(root: &Path, words: &[&str]) -> Result<String, String> {
    setup::run_quietly(Command::new("git").args(words).current_dir(root))
}

#[cfg(test)]
mod tests;
