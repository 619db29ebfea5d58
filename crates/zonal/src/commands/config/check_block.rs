//! Checks of the configuration of `zonal block`.

use zonal_block::{OpenMode, StartError, check_devices};
use zonal_cli::Failure;
use zonal_hostdev::OpenError;

use super::check::{CheckReport, address, directory, refused, writable};
use crate::commands::block::{failed_start, settings};
use crate::commands::origin::Outcome;
use crate::config::{BlockConfig, BlockFlags, Devices};

pub(super) fn check(flags: &BlockFlags) -> Result<CheckReport, Failure> {
    let config = BlockConfig::load(flags).map_err(Failure::request)?;
    let mut report = CheckReport::default();
    report.add_configuration(flags.config());
    if let Some(listen) = config.listen {
        report.add("listen", address(listen, "--listen (nbd.listen)"));
    }
    if let Some(folder) = config.socket.as_deref().and_then(|socket| socket.parent()) {
        let folder = if folder.as_os_str().is_empty() { ".".as_ref() } else { folder };
        report.add("socket", directory(folder, "--socket (nbd.socket)"));
    }
    report.add("admin", address(config.admin, "--admin (admin.listen)"));
    let has_place = config.socket.is_some() || config.listen.is_some();
    if config.devices == Devices::Own || !has_place {
        report.add("data-dir", directory(&config.data_dir, "--data-dir (data-dir)"));
    }
    if config.devices != Devices::Own {
        report.add("devices", devices(&config)?);
    }
    Ok(report)
}

fn devices(config: &BlockConfig) -> Result<Outcome, Failure> {
    let settings = settings(config, None, OpenMode::Recover)?;
    let specs = settings.buffer.iter().chain([&settings.capacity]);
    let shown = specs.clone().map(ToString::to_string).collect::<Vec<_>>().join(" and ");
    for spec in specs {
        if let Err(failure) = writable(spec) {
            return Ok(refused(&failure));
        }
    }
    Ok(match check_devices(&settings) {
        Ok(true) => Outcome::ok(format!("{shown}: blank; the first start formats them")),
        Ok(false) => Outcome::ok(format!("{shown}: formatted")),
        Err(StartError::Device(OpenError::NotMadeYet { .. })) => {
            Outcome::ok(format!("{shown}: the first start creates what is missing"))
        }
        Err(error) => refused(&failed_start(error)),
    })
}
