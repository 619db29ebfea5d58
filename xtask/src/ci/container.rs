//! Checks of the container image that need no base image, so that none is fetched.
//!
//! 1. The build copies all sources that it reads, and its lock file is current.
//! 2. The compiler of the build is new enough.
//! 3. The image runs as its own user, and starts existing commands.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Outcome, cargo};
use crate::release::{PROGRAMS, SHIPPED};

const CONTAINERFILE: &str = "packaging/Containerfile";

/// A build script asks git for the commit, and works without a repository too.
const GIT: &str = ".git";

pub(super) fn container(root: &Path) -> Outcome {
    match cargo::build(root) {
        Outcome::Passed => {}
        other => return other,
    }
    match verify(root) {
        Ok(()) => Outcome::Passed,
        Err(why) => {
            eprintln!("{CONTAINERFILE}: {why}");
            Outcome::failed()
        }
    }
}

fn verify(root: &Path) -> Result<(), String> {
    let text = read(&root.join(CONTAINERFILE))?;
    let instructions = instructions(&text);
    let copied = copied(&instructions);
    let missing = copied.iter().find(|path| !root.join(path).exists());
    missing
        .map_or(Ok(()), |path| Err(format!("COPY {}: there is no such file", path.display())))?;
    check_sources(root, &copied)?;
    check_manifests(root, &copied)?;
    check_compiler(root, &instructions)?;
    check_release(&instructions)?;
    check_user(&instructions)?;
    check_commands(root, &instructions)
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{} cannot be read: {error}", path.display()))
}

/// Instructions and their arguments, one per line.
fn instructions(text: &str) -> Vec<(String, String)> {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    let text = lines.collect::<Vec<_>>().join("\n").replace("\\\n", " ");
    let lines = text.lines().filter_map(|line| line.trim().split_once(' '));
    lines.map(|(name, words)| (name.to_owned(), words.trim().to_owned())).collect()
}

/// Paths that the image copies from the repository.
fn copied(instructions: &[(String, String)]) -> Vec<PathBuf> {
    let copies = instructions.iter().filter(|(name, _)| name == "COPY");
    let of_here = copies.filter(|(_, words)| !words.starts_with("--from="));
    let sources = of_here.flat_map(|(_, words)| {
        let words: Vec<&str> = words.split_whitespace().collect();
        words[..words.len() - 1].to_vec()
    });
    sources.map(PathBuf::from).collect()
}

/// Compares the copied paths with the source files that the compiler listed for each program.
fn check_sources(root: &Path, copied: &[PathBuf]) -> Result<(), String> {
    let list_of = |program: &str| cargo::binary(root).with_file_name(format!("{program}.d"));
    let mut programs = PROGRAMS.iter().map(|(program, _)| list_of(program));
    programs.try_for_each(|list| check_list(root, &list, copied))
}

fn check_list(root: &Path, list: &Path, copied: &[PathBuf]) -> Result<(), String> {
    let list = read(list)?;
    // A backslash escapes a space in a path.
    let list = list.replace("\\ ", "\0");
    let (_, paths) = list.split_once(": ").ok_or("the list of what was read is empty")?;
    let paths = paths.split_whitespace().map(|path| PathBuf::from(path.replace('\0', " ")));
    // Paths of included files contain dots.
    let paths = paths.filter_map(|path| path.canonicalize().ok());
    let top = root.canonicalize().map_err(|error| error.to_string())?;
    let ours: Vec<PathBuf> =
        paths.filter_map(|path| Some(path.strip_prefix(&top).ok()?.to_owned())).collect();
    if ours.is_empty() {
        return Err("the list of what was read names no file of ours".to_owned());
    }
    let may_be_absent = |path: &&PathBuf| path.starts_with(GIT);
    let is_copied = |path: &PathBuf| copied.iter().any(|source| path.starts_with(source));
    match ours.iter().filter(|path| !may_be_absent(path)).find(|path| !is_copied(path)) {
        Some(path) => Err(format!("the build reads {}, which is not copied", path.display())),
        None => Ok(()),
    }
}

