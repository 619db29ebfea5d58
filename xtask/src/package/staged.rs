//! Staged files: what a package has besides the files of the repository.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{copy, pages, version, write};
use crate::release::PROGRAMS;
use crate::{ci, setup};

/// Folder of staged files, from the top of the checkout.
pub(crate) const STAGE: &str = "target/package";

/// File of the licences of libraries.
pub(super) const NOTICES: &str = "THIRD-PARTY.txt.gz";

const SHELLS: [&str; 3] = ["bash", "zsh", "fish"];

/// Data directories of the services.
const DATA_DIRS: [(&[&str], &str, &str); 2] = [
    (&["config", "init"], "zonal.toml", "/var/lib/zonal"),
    (&["block", "config", "init"], "block.toml", "/var/lib/zonal-block"),
];

/// Stages the programs of a folder, and what they write about themselves.
pub(crate) fn stage(root: &Path, programs: &Path) -> Result<(), String> {
    let stage = root.join(STAGE);
    match fs::remove_dir_all(&stage) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(format!("{}: {error}", stage.display()));
        }
        _ => {}
    }
    for (program, _) in PROGRAMS {
        let path = programs.join(program);
        copy(&path, &stage.join("bin").join(program))?;
        let pages = stage.join("man").join(program);
        setup::run_quietly(Command::new(&path).arg("man-pages").arg(&pages))?;
        for page in fs::read_dir(&pages).into_iter().flatten().flatten() {
            setup::run_quietly(Command::new("gzip").args(["-9", "-n"]).arg(page.path()))?;
        }
        for shell in SHELLS {
            // zsh finds the script of a program by this name.
            let name = match shell {
                "zsh" => format!("_{program}"),
                shell => format!("{program}.{shell}"),
            };
            let script = setup::run_quietly(Command::new(&path).args(["completions", shell]))?;
            write(&stage.join("completions").join(name), script.as_bytes())?;
        }
        changelog(root, program)?;
    }
    for (words, file, data_dir) in DATA_DIRS {
        let mut command = Command::new(programs.join("zonal"));
        command.args(words).arg("-").args(["--data-dir", data_dir]);
        // Variables of a shell must not become the configuration of a package.
        let text = setup::run_quietly(command.env_clear())?;
        write(&stage.join(file), text.as_bytes())?;
    }
    pages::stage(root)?;
    copy(&notices(root)?, &stage.join(NOTICES))
}

/// A file of the licences of libraries, which ask to be passed on with the programs.
///
/// It takes a minute, so it is kept until the libraries change.
pub(super) fn notices(root: &Path) -> Result<PathBuf, String> {
    let file = ci::target(root).join(NOTICES);
    let time = |path: &Path| fs::metadata(path).and_then(|found| found.modified()).ok();
    let sources = ["Cargo.lock", "packaging/notices.toml", "packaging/notices.hbs"];
    if sources.iter().all(|source| time(&root.join(source)) < time(&file)) {
        return Ok(file);
    }
    let mut command = Command::new(setup::packager(root, "cargo-about")?);
    command.args(["generate", "--offline", "--locked", "--fail", "--workspace"]);
    command.args(["--config", "packaging/notices.toml", "packaging/notices.hbs"]);
    let text = setup::run_quietly(command.current_dir(root))?;
    let plain = file.with_extension("");
    write(&plain, text.as_bytes())?;
    setup::run_quietly(Command::new("gzip").args(["-9", "-n", "--force"]).arg(plain))?;
    Ok(file)
}

/// The changelog in Debian's format, which refers to ours.
fn changelog(root: &Path, program: &str) -> Result<(), String> {
    let date = setup::run_quietly(
        Command::new("git").args(["log", "-1", "--format=%cD"]).current_dir(root),
    );
    // Without a repository, the date is that of the build.
    let date = match date {
        Ok(date) => date,
        Err(_) => setup::run_quietly(Command::new("date").arg("-R"))?,
    };
    let version = version(root)?;
    let text = format!(
        "{program} ({version}-1) unstable; urgency=medium\n\n  * The changes are in CHANGELOG.md.\n\n \
         -- Zonal developers <zonal@users.noreply.github.com>  {}\n",
        date.trim()
    );
    let path = root.join(STAGE).join(format!("{program}.changelog"));
    write(&path, text.as_bytes())?;
    setup::run_quietly(Command::new("gzip").args(["-9", "-n"]).arg(path)).map(drop)
}
