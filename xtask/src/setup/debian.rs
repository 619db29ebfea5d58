//! What comes from Debian's packages: load generators, HAProxy, QEMU, OpenSSL's program, and Python's venv module.

use std::path::Path;
use std::process::Command;

use super::{Tool, run_quietly};

pub(super) fn fio(_root: &Path) -> Tool {
    program("fio", "--version")
}

pub(super) fn wrk(_root: &Path) -> Tool {
    program("wrk", "-v")
}

/// Stands in front of several nodes.
pub(super) fn haproxy(_root: &Path) -> Tool {
    program("haproxy", "-v")
}

/// Gives each of them a network of its own.
pub(super) fn ip(_root: &Path) -> Tool {
    program_of("iproute2", "ip", "-V")
}

/// Says whether systemd understands a unit; it needs no systemd that runs.
pub(super) fn systemd_analyze(_root: &Path) -> Tool {
    program_of("systemd", "systemd-analyze", "--version")
}

/// Boots kernels with zoned drives.
pub(super) fn qemu(_root: &Path) -> Tool {
    program_of("qemu-system-x86", "qemu-system-x86_64", "--version")
}

/// Makes the certificates with which the clients are driven over HTTPS.
pub(super) fn openssl(_root: &Path) -> Tool {
    program("openssl", "version")
}

/// Tells of NBD exports; `nbdcopy` comes with it.
pub(super) fn nbdinfo(_root: &Path) -> Tool {
    program_of("libnbd-bin", "nbdinfo", "--version")
}

/// An NBD server of memory and of files, beside which ours is measured.
pub(super) fn nbdkit(_root: &Path) -> Tool {
    program("nbdkit", "--version")
}

/// QEMU's tools for images; `qemu-io` and `qemu-nbd` come with it.
pub(super) fn qemu_img(_root: &Path) -> Tool {
    program_of("qemu-utils", "qemu-img", "--version")
}

/// A program from the package of the same name. `probe` makes it do nothing.
fn program(name: &str, probe: &str) -> Tool {
    program_of(name, name, probe)
}

fn program_of(package: &str, name: &str, probe: &str) -> Tool {
    // Whatever it answers, it is there if it starts.
    let is_there = || Command::new(name).arg(probe).output().is_ok();
    if !is_there() {
        install(package)?;
    }
    if is_there() { Ok(name.to_owned()) } else { Err(format!("{name} does not start")) }
}

/// Installs a package if this process may. The lists of a fresh machine are empty, so they are
/// fetched when the first attempt fails.
pub(super) fn install(package: &str) -> Result<(), String> {
    let advice = format!("install it with `apt-get install {package}`");
    let is_root = run_quietly(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0");
    if !is_root {
        return Err(advice);
    }
    let attempt = || {
        let mut command = Command::new("apt-get");
        command.args(["install", "--yes", "--quiet", "--no-install-recommends", package]);
        // In runlevel 1 Debian's packages start no service: what a test needs is not to run by itself.
        command.env("DEBIAN_FRONTEND", "noninteractive").env("RUNLEVEL", "1");
        run_quietly(&mut command).map(drop)
    };
    attempt().or_else(|_| {
        run_quietly(Command::new("apt-get").args(["update", "--quiet"]))
            .and_then(|_| attempt())
            .map_err(|why| format!("{advice} ({why})"))
    })
}
