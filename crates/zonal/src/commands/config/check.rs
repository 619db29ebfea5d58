//! `zonal config check`: would the server start with this configuration?
//!
//! 1. Read the configuration as the server does, with all files that it names.
//! 2. Check addresses, data directory and devices as a start does, without changing them.
//! 3. Check the origins as `zonal origin check` does.
//! 4. Print a line for each check. A server that runs with the same configuration does not disturb.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;

use rustix::fs::Access;
use serde::Serialize;
use zonal_base::Bytes;
use zonal_cli::{Failure, print};
use zonal_hostdev::{DeviceLocation, DeviceSpec};

use super::ServerFlags;
use crate::commands::origin::{OriginReport, Outcome, failed_checks, report_line};
use crate::listeners;

/// Check a configuration, its devices and its origins; changes nothing
#[derive(Debug, clap::Args)]
#[command(after_help = help(F::CONFIG, F::FILE))]
pub(super) struct Args<F: ServerFlags> {
    // Declared before the flags: otherwise clap lists them under their last help heading.
    /// Do not ask the origins
    #[arg(long)]
    offline: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    flags: F,
}

fn help(commands: &str, file: &str) -> String {
    format!(
        "Example: {commands} check --config {file}\n\n\
         Run it as the user and in the environment of the server, and give it the same flags.\n\
         Exit codes: 0 a start would succeed; 1 failed, a retry may succeed; 2 the configuration, a \
         device or\nthe rights must change."
    )
}

/// What is checked.
#[derive(Clone, Copy)]
pub(crate) struct Scope {
    /// Send no request to an origin.
    pub(super) is_offline: bool,
}

/// All checks and their results.
#[derive(Debug, Default, Serialize)]
pub(crate) struct CheckReport {
    checks: Vec<Check>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) origins: Vec<OriginReport>,
}

#[derive(Debug, Serialize)]
struct Check {
    check: &'static str,
    #[serde(flatten)]
    result: Outcome,
}

pub(super) fn run<F: ServerFlags>(args: &Args<F>) -> Result<(), Failure> {
    let report = args.flags.check(Scope { is_offline: args.offline })?;
    match args.json {
        true => print::json(&report)?,
        false => print::text(&report.to_text())?,
    }
    match report.failed() {
        None => Ok(()),
        Some((failed, true)) => Err(Failure::work(failed)),
        Some((failed, false)) => Err(Failure::request(failed)),
    }
}

impl CheckReport {
    pub(super) fn add(&mut self, check: &'static str, result: Outcome) {
        self.checks.push(Check { check, result });
    }

    /// The configuration was read; `path` is its file.
    pub(super) fn add_configuration(&mut self, path: Option<&Path>) {
        let file = path.map_or("no file, only flags and defaults".into(), Path::to_string_lossy);
        self.add("config", Outcome::ok(file));
    }

    /// The failed checks in one line; `None` if there are none. True if a repetition may succeed.
    fn failed(&self) -> Option<(String, bool)> {
        let failures = self.checks.iter().filter_map(|of| match of.result {
            Outcome::Failed { may_pass, .. } => Some((of.check.to_owned(), may_pass)),
            _ => None,
        });
        failed_checks(failures.chain(self.origins.iter().flat_map(OriginReport::named_failures)))
    }

    fn to_text(&self) -> String {
        let mut text = String::new();
        for Check { check, result } in &self.checks {
            result.add_to(&mut text, check, "");
        }
        for origin in &self.origins {
            origin.add_to(&mut text);
        }
        if self.failed().is_none() {
            report_line(&mut text, "", "a start would succeed");
        }
        text
    }
}

/// Result of a failed start of a part.
pub(super) fn refused(failure: &Failure) -> Outcome {
    let may_pass = matches!(failure, Failure::Work(_));
    Outcome::Failed { error: failure.to_string(), advice: String::new(), may_pass }
}

