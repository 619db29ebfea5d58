//! Checks of the configuration of `zonal block`.

use std::path::Path;

use zonal_block::{OpenMode, StartError, check_devices};
use zonal_cli::Failure;
use zonal_hostdev::OpenError;

use super::check::{CheckReport, address, appended_file, directory, refused, writable};
use crate::commands::block::{failed_start, settings};
use crate::commands::origin::Outcome;
use crate::config::{BlockConfig, BlockFlags, Devices};
use crate::data_dir::DataDir;
use crate::local_socket::LocalSocket;

pub(super) fn check(flags: &BlockFlags) -> Result<CheckReport, Failure> {
    let config = BlockConfig::load(flags).map_err(Failure::request)?;
    let mut report = CheckReport::default();
    report.add_configuration(flags.config());
    if let Some(listen) = config.listen {
        report.add("listen", address(listen, "--listen (nbd.listen)"));
    }
    if let Some(path) = &config.socket {
        report.add("socket", socket(path));
    }
    report.add("admin", address(config.admin, "--admin (admin.listen)"));
    let has_place = config.socket.is_some() || config.listen.is_some();
    if config.devices == Devices::Own || !has_place {
        report.add("data-dir", directory(&config.data_dir, "--data-dir (data-dir)"));
    }
    if let Some(path) = &config.log.record {
        report.add("log.record", appended_file(path, "--record (log.record)"));
    }
    report.add("devices", devices(&config));
    Ok(report)
}

fn socket(path: &Path) -> Outcome {
    const FLAG: &str = "--socket (nbd.socket)";
    let folder = path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
    match LocalSocket::refused_at(path) {
        Some(why) => refused(&Failure::request(format!("{}: {why} with {FLAG}", path.display()))),
        None if !folder.is_dir() => refused(&Failure::request(format!(
            "{}: its directory does not exist: create it, or name another with {FLAG}",
            path.display()
        ))),
        None => directory(folder, FLAG),
    }
}

fn devices(config: &BlockConfig) -> Outcome {
    let own = || DataDir::planned_block_devices(&config.data_dir);
    let settings = match settings(config, own, OpenMode::Recover) {
        Ok(settings) => settings,
        Err(failure) => return refused(&failure),
    };
    let is_own = config.devices == Devices::Own;
    let specs = settings.buffer.iter().chain([&settings.capacity]);
    let shown = specs.clone().map(ToString::to_string).collect::<Vec<_>>().join(" and ");
    // The default devices are files in the data directory, whose rights were checked.
    for spec in specs.filter(|_| !is_own) {
        if let Err(failure) = writable(spec) {
            return refused(&failure);
        }
    }
    match check_devices(&settings) {
        Ok(true) => {
            Outcome::ok(format!("{shown}: the first start formats what it finds or creates"))
        }
        Ok(false) => Outcome::ok(format!("{shown}: formatted")),
        Err(StartError::Device(OpenError::NotMadeYet { .. })) => {
            Outcome::ok(format!("{shown}: the first start creates what is missing"))
        }
        Err(error) => refused(&failed_start(error)),
    }
}