/// Checks that the copied files are a whole workspace, and that the lock file fits its manifests.
fn check_manifests(root: &Path, copied: &[PathBuf]) -> Result<(), String> {
    let folder = root.join("target/container");
    let _ = fs::remove_dir_all(&folder);
    let made = fs::create_dir_all(&folder).and_then(|()| {
        let link = |path: &PathBuf| std::os::unix::fs::symlink(root.join(path), folder.join(path));
        copied.iter().try_for_each(link)
    });
    made.map_err(|error| format!("{} cannot be made: {error}", folder.display()))?;
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // Fetches packages that no earlier stage needed.
    command.args(["tree", "--locked", "--depth", "0"]);
    let output = command.current_dir(&folder).output().map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

fn check_compiler(root: &Path, instructions: &[(String, String)]) -> Result<(), String> {
    let manifest = read(&root.join("Cargo.toml"))?;
    let needed = manifest.lines().find_map(|line| line.strip_prefix("rust-version = "));
    let needed = needed.ok_or("Cargo.toml has no rust-version")?.trim_matches('"');
    let images = instructions.iter().filter(|(name, _)| name == "FROM").map(|(_, image)| image);
    match images.clone().any(|image| image.contains(&format!("/rust:{needed}-"))) {
        true => Ok(()),
        false => Err(format!("no stage is FROM an image of Rust {needed}")),
    }
}

/// Checks that the image has the program of `make release`.
fn check_release(instructions: &[(String, String)]) -> Result<(), String> {
    let made = "cargo run --locked --package xtask -- release";
    let built = format!("/build/target/{SHIPPED}/zonal");
    let is_made = instructions.iter().any(|(name, words)| name == "RUN" && words == made);
    let is_taken = instructions.iter().any(|(name, words)| {
        name == "COPY" && words.starts_with("--from=") && words.split(' ').any(|word| word == built)
    });
    match is_made && is_taken {
        true => Ok(()),
        false => Err(format!("it does not RUN {made} and COPY {built} from there")),
    }
}

/// Checks the user: the last one counts.
fn check_user(instructions: &[(String, String)]) -> Result<(), String> {
    let user = instructions.iter().rev().find(|(name, _)| name == "USER");
    let (_, user) = user.ok_or("it runs as root: there is no USER")?;
    let mut runs = instructions.iter().filter(|(name, _)| name == "RUN");
    let is_made = |words: &String| words.contains("useradd ") && words.ends_with(&**user);
    match runs.any(|(_, words)| is_made(words)) {
        true => Ok(()),
        false => Err(format!("it runs as {user}, and no useradd makes that user")),
    }
}

/// Checks that the start command and the health check are existing commands and flags.
fn check_commands(root: &Path, instructions: &[(String, String)]) -> Result<(), String> {
    let of = |wanted: &str| {
        let found = instructions.iter().find(|(name, _)| name == wanted);
        found.map(|(_, words)| listed(words)).ok_or(format!("there is no {wanted}"))?
    };
    let started = [of("ENTRYPOINT")?, of("CMD")?].concat();
    for words in [started, of("HEALTHCHECK")?] {
        let mut command = Command::new(cargo::binary(root));
        command.args(&words[1..]).arg("--help").stdin(Stdio::null());
        let output = command.output().map_err(|error| error.to_string())?;
        if words[0] != "zonal" || !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(format!("{words:?} cannot be started: {said}"));
        }
    }
    Ok(())
}

/// Arguments of a command that starts without a shell, which the image lacks.
fn listed(words: &str) -> Result<Vec<String>, String> {
    let words = words.strip_prefix("CMD ").unwrap_or(words);
    let inner = words.strip_prefix("[\"").and_then(|words| words.strip_suffix("\"]"));
    let inner = inner.ok_or_else(|| format!("{words}: write a list, as [\"zonal\", \"serve\"]"))?;
    Ok(inner.split("\", \"").map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instruction_may_go_on_and_comments_are_none() {
        let text =
            "# FROM a\nFROM b AS c\nRUN one \\\n    && two\nCOPY x y ./\nCOPY --from=c /z /z\n";
        let read = instructions(text);
        let names: Vec<&str> = read.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["FROM", "RUN", "COPY", "COPY"]);
        assert_eq!(read[1].1.split_whitespace().collect::<Vec<_>>(), ["one", "&&", "two"]);
        assert_eq!(copied(&read), [PathBuf::from("x"), PathBuf::from("y")]);
    }

    #[test]
    fn a_command_is_a_list() {
        assert_eq!(listed("CMD [\"zonal\", \"cache\"]").unwrap(), ["zonal", "cache"]);
        assert!(listed("zonal serve").is_err());
    }

    #[test]
    fn whoever_runs_is_made() {
        let check = |text| check_user(&instructions(text));
        assert!(check("RUN useradd --system z\nUSER z\n").is_ok());
        assert!(check("RUN useradd --system z\n").is_err());
        assert!(check("RUN useradd --system z\nUSER root\n").is_err());
    }
}
