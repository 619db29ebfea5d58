//! Kernels and programs of a guest, from Debian packages: fetched and unpacked under
//! `.tools/guest`, never installed.
//!
//! 1. A separate package configuration knows a single suite; the machine's own package lists stay
//!    unchanged.
//! 2. A meta package names the newest kernel.
//! 3. The kernel is unpacked, and the needed modules are read.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::setup::{fetch, run_quietly};

/// Folder of the kernels, from the top of the checkout.
pub(super) const FOLDER: &str = ".tools/guest";

/// A kernel that Debian packages.
pub(super) struct Release {
    /// Name in tables.
    pub(super) version: &'static str,
    /// Debian suite.
    pub(super) suite: &'static str,
    /// Meta package that depends on the newest kernel of the suite.
    newest: &'static str,
}

/// One kernel without zone write plugging, one with.
pub(super) const RELEASES: [Release; 2] = [
    Release { version: "6.1", suite: "bookworm", newest: VIRTUAL },
    Release { version: "6.12", suite: "bookworm-backports", newest: VIRTUAL },
];

/// A kernel with all file systems, including F2FS.
pub(super) const WHOLE: Release =
    Release { version: "6.12-whole", suite: "bookworm-backports", newest: "linux-image-amd64" };

/// Kernels for virtual machines: a third of the size.
const VIRTUAL: &str = "linux-image-cloud-amd64";

/// An unpacked kernel.
pub(super) struct Kernel {
    /// Image that QEMU boots.
    pub(super) image: PathBuf,
    modules: PathBuf,
    /// Release as in `uname -r`.
    pub(super) release: String,
}

/// Kernel of a release, fetched if necessary.
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

/// BusyBox, which provides the commands of a guest.
pub(super) fn busybox(root: &Path) -> Result<PathBuf, String> {
    let folder = root.join(FOLDER).join("busybox");
    if find(&folder, "/bin/busybox").is_none() {
        Packages::of(root, RELEASES[0].suite)?.unpack("busybox-static", &folder)?;
    }
    find(&folder, "/bin/busybox").ok_or_else(|| "busybox-static has no busybox".into())
}

impl Kernel {
    /// A module and its dependencies, in load order. Empty for a built-in module.
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
            // A file name may have dashes where the module's name has underscores.
            let as_file = self.modules(&needed.replace('_', "-"))?;
            let found = if as_file.is_empty() { self.modules(&needed)? } else { as_file };
            modules.extend(found);
        }
        modules.push((name.to_owned(), bytes));
        Ok(modules)
    }
}

/// Dependencies of a module, from its own metadata.
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

/// First file below a folder whose path contains `part`.
pub(super) fn find(folder: &Path, part: &str) -> Option<PathBuf> {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    entries.sort();
    entries.into_iter().find_map(|path| match path.is_dir() && !path.is_symlink() {
        true => find(&path, part),
        false => path.to_string_lossy().contains(part).then_some(path),
    })
}

/// Debian packages of one suite.
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
            // The packages installed on the machine belong to another suite, and would confuse the
            // dependency resolution.
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
        // The sandbox user of apt may not write to a build folder.
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

/// Debian mirror of this machine.
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
    // Suites with a dash, such as security updates, have other mirrors.
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
