//! Failure diagnosis of a zone write or command: the kernel reports one error for most causes, and
//! the zone's state tells them apart.

use rustix::io::Errno;
use zonal_base::Blocks;
use zonal_device::{DeviceError, ZoneReport, ZoneState};

/// Diagnoses an error of a zone with `before` written blocks, from the kernel's report of the zone
/// after the error. `None`: the drive has failed.
pub(super) fn of(errno: Errno, before: Blocks, stands: Option<&ZoneReport>) -> Option<DeviceError> {
    match (errno, stands) {
        (Errno::OVERFLOW | Errno::TOOMANYREFS, _) => Some(DeviceError::TooManyZones),
        (_, Some(ZoneReport { state: ZoneState::Offline, .. })) => Some(DeviceError::ZoneOffline),
        (_, Some(ZoneReport { state: ZoneState::ReadOnly, .. })) => Some(DeviceError::ZoneReadOnly),
        // The drive may finish a zone by itself.
        (Errno::IO | Errno::REMOTEIO, Some(ZoneReport { state: ZoneState::Full, .. })) => {
            Some(DeviceError::ZoneFull)
        }
        // The zone was to be opened and is not open. Over fabrics the drive's status code is lost
        // on the way.
        (Errno::IO | Errno::REMOTEIO, Some(report)) if is_unopened(report, before) => {
            Some(DeviceError::TooManyZones)
        }
        // Another program has reset or written the zone.
        (Errno::IO | Errno::REMOTEIO, Some(report)) if report.written < before => {
            Some(DeviceError::InvalidWrite)
        }
        _ => None,
    }
}

/// True when the drive did not open the zone. A write that the drive has begun leaves the zone
/// open, whatever its result.
fn is_unopened(stands: &ZoneReport, before: Blocks) -> bool {
    stands.written == before && matches!(stands.state, ZoneState::Empty | ZoneState::Closed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use zonal_base::ZoneId;

    #[track_caller]
    fn check(before: u64, (state, written): (ZoneState, u64), expected: Option<DeviceError>) {
        let report = ZoneReport { zone: ZoneId(0), state, written: Blocks(written) };
        for errno in [Errno::IO, Errno::REMOTEIO] {
            assert_eq!(of(errno, Blocks(before), Some(&report)), expected, "{report:?}");
        }
    }

    #[test]
    fn a_write_that_failed_and_has_not_opened_its_zone_was_refused() {
        use ZoneState as S;
        check(0, (S::Empty, 0), Some(DeviceError::TooManyZones));
        check(8, (S::Closed, 8), Some(DeviceError::TooManyZones));
        check(0, (S::ImplicitlyOpened, 0), None);
        check(8, (S::ImplicitlyOpened, 8), None);
        check(8, (S::Empty, 0), Some(DeviceError::InvalidWrite));
        check(0, (S::Full, 0), Some(DeviceError::ZoneFull));
        assert_eq!(of(Errno::IO, Blocks(0), None), None);
        assert_eq!(of(Errno::OVERFLOW, Blocks(0), None), Some(DeviceError::TooManyZones));
    }
}
