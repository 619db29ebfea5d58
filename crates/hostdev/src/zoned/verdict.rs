//! Why a write or a command failed: what the kernel answers is the same for most reasons, and where the zone stands tells them
//! apart.

use rustix::io::Errno;
use zonal_base::Blocks;
use zonal_device::{DeviceError, ZoneReport, ZoneState};

/// What an error means in a zone of which `before` was believed to be written, and that stands as the kernel says.
/// `None`: the drive has failed.
pub(super) fn of(errno: Errno, before: Blocks, stands: Option<&ZoneReport>) -> Option<DeviceError> {
    match (errno, stands) {
        (Errno::OVERFLOW | Errno::TOOMANYREFS, _) => Some(DeviceError::TooManyZones),
        (_, Some(ZoneReport { state: ZoneState::Offline, .. })) => Some(DeviceError::ZoneOffline),
        (_, Some(ZoneReport { state: ZoneState::ReadOnly, .. })) => Some(DeviceError::ZoneReadOnly),
        // The drive may finish a zone by itself.
        (Errno::IO | Errno::REMOTEIO, Some(ZoneReport { state: ZoneState::Full, .. })) => {
            Some(DeviceError::ZoneFull)
        }
        // Somebody else reset it or wrote to it.
        (Errno::IO | Errno::REMOTEIO, Some(report)) if report.written < before => {
            Some(DeviceError::InvalidWrite)
        }
        _ => None,
    }
}
