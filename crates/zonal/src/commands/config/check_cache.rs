//! Checks of the configuration of `zonal serve`.

use zonal_cli::Failure;
use zonal_gateway::Authorization;
use zonal_host::{CheckedDevice, DeviceSettings, StartError};
use zonal_hostdev::OpenError;

use super::check::{CheckReport, Scope, address, directory, refused, writable};
use crate::commands::origin::{self, Outcome};
use crate::commands::serve::device_settings;
use crate::config::{Config, Flags};

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
    add_devices(&mut report, &config);
    let origins = config.origins.iter().filter(|origin| origin.spec.is_some());
    if scope.is_offline {
        report.add("origins", Outcome::skipped("--offline"));
    } else {
        report.origins = origin::check_all(origins)?;
    }
    Ok(report)
}

fn add_devices(report: &mut CheckReport, config: &Config) {
    let mut checked = Vec::new();
    for device in &config.devices {
        // The default device is a file in the data directory, which was checked.
        let Some(spec) = &device.spec else { continue };
        let settings = device_settings(device, spec.clone(), &config.keep);
        let found = match writable(spec).map(|()| CheckedDevice::of(&settings)) {
            Err(failure) => refused(&failure),
            Ok(Err(StartError::Device(OpenError::NotMadeYet { .. }))) => {
                Outcome::ok(format!("{spec}: the first start creates it"))
            }
            Ok(Err(error)) => refused(&error.into()),
            Ok(Ok(device)) => {
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
    Outcome::ok(match is_blank {
        true => format!("{spec}: blank, {zones} zones of {zone}; the first start formats it"),
        false => format!("{spec}: a cache with {shards}, {zones} zones of {zone}"),
    })
}
