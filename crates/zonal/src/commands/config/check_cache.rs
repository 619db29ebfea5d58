//! Checks of the configuration of `zonal serve`.

use zonal_cli::Failure;
use zonal_gateway::Authorization;
use zonal_host::{CheckedDevice, DeviceSettings, StartError};
use zonal_hostdev::OpenError;

use super::check::{CheckReport, Scope, address, appended_file, directory, refused, writable};
use crate::commands::origin::{self, Outcome};
use crate::commands::serve::device_settings;
use crate::config::{AccessTo, Config, Flags, Origin, OriginSpec};
use crate::data_dir::DataDir;

pub(super) fn check(flags: &Flags, scope: Scope) -> Result<CheckReport, Failure> {
    let config = Config::load(flags).map_err(Failure::request)?;
    let mut report = CheckReport::default();
    report.add_configuration(flags.config.as_deref());
    report.add("listen", address(config.listen, "--listen (endpoint.listen)"));
    report.add("admin", address(config.admin, "--admin (admin.listen)"));
    let takes_keys = config.authorization == Authorization::Keys;
    let has_keys = config.keys.is_some() || !config.more_keys.is_empty() || !takes_keys;
    let is_all_named = has_keys
        && config.origins.iter().all(|origin| origin.spec.is_some())
        && config.devices.iter().all(|device| device.spec.is_some());
    if !is_all_named || !config.keep.is_pins_file_named {
        report.add("data-dir", directory(&config.data_dir, "--data-dir (data-dir)"));
    }
    if let Some(AccessTo::File(path)) = &config.log.access {
        report.add("log.access", appended_file(path, "--access-log (log.access)"));
    }
    if let Some(path) = &config.log.record {
        report.add("log.record", appended_file(path, "--record (log.record)"));
    }
    add_devices(&mut report, &config);
    if config.origins.iter().any(|origin| origin.spec.is_none())
        && let Some(lost) = DataDir::lost_origin(&config.data_dir)
    {
        report.add("origin", refused(&lost));
    }
    if scope.is_offline {
        report.add("origins", Outcome::skipped("--offline: folders alone are checked"));
    }
    let is_checked = |origin: &&Origin| match &origin.spec {
        None => false,
        Some(OriginSpec::Folder(_)) => true,
        Some(_) => !scope.is_offline,
    };
    report.origins = origin::check_all(config.origins.iter().filter(is_checked))?;
    Ok(report)
}

fn add_devices(report: &mut CheckReport, config: &Config) {
    let mut checked = Vec::new();
    for device in &config.devices {
        let named = device.spec.clone().map(|spec| writable(&spec).map(|()| spec));
        // The default device is a file in the data directory, whose rights were checked.
        let spec = match named.unwrap_or_else(|| DataDir::planned_flash(&config.data_dir)) {
            Ok(spec) => spec,
            Err(failure) => {
                report.add("device", refused(&failure));
                continue;
            }
        };
        let settings = device_settings(device, spec.clone(), &config.keep);
        let found = match CheckedDevice::of(&settings) {
            // The file of a modelled drive.
            Err(StartError::Device(OpenError::NotMadeYet { .. })) => {
                Outcome::ok(format!("{spec}: the first start creates it"))
            }
            Err(error) => refused(&error.into()),
            Ok(device) => {
                let found = described(&settings, device);
                checked.push((settings, device));
                found
            }
        };
        report.add("device", found);
    }
    let pairs = checked.iter().map(|(settings, device)| (settings, *device));
    if let Err(error) = CheckedDevice::check_chunks(pairs, &config.chunks) {
        report.add("chunk.rules", refused(&error.into()));
    }
}

fn described(settings: &DeviceSettings, device: CheckedDevice) -> Outcome {
    let CheckedDevice { is_blank, shards, zones, zone } = device;
    let spec = &settings.spec;
    let shards = format!("{shards} {}", if shards == 1 { "shard" } else { "shards" });
    let is_made = spec.place.is_in_memory() || spec.place.path().exists();
    Outcome::ok(match is_blank {
        true if !is_made => format!("{spec}: the first start creates it, {zones} zones of {zone}"),
        true => format!("{spec}: blank, {zones} zones of {zone}; the first start formats it"),
        false => format!("{spec}: a cache with {shards}, {zones} zones of {zone}"),
    })
}
