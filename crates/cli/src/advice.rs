//! Advice: what an operator can do about an error, in flags and commands. Libraries state the facts.

use zonal_host::{GeometryMismatch, StartError};
use zonal_hostdev::{DeviceSpec, OpenError};

/// What to do about a node that does not start; `None` when the error says it all.
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
        StartError::Roster { .. } => "look at the drive, or leave it out".to_owned(),
        StartError::Unfit { .. }
        | StartError::Chunks(_)
        | StartError::TooMany
        | StartError::Thread(_) => {
            return None;
        }
    })
}

/// What to do about a device that cannot be opened; `None` when the error says it all.
pub(crate) fn on_device(error: &OpenError) -> Option<String> {
    match error {
        OpenError::NotMadeYet { .. } => {
            Some("`zonal device format`, `zonal serve` and `zonal-lab bench` make it".to_owned())
        }
        _ => None,
    }
}

/// How to open a device as it was formatted.
pub(crate) fn on_difference(difference: &GeometryMismatch) -> String {
    match difference {
        GeometryMismatch::Shards { formatted, .. } => {
            format!("write --shards {formatted} or leave it out")
        }
        GeometryMismatch::Zone { formatted, .. } => format!("write zone={formatted}"),
        GeometryMismatch::Size { .. } => "give the device the size that it had".to_owned(),
    }
}

/// The command that makes an empty cache of a device.
fn lose(spec: &DeviceSpec, shards: Option<usize>) -> String {
    let shards = shards.map_or_else(String::new, |shards| format!(" --shards {shards}"));
    format!("lose what it holds: zonal device format '{spec}' --yes{shards}")
}
