//! Error advice: the flag or command with which an operator resolves an error. Libraries state only
//! the facts of the error.

use zonal_host::{GeometryMismatch, StartError};
use zonal_hostdev::{DeviceSpec, OpenError};

/// Advice for a node that does not start; `None` if the error text is enough.
pub(crate) fn on_start(error: &StartError) -> Option<String> {
    Some(match error {
        StartError::Device(error) => return on_device(error),
        StartError::Foreign { spec, .. } => format!("name another device, or {}", lose(spec, None)),
        StartError::OtherVersion { spec, .. } => {
            format!("use the program that wrote it, or {}", lose(spec, None))
        }
        StartError::Divided { spec, shards, difference } => {
            format!("{}, or {}", on_difference(difference), lose(spec, *shards))
        }
        StartError::Cache { spec, .. } => lose(spec, None),
        StartError::SplitBrain { specs } => lose(&specs[1], None),
        StartError::Roster { .. } => {
            "check the drive, or remove it from the configuration".to_owned()
        }
        StartError::Unfit { .. }
        | StartError::Chunks(_)
        | StartError::TooMany
        | StartError::Thread(_) => {
            return None;
        }
    })
}

/// Advice for a device that cannot be opened; `None` if the error text is enough.
pub(crate) fn on_device(error: &OpenError) -> Option<String> {
    match error {
        OpenError::NotMadeYet { .. } => {
            Some("`zonal device format`, `zonal serve` and `zonal-lab bench` create it".to_owned())
        }
        _ => None,
    }
}

/// The flag or spec that opens a device with the geometry that it was formatted with.
pub(crate) fn on_difference(difference: &GeometryMismatch) -> String {
    match difference {
        GeometryMismatch::Shards { formatted, .. } => {
            format!("write --shards {formatted}, or omit --shards")
        }
        GeometryMismatch::Zone { formatted, .. } => format!("write zone={formatted}"),
        GeometryMismatch::Size { .. } => "restore the original size of the device".to_owned(),
    }
}

/// The command that discards the contents of a device and formats it as an empty cache.
fn lose(spec: &DeviceSpec, shards: Option<usize>) -> String {
    let shards = shards.map_or_else(String::new, |shards| format!(" --shards {shards}"));
    format!("erase it: zonal device format '{spec}' --yes{shards}")
}
