//! Kernels to boot, and the programs of a guest, from Debian's packages: fetched and unpacked under `.tools/guest`, never
//! installed.
//!
//! 1. A package manager of their own knows one suite each; the machine's own lists and sources stay as they are.
//! 2. The package that always depends on the newest kernel names it.
//! 3. It is unpacked; of its modules those are read that a guest needs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::setup::{fetch, run_quietly};

/// Where all of it is, from the top of the checkout.
pub(super) const FOLDER: &str = ".tools/guest";

/// A kernel that Debian packages.
pub(super) struct Release {
    /// As it is named in tables.
    pub(super) version: &'static str,
    /// Of Debian.
    pub(super) suite: &'static str,
    /// The package that depends on the newest kernel of that suite.
    newest: &'static str,
}

/// One without zone write plugging, one with.
pub(super) const RELEASES: [Release; 2] = [
    Release { version: "6.1", suite: "bookworm", newest: VIRTUAL },
    Release { version: "6.12", suite: "bookworm-backports", newest: VIRTUAL },
];

/// One that has every file system, F2FS among them.
pub(super) const WHOLE: Release =
    Release { version: "6.12-whole", suite: "bookworm-backports", newest: "linux-image-amd64" };

/// Kernels built for virtual machines: a third of the size.
const VIRTUAL: &str = "linux-image-cloud-amd64";

/// An unpacked kernel.
pub(super) struct Kernel {
    /// What QEMU boots.
    pub(super) image: PathBuf,
    modules: PathBuf,
    /// As `uname -r` tells it.
    pub(super) release: String,
}

/// The kernel of a release: fetched, unless it is there.
pub(super) fn kernel(root: &Path, release: &Release) -> Result<Kernel, String> {
    let folder = root.join(FOLDER).join(release.version);
    if find(&folder, "/boot/vmlinuz-").is_none() {
        let packages = Packages::of(root, release.suite)?;
        let depends = packages.ask(&["depends", release.newest])?;
        let newest = depends.lines().find_map(|line| line.trim().strip_prefix("Depends: "));
        let package = newest.ok_or_else(|| format!("{} names no kernel", release.newest))?;
        println!("setup: fetching {package} (a minute)");
        packages.unpack(package, &folder)?;
    }
    let image = find(&folder, "/boot/vmlinuz-").ok_or("the package has no kernel")?;
    let name = image.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let release = name.trim_start_matches("vmlinuz-").to_owned();
    Ok(Kernel { image, modules: folder, release })
}

/// The program of which a guest's commands are made.
pub(super) fn busybox(root: &Path) -> Result<PathBuf, String> {
    let folder = root.join(FOLDER).join("busybox");
    if find(&folder, "/bin/busybox").is_none() {
        Packages::of(root, RELEASES[0].suite)?.unpack("busybox-static", &folder)?;
    }
    find(&folder, "/bin/busybox").ok_or_else(|| "busybox-static has no busybox".into())
}

impl Kernel {
    /// A module and those that it needs, in the order in which they are loaded. Nothing for one that is built in.
    pub(super) fn modules(&self, name: &str) -> Result<Vec<(String, Vec<u8>)>, String> {
        let Some(path) = find(&self.modules, &format!("/{name}.ko")) else { return Ok(Vec::new()) };
        let bytes = match path.extension().is_some_and(|end| end == "xz") {
            true => {
                let output =
                    Command::new("xz").arg("--decompress").arg("--stdout").arg(&path).output();
                output.map_err(|error| format!("xz did not start: {error}"))?.stdout
            }
            false => fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?,
        };
        let mut modules = Vec::new();
        for needed in needs(&bytes) {
            // A file has dashes where the module's name has underscores, or not.
            let as_file = self.modules(&needed.replace('_', "-"))?;
            let found = if as_file.is_empty() { self.modules(&needed)? } else { as_file };
            modules.extend(found);
        }
        modules.push((name.to_owned(), bytes));
        Ok(modules)
    }
}

