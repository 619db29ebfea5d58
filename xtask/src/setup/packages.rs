//! Programs from Debian packages, which are installed into the system.
//!
//! 1. Missing packages are named, with the command that installs them.
//! 2. Only root installs them, and only with consent: a yes at the terminal, `INSTALL=yes`, or
//!    continuous integration (`CI` is set), whose machines serve no other purpose.
//! 3. Without consent, stages that need them are skipped.

use std::collections::BTreeSet;
use std::io::{IsTerminal, Write};
use std::process::Command;

use super::{Tool, fetch, run_quietly};
use crate::ci::{Tier, is_continuous_integration};

/// A program that tests start.
pub(super) struct Program {
    /// Name in `.tools/status`.
    pub(super) name: &'static str,
    /// First tier that needs it.
    pub(super) tier: Tier,
    /// Name of the Debian package.
    package: &'static str,
    /// Command without effect, which succeeds if the program works.
    probe: &'static [&'static str],
}

/// All such programs.
pub(super) const PROGRAMS: [Program; 21] = [
    // Creates the environment of the S3 clients. Debian packages the module separately.
    program("python3", Tier::Test, "python3-venv", &["python3", "-c", "import ensurepip, venv"]),
    // Shows NBD exports; `nbdcopy` comes with it.
    program("nbdinfo", Tier::Test, "libnbd-bin", &["nbdinfo", "--version"]),
    // Sends the requests of README.md.
    program("curl", Tier::Test, "curl", &["curl", "--version"]),
    // Creates the certificates for HTTPS.
    program("openssl", Tier::Test, "openssl", &["openssl", "version"]),
    program("fio", Tier::Test, "fio", &["fio", "--version"]),
    // QEMU's image tools; `qemu-io` and `qemu-nbd` come with it.
    program("qemu-img", Tier::Test, "qemu-utils", &["qemu-img", "--version"]),
    // Compiles and runs the Java clients; Maven fetches their dependencies.
    program("javac", Tier::Rest, "default-jdk-headless", &["javac", "--version"]),
    program("mvn", Tier::Rest, "maven", &["mvn", "--version"]),
    // Runs the JavaScript clients; npm fetches their dependencies.
    program("node", Tier::Rest, "nodejs", &["node", "--version"]),
    program("npm", Tier::Rest, "npm", &["npm", "--version"]),
    // Shows the page at `/ui/` to its tests.
    program("chromium", Tier::Rest, "chromium", &["chromium", "--version"]),
    // Load balancer in front of several nodes.
    program("haproxy", Tier::Rest, "haproxy", &["haproxy", "-v"]),
    // Gives each node a network namespace.
    program("ip", Tier::Rest, "iproute2", &["ip", "-V"]),
    // Checks the unit, without a running systemd.
    program("systemd-analyze", Tier::Rest, "systemd", &["systemd-analyze", "--version"]),
    // Checks Debian packages.
    program("lintian", Tier::Rest, "lintian", &["lintian", "--version"]),
    // Makes roots that packages are installed into.
    program("mmdebstrap", Tier::Rest, "mmdebstrap", &["mmdebstrap", "--version"]),
    // Installs RPM packages into such a root.
    program("rpm", Tier::Rest, "rpm", &["rpm", "--version"]),
    // Makes the container image, and runs it.
    program("buildah", Tier::Rest, "buildah", &["buildah", "--version"]),
    program("crun", Tier::Rest, "crun", &["crun", "--version"]),
    // Boots kernels with zoned drives.
    program("qemu", Tier::Rest, "qemu-system-x86", &["qemu-system-x86_64", "--version"]),
    // Unpacks kernel modules.
    program("xz", Tier::Rest, "xz-utils", &["xz", "--version"]),
];

const fn program(
    name: &'static str,
    tier: Tier,
    package: &'static str,
    probe: &'static [&'static str],
) -> Program {
    Program { name, tier, package, probe }
}

impl Program {
    /// The program, or how to install it.
    pub(super) fn ready(&self) -> Tool {
        match run_quietly(Command::new(self.probe[0]).args(&self.probe[1..])) {
            Ok(_) => Ok(self.probe[0].to_owned()),
            Err(why) => Err(format!("{why}: install Debian's package {}", self.package)),
        }
    }
}

