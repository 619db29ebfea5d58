//! Programs that come from Debian's packages, and are installed into the system.
//!
//! 1. What is missing is named, with the command that installs it.
//! 2. It is installed by root only, and with consent: a yes at the terminal, `INSTALL=yes`, or continuous integration
//!    (`CI` is set), where a machine is made for nothing else.
//! 3. Without consent the stages that need it are skipped.

use std::collections::BTreeSet;
use std::io::{IsTerminal, Write};
use std::process::Command;

use super::{Tool, fetch, run_quietly};
use crate::ci::{Tier, is_continuous_integration};

/// A program that tests start.
pub(super) struct Program {
    /// As `.tools/status` has it.
    pub(super) name: &'static str,
    /// From which tier on it is needed.
    pub(super) tier: Tier,
    /// What Debian calls its package.
    package: &'static str,
    /// Does nothing, and succeeds if the program is there and whole.
    probe: &'static [&'static str],
}

/// Every one of them.
pub(super) const PROGRAMS: [Program; 14] = [
    // Makes the environment of the S3 clients. Debian has the module in a package of its own.
    program("python3", Tier::Test, "python3-venv", &["python3", "-c", "import ensurepip, venv"]),
    // Tells of NBD exports; `nbdcopy` comes with it.
    program("nbdinfo", Tier::Test, "libnbd-bin", &["nbdinfo", "--version"]),
    program("fio", Tier::Test, "fio", &["fio", "--version"]),
    // QEMU's tools for images; `qemu-io` and `qemu-nbd` come with it.
    program("qemu-img", Tier::Test, "qemu-utils", &["qemu-img", "--version"]),
    // Compiles and runs the clients in Java; Maven fetches what they need.
    program("javac", Tier::Rest, "default-jdk-headless", &["javac", "--version"]),
    program("mvn", Tier::Rest, "maven", &["mvn", "--version"]),
    // Runs those in JavaScript; npm fetches what they need.
    program("node", Tier::Rest, "nodejs", &["node", "--version"]),
    program("npm", Tier::Rest, "npm", &["npm", "--version"]),
    // Makes the certificates with which the clients are driven over HTTPS.
    program("openssl", Tier::Rest, "openssl", &["openssl", "version"]),
    // Stands in front of several nodes.
    program("haproxy", Tier::Rest, "haproxy", &["haproxy", "-v"]),
    // Gives each of them a network of its own.
    program("ip", Tier::Rest, "iproute2", &["ip", "-V"]),
    // Says whether systemd understands a unit. It needs no systemd that runs.
    program("systemd-analyze", Tier::Rest, "systemd", &["systemd-analyze", "--version"]),
    // Boots kernels with zoned drives.
    program("qemu", Tier::Rest, "qemu-system-x86", &["qemu-system-x86_64", "--version"]),
    // Unpacks their modules.
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
    /// The program, or how to have it.
    pub(super) fn ready(&self) -> Tool {
        match run_quietly(Command::new(self.probe[0]).args(&self.probe[1..])) {
            Ok(_) => Ok(self.probe[0].to_owned()),
            Err(why) => Err(format!("{why}: install Debian's package {}", self.package)),
        }
    }
}

/// Who decides on what goes into the system.
#[derive(Debug, PartialEq, Eq)]
enum Consent {
    Given,
    Refused,
    /// There is a terminal, and somebody may sit at it.
    Ask,
    /// Nobody can be asked. The text says what to do.
    Missing(String),
}

/// Installs the packages of a tier, and of those before it, that are missing: once they were named, and with consent.
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

/// All at once; each by itself when that fails, so that one which this release of Debian lacks costs no other.
fn install(packages: &BTreeSet<&str>) {
    // The lists of a fresh machine are empty or old.
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
        // In runlevel 1 Debian's packages start no service: what a test needs is not to run by itself.
        command.env("DEBIAN_FRONTEND", "noninteractive").env("RUNLEVEL", "1");
        command
    };
    // Only the download is under a time limit: killed while it unpacks, apt-get leaves a system to be repaired.
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