/// The modules that a module needs, as it says itself.
fn needs(module: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(at) = module.windows(KEY.len()).position(|window| window == KEY) else {
        return Vec::new();
    };
    let rest = &module[at + KEY.len()..];
    let end = rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len());
    let names = String::from_utf8_lossy(&rest[..end]).into_owned();
    names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// The first file below a folder whose path has `part` in it.
pub(super) fn find(folder: &Path, part: &str) -> Option<PathBuf> {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    entries.sort();
    entries.into_iter().find_map(|path| match path.is_dir() && !path.is_symlink() {
        true => find(&path, part),
        false => path.to_string_lossy().contains(part).then_some(path),
    })
}

/// Debian's packages of one suite.
pub(super) struct Packages {
    configuration: PathBuf,
    folder: PathBuf,
}

impl Packages {
    pub(super) fn of(root: &Path, suite: &str) -> Result<Self, String> {
        let mirror = mirror()?;
        let folder = root.join(FOLDER).join("packages").join(suite);
        let write = |path: PathBuf, text: String| {
            fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
            Ok::<_, String>(path)
        };
        for part in ["lists/partial", "cache/archives/partial"] {
            let part = folder.join(part);
            fs::create_dir_all(&part).map_err(|error| format!("{}: {error}", part.display()))?;
        }
        let sources = write(folder.join("sources.list"), format!("deb {mirror} {suite} main\n"))?;
        let text = format!(
            // What the machine has installed is of another suite, and would be weighed against this one.
            "Dir::State::status \"/dev/null\";\n\
             Dir::Etc::sourcelist \"{}\";\nDir::Etc::sourceparts \"/dev/null\";\n\
             Dir::State::lists \"{}\";\nDir::Cache \"{}\";\nAPT::Architecture \"amd64\";\n",
            sources.display(),
            folder.join("lists").display(),
            folder.join("cache").display(),
        );
        let configuration = write(folder.join("apt.conf"), text)?;
        let packages = Self { configuration, folder };
        fetch(packages.command("apt-get").args(["update", "--quiet"]))?;
        Ok(packages)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("APT_CONFIG", &self.configuration).current_dir(&self.folder);
        // The sandbox of a package manager may not write where a build does.
        if program == "apt-get" {
            command.args(["-o", "APT::Sandbox::User=root"]);
        }
        command
    }

    fn ask(&self, words: &[&str]) -> Result<String, String> {
        run_quietly(self.command("apt-cache").args(words))
    }

    pub(super) fn unpack(&self, package: &str, into: &Path) -> Result<(), String> {
        fetch(self.command("apt-get").args(["download", "--quiet", package]))?;
        let file = find(&self.folder, &format!("/{package}_"))
            .ok_or_else(|| format!("{package} was not downloaded"))?;
        run_quietly(Command::new("dpkg").arg("-x").arg(&file).arg(into))?;
        fs::remove_file(&file).map_err(|error| format!("{}: {error}", file.display()))
    }
}

/// Where this machine has its own packages from.
fn mirror() -> Result<String, String> {
    const NEEDS: &str = "kernels to boot come from Debian's packages, and this machine has no apt that knows a mirror of \
                         Debian";
    let mut list = Command::new("apt-get");
    list.args([
        "indextargets",
        "--format",
        "$(ORIGIN) $(CODENAME) $(REPO_URI)",
        "Created-By: Packages",
    ]);
    let listed = run_quietly(&mut list).map_err(|_| NEEDS.to_owned())?;
    let mut suites =
        listed.lines().filter_map(|line| line.strip_prefix("Debian ")?.split_once(' '));
    // Security updates and the like have mirrors of their own.
    let (_, mirror) = suites.find(|(suite, _)| !suite.contains('-')).ok_or(NEEDS)?;
    Ok(mirror.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::needs;

    #[test]
    fn a_module_says_which_others_it_needs() {
        let module = b"\x7fELF...license=GPL\0depends=scsi_mod,crc-t10dif\0retpoline=Y\0";
        assert_eq!(needs(module), ["scsi_mod", "crc-t10dif"]);
        assert!(needs(b"license=GPL\0depends=\0name=x\0").is_empty());
        assert!(needs(b"no such thing").is_empty());
    }
}