/// Consent to system packages.
#[derive(Debug, PartialEq, Eq)]
enum Consent {
    Given,
    Refused,
    /// There is a terminal to ask at.
    Ask,
    /// Consent is impossible: not root, or an invalid `INSTALL`. The text says what to do.
    Missing(String),
}

/// Installs the missing packages of a tier and of earlier ones, after naming them and with consent.
pub(super) fn install_missing(tier: Tier) {
    let missing = PROGRAMS.iter().filter(|program| program.tier <= tier);
    let missing = missing.filter(|program| program.ready().is_err());
    let missing: BTreeSet<&str> = missing.map(|program| program.package).collect();
    if missing.is_empty() {
        return;
    }
    let names = missing.iter().copied().collect::<Vec<_>>().join(" ");
    println!("setup: this system lacks packages that tests need: {names}");
    println!("setup: apt-get install --no-install-recommends {names}");
    let is_root = run_quietly(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0");
    let said = std::env::var("INSTALL").unwrap_or_default();
    let consent = match consent(is_root, &said, is_continuous_integration()) {
        Consent::Ask if !std::io::stdin().is_terminal() => Consent::Missing(HOW.to_owned()),
        Consent::Ask if asked() => Consent::Given,
        Consent::Ask => Consent::Refused,
        other => other,
    };
    match consent {
        Consent::Given => install(&missing),
        Consent::Missing(why) => println!("setup: not installed: {why}"),
        Consent::Refused | Consent::Ask => println!("setup: not installed: stages are skipped"),
    }
}

const HOW: &str =
    "run that command, or say INSTALL=yes to have it run; without it, stages are skipped";

fn consent(is_root: bool, said: &str, is_ci: bool) -> Consent {
    match (is_root, said) {
        (_, "no") => Consent::Refused,
        (false, _) => {
            Consent::Missing("only root may: run that command as root, or with sudo".into())
        }
        (true, "yes") => Consent::Given,
        (true, "") if is_ci => Consent::Given,
        (true, "") => Consent::Ask,
        (true, other) => Consent::Missing(format!("INSTALL={other} is neither yes nor no")),
    }
}

fn asked() -> bool {
    print!("setup: install them now? [y/N] ");
    let mut answer = String::new();
    let read = std::io::stdout().flush().and_then(|()| std::io::stdin().read_line(&mut answer));
    read.is_ok() && ["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str())
}

/// Installs all at once, or one by one if that fails: a package that this release of Debian lacks
/// must not block the others.
fn install(packages: &BTreeSet<&str>) {
    // The package lists of a fresh machine are empty or old.
    if let Err(why) = fetch(Command::new("apt-get").args(["update", "--quiet"])) {
        println!("setup: {why}");
    }
    let all: Vec<&str> = packages.iter().copied().collect();
    let Err(why) = apt_get_install(&all) else { return };
    println!("setup: {why}");
    for package in all.into_iter().filter(|_| 1 < packages.len()) {
        if let Err(why) = apt_get_install(&[package]) {
            println!("setup: {package}: {why}");
        }
    }
}

fn apt_get_install(packages: &[&str]) -> Result<(), String> {
    let install = || {
        let mut command = Command::new("apt-get");
        command.args(["install", "--yes", "--quiet", "--no-install-recommends"]);
        // In runlevel 1, Debian's packages start no services: test tools must not run as services.
        command.env("DEBIAN_FRONTEND", "noninteractive").env("RUNLEVEL", "1");
        command
    };
    // Only the download has a time limit: killing apt-get during unpacking leaves a broken system.
    fetch(install().arg("--download-only").args(packages))?;
    run_quietly(install().args(packages)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::{Consent, consent};

    #[test]
    fn nothing_goes_into_the_system_without_a_yes() {
        let user = consent(false, "yes", true);
        assert!(matches!(user, Consent::Missing(_)), "who is not root cannot install: {user:?}");
        assert_eq!(consent(true, "yes", false), Consent::Given);
        assert_eq!(consent(true, "", true), Consent::Given);
        assert_eq!(consent(true, "", false), Consent::Ask);
        assert_eq!(consent(true, "no", true), Consent::Refused);
        assert!(matches!(consent(true, "maybe", true), Consent::Missing(_)));
    }
}