fn refused_request(why: String) -> Outcome {
    refused(&Failure::request(why))
}

/// Checks that this machine has the address and that the user may bind its port. Whether the port
/// is free is not checked: the server itself may be running.
pub(super) fn address(wanted: SocketAddr, named_with: &str) -> Outcome {
    const RESERVED: u16 = 1024;
    let port = if wanted.port() < RESERVED { wanted.port() } else { 0 };
    match TcpListener::bind(SocketAddr::new(wanted.ip(), port)) {
        Ok(_) => Outcome::ok(wanted.to_string()),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            Outcome::ok(format!("{wanted}, in use now"))
        }
        Err(error) => {
            let advice = listeners::advice(error.kind());
            refused_request(format!("{wanted}: {error}: {advice} with {named_with}"))
        }
    }
}

/// Checks a directory in which the server creates files, or which it creates.
pub(super) fn directory(path: &Path, named_with: &str) -> Outcome {
    let shown = path.display();
    if path.exists() {
        return match may_write(path) && path.is_dir() {
            true => Outcome::ok(shown.to_string()),
            false => refused_request(format!(
                "{shown} is not a directory that this user may write to: change its owner, or name \
                 another with {named_with}"
            )),
        };
    }
    let parent = parent(path);
    match may_write(parent) && parent.is_dir() {
        true => Outcome::ok(format!("{shown}: the first start creates it")),
        false => refused_request(format!(
            "{shown} does not exist, and this user cannot create it in {}: create it, or name \
             another with {named_with}",
            parent.display()
        )),
    }
}

/// Checks a file that the server creates or appends to.
pub(super) fn appended_file(path: &Path, named_with: &str) -> Outcome {
    let shown = path.display();
    let why = match path.exists() {
        true if path.is_dir() => format!("{shown} is a directory: name a file with {named_with}"),
        true if !may_write(path) => {
            format!("{shown}: this user may not write to it: change its owner, or {named_with}")
        }
        false if !may_write(parent(path)) => format!(
            "{shown}: this user cannot create it in {}: create that directory, change its owner, or \
             name another file with {named_with}",
            parent(path).display()
        ),
        _ => return Outcome::ok(shown.to_string()),
    };
    refused_request(why)
}

/// Checks that the user may write to a device, and that its file system has room for it.
pub(super) fn writable(spec: &DeviceSpec) -> Result<(), Failure> {
    let path = spec.place.path();
    if spec.place.is_in_memory() {
        return Ok(());
    }
    if path.exists() && !may_write(path) {
        let why = format!(
            "{}: this user may not write to it: run the server as a member of its group (of block \
             devices: disk), or change its owner",
            path.display()
        );
        return Err(Failure::request(why));
    }
    let wanted = match spec.place {
        DeviceLocation::File { size: Some(size), .. } | DeviceLocation::Emulated { size, .. } => {
            size
        }
        _ => return Ok(()),
    };
    let (folder, file) = (parent(path), fs::metadata(path).ok());
    if file.is_none() && !may_write(folder) {
        let why = format!(
            "{}: this user cannot create files in {}: change its owner, or name another device",
            path.display(),
            folder.display()
        );
        return Err(Failure::request(why));
    }
    let allocated = file.map_or(0, |file| std::os::unix::fs::MetadataExt::blocks(&file) * 512);
    let Ok(disk) = rustix::fs::statvfs(folder) else { return Ok(()) };
    let (needed, free) =
        (Bytes(wanted.0.saturating_sub(allocated)), Bytes(disk.f_bavail * disk.f_frsize));
    match free < needed {
        true => Err(Failure::request(format!(
            "{}: {} are to be allocated, and the file system has {} free: write a smaller size=, or \
             free disk space",
            path.display(),
            needed.rounded(),
            free.rounded()
        ))),
        false => Ok(()),
    }
}

fn may_write(path: &Path) -> bool {
    rustix::fs::access(path, Access::WRITE_OK).is_ok()
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."))
}
